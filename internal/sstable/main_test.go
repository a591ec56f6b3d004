package sstable

import (
	"flag"
	"os"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
)

var partSize = flag.Int("parts", 0, "bytes of the parts of indexes, 0 for the default")

// TestMain makes the cache spoil each block as soon as no reader may see it, so that the use of a stale slice is
// detected. It leaves benchmarks alone.
func TestMain(m *testing.M) {
	flag.Parse()
	SetPartSize(*partSize)
	if flag.Lookup("test.bench").Value.String() == "" {
		cache.Testing.Store(&cache.TestMode{})
	}
	os.Exit(m.Run())
}
