package sstable

import (
	"flag"
	"os"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
)

// TestMain has each block spoiled as soon as no reader may see it, so that a stale slice is seen; benchmarks are left
// alone.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		cache.PoisonPools(0)
	}
	os.Exit(m.Run())
}
