package tests

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A tenant is a store that takes most of the memory of Resources, by range tombstones with large keys.
type tenant struct {
	once  sync.Once
	files *vfstest.Mem
	takes int64 // bytes
	err   error
}

var theTenant tenant

// build makes the store.
func (s *tenant) build() error {
	s.files = vfstest.NewMem()
	db, err := bloomkv.Open("db", s.options(nil))
	if err != nil {
		return err
	}
	for i := 0; i < 8<<20 && err == nil; i += 2 * bloomkv.MaxKeySize {
		lower := append(fmt.Appendf(nil, "%08d", i), bytes.Repeat([]byte("k"), bloomkv.MaxKeySize-8)...)
		upper := bytes.Clone(lower)
		upper[len(upper)-1]++
		err = db.DeleteRange(bloomkv.KeyRange{Lower: lower, Upper: upper})
	}
	if err == nil {
		err = db.Close()
	}
	if err == nil {
		db, err = s.open(nil)
	}
	if err == nil {
		s.takes = db.Metrics().Memory.RangeDeletes
		err = db.Close()
	}
	return err
}

func (s *tenant) options(r *bloomkv.Resources) *bloomkv.Options {
	return &bloomkv.Options{FS: s.files, Resources: r, FilterFPR: 1, Durability: bloomkv.DurabilityNoSync}
}

// open opens the store, to read, and loads it.
func (s *tenant) open(r *bloomkv.Resources) (*bloomkv.DB, error) {
	o := s.options(r)
	o.ReadOnly = true
	db, err := bloomkv.Open("db", o)
	if err == nil {
		_, err = db.Has([]byte("00000001"))
	}
	return db, err
}

// littleMemory returns Resources in which the range tombstones of another store leave the given number of bytes for
// everything that the stores of a test have in memory: memtables, filters and indexes. Memtables may have up to 4 MiB,
// and the rest is for them too, so a store that is written to has no memory for filters. The other store is closed when
// the test ends, after the stores that the test opens later.
func littleMemory(tb testing.TB, left int64) *bloomkv.Resources {
	tb.Helper()
	s := &theTenant
	s.once.Do(func() { s.err = s.build() })
	must(tb, s.err)
	r, err := bloomkv.NewResources(bloomkv.ResourcesOptions{MemoryBudget: s.takes + left})
	must(tb, err)
	db, err := s.open(r)
	must(tb, err)
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	if m := r.Metrics().Memory; m.RangeDeletes != s.takes || s.takes < 8<<20 {
		tb.Fatalf("%v, want %d bytes of range deletes", m, s.takes)
	}
	return r
}
