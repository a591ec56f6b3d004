package bloomkv

import (
	"bytes"
	"math/bits"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/memtable"
	"github.com/bloomkv/bloomkv/sstable"
)

// A state is all that a lookup needs: what is in memory, and the runs of tables below, newest first. It is immutable and
// swapped whole. A short reader loads it inside an epoch guard; one that lasts holds a reference.
type state struct {
	mem     *memtable.Table   // takes writes
	frozen  []*memtable.Table // being written out, newest first
	version *manifest.Version
	runs    []*run
	refs    atomic.Int64 // one for being current, one for each scan
}

// newestSeq is the newest sequence that readers see. Who reads loads a state before: see lookup.follow.
func (db *DB) newestSeq() ikey.Seq {
	if db.seqGate != nil {
		return ikey.Seq(db.seqGate(db.visible.Load))
	}
	return ikey.Seq(db.visible.Load())
}

// A run is a sorted run of the tree with its fences in flat arrays: for each table, the heads of its bounds after the
// prefix that all bounds of the run share.
type run struct {
	level  int
	id     uint64
	tables []*table
	prefix []byte
	lo, hi []uint64

	of        []*manifest.Table // what tables are of, in versions that have the run; these are immutable: the same array is the same run
	readers   []*sstable.Reader // of the tables: what a lookup asks first is one step away
	rangeDels bool              // a table has range tombstones
}

func newRun(level int, id uint64, tables []*table) *run {
	r := &run{level: level, id: id, tables: tables, lo: make([]uint64, len(tables)), hi: make([]uint64, len(tables))}
	r.readers = make([]*sstable.Reader, len(tables))
	if first, last := tables[0].meta.Smallest, tables[len(tables)-1].meta.Upper(); last != nil {
		r.prefix = first[:ikey.CommonPrefix(first, last)]
	}
	for i, t := range tables {
		r.readers[i] = t.reader
		r.lo[i] = ikey.HeadAfter(r.prefix, t.meta.Smallest)
		if upper := t.meta.Upper(); upper != nil {
			r.hi[i] = ikey.HeadAfter(r.prefix, upper)
		} else {
			r.hi[i] = ^uint64(0)
		}
		r.rangeDels = r.rangeDels || t.meta.RangeDeletes > 0
	}
	return r
}

// is reports whether r is what a version has at level as other.
func (r *run) is(level int, other manifest.Run) bool {
	return r.level == level && r.id == other.ID && len(r.of) == len(other.Tables) && len(r.of) > 0 && &r.of[0] == &other.Tables[0]
}

// search is the place of the first table that does not end before key; len(tables) if there is none.
func (r *run) search(key []byte) int { return r.place(key, ikey.HeadAfter(r.prefix, key)) }

// place is search for a key with that head.
func (r *run) place(key []byte, head uint64) int {
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
	for base < len(hi) && hi[base] == head && r.tables[base].meta.EndsBefore(key) {
		base++
	}
	return base
}

// find is the place of the one table whose bounds hold key, or -1.
func (r *run) find(key []byte) int {
	head := ikey.HeadAfter(r.prefix, key)
	i := r.place(key, head)
	if i == len(r.hi) || head < r.lo[i] || head == r.lo[i] && bytes.Compare(key, r.tables[i].meta.Smallest) < 0 {
		return -1
	}
	return i
}

// inMemory looks for the newest version of key that a reader at seq may see in the memtables, and for what deletes it. Where
// decided is true it is the answer: no older data counts. h is mixed with the store's seed.
func (s *state) inMemory(key []byte, h bloomblock.Hash, seq ikey.Seq) (value []byte, live, decided bool) {
	if value, live, decided = inTable(s.mem, key, h, seq); decided {
		return value, live, true
	}
	for _, m := range s.frozen {
		if value, live, decided = inTable(m, key, h, seq); decided {
			return value, live, true
		}
	}
	return nil, false, false
}

