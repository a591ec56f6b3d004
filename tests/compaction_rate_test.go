package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestCompactionsKeepTheirRate uses the clock of a synctest bubble, which advances only while all goroutines are
// blocked.
func TestCompactionsKeepTheirRate(t *testing.T) {
	const rate = 100 << 10
	synctest.Test(t, func(t *testing.T) {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability, o.MemtableSize, o.TableSize, o.Compression, o.CompactionRate = bloomkv.DurabilityNoSync, 1<<20,
			1<<20, bloomkv.CompressionNone, rate
		db, err := bloomkv.Open("db", o)
		must(t, err)
		rng := rand.New(rand.NewPCG(1, 2))
		value := make([]byte, 1000)
		began := time.Now()
		for i := range 2000 {
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			must(t, db.Put(fmt.Appendf(nil, "key%d", i*7919%2000), value))
		}
		must(t, db.Flush(t.Context()))
		if took := time.Since(began); took > time.Second {
			t.Errorf("writes and flushes took %v: they must not be slowed", took)
		}
		before := db.Metrics().Writes.CompactedBytes
		began = time.Now()
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		written := db.Metrics().Writes.CompactedBytes - before
		want := time.Duration(written) * time.Second / rate
		if took := time.Since(began); written < 1<<20 || took < want*8/10 || took > want*11/10 {
			t.Errorf("wrote %d bytes in %v, want about %v", written, took, want)
		}
		// Close does not wait for the end of a pause.
		for i := range 2000 {
			must(t, db.Put(fmt.Appendf(nil, "key%d", i), value))
		}
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := db.Compact(short, bloomkv.CompactOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("compact for three seconds: %v", err)
		}
		began = time.Now()
		must(t, db.Close())
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}
