package tests

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestMemoryForFiltersThatMakesNoSense(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	for _, tt := range []struct {
		want string
		o    bloomkv.Options
	}{
		{
			"option FilterMemory: 1000000, want 0 with FilterFPR, which is 0.1",
			bloomkv.Options{FilterMemory: 1_000_000, FilterFPR: 0.1},
		},
		{"option FilterMemory: 65535, want 65536 to 33554432", bloomkv.Options{FilterMemory: 64<<10 - 1}},
		{"option FilterMemory: -1, want 65536 to ", bloomkv.Options{FilterMemory: -1}},
		{
			"option FilterMemory: 4194305, want 65536 to 4194304",
			bloomkv.Options{FilterMemory: 4<<20 + 1, MemoryBudget: 8 << 20},
		},
		{"option FilterFPR: -0.1, want more than 0", bloomkv.Options{FilterFPR: -0.1}},
		{"option FilterFPR: NaN, want more than 0", bloomkv.Options{FilterFPR: math.NaN()}},
		{"option FilterKind: 3, want 0 to 2", bloomkv.Options{FilterKind: 3}},
	} {
		tt.o.FS = mem
		if _, err := bloomkv.Open("db", &tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	o := storetest.Tiny(mem)
	o.Durability, o.MemoryBudget, o.MemtableSize, o.TableSize, o.BaseLevelSize = bloomkv.DurabilityNoSync, 64<<20,
		4<<20, 4<<20, 64<<20
	db, err := bloomkv.Open("db", o)
	must(t, err)
	for i := range uint64(600_000) { // more keys than bits
		must(t, db.Put(binary.BigEndian.AppendUint64(nil, i), nil))
	}
	must(t, db.Close())
	o.FilterMemory = 64 << 10
	if _, err := bloomkv.Open("db", o); !errors.Is(err, bloomkv.ErrFilterRate) ||
		!strings.Contains(err.Error(), "option FilterMemory: 65536, and filters of 600000 keys take ") {
		t.Errorf("too little for any filters: got %v, want ErrFilterRate and the memory that they need", err)
	}
	o.FilterMemory = 1 << 20
	db = storetest.Open(t, "db", o)
	must(t, db.Close())
}

// TestFiltersAreCutWhenTheStoreIsWarm reopens a store with less memory than its filters need. Once all filters have
// been read their sizes are known, and those that do not fit are dropped, even if the store does not change.
func TestFiltersAreCutWhenTheStoreIsWarm(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	bloom := func(memory int64) *bloomkv.Options {
		return storetest.PlanOptions(mem, 0, func(o *bloomkv.Options) {
			o.FilterMemory, o.FilterKind = memory, bloomkv.FilterBloom
		})
	}
	db := storetest.PlanStore(t, bloom(256<<10), 80_000)
	if m := db.Metrics(); m.Memory.Filters < 160<<10 || m.Levels[lastLevel].FiltersShed > 0 {
		t.Fatalf("filters take %d bytes of %d, %d were shed", m.Memory.Filters, 256<<10,
			m.Levels[lastLevel].FiltersShed)
	}
	const less = 64 << 10
	db = storetest.Reopened(t, db, bloom(less))
	if m := db.Metrics(); m.Memory.Filters > less || m.Memory.Filters < less/2 ||
		m.Levels[lastLevel].FiltersShed == 0 {
		t.Errorf("filters take %d bytes of %d, %d were shed", m.Memory.Filters, less,
			m.Levels[lastLevel].FiltersShed)
	}
}

// TestFiltersOfReplacedTablesGoAtOnce holds an iterator on all tables that a compaction replaces. Their filters are
// freed for those of the new tables, and the iterator still works.
func TestFiltersOfReplacedTablesGoAtOnce(t *testing.T) {
	const n = 20_000
	db := storetest.PlanStore(t, storetest.PlanOptions(vfstest.NewMem(), 0.01, nil), n)
	testkit.Soon(t, "the tables that the last compaction replaced are removed",
		func() bool { return db.Metrics().Files.Obsolete == 0 })
	before := db.Metrics()
	it := db.Iter(bloomkv.IterOptions{})
	if !it.First() {
		t.Fatal(it.Close())
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	m := db.Metrics()
	if m.Files.Obsolete != before.Files.Tables {
		t.Errorf("the iterator holds %d tables, want %d", m.Files.Obsolete, before.Files.Tables)
	}
	if m.Memory.Filters > before.Memory.Filters*11/10 {
		t.Errorf("filters take %d bytes, want about %d, as before", m.Memory.Filters, before.Memory.Filters)
	}
	keys := 1
	for it.Next() {
		keys++
	}
	if err := it.Close(); err != nil || keys != n {
		t.Errorf("%d keys, %v, want %d", keys, err, n)
	}
}

func TestAManifestHasTheOptionsForFiltersOfTheLastWriter(t *testing.T) {
	mem := vfstest.NewMem()
	recorded := func(dir string) manifest.Filters {
		t.Helper()
		s, err := manifest.Load(mem, dir)
		if err != nil || s.Filters == nil {
			t.Fatalf("%s: filters %v, %v", dir, s.Filters, err)
		}
		return *s.Filters
	}
	first := manifest.Filters{FPR: 0.01, Ratio: 10}
	second := manifest.Filters{Memory: 1 << 20, Kind: uint8(bloomkv.FilterRibbon), Ratio: 4, Prefix: "sep:/:2"}
	others := bloomkv.Options{
		FS: mem, FilterMemory: 1 << 20, FilterKind: bloomkv.FilterRibbon, LevelRatio: 4,
		FilterPrefix: bloomkv.PrefixSeparator('/', 2),
	}
	for _, c := range []struct {
		name  string
		o     bloomkv.Options
		write bool
		want  manifest.Filters
	}{
		{"a new store", bloomkv.Options{FS: mem}, false, first},
		{"only read", bloomkv.Options{FS: mem, FilterFPR: 0.1, ReadOnly: true}, false, first},
		{"opened with other options, and written", others, true, second},
		{"opened with the same options", others, true, second},
		{"opened with the first options again", bloomkv.Options{FS: mem}, true, first},
	} {
		db := storetest.Open(t, "db", &c.o)
		if c.write {
			must(t, db.Put([]byte("key"), nil))
			must(t, db.Checkpoint(t.Context(), "copy "+c.name))
			if got := recorded("copy " + c.name); got != c.want {
				t.Errorf("%s: a checkpoint has %+v, want %+v", c.name, got, c.want)
			}
		}
		must(t, db.Close())
		if got := recorded("db"); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
