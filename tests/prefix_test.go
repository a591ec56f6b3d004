package tests

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// places are moves of an iterator that finds nothing: from each side and from within its range.
var places = []struct {
	name string
	move func(it *bloomkv.Iterator, prefix []byte) bool
}{
	{"First", func(it *bloomkv.Iterator, _ []byte) bool { return it.First() }},
	{"Last", func(it *bloomkv.Iterator, _ []byte) bool { return it.Last() }},
	{"SeekGE", func(it *bloomkv.Iterator, p []byte) bool { return it.SeekGE(append(slices.Clone(p), '1')) }},
	{"SeekLT", func(it *bloomkv.Iterator, p []byte) bool { return it.SeekLT(append(slices.Clone(p), '9')) }},
	{"First and back", func(it *bloomkv.Iterator, _ []byte) bool { return it.First() || it.Prev() }},
}

// TestScansOfAbsentPrefixesReadNoBlock counts the scans of absent prefixes that read a data block, in every state of
// the tree. They may be at most 1.15 × FilterFPR of all scans, plus five standard deviations.
func TestScansOfAbsentPrefixesReadNoBlock(t *testing.T) {
	testkit.Long(t)
	const prefixes = 20_000
	storetest.Uncached(t)
	for _, tt := range []struct {
		rule bloomkv.PrefixRule
		fpr  float64
		kind bloomkv.FilterKind
	}{
		{bloomkv.PrefixSeparator('/', 1), 0.1, bloomkv.FilterBloom},
		{bloomkv.PrefixSeparator('/', 1), 0.01, bloomkv.FilterBloom},
		{bloomkv.PrefixLen(8), 0.01, bloomkv.FilterRibbon},
		{bloomkv.PrefixRule{}, 0.01, bloomkv.FilterBloom},
	} {
		t.Run(fmt.Sprintf("rule %v, rate %g, kind %d", tt.rule, tt.fpr, tt.kind), func(t *testing.T) {
			files := storetest.LogFiles(vfstest.NewMem())
			db := storetest.Open(t, "db", &bloomkv.Options{
				FS: files, FilterSeed: 1, Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone,
				FilterFPR: tt.fpr, FilterKind: tt.kind, FilterPrefix: tt.rule,
				MemtableSize: 512 << 10, BaseLevelSize: 1 << 20, LevelRatio: 4, TableSize: 256 << 10,
			})
			defer func() {
				must(t, db.Close())
			}()
			scans := 8000
			if tt.rule == (bloomkv.PrefixRule{}) {
				scans /= 10
			}
			prefix := func(n int) []byte { return fmt.Appendf(nil, "%07d/", n) }
			rng := rand.New(rand.NewPCG(81, 82))
			write := func(n int) { // n is even
				for i := range 1 + rng.IntN(5) {
					k := fmt.Appendf(prefix(2*n), "%d", i)
					err := db.Put(k, make([]byte, 40))
					if rng.IntN(10) == 0 {
						err = db.Delete(k)
					}
					must(t, err)
				}
			}
			measure := func(state string, leastRuns int) {
				t.Helper()
				storetest.AtRest(t, db, files, "db")
				for unasked := ^uint64(0); db.Metrics().Prefixes.Unasked != unasked; { // scans load the filters
					unasked = db.Metrics().Prefixes.Unasked
					for range 1000 {
						it := db.Iter(bloomkv.IterOptions{Prefix: prefix(2*rng.IntN(prefixes-1) + 1)})
						if it.First() || it.Close() != nil {
							t.Fatalf("%s: %q, %v", state, it.Key(), it.Err())
						}
					}
				}
				files.Take()
				snap, err := db.Snapshot()
				must(t, err)
				defer snap.Close()
				touched, before := 0, db.Metrics()
				for i := range scans {
					p := prefix(2*rng.IntN(prefixes-1) + 1)
					iter := db.Iter
					if i%3 == 0 {
						iter = snap.Iter
					}
					it := iter(bloomkv.IterOptions{Prefix: p})
					if place := places[i%len(places)]; place.move(it, p) || it.Err() != nil {
						t.Fatalf("%s: %s: found %q, %v", state, place.name, it.Key(), it.Err())
					}
					must(t, it.Close())
					blocks, _ := files.Reads()
					touched += min(blocks, 1)
				}
				m := db.Metrics()
				if m.Cache.Capacity != before.Cache.Capacity {
					t.Fatalf("%s: the block cache is in use again", state)
				}
				asked := m.Since(before).Prefixes
				runs := 0
				for _, l := range m.Levels {
					runs += l.Runs
				}
				if runs < leastRuns {
					t.Fatalf("%s: %d runs, want %d\n%v", state, runs, leastRuns, m)
				}
				t.Logf("%s: %d runs; of %d scans %d read a block, %.4g; %+v", state, runs, scans, touched,
					float64(touched)/float64(scans), asked)
				if tt.rule == (bloomkv.PrefixRule{}) {
					if touched < scans*99/100 || asked != (bloomkv.PrefixMetrics{}) {
						t.Errorf("%s: without a rule %d of %d scans read a block: the test tests nothing; %+v", state,
							touched, scans, asked)
					}
					return
				}
				most := 1.15 * tt.fpr * float64(scans)
				if float64(touched) > most+5*math.Sqrt(most) {
					t.Errorf("%s: %d of %d scans read a block, want at most %.0f plus five deviations\n%v", state,
						touched, scans, most, m)
				}
				asking := uint64(scans) * 99 / 100 // a prefix between the bounds of two tables needs no filter
				if asked.Unasked > 0 || asked.Probes < asking || asked.Negatives > asked.Probes ||
					asked.Probes-asked.Negatives < uint64(touched) {
					t.Errorf("%s: %+v for %d scans", state, asked, scans)
				}
			}
			for _, n := range rng.Perm(prefixes) {
				write(n)
			}
			write(0) // all absent prefixes lie within the key range of a run
			write(prefixes - 1)
			must(t, db.Flush(t.Context()))
			measure("loaded", 1)
			for range 3 {
				write(0)
				write(prefixes - 1)
				for range 1500 {
					write(rng.IntN(prefixes))
				}
				must(t, db.Flush(t.Context()))
			}
			measure("overwritten", 2)
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			measure("compacted", 1)
		})
	}
}