func inTable(m *memtable.Table, key []byte, h bloomblock.Hash, seq ikey.Seq) (value []byte, live, decided bool) {
	var deleted ikey.Seq // by a range
	if d := m.RangeDels(); d != nil {
		deleted = d.Covering(key, seq)
	}
	value, trailer, found := m.Get(key, h, seq)
	if found && trailer.Seq() >= deleted {
		return value, trailer.Kind() == ikey.Set, true
	}
	return nil, false, deleted > 0
}

// A candidate is a table that a lookup has to search.
type candidate struct {
	table   *table
	probed  bool     // its filter said maybe; else no filter was asked
	deleted ikey.Seq // the newest of its range tombstones that covers the key: nothing older counts
	unknown bool     // it has range tombstones that were not in memory: deleted says nothing yet
}

// partRuns is how many runs are asked at once: more than there are, nearly always.
const partRuns = 16

// A partAnswer is what the fences and filters of at most partRuns runs say of one key: a bit for each run.
type partAnswer struct {
	at            [partRuns]int32 // the place of the table whose bounds hold the key
	there         uint32          // there is one
	maybe, probed uint32          // its filter does not exclude the key; it was asked
	dels          uint32          // the run has range tombstones
}

// candidates appends the tables that may hold the version of key which a reader at seq sees, newest data first: by their
// bounds, then by their filters. All filters are asked before an answer is acted upon, so that the cache misses of
// independent filters overlap. A range tombstone ends the search, whatever the filters say.
func (s *state) candidates(dst []candidate, key []byte, h bloomblock.SeededHash, seq ikey.Seq, cost *lookupCost) []candidate {
	for runs, over := s.runs, false; len(runs) > 0 && !over; {
		part := runs[:min(len(runs), partRuns)]
		runs = runs[len(part):]
		var a partAnswer
		var filters [partRuns]*bloomblock.Filter
		for k, r := range part {
			i := r.find(key)
			if i < 0 {
				continue
			}
			a.at[k] = int32(i) //nolint:gosec // a run of 2³¹ tables is a thousand times what a directory holds
			filters[k] = r.readers[i].Filter()
			a.there |= 1 << k
			a.probed |= bit(filters[k] != nil) << k
			a.dels |= bit(r.rangeDels) << k
		}
		a.maybe = bloomblock.MayContainEach(filters[:len(part)], h)
		dst, over = a.choose(dst, part, key, seq, cost)
	}
	return dst
}

// choose appends the candidates of one key among the runs of a part. Where over is true, nothing older counts.
func (a *partAnswer) choose(dst []candidate, part []*run, key []byte, seq ikey.Seq, cost *lookupCost) (_ []candidate, over bool) {
	for look := a.there & (a.maybe | a.dels); look != 0; look &= look - 1 {
		k := bits.TrailingZeros32(look)
		c := candidate{table: part[k].tables[a.at[k]], probed: a.probed>>k&1 != 0}
		search := a.maybe>>k&1 != 0
		if c.table.meta.RangeDeletes > 0 {
			tombstones := c.table.reader.RangeDels() // nil before the table's tail is loaded: then the search asks again
			c.deleted, c.unknown = tombstones.Covering(key, seq), tombstones == nil
			search = search && (c.table.meta.Entries > 0 || c.unknown)
		}
		if search {
			cost.passed += uint64(a.probed >> k & 1)
			dst = append(dst, c)
		}
		if c.deleted > 0 {
			upTo := uint32(2)<<k - 1
			cost.ask(a.there&upTo, a.probed&upTo)
			return dst, true
		}
	}
	cost.ask(a.there, a.probed)
	return dst, false
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// tables calls each with every table, newest data first.
func (s *state) tables(each func(level int, t *table)) {
	for _, r := range s.runs {
		for _, t := range r.tables {
			each(r.level, t)
		}
	}
}

// table is the one of the state that the manifest names so, nil if it is in no run of it.
func (s *state) table(meta *manifest.Table) *table {
	for _, r := range s.runs {
		if i := r.find(meta.Smallest); i >= 0 && r.tables[i].meta.Number == meta.Number {
			return r.tables[i]
		}
	}
	return nil
}
