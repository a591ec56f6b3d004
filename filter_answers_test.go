package bloomkv_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestWhatFiltersAnswerIsCountedByTable compares exact counts over memtables, level 0, moved tables, range tombstones
// and snapshots.
func TestWhatFiltersAnswerIsCountedByTable(t *testing.T) {
	for _, test := range []struct {
		name string
		fpr  float64
	}{{"with filters", 0.3}, {"without", 1}} {
		t.Run(test.name, func(t *testing.T) {
			mem, held, gate := vfstest.NewMem(), new(atomic.Bool), make(chan struct{})
			o := storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
				if held.Load() && storetest.CreatesTable(op) && storetest.Inside(storetest.CompactLoop) {
					<-gate
				}
				return nil
			}))
			o.Durability, o.FilterFPR = bloomkv.DurabilityNoSync, test.fpr
			db, err := bloomkv.Open("db", o)
			must(t, err)
			m := newAnswersModel(t, db)
			rng := rand.New(rand.NewPCG(5, 6))
			const n = 2000
			key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
			put := func(i int) { m.wrote(key(i), nil, db.Put(key(i), []byte("value"))) }
			keys := make([][]byte, 2*n)
			for _, i := range rng.Perm(2 * n) { // odd numbers are absent
				keys[i] = key(i)
			}
			for _, i := range rng.Perm(n) {
				put(2 * i)
			}
			m.settle()
			m.look(keys, nil)
			m.compare("after loading")

			snap, err := db.Snapshot()
			must(t, err)
			for range 50 {
				put(2 * rng.IntN(n))
			}
			m.wrote(key(300), key(350), db.DeleteRange(bloomkv.KeyRange{Lower: key(300), Upper: key(350)}))
			m.look(keys, nil)
			m.look(keys, snap)
			m.compare("with a memtable")

			m.settle()
			m.look(keys, nil)
			m.look(keys, snap)
			m.compare("with tables of level 0")
			must(t, snap.Close())

			// The ingest below then leaves its tables alone.
			if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
				t.Fatal(err)
			}
			m.settle()
			m.look(keys, nil)
			before := maps.Clone(m.counts)
			ingested := func(yield func(bloomkv.KV, error) bool) {
				for i := range 500 {
					if !yield(bloomkv.KV{fmt.Appendf(nil, "later%05d", 2*i), []byte("value")}, nil) {
						return
					}
				}
			}
			must(t, db.Ingest(t.Context(), ingested, bloomkv.IngestOptions{}))
			var later [][]byte
			for i := range 1000 {
				later = append(later, fmt.Appendf(nil, "later%05d", i))
			}
			m.settle()
			m.look(later, nil)
			m.look(keys, nil)
			m.compare("after an ingest")
			kept := slices.ContainsFunc(m.tables, func(a *answersTable) bool {
				return before[a.File] != bloomkv.FilterAnswers{}
			})
			if moves := db.Metrics().Writes.Moves; moves == 0 || !kept {
				t.Errorf("%d moves, tables that were there before: %v; too few for a meaningful test", moves, kept)
			}
			if m.passed.memory == 0 || m.passed.notSearched == 0 || m.sum.TruePositives == 0 && test.fpr < 1 ||
				test.fpr < 1 && m.sum.FalsePositives == 0 || test.fpr == 1 && m.sum.Unfiltered == 0 {
				t.Errorf("%+v, %+v: too few for a meaningful test", m.passed, m.sum)
			}

			// Range tombstones above tables that they delete from, as left by a process death before any compaction.
			held.Store(true)
			m.wrote(key(300), key(350), db.DeleteRange(bloomkv.KeyRange{Lower: key(300), Upper: key(350)}))
			must(t, db.Flush(t.Context()))
			killed := mem.Kill()
			close(gate)
			must(t, db.Close())
			if db.Tables() != nil {
				t.Error("tables after Close")
			}
			o.FS, o.ReadOnly = killed, true
			if db, err = bloomkv.Open("db", o); err != nil {
				t.Fatal(err)
			}
			m = newAnswersModel(t, db)
			m.readTables()
			m.look(keys, nil)
			m.compare("under range tombstones")
			if m.passed.stopped == 0 {
				t.Error("no range tombstone stopped a lookup")
			}
			must(t, db.Close())
		})
	}
}