// TestAFilterOfAnotherRuleIsNotAsked opens a store with one rule after the other.
func TestAFilterOfAnotherRuleIsNotAsked(t *testing.T) {
	mem := vfstest.NewMem()
	want := map[string]string{}
	rng := rand.New(rand.NewPCG(83, 84))
	first := bloomkv.PrefixSeparator('/', 1)
	for step, tt := range []struct {
		rule       bloomkv.PrefixRule
		asks, lack bool // after opening: tables with filters of its rule, and without
		compact    bool
	}{
		{first, false, false, true}, // empty so far
		{first, true, false, false},
		{bloomkv.PrefixLen(4), false, true, false},
		{bloomkv.PrefixRule{}, false, false, false},
		{first, true, false, false},
		{bloomkv.PrefixSeparator('/', 2), false, true, true},
		{bloomkv.PrefixSeparator('/', 2), true, false, false},
		{first, false, true, false},
	} {
		o := storetest.Tiny(mem)
		o.Durability, o.FilterPrefix = bloomkv.DurabilityNoSync, tt.rule
		db := storetest.Open(t, "db", o)
		scans := func() {
			t.Helper()
			for range 300 {
				p := fmt.Sprintf("%d/%d/", rng.IntN(60), rng.IntN(60))
				inside := maps.Clone(want)
				maps.DeleteFunc(inside, func(k, _ string) bool { return !strings.HasPrefix(k, p) })
				it := db.Iter(bloomkv.IterOptions{Prefix: []byte(p)})
				if err := errors.Join(walks(it, inside), it.Close()); err != nil {
					t.Fatalf("step %d, by %v, prefix %q: %v", step, tt.rule, p, err)
				}
			}
		}
		scans()
		if m := db.Metrics().Prefixes; (m.Probes > 0) != tt.asks || (m.Unasked > 0) != tt.lack ||
			tt.asks && m.Negatives == 0 {
			t.Errorf("step %d, by %v: %+v, want some probed %v, some without a filter %v", step, tt.rule, m, tt.asks,
				tt.lack)
		}
		for i := range 400 {
			if !tt.compact {
				break
			}
			// Compact twice, so that no table is just moved.
			k, v := fmt.Sprintf("%d/%d/%d", 3*rng.IntN(20), 2*rng.IntN(30), i%2), fmt.Sprint(step, ".", i)
			want[k] = v
			must(t, db.Put([]byte(k), []byte(v)))
			if i == 200 {
				must(t, db.Flush(t.Context()))
			}
		}
		if tt.compact {
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			scans()
			if _, err := db.Check(t.Context(), bloomkv.CheckOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		must(t, db.Close())
	}
}

// TestWhatASkippedTableDeletesStaysDeleted has tombstones in tables whose prefix filter does not contain the deleted
// prefix, and in tables whose filter does.
func TestWhatASkippedTableDeletesStaysDeleted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		delete  func(db *bloomkv.DB) error
		skipped bool // whether the newer table is skipped
	}{
		{
			"a point tombstone is a key with its prefix",
			func(db *bloomkv.DB) error { return db.Delete([]byte("user/17/a")) },
			false,
		},
		{"a range tombstone is no key", func(db *bloomkv.DB) error {
			return db.DeleteRange(bloomkv.KeyRange{Lower: []byte("user/1"), Upper: []byte("user/2")})
		}, true},
		{"a range tombstone to the end", func(db *bloomkv.DB) error {
			return db.DeleteRange(bloomkv.KeyRange{Lower: []byte("user/17/a")})
		}, true},
		{"an ingest that replaces a range", func(db *bloomkv.DB) error {
			return db.Ingest(t.Context(), storetest.PairsOf(map[string]string{"user/10/x": "", "user/30/x": ""}),
				bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{Lower: []byte("user/1")}})
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := storetest.Tiny(vfstest.NewMem())
			o.FilterPrefix, o.FilterFPR = bloomkv.PrefixSeparator('/', 2), 0.0001
			db := storetest.Open(t, "db", o)
			defer db.Close()
			must(t, errors.Join(db.Put([]byte("user/17/a"), nil), db.Put([]byte("user/90/a"), nil),
				db.Compact(t.Context(), bloomkv.CompactOptions{})))
			snap, err := db.Snapshot() // so that the deleted keys stay in the tables below
			must(t, err)
			defer snap.Close()
			must(t, errors.Join(db.Put([]byte("user/10/a"), nil), db.Put([]byte("user/30/a"), nil), tt.delete(db),
				db.Flush(t.Context())))
			storetest.Settle(t, db)
			for range 2 {
				for _, place := range places {
					it := db.Iter(bloomkv.IterOptions{Prefix: []byte("user/17/")})
					if place.move(it, []byte("user/17/")) || it.Close() != nil {
						t.Errorf("%s finds deleted key %q; %v", place.name, it.Key(), it.Err())
					}
				}
			}
			if m := db.Metrics().Prefixes; (m.Negatives > 0) != tt.skipped || m.Probes == 0 || m.Unasked > 0 {
				t.Errorf("%+v, want newer table skipped: %v\n%v", m, tt.skipped, db.Metrics())
			}
			then := snap.Iter(bloomkv.IterOptions{Lower: []byte("user/17/"), Upper: []byte("user/17/z")})
			if !then.Last() || string(then.Key()) != "user/17/a" || then.Close() != nil {
				t.Errorf("the snapshot has %q, %v", then.Key(), then.Err())
			}
		})
	}
}

