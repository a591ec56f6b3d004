package bloomkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// answersModel predicts from the files what each filter answers and what a lookup searches, and counts it.
type answersModel struct {
	t      *testing.T
	db     *bloomkv.DB
	memory []memoryWrite                    // since the last flush
	tables []*answersTable                  // newest data first
	counts map[string]bloomkv.FilterAnswers // of tables, by file
	sum    bloomkv.FilterAnswers            // of all tables, removed ones included
	passed struct{ memory, stopped, notSearched int }
}

// A memoryWrite is a write of one key, or of [lo, hi).
type memoryWrite struct {
	seq    ikey.Seq
	lo, hi []byte // hi is nil for a write of one key
}

type answersTable struct {
	bloomkv.TableMetrics

	filter *bloomblock.Filter // nil: the table has no filter
	seqs   map[string][]ikey.Seq
	dels   rangedel.List
}

func newAnswersModel(t *testing.T, db *bloomkv.DB) *answersModel {
	t.Helper()
	db.Reads().SamplingBits = 0
	return &answersModel{t: t, db: db, counts: map[string]bloomkv.FilterAnswers{}}
}

// wrote records a write that is in the memtable.
func (m *answersModel) wrote(lo, hi []byte, err error) {
	m.t.Helper()
	must(m.t, err)
	m.memory = append(m.memory, memoryWrite{m.db.Tree().NewestSeq(), lo, hi})
}

// settle flushes memory, waits until the tree is at rest and reads its tables.
func (m *answersModel) settle() {
	m.t.Helper()
	must(m.t, m.db.Flush(m.t.Context()))
	storetest.Settle(m.t, m.db)
	m.memory = nil
	m.readTables()
}

func (m *answersModel) readTables() {
	m.t.Helper()
	testkit.Soon(m.t, "the store is warm", func() bool { return m.db.Metrics().Warm })
	m.tables = nil
	ingested := map[string]ikey.Seq{}
	m.db.Tree().Load().EachTable(func(_ int, t *tree.Table) {
		if t.Meta.Flags&manifest.SeqOverridden != 0 {
			ingested[t.File.Name] = t.Meta.MaxSeq
		}
	})
	live := map[string]bloomkv.FilterAnswers{}
	for _, tm := range m.db.Tables() {
		live[tm.File] = m.counts[tm.File] // a moved table keeps its counts
		m.tables = append(m.tables, m.read(tm, ingested[tm.File]))
	}
	m.counts = live
}

// read reads a table's file completely, and its filter in the form that the store has in memory.
func (m *answersModel) read(tm bloomkv.TableMetrics, seq ikey.Seq) *answersTable {
	m.t.Helper()
	f, err := m.db.Options().FS.Open(filepath.Join("db", tm.File))
	must(m.t, err)
	defer f.Close()
	r, err := sstable.Open(f, int64(tm.Bytes), tm.File)
	if err == nil {
		err = r.Load(0)
		for _, form := range r.Keys.Forms(0) {
			if form.Bytes == tm.FilterBytesInMemory {
				_, err = r.Keys.Set(form)
			}
		}
	}
	must(m.t, err)
	defer r.Close()
	a := &answersTable{TableMetrics: tm, filter: r.Filter(), seqs: map[string][]ikey.Seq{}, dels: r.RangeDels().List()}
	it := r.Iter(sstable.IterOptions{Bypass: true})
	for ok := it.First(); ok; ok = it.Next() {
		of := it.Key().Trailer.Seq()
		if seq > 0 {
			of = seq
		}
		a.seqs[string(it.Key().User)] = append(a.seqs[string(it.Key().User)], of)
	}
	must(m.t, errors.Join(it.Err(), it.Close()))
	return a
}

// deletes reports whether a range tombstone that a reader at seq sees covers key.
func (a *answersTable) deletes(key []byte, seq ikey.Seq) bool {
	return slices.ContainsFunc(a.dels, func(f rangedel.Fragment) bool {
		return bytes.Compare(f.Start, key) <= 0 && (f.End == nil || bytes.Compare(key, f.End) < 0) && f.Seqs[0] <= seq
	})
}

func (a *answersTable) inRange(key []byte) bool {
	if bytes.Compare(key, a.Smallest) < 0 {
		return false
	}
	c := bytes.Compare(key, a.Largest)
	return a.Largest == nil || c < 0 || c == 0 && !a.LargestExclusive
}

