package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestReadersAndWritersMeetEvictedParts looks up and scans keys of a store in several goroutines while a writer changes
// it, and memory has few parts of its indexes and no filters. Its files are read, or mapped.
func TestReadersAndWritersMeetEvictedParts(t *testing.T) {
	read := vfstest.NewHook(vfstest.NewMem(), func(vfstest.Op) error { return nil }) // has no mapped files
	for name, fsys := range map[string]vfs.FS{"read": read, "mapped": vfs.OS} {
		t.Run(name, func(t *testing.T) {
			dir := "db"
			if fsys == vfs.OS {
				skipUnmapped(t)
				dir = t.TempDir()
			}
			meetEvictedParts(t, fsys, dir)
		})
	}
}

func meetEvictedParts(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	const left = 96 << 10
	setPartSize(t, 100)
	o := storetest.Small(fsys)
	o.MemoryBudget, o.Resources, o.BlockSize, o.Durability = 0, storetest.LittleMemory(t, left), 256,
		bloomkv.DurabilityNoSync
	db, err := bloomkv.Open(dir, o)
	must(t, err)
	const keys = 20_000
	key := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }
	for i := range keys {
		must(t, db.Put(key(i), fmt.Appendf(nil, "%d of the first round", i)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	before := db.Metrics()

	var errs atomic.Pointer[error]
	fail := func(format string, args ...any) {
		err := fmt.Errorf(format, args...)
		errs.CompareAndSwap(nil, &err)
	}
	right := func(what string, i int, value []byte) {
		if !strings.HasPrefix(string(value), fmt.Sprint(i, " of ")) {
			fail("%s of %s: %q", what, key(i), value)
		}
	}
	n := 800 + storetest.AtStride(3200)
	var wg sync.WaitGroup
	worker := func(seed uint64, do func(i int)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 7))
			for range n {
				if errs.Load() == nil {
					do(rng.IntN(keys - 20))
				}
			}
		})
	}
	for seed := range uint64(3) {
		worker(seed, func(i int) {
			value, err := db.Get(key(i))
			if err != nil {
				fail("get: %w", err)
			}
			right("get", i, value)
			if _, err := db.Get(append(key(i), '?')); !errors.Is(err, bloomkv.ErrNotFound) {
				fail("get of an absent key: %w", err)
			}
		})
	}
	worker(3, func(i int) {
		if err := db.GetMany([][]byte{key(i), key(i + 7), key(i + 19)}, func(at int, value []byte, found bool) error {
			right("GetMany", i+[]int{0, 7, 19}[at], value)
			return nil
		}); err != nil {
			fail("GetMany: %w", err)
		}
	})
	worker(4, func(i int) {
		it := db.Iter(bloomkv.IterOptions{Lower: key(i), Upper: key(i + 20)})
		at := i
		for ok := it.First(); ok; ok = it.Next() {
			right("scan", at, it.Value())
			at++
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			at--
			right("scan backward", at, it.Value())
		}
		if err := it.Close(); err != nil || at != i {
			fail("a scan of 20 keys misses %d: %w", at-i, err)
		}
	})
	worker(5, func(i int) {
		if err := db.Put(key(i), fmt.Appendf(nil, "%d of a later round", i)); err != nil {
			fail("put: %w", err)
		}
		if i%1000 == 0 {
			o := bloomkv.CompactOptions{Range: bloomkv.KeyRange{Lower: key(i), Upper: key(i + 2000)}}
			if err := db.Compact(context.Background(), o); err != nil {
				fail("compact: %w", err)
			}
		}
	})
	wg.Wait()
	if err := errs.Load(); err != nil {
		t.Error(*err)
	}
	l, m := db.Metrics().Since(before).Lookups, db.Metrics().Memory
	t.Logf("%d lookups used %d parts of indexes and %d pages of filters outside of memory; %v",
		l.Gets, l.IndexParts, l.FilterParts, m)
	if l.IndexParts < uint64(n) || l.FilterParts < uint64(n) {
		t.Errorf("%d parts of indexes and %d pages of filters were read in %d lookups, want %d",
			l.IndexParts, l.FilterParts, l.Gets, n)
	}
	if m.Indexes+m.Filters > left {
		t.Errorf("%v, and %d bytes were left", m, left)
	}
	if mapped := m.Mapped > 0; mapped != (fsys == vfs.OS) {
		t.Errorf("files are mapped: %v", mapped)
	}
	must(t, db.Close())
	_, err = bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: fsys})
	must(t, err)
}