// answersOf returns the counts of each table.
func answersOf(db *bloomkv.DB) map[string]bloomkv.FilterAnswers {
	all := map[string]bloomkv.FilterAnswers{}
	for _, tm := range db.Tables() {
		all[tm.File] = tm.FilterAnswers
	}
	return all
}

// TestWhatFiltersHaveAnsweredOutlastsClose: the counts are saved with the manifest, at the first write and at a Close
// after writes, and at no other time.
func TestWhatFiltersHaveAnsweredOutlastsClose(t *testing.T) {
	const n = 2000
	mem := vfstest.NewMem()
	o := shapedStore(t, mem, storetest.KeyShapes[0].Key, n)
	open := func(fsys vfs.FS, readOnly bool) *bloomkv.DB {
		t.Helper()
		opts := *o
		opts.FS, opts.ReadOnly, opts.FilterFPR = fsys, readOnly, 0.2
		db, err := bloomkv.Open("db", &opts)
		must(t, err)
		db.Reads().SamplingBits = 0
		return db
	}
	closeIt := func(db *bloomkv.DB) {
		t.Helper()
		must(t, db.Close())
	}
	look := func(db *bloomkv.DB) {
		t.Helper()
		before := db.Metrics().Lookups
		for i := range uint64(2 * n) {
			if _, err := db.Has(storetest.KeyShapes[0].Key(i)); err != nil {
				t.Fatal(err)
			}
		}
		if l := db.Metrics().Lookups; l.FilterNegatives == before.FilterNegatives ||
			l.FalsePositives == before.FalsePositives {
			t.Fatalf("%+v: too few for a meaningful test", l)
		}
	}
	sorted := func(a map[string]bloomkv.FilterAnswers) string {
		var lines []string
		for _, file := range slices.Sorted(maps.Keys(a)) {
			lines = append(lines, fmt.Sprintf("%s %+v", file, a[file]))
		}
		return strings.Join(lines, "\n")
	}
	check := func(when string, db *bloomkv.DB, want map[string]bloomkv.FilterAnswers) {
		t.Helper()
		got, kept := answersOf(db), false
		for file, a := range got {
			kept = kept || a != bloomkv.FilterAnswers{}
			if a != want[file] {
				t.Errorf("%s: tables have\n%s, want\n%s", when, sorted(got), sorted(want))
				break
			}
		}
		if !kept {
			t.Errorf("%s: no table has anything", when)
		}
	}
	write := func(db *bloomkv.DB) { // a key outside the range of every table; Close flushes it
		t.Helper()
		must(t, errors.Join(db.Put([]byte("zz"), nil), db.Sync()))
	}

	db := open(mem, false)
	// So that no later compaction replaces the tables with counts.
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	write(db)
	look(db)
	want := answersOf(db)
	closeIt(db)

	db = open(mem, true)
	check("opened read-only", db, want)
	look(db)
	closeIt(db)

	files := storetest.LogFiles(mem)
	db = open(files, false)
	check("reopened", db, want)
	look(db)
	closeIt(db)
	for _, op := range files.Take() {
		switch op.Kind {
		case vfstest.OpCreate, vfstest.OpWrite, vfstest.OpRename, vfstest.OpRemove, vfstest.OpSync:
			t.Errorf("a store without writes performed %v", op)
		default:
		}
	}

	db = open(mem, false)
	check("after a use without writes", db, want)
	look(db)
	atFirstWrite := answersOf(db)
	write(db)
	look(db)
	killed := mem.Kill()
	beforeClose := answersOf(db)
	closeIt(db)
	db = open(killed, false)
	check("after a crash", db, atFirstWrite)
	closeIt(db)
	db = open(mem, false)
	check("counted over two uses", db, beforeClose)
	closeIt(db)
}
