package read

import (
	"math/bits"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// filtered asks the filters and the range tombstones of the memtables, which are in the collector's heap: it needs no
// guard. If maybe is true, a memtable may have a version of key: see inMemory. Otherwise deleted reports whether a
// range tombstone deletes all older data of key for a reader at seq. h is mixed with the store's seed.
func filtered(s *tree.State, key []byte, h bloomblock.Hash, seq ikey.Seq) (maybe, deleted bool) {
	maybe, deleted = filteredTable(s.Mem, key, h, seq)
	for i := 0; i < len(s.Frozen) && !maybe && !deleted; i++ {
		maybe, deleted = filteredTable(s.Frozen[i], key, h, seq)
	}
	return maybe, deleted
}

// filteredTable does the same as filtered for one memtable.
func filteredTable(m *memtable.Table, key []byte, h bloomblock.Hash, seq ikey.Seq) (maybe, deleted bool) {
	if m.MayContain(h) {
		return true, false
	}
	d := m.RangeDels()
	return false, d != nil && d.Covering(key, seq) > 0
}

// inMemory looks up the newest version of key that a reader at seq may see in the memtables, and their range
// tombstones. If decided is true, the answer is final: no older data counts. h is mixed with the store's seed. The
// caller holds a reference to s, or is inside a guard in which s was the current state; value is valid until then.
func inMemory(s *tree.State, key []byte, h bloomblock.Hash, seq ikey.Seq) (value []byte, live, decided bool) {
	if value, live, decided = inTable(s.Mem, key, h, seq); decided {
		return value, live, true
	}
	for _, m := range s.Frozen {
		if value, live, decided = inTable(m, key, h, seq); decided {
			return value, live, true
		}
	}
	return nil, false, false
}

// askMemory does what inMemory does, for callers without a guard: it enters one only if a filter says that a memtable
// may have key. The state that it returns is s or a newer one. After Close it returns true.
func (r *Reader) askMemory(
	s *tree.State, key []byte, h bloomblock.Hash, seq ikey.Seq,
) (_ *tree.State, live, decided bool) {
	maybe, deleted := filtered(s, key, h, seq)
	if !maybe {
		return s, false, deleted
	}
	guard := r.tree.Domain.Enter()
	defer guard.Leave()
	if s = r.tree.Load(); s == nil {
		return nil, true, true
	}
	// The state may be newer than seq. A version that was dropped meanwhile has a newer one, and the filter of its
	// table does not exclude the key.
	_, live, decided = inMemory(s, key, h, seq)
	return s, live, decided
}

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
		dst, over = a.choose(dst, part, key, seq, cost)
	}
	return dst
}

// choose appends the candidates for one key among the runs of a part. If over is true, nothing older counts.
func (a *partAnswer) choose(
	dst []candidate, part []*tree.Run, key []byte, seq ikey.Seq, cost *lookupCost,
) (_ []candidate, over bool) {
	for look := a.there & (a.maybe | a.dels); look != 0; look &= look - 1 {
		k := bits.TrailingZeros32(look)
		c := candidate{table: part[k].Tables[a.at[k]], probed: a.probed>>k&1 != 0}
		search := a.maybe>>k&1 != 0
		if c.table.Meta.RangeDeletes > 0 {
			tombstones := c.table.Reader.RangeDels() // nil if the tail is not loaded yet: then ready checks again
			c.deleted, c.unknown = tombstones.Covering(key, seq), tombstones == nil
			search = search && (c.table.Meta.Entries > 0 || c.unknown)
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