// looked counts a lookup of key by a reader at seq.
func (m *answersModel) looked(key []byte, seq ikey.Seq) {
	for _, w := range m.memory {
		if w.seq <= seq && (bytes.Equal(w.lo, key) ||
			w.hi != nil && bytes.Compare(w.lo, key) < 0 && bytes.Compare(key, w.hi) < 0) {
			m.passed.memory++
			return
		}
	}
	count := func(a *answersTable, add bloomkv.FilterAnswers) {
		for _, c := range []*bloomkv.FilterAnswers{new(m.counts[a.File]), &m.sum} {
			c.FilterNegatives += add.FilterNegatives
			c.TruePositives += add.TruePositives
			c.FalsePositives += add.FalsePositives
			c.Unfiltered += add.Unfiltered
			if c != &m.sum {
				m.counts[a.File] = *c
			}
		}
	}
	found := false
	for _, a := range m.tables { // all filters are probed, even after a hit
		if !a.inRange(key) {
			continue
		}
		seqs, present := a.seqs[string(key)]
		maybe := a.filter == nil || a.filter.MayContain(bloomblock.HashKey(key))
		switch {
		case !maybe:
			count(a, bloomkv.FilterAnswers{FilterNegatives: 1})
		case found:
			m.passed.notSearched++
		case a.Entries == 0:
		case a.filter == nil:
			count(a, bloomkv.FilterAnswers{Unfiltered: 1})
		case present:
			count(a, bloomkv.FilterAnswers{TruePositives: 1})
		default:
			count(a, bloomkv.FilterAnswers{FalsePositives: 1})
		}
		found = found || slices.ContainsFunc(seqs, func(s ikey.Seq) bool { return s <= seq })
		if a.deletes(key, seq) {
			if a.Level < bloomkv.Bottom {
				m.passed.stopped++
			}
			return
		}
	}
}

// compare checks the counts of the store against the model.
func (m *answersModel) compare(when string) {
	m.t.Helper()
	levels := make([]bloomkv.FilterAnswers, manifest.NumLevels)
	for _, tm := range m.db.Tables() {
		if got, want := tm.FilterAnswers, m.counts[tm.File]; got != want {
			m.t.Errorf("%s: %s on level %d has counted %+v, want %+v", when, tm.File, tm.Level, got, want)
		}
		l := &levels[tm.Level]
		l.FilterNegatives += tm.FilterNegatives
		l.TruePositives += tm.TruePositives
		l.FalsePositives += tm.FalsePositives
		l.Unfiltered += tm.Unfiltered
		if tm.FPRMeasured != tm.FPR() ||
			tm.FPRMeasured > 0 && tm.FPRMeasured != bloomkv.Ratio(tm.FalsePositives,
				tm.FalsePositives+tm.FilterNegatives) {
			m.t.Errorf("%s: %s: measured %g of %+v", when, tm.File, tm.FPRMeasured, tm.FilterAnswers)
		}
	}
	all := m.db.Metrics()
	for l, level := range all.Levels {
		if level.FilterAnswers != levels[l] ||
			level.FPRMeasured != bloomkv.Ratio(levels[l].FalsePositives,
				levels[l].FalsePositives+levels[l].FilterNegatives) {
			m.t.Errorf("%s: level %d has %+v, and measures %g; its tables have %+v", when, l, level.FilterAnswers,
				level.FPRMeasured, levels[l])
		}
	}
	if want := all.Lookups.WastedPerAbsent(); all.FPRMeasured != want {
		m.t.Errorf("%s: %g measured, want the wasted reads of lookups of absent keys, %g", when, all.FPRMeasured, want)
	}
	if l := all.Lookups; l.FilterNegatives != m.sum.FilterNegatives || l.TruePositives != m.sum.TruePositives ||
		l.FalsePositives != m.sum.FalsePositives {
		m.t.Errorf("%s: lookups have counted %+v, want %+v", when, l, m.sum)
	}
}

// look looks up each key, alternating between all kinds of lookup, and many keys at a time, now or in a snapshot.
func (m *answersModel) look(keys [][]byte, snap *bloomkv.Snapshot) {
	m.t.Helper()
	seq, get, many := read.Newest.Seq, m.db.Get, m.db.GetMany
	ways := []func(key []byte) error{
		func(key []byte) error { _, err := get(key); return err },
		func(key []byte) error { _, err := m.db.AppendGet(nil, key); return err },
		func(key []byte) error { _, err := m.db.Has(key); return err },
		func(key []byte) error { return m.db.View(key, func([]byte) error { return nil }) },
		func(key []byte) error { _, _, err := m.db.GetTraced(key); return err },
		func(key []byte) error { _, err := m.db.CompareAndDelete(key, []byte("nobody has this")); return err },
	}
	if m.db.Options().ReadOnly {
		ways = ways[:5]
	}
	if snap != nil {
		seq, get, many = snap.Pin().Seq, snap.Get, snap.GetMany
		ways = ways[:1]
	}
	for i, key := range keys {
		if err := ways[i%len(ways)](key); err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
			m.t.Fatal(err)
		}
		m.looked(key, seq)
		m.db.MayContain(key) // is not counted
	}
	must(m.t, many(keys, func(int, []byte, bool) error { return nil }))
	for _, key := range keys {
		m.looked(key, seq)
	}
}

// TestWhatFiltersAnswerIsCountedByTable compares exact counts over memtables, level 0, moved tables, range tombstones
// and snapshots.
func TestWhatFiltersAnswerIsCountedByTable(t *testing.T) {
	testkit.Long(t)
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
			db := storetest.Open(t, "db", o)
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
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
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
			db = storetest.Open(t, "db", o)
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
		db := storetest.Open(t, "db", &opts)
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
