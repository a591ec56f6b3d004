package bloomkv_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
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
	if err != nil {
		m.t.Fatal(err)
	}
	m.memory = append(m.memory, memoryWrite{m.db.Tree().NewestSeq(), lo, hi})
}

// settle flushes memory, waits until the tree is at rest and reads its tables.
func (m *answersModel) settle() {
	m.t.Helper()
	if err := m.db.Flush(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	storetest.Settle(m.t, m.db)
	m.memory = nil
	m.readTables()
}

func (m *answersModel) readTables() {
	m.t.Helper()
	storetest.Soon(m.t, "the store is warm", func() bool { return m.db.Metrics().Warm })
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
	if err != nil {
		m.t.Fatal(err)
	}
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
	if err != nil {
		m.t.Fatal(err)
	}
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
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		m.t.Fatal(err)
	}
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
	if err := many(keys, func(int, []byte, bool) error { return nil }); err != nil {
		m.t.Fatal(err)
	}
	for _, key := range keys {
		m.looked(key, seq)
	}
}