// TestADamagedPrefixFilterAnswersMaybeAndIsReported damages every part of the block.
func TestADamagedPrefixFilterAnswersMaybeAndIsReported(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.FilterPrefix = bloomkv.PrefixSeparator('/', 1)
	db := storetest.Open(t, "db", o)
	there := map[string]string{}
	for i := range 100 {
		k := fmt.Sprintf("%d/%d", i%30*2, i)
		there[k] = "v"
		must(t, db.Put([]byte(k), []byte("v")))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	if it := db.Iter(bloomkv.IterOptions{Prefix: []byte("1/")}); it.First() || it.Close() != nil {
		t.Fatal(it.Err())
	}
	loaded := int(db.Metrics().Memory.PrefixFilters)
	table := newestTable(t, mem)
	file := filename.Base(filename.Table, table.Number)
	p, err := readerOf(t, mem, "db", file).Properties()
	must(t, errors.Join(err, db.Close()))
	start := int(table.Size - table.TailLen - p.Prefixes.Bytes)
	for at := start; at < start+int(p.Prefixes.Bytes); at += 7 {
		fsys := mem.Kill()
		storetest.Rewrite(t, fsys, filepath.Join("db", file), func(b []byte) []byte { b[at] ^= 0x20; return b })
		o.FS = fsys
		reported := 0
		o.Events.Damaged = func(error) { reported++ }
		var damage *bloomkv.CorruptionError
		_, err = bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: o.FS})
		if !errors.As(err, &damage) || damage.File != file {
			t.Fatalf("byte %d: Check returned %v, want damage in %s", at, err, file)
		}
		db := storetest.Open(t, "db", o)
		for i := range 60 {
			p := fmt.Sprintf("%d/", i)
			inside := maps.Clone(there)
			maps.DeleteFunc(inside, func(k, _ string) bool { return !strings.HasPrefix(k, p) })
			it := db.Iter(bloomkv.IterOptions{Prefix: []byte(p)})
			if err := errors.Join(walks(it, inside), it.Close()); err != nil {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
		m := db.Metrics()
		want := 1
		if at >= start+bloomblock.HeaderSize+loaded { // in units that are not loaded
			want = 0
		}
		if (m.Prefixes.Probes == 0) != (want == 1) || (m.Prefixes.Unasked > 0) != (want == 1) ||
			m.Levels[len(m.Levels)-1].FiltersDamaged != want {
			t.Fatalf("byte %d, want damaged %d:\n%v", at, want, m)
		}
		if err := db.Close(); err != nil || reported != want {
			t.Fatalf("byte %d: reported %d times, want %d; %v", at, reported, want, err)
		}
	}
}

func TestRulesThatMakeNoSense(t *testing.T) {
	for _, tt := range []struct {
		rule bloomkv.PrefixRule
		want string
	}{
		{bloomkv.PrefixLen(0), "option FilterPrefix: prefix up to length 0, want 1 to 65536"},
		{bloomkv.PrefixLen(-8), "option FilterPrefix: prefix up to length -8"},
		{bloomkv.PrefixLen(bloomkv.MaxKeySize + 1), "option FilterPrefix: prefix up to length 65537"},
		{bloomkv.PrefixSeparator('/', 0), "option FilterPrefix: prefix up to separator number 0, want 1 to 65536"},
	} {
		mem := vfstest.NewMem()
		if _, err := bloomkv.Open("db", &bloomkv.Options{FS: mem, FilterPrefix: tt.rule}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.rule, err, tt.want)
		}
		if names, err := mem.List("db"); err == nil {
			t.Errorf("%v: made %q", tt.rule, names)
		}
	}
}

