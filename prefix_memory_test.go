package bloomkv

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestPrefixFiltersTakeMemoryWhenTheyAreAskedAndThereIsRoom scans a store with enough memory, without, and with enough
// again.
func TestPrefixFiltersTakeMemoryWhenTheyAreAskedAndThereIsRoom(t *testing.T) {
	o := tiny(vfs.NewMem())
	o.Durability, o.FilterPrefix, o.MemtableSize, o.TableSize = NoSync, PrefixSeparator('/', 1), 64<<10, 64<<10
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 8000 {
		if err := db.Put(fmt.Appendf(nil, "%05d/key", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Flush(t.Context()), db.Compact(t.Context(), nil, nil)); err != nil {
		t.Fatal(err)
	}
	settle(t, db)
	unasked := uint64(0)
	// scan scans for all prefixes, and checks whether filters were loaded and whether tables lacked them.
	scan := func(what string, loaded bool) {
		t.Helper()
		for i := range 8000 {
			it := db.Iter(IterOptions{Prefix: fmt.Appendf(nil, "%05d/", i)})
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
	if it := db.Iter(IterOptions{Lower: []byte("00"), Upper: []byte("9")}); !it.First() || it.Close() != nil {
		t.Fatal(it.Err())
	}
	if m := db.Metrics(); m.Memory.PrefixFilters != 0 || m.Prefixes != (PrefixMetrics{}) {
		t.Errorf("no prefix was scanned, but\n%v", m)
	}
	else0 := tree.TableBytes{Index: db.pool.Allowance() - db.pool.Resident()} // held by other stores
	db.pool.Held.Add(else0)
	scan("no room", false)
	db.pool.Held.Add(tree.TableBytes{Index: -else0.Index})
	scan("room", true)
	before := db.Metrics().Memory.PrefixFilters
	db.tree.Load().EachTable(func(_ int, t *tree.Table) { db.share.Drop(t, 0, false) })
	scan("shed", false)
	db.share.Offer()
	soon(t, "filters are restored", func() bool {
		all := true
		db.tree.Load().EachTable(func(_ int, t *tree.Table) { all = all && !db.share.Short(t) })
		return all
	})
	scan("restored", true)
	if after := db.Metrics().Memory.PrefixFilters; after != before {
		t.Errorf("restored %d bytes, want %d", after, before)
	}
	db.tree.Load().EachTable(func(_ int, table *tree.Table) {
		p, err := table.Reader.Properties()
		if err != nil || table.Meta.FilterLen <= p.Prefixes.Bytes || p.Prefixes.Keys == 0 ||
			p.Prefixes.Rule != "sep:/:1" {
			t.Errorf("%s: %+v, %v", table.File.Name, p, err)
		}
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if held := db.pool.Held.Sum(); held != 0 {
		t.Errorf("after Close, %d bytes are held", held)
	}
}
