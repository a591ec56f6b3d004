package bloomkv_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestPrefixFiltersTakeMemoryWhenTheyAreAskedAndThereIsRoom scans a store with enough memory, without, and with enough
// again.
func TestPrefixFiltersTakeMemoryWhenTheyAreAskedAndThereIsRoom(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability, o.FilterPrefix = bloomkv.DurabilityNoSync, bloomkv.PrefixSeparator('/', 1)
	o.MemtableSize, o.TableSize = 64<<10, 64<<10
	db, err := bloomkv.Open("db", o)
	must(t, err)
	defer db.Close()
	for i := range 8000 {
		must(t, db.Put(fmt.Appendf(nil, "%05d/key", i), nil))
	}
	must(t, errors.Join(db.Flush(t.Context()), db.Compact(t.Context(), bloomkv.CompactOptions{})))
	storetest.Settle(t, db)
	unasked := uint64(0)
	// scan scans for all prefixes, and checks whether filters were loaded and whether tables lacked them.
	scan := func(what string, loaded bool) {
		t.Helper()
		for i := range 8000 {
			it := db.Iter(bloomkv.IterOptions{Prefix: fmt.Appendf(nil, "%05d/", i)})
			if !it.First() || it.Next() || it.Close() != nil {
				t.Fatalf("%s: prefix %d: %v", what, i, it.Err())
			}
		}
		m := db.Metrics()
		var levels int64
		for _, l := range m.Levels {
			levels += l.FilterBytesInMemory
		}
		if (m.Memory.PrefixFilters > 0) != loaded || levels != m.Memory.Filters ||
			m.Memory.PrefixFilters > m.Memory.Filters {
			t.Errorf("%s: want filters loaded %v; levels have %d bytes\n%v", what, loaded, levels, m)
		}
		if (m.Prefixes.Unasked > unasked) == loaded {
			t.Errorf("%s: %d tables without a filter, before %d", what, m.Prefixes.Unasked, unasked)
		}
		unasked = m.Prefixes.Unasked
	}
	// This range has no common prefix.
	if it := db.Iter(bloomkv.IterOptions{Lower: []byte("00"), Upper: []byte("9")}); !it.First() || it.Close() != nil {
		t.Fatal(it.Err())
	}
	if m := db.Metrics(); m.Memory.PrefixFilters != 0 || m.Prefixes != (bloomkv.PrefixMetrics{}) {
		t.Errorf("no prefix was scanned, but\n%v", m)
	}
	free := db.Pool().Free() // that filters may take
	limit := func(bytes int64) {
		db.Pool().Reserved.Add(db.Pool().Free() - bytes)
		db.Pool().Rebalance()
	}
	limit(db.Metrics().Memory.Filters*16/15 + 32)
	scan("no space beside the filters of keys", false)
	limit(free)
	storetest.Soon(t, "filters are loaded", func() bool { return db.Metrics().Memory.PrefixFilters > 0 })
	scan("space", true)
	before := db.Metrics().Memory.PrefixFilters
	limit(0)
	scan("no space", false)
	limit(free)
	storetest.Soon(t, "filters are restored", func() bool { return db.Metrics().Memory.PrefixFilters == before })
	scan("restored", true)
	if after := db.Metrics().Memory.PrefixFilters; after != before {
		t.Errorf("restored %d bytes, want %d", after, before)
	}
	db.Tree().Load().EachTable(func(_ int, table *tree.Table) {
		p, err := table.Reader.Properties()
		if err != nil || table.Meta.FilterLen <= p.Prefixes.Bytes || p.Prefixes.Keys == 0 ||
			p.Prefixes.Rule != "sep:/:1" {
			t.Errorf("%s: %+v, %v", table.File.Name, p, err)
		}
	})
	must(t, db.Close())
	if held := db.Pool().Held.Sum(); held != 0 {
		t.Errorf("after Close, %d bytes are held", held)
	}
}
