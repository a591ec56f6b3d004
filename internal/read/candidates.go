package read

import (
	"math/bits"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// filtered asks the filters and the range tombstones of the memtables, which are in the collector's heap: it needs no
// guard. If maybe is true, a memtable may have a version of key: see inMemory. Otherwise deleted reports whether a
// range tombstone deletes all older data of key for a reader at seq. h is mixed with the store's seed.
func filtered(s *tree.State, key []byte, h bloomblock.Hash, seq ikey.Seq) (maybe, deleted bool) {
	m := s.Mem
	for i := 0; ; i++ {
		if m.MayContain(h) {
			return true, false
		}
		if d := m.RangeDels(); d != nil && d.Covering(key, seq) > 0 {
			return false, true
		}
		if i == len(s.Frozen) {
			return false, false
		}
		m = s.Frozen[i]
	}
}

// inMemory looks up the newest version of key that a reader at seq may see in the memtables, and their range
// tombstones. If decided is true, the answer is final: no older data counts. h is mixed with the store's seed. The
// caller holds a reference to s, or is inside a guard in which s was the current state; value is valid until then.
func inMemory(s *tree.State, key []byte, h bloomblock.Hash, seq ikey.Seq) (value []byte, live, decided bool) {
	value, live, decided = inTable(s.Mem, key, h, seq)
	for i := 0; i < len(s.Frozen) && !decided; i++ {
		value, live, decided = inTable(s.Frozen[i], key, h, seq)
	}
	return value, live, decided
}

// inTable does the same as inMemory for one memtable.
func inTable(m *memtable.Table, key []byte, h bloomblock.Hash, seq ikey.Seq) (value []byte, live, decided bool) {
	var deleted ikey.Seq // newest range tombstone over the key
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
	table   *tree.Table
	probed  bool     // its filter was queried and did not exclude the key
	deleted ikey.Seq // its newest range tombstone over the key: nothing older counts
	unknown bool     // its range tombstones were not in memory: deleted is not known yet
}

// partRuns is the number of runs whose filters are queried together. There are rarely more.
const partRuns = 16

// A partAnswer is the answer of the fences and filters of at most partRuns runs for one key, with one bit for each
// run.
type partAnswer struct {
	at            [partRuns]int32 // index of the table whose bounds include the key
	there         uint32          // there is such a table
	maybe, probed uint32          // its filter does not exclude the key; its filter was queried
	dels          uint32          // the run has range tombstones
}

// candidatesIn appends the tables that may hold the version of key seen by a reader at seq, newest data first,
// according to their bounds, then their filters. It queries all filters before it uses an answer, so that the cache
// misses of independent filters overlap. A range tombstone ends the search, whatever the filters answer.
func candidatesIn(
	s *tree.State, dst []candidate, key []byte, h bloomblock.SeededHash, seq ikey.Seq, cost *lookupCost,
) []candidate {
	for runs, over := s.Runs, false; len(runs) > 0 && !over; {
		part := runs[:min(len(runs), partRuns)]
		runs = runs[len(part):]
		var a partAnswer
		var filters [partRuns]*bloomblock.Filter
		for k, r := range part {
			i := r.Find(key)
			if i < 0 {
				continue
			}
			a.at[k] = int32(i) //nolint:gosec // a run of 2³¹ tables is a thousand times what a directory holds
			filters[k] = r.Readers[i].Filter()
			a.there |= 1 << k
			a.probed |= bit(filters[k] != nil) << k
			a.dels |= bit(r.RangeDels) << k
		}
		a.maybe = bloomblock.MayContainEach(filters[:len(part)], h)
		dst, over = a.candidates(dst, part, key, seq, cost)
	}
	return dst
}

// candidates appends the candidates for one key among the runs of a part. If over is true, nothing older counts.
func (a *partAnswer) candidates(
	dst []candidate, part []*tree.Run, key []byte, seq ikey.Seq, cost *lookupCost,
) (_ []candidate, over bool) {
	counted := ^uint32(0) // runs up to the tombstone that ends the search
	for look := a.there & (a.maybe | a.dels); look != 0 && !over; look &= look - 1 {
		k := bits.TrailingZeros32(look)
		c := candidate{table: part[k].Tables[a.at[k]], probed: a.probed>>k&1 != 0}
		search := a.maybe>>k&1 != 0
		if c.table.Meta.RangeDeletes > 0 {
			tombstones := c.table.Reader.RangeDels() // nil if the tail is not loaded yet: then ready checks again
			c.deleted, c.unknown = tombstones.Covering(key, seq), tombstones == nil
			search = search && c.table.Meta.Entries > 0 || c.unknown
		}
		if search {
			cost.passed += uint64(a.probed >> k & 1)
			dst = append(dst, c)
		}
		if c.deleted > 0 {
			counted, over = uint32(2)<<k-1, true
		}
	}
	cost.ask(a.there&counted, a.probed&counted)
	if cost.sample > 0 {
		a.countNegatives(part, counted, uint64(cost.sample))
	}
	return dst, over
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// countNegatives counts n for each negative among the given runs of a part.
func (a *partAnswer) countNegatives(part []*tree.Run, runs uint32, n uint64) {
	for no := a.probed &^ a.maybe & runs; no != 0; no &= no - 1 {
		k := bits.TrailingZeros32(no)
		part[k].Tables[a.at[k]].Negatives.Add(n)
	}
}

// askMemory reports whether a reader at the given number may find a value for key, using only memory. It enters a guard
// only if a filter says that a memtable may have key. After Close it returns true.
func (r *Reader) askMemory(key []byte, at ikey.Seq, cost *lookupCost) bool {
	s := r.Tree.Load()
	if s == nil {
		return true
	}
	h, seq := r.Hash(key), min(at, r.Tree.NewestSeq())
	maybe, deleted := filtered(s, key, h.Mixed, seq)
	if deleted {
		return false
	}
	if maybe {
		guard := r.Tree.Domain.Enter()
		defer guard.Leave()
		if s = r.Tree.Load(); s == nil {
			return true
		}
		// The state may be newer than seq. A version that was dropped meanwhile has a newer one, and the filter of its
		// table does not exclude the key.
		if _, live, decided := inMemory(s, key, h.Mixed, seq); decided {
			return live
		}
	}
	var room [8]candidate
	return len(candidatesIn(s, room[:0], key, h, seq, cost)) > 0
}

// ready prepares the search of a table. If the table or its filter was not loaded yet, ready loads it and decides again
// whether the search is necessary. If what is in memory of the filter is not good enough, it asks the one in the file.
func (c *candidate) ready(
	rd *Reader, key []byte, h bloomblock.Hash, seq ikey.Seq, cost *lookupCost,
) (search bool, err error) {
	r := c.table.Reader
	if !r.Loaded() || c.unknown || !c.table.Ready.Load() {
		if search, err = c.load(rd, key, h, seq, cost); !search || err != nil {
			return false, err
		}
	}
	maybe, asked, err := r.AskFile(h, &cost.reads)
	switch {
	case err == nil:
	case sstable.IsFilterDamage(err):
		rd.Tables.Damaged(c.table)
	default:
		return false, rd.failed(err)
	}
	if asked && !c.probed {
		c.probed = true
		cost.probes++
		cost.passed++
	}
	if !maybe {
		cost.passed--
	}
	return maybe, nil
}

// load loads a table and its filter, and reports whether the search is still necessary.
func (c *candidate) load(
	rd *Reader, key []byte, h bloomblock.Hash, seq ikey.Seq, cost *lookupCost,
) (search bool, err error) {
	loads, bytes, err := rd.Tables.LoadTail(c.table)
	cost.tailLoads += loads
	cost.tailBytes += bytes
	if err != nil {
		return false, rd.failed(err)
	}
	r := c.table.Reader
	if c.table.Meta.RangeDeletes > 0 {
		tombstones, err := tombstonesOf(c.table)
		if err != nil {
			return false, rd.failed(err)
		}
		c.deleted, c.unknown = tombstones.Covering(key, seq), false
	}
	if c.table.Meta.Entries == 0 || c.probed {
		return c.table.Meta.Entries > 0, nil
	}
	maybe, probed := r.Keys.MayContain(h)
	c.probed = probed && maybe
	cost.probes += uint64(bit(probed))
	cost.passed += uint64(bit(c.probed))
	return maybe, nil
}

// tombstonesOf returns the range tombstones of a table that has some and was loaded. After Close of the store the table
// has forgotten them, although a reader may still hold a state with it: then the error is tablefile.ErrClosed.
func tombstonesOf(t *tree.Table) (*rangedel.Index, error) {
	if dels := t.Reader.RangeDels(); dels != nil {
		return dels, nil
	}
	return nil, tablefile.ErrClosed
}

// decide counts a search, and whether the answer of the filter was right. hit is its result, if ok is true; present
// reports whether the table holds any version of the key. If decided is true, older data does not count.
func (c *candidate) decide(hit *sstable.Hit, ok, present bool, cost *lookupCost) (found, decided bool) {
	cost.searches++
	if present {
		cost.found++
	}
	switch {
	case !c.probed:
		c.table.Unfiltered.Add(1)
	case present:
		c.table.TruePositives.Add(1)
		cost.truePositives++
	default:
		c.table.FalsePositives.Add(1)
		cost.falsePositives++
	}
	if !ok || hit.Trailer.Seq() < c.deleted {
		return false, c.deleted > 0
	}
	return hit.Trailer.Kind() == ikey.Set, true
}