// TestBoundedIteratorsTouchNoTableBeyondTheirBounds iterates over ranges that end between two tables.
func TestBoundedIteratorsTouchNoTableBeyondTheirBounds(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	db := storetest.Open(t, "db", o)
	for i := range 3000 {
		must(t, db.Put(fmt.Appendf(nil, "key%05d", i), make([]byte, 100)))
	}
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()))
	files := storetest.LogFiles(mem)
	o.FS = files
	db = storetest.OpenCold(t, o)
	defer db.Close()
	tables := db.Tables()
	if len(tables) < 10 {
		t.Fatalf("only %d tables", len(tables))
	}
	for i := 1; i < len(tables)-1; i++ {
		table := tables[i]
		lower := append(slices.Clone(tables[i-1].Largest), 0)
		upper := append(slices.Clone(table.Largest), 0)
		files.Take()
		it := db.Iter(bloomkv.IterOptions{Lower: lower, Upper: upper})
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			n--
		}
		if err := it.Close(); err != nil || n != 0 {
			t.Fatalf("table %d: %d keys more forward than back, %v", i, n, err)
		}
		if touched := files.Touched(); len(touched) != 1 || touched[numberOf(table)] == 0 {
			t.Errorf("table %d: read %v, want only %d", i, touched, numberOf(table))
		}
		between := db.Iter(bloomkv.IterOptions{Lower: upper, Upper: tables[i+1].Smallest})
		if between.First() || between.Last() || between.Close() != nil || len(files.Touched()) > 0 {
			t.Errorf("between table %d and the next: %q, %v, or a table was read", i, between.Key(), between.Err())
		}
	}
}
