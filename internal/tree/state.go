package tree

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A State is everything that a lookup needs: the memtables, and the runs of tables below. It is immutable and
// replaced as a whole. A short reader loads it inside an epoch guard; a long one holds a reference.
type State struct {
	Mem     *memtable.Table   // takes writes
	Frozen  []*memtable.Table // newest first: one that waits for a flush, or in a store that is only read, of its logs
	Version *manifest.Version
	Runs    []*Run       // newest first
	Ingests uint64       // changes of the tables that were not written by Apply: ingests and imports since Open
	Freezes uint64       // memtables before Mem since Open
	refs    atomic.Int64 // one if it is the current state, one for each reader that holds it
}

// VersionBytes bounds what a version takes in a table besides its key and value: 49 bytes if it is alone in its block,
// 26 at most in the filters, and a short separator in the index.
const VersionBytes = 80

// Unflushed returns the largest size of the tables that the memtables will be written to, in bytes. In a block with
// many others a version takes less than in a memtable, its part of the filters included. With few others or none it may
// take more, but then it is long: less than a quarter more.
func (s *State) Unflushed() (bytes int64) {
	for _, mem := range append([]*memtable.Table{s.Mem}, s.Frozen...) {
		if n := int64(mem.Len()); n > 0 {
			bytes += mem.Bytes() + min(n*VersionBytes, mem.Bytes()/4)
		}
	}
	return bytes
}

// A Run is a sorted run of the tree. Flat arrays hold its fences: for each table, the heads of its bounds after the
// prefix shared by all bounds of the run.
type Run struct {
	Level  int
	ID     uint64
	Tables []*Table
	prefix []byte
	lo, hi []uint64

	metas     []*manifest.Table // the tables as versions have them: an array that only versions with this run share
	Readers   []*sstable.Reader // of the tables, so that a lookup finds the filter in one step
	RangeDels bool              // at least one table has range tombstones

	Entries     uint64  // of all tables
	FilterBytes uint64  // of all filters in the files
	WorstRate   float64 // the highest rate that the filter of a table with entries promises
}

// NewRun returns a run of tables with ascending, disjoint bounds.
func NewRun(level int, id uint64, tables []*Table) *Run {
	r := &Run{Level: level, ID: id, Tables: tables, lo: make([]uint64, len(tables)), hi: make([]uint64, len(tables))}
	r.Readers = make([]*sstable.Reader, len(tables))
	if first, last := tables[0].Meta.Smallest, tables[len(tables)-1].Meta.Upper(); last != nil {
		r.prefix = first[:ikey.CommonPrefix(first, last)]
	}
	for i, t := range tables {
		r.Readers[i] = t.Reader
		r.lo[i] = ikey.HeadAfter(r.prefix, t.Meta.Smallest)
		if upper := t.Meta.Upper(); upper != nil {
			r.hi[i] = ikey.HeadAfter(r.prefix, upper)
		} else {
			r.hi[i] = ^uint64(0)
		}
		r.RangeDels = r.RangeDels || t.Meta.RangeDeletes > 0
		r.Entries += t.Meta.Entries
		r.FilterBytes += t.Meta.FilterLen
		if t.Meta.Entries > 0 {
			r.WorstRate = max(r.WorstRate, t.Meta.FilterRate)
		}
	}
	return r
}

// same reports whether r is the run other of a version.
func (r *Run) same(other manifest.Run) bool { return &r.metas[0] == &other.Tables[0] }

// Search returns the index of the first table that does not end before key, or len(r.Tables) if all do.
func (r *Run) Search(key []byte) int { return r.index(key, ikey.HeadAfter(r.prefix, key)) }

// index returns the result of Search for a key with the given head.
func (r *Run) index(key []byte, head uint64) int {
	hi := r.hi
	base, n := 0, len(hi)
	for n > 1 { // the first of hi that is ≥ head lies in [base, base+n]
		half := n >> 1
		base += half & -ikey.Less(hi[base+half-1], head)
		n -= half
	}
	if n == 1 && hi[base] < head {
		base++
	}
	for base < len(hi) && hi[base] == head && r.Tables[base].Meta.EndsBefore(key) {
		base++
	}
	return base
}

// Find returns the index of the table whose bounds include key, or -1.
func (r *Run) Find(key []byte) int {
	head := ikey.HeadAfter(r.prefix, key)
	i := r.index(key, head)
	if i == len(r.hi) || head < r.lo[i] || head == r.lo[i] && bytes.Compare(key, r.Tables[i].Meta.Smallest) < 0 {
		return -1
	}
	return i
}

// EachTable calls each for every table, newest data first.
func (s *State) EachTable(each func(level int, t *Table)) {
	for _, r := range s.Runs {
		for _, t := range r.Tables {
			each(r.Level, t)
		}
	}
}

// Table returns the table that a manifest describes, or nil if it is in no run of the state.
func (s *State) Table(meta *manifest.Table) *Table {
	for _, r := range s.Runs {
		if i := r.Find(meta.Smallest); i >= 0 && r.Tables[i].Meta.Number == meta.Number {
			return r.Tables[i]
		}
	}
	return nil
}

// setVersion makes v the version of the state. Runs and tables that s already has are reused; other tables come from
// fresh.
func (s *State) setVersion(v *manifest.Version, fresh map[uint64]*Table) {
	var runs []*Run
	var old map[uint64]*Table // those of s by number; made once a run needs one
	for l := range v.Levels {
		for _, r := range v.Levels[l] {
			if i := slices.IndexFunc(s.Runs, func(o *Run) bool { return o.same(r) }); i >= 0 {
				runs = append(runs, s.Runs[i])
				continue
			}
			tables := make([]*Table, len(r.Tables))
			for i, meta := range r.Tables {
				t, isFresh := fresh[meta.Number]
				if !isFresh {
					if old == nil {
						old = make(map[uint64]*Table, len(r.Tables))
						s.EachTable(func(_ int, t *Table) { old[t.Meta.Number] = t })
					}
					t = old[meta.Number]
				}
				t.Level.Store(int32(l))
				tables[i] = t
			}
			runs = append(runs, NewRun(l, r.ID, tables))
			runs[len(runs)-1].metas = r.Tables
		}
	}
	s.Version, s.Runs = v, runs
}

// Hold adds a reference to the state, for Tree.Release. The caller has one, or is inside a guard in which the state was
// the current one.
func (s *State) Hold() { s.refs.Add(1) }

// MemtableBytes returns the size of the memtables in bytes.
func (s *State) MemtableBytes() int64 {
	sum := s.Mem.Bytes()
	for _, m := range s.Frozen {
		sum += m.Bytes()
	}
	return sum
}
