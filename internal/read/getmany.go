package read

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// GetMany looks up keys and calls f for each, in order: i is its index in keys, and value is valid only until f
// returns. It stops at the first error, also of f, and returns it.
func (r *Reader) GetMany(keys [][]byte, at AsOf, f func(i int, value []byte, found bool) error) error {
	s, seq, err := r.hold(at) // f may run long, so a guard is not possible
	if err != nil {
		return err
	}
	defer r.Tree.Release(s)
	m := manyLookups.Get().(*manyLookup) //nolint:errcheck // the pool holds nothing else
	defer func() {
		m.end() // if f has panicked
		manyLookups.Put(m)
	}()
	for first := 0; first < len(keys) && err == nil; first += manyKeys {
		group := keys[first:min(first+manyKeys, len(keys))]
		m.size = len(group)
		err = m.find(r, s, group, seq)
		for i := range group {
			m.cost.part(m.keys[i].asked, m.keys[i].searched, m.keys[i].present)
		}
		place := r.addMany(&m.cost, len(group), m.inMemory)
		for i := r.firstSampled(place); i < uint64(len(group)); i += 1 << r.SamplingBits {
			r.sample(group[i], at.Seq)
		}
		for i := 0; i < len(group) && err == nil; i++ {
			if k := &m.keys[i]; k.later != nil {
				err = k.giveLater(r, first+i, group[i], seq, f)
			} else {
				err = f(first+i, k.value, k.found)
			}
		}
		m.end()
	}
	return err
}

// manyKeys is the number of keys looked up together: enough for their cache misses to overlap, and few enough for
// their results to stay in the cache.
const manyKeys = 64

// A manyLookup looks up a group of keys.
type manyLookup struct {
	size   int // of the group, until end
	hashes [manyKeys]bloomblock.SeededHash
	keys   [manyKeys]manyKey
	copies []byte // of values that cannot be held

	runs       []manyAnswer     // answers of fences and filters
	candidates []candidate      // of all keys, one after the other
	searches   []sstable.Lookup // of one round
	searching  [manyKeys]int    // index of the key of each search

	held     int        // bytes of values from tables
	cost     lookupCost // of all keys
	inMemory int        // number of keys decided by memtables
}

// A manyKey is one key of a group.
type manyKey struct {
	value      []byte
	found      bool
	hit        sstable.Hit
	later      *sstable.Reader // has the value, if that is not held: those before it are too large together
	next, last int             // its next candidate, and the end of its candidates

	asked, searched, present uint64 // pages of filters asked in files; tables searched; those with a version of the key
}

// A manyAnswer is the answer of the fences and filters of one run, with one bit for each key.
type manyAnswer struct {
	at            [manyKeys]int32 // index of the table whose bounds include the key
	there         uint64          // there is such a table
	maybe, probed uint64          // its filter does not exclude the key; its filter was queried
}

var manyLookups = sync.Pool{New: func() any { return &manyLookup{copies: []byte{}} }}

// find looks up the keys of a group. end must follow.
func (m *manyLookup) find(r *Reader, s *tree.State, keys [][]byte, seq ikey.Seq) error {
	m.cost, m.inMemory, m.candidates = lookupCost{}, 0, m.candidates[:0]
	for i, key := range keys {
		m.hashes[i] = r.Hash(key)
	}
	below := uint64(0) // keys not decided by memtables
	for i, key := range keys {
		value, live, decided := inMemory(s, key, m.hashes[i].Mixed, seq)
		if decided {
			m.inMemory++
			m.keys[i].value, m.keys[i].found = value, live
			continue
		}
		below |= 1 << i
	}
	m.findCandidates(s, keys, seq, below)
	if len(m.candidates) == 0 {
		return nil
	}
	guard := r.Tree.Domain.Enter()
	defer guard.Leave()
	// A round searches each key's newest candidate.
	for {
		m.searches = m.searches[:0]
		for i, key := range keys {
			if err := m.addSearch(r, i, key, seq); err != nil {
				return err
			}
		}
		if len(m.searches) == 0 {
			return nil
		}
		sstable.GetMany(m.searches, &m.cost.reads)
		for j := range m.searches {
			if err := m.take(r, m.searching[j], &m.searches[j]); err != nil {
				return err
			}
		}
	}
}

// addSearch adds the search of the newest candidate of key i that has to be searched, if there is one, to the round.
func (m *manyLookup) addSearch(r *Reader, i int, key []byte, seq ikey.Seq) error {
	k := &m.keys[i]
	for k.next < k.last {
		c := &m.candidates[k.next]
		before := m.cost.reads.FilterParts
		search, err := c.ready(r, key, m.hashes[i].Hash, seq, &m.cost)
		if err != nil {
			return err
		}
		k.asked += m.cost.reads.FilterParts - before
		if search {
			m.searching[len(m.searches)] = i
			m.searches = append(m.searches, sstable.Lookup{Reader: c.table.Reader, Key: key, Seq: seq})
			return nil
		}
		k.pass(c.deleted > 0)
	}
	return nil
}

// findCandidates finds the candidates of the keys with a bit in below. It does for many keys, run by run, what
// candidatesIn does for one.
func (m *manyLookup) findCandidates(s *tree.State, keys [][]byte, seq ikey.Seq, below uint64) {
	m.runs = slices.Grow(m.runs[:0], len(s.Runs))[:len(s.Runs)]
	look := uint64(0) // keys that have candidates, or may be deleted by a range tombstone
	for k, r := range s.Runs {
		a := &m.runs[k]
		a.there, a.probed = 0, 0
		var filters [manyKeys]*bloomblock.Filter
		for left := below; left != 0; left &= left - 1 {
			i := bits.TrailingZeros64(left)
			at := r.Find(keys[i])
			if at < 0 {
				continue
			}
			a.at[i] = int32(at) //nolint:gosec // a run of 2³¹ tables is a thousand times what a directory holds
			filters[i] = r.Readers[at].Filter()
			a.there |= 1 << i
			if filters[i] != nil {
				a.probed |= 1 << i
			}
		}
		a.maybe = a.there & bloomblock.MayContainMany(filters[:len(keys)], m.hashes[:])
		look |= a.maybe
		if r.RangeDels {
			look |= a.there
		}
	}
	for k := range m.runs {
		m.cost.inRange += uint64(bits.OnesCount64(m.runs[k].there &^ look)) //nolint:gosec // at most 64
		m.cost.probes += uint64(bits.OnesCount64(m.runs[k].probed &^ look)) //nolint:gosec // at most 64
	}
	for ; look != 0; look &= look - 1 {
		i := bits.TrailingZeros64(look)
		m.keys[i].next = len(m.candidates)
		for first, over := 0, false; first < len(s.Runs) && !over; first += partRuns {
			part := s.Runs[first:min(first+partRuns, len(s.Runs))]
			var a partAnswer
			for k, r := range part {
				run := &m.runs[first+k]
				a.at[k] = run.at[i]
				a.there |= uint32(run.there>>i&1) << k
				a.maybe |= uint32(run.maybe>>i&1) << k
				a.probed |= uint32(run.probed>>i&1) << k
				a.dels |= bit(r.RangeDels) << k
			}
			m.candidates, over = a.candidates(m.candidates, part, keys[i], seq, &m.cost)
		}
		m.keys[i].last = len(m.candidates)
	}
}

// take processes the result of one search, of key i.
func (m *manyLookup) take(r *Reader, i int, l *sstable.Lookup) error {
	if l.Err != nil {
		return r.failed(l.Err)
	}
	k := &m.keys[i]
	if k.searched++; l.Present {
		k.present++
	}
	found, decided := m.candidates[k.next].decide(&l.Hit, l.OK, l.Present, &m.cost)
	k.pass(decided)
	if !found {
		return nil
	}
	k.found = true
	if l.Dropped || m.held > sstable.MostTogether {
		k.later = l.Reader
		return nil
	}
	if m.held += l.Hit.Bytes(); k.hold(&l.Hit) {
		return nil
	}
	n := len(m.copies)
	copies, err := l.Hit.AppendValue(m.copies)
	if err != nil {
		return r.failed(err)
	}
	m.copies, k.value = copies, copies[n:len(copies):len(copies)]
	return nil
}

// hold holds the value of a hit, if it is in the cache.
func (k *manyKey) hold(hit *sstable.Hit) bool {
	value, ok := hit.Held()
	if ok {
		k.hit, k.value = *hit, value
		k.hit.Hold()
	}
	return ok
}

// giveLater looks up the value of a key again, which is not held yet, and calls f with it, which is key i of the call.
func (k *manyKey) giveLater(
	r *Reader, i int, key []byte, seq ikey.Seq, f func(i int, value []byte, found bool) error,
) error {
	guard := r.Tree.Domain.Enter()
	var cost lookupCost
	hit, _, err := k.later.Get(key, seq, &cost.reads)
	if err == nil && !k.hold(&hit) {
		k.value, err = hit.AppendValue([]byte{})
	}
	guard.Leave()
	r.addMany(&cost, 0, 0)
	if err != nil {
		return r.failed(err)
	}
	defer func() {
		k.hit.Release()
		*k = manyKey{}
	}()
	return f(i, k.value, true)
}

// pass moves to the next candidate, or to the end if the key is decided.
func (k *manyKey) pass(decided bool) {
	if k.next++; decided {
		k.next = k.last
	}
}

// end releases the results of a group. Without a group it does nothing.
func (m *manyLookup) end() {
	if m.size == 0 {
		return
	}
	for i := range m.size {
		m.keys[i].hit.Release()
		m.keys[i] = manyKey{}
	}
	if cap(m.copies) > keepCopy {
		m.copies = []byte{}
	}
	m.copies, m.held = m.copies[:0], 0
	clear(m.candidates)
	clear(m.searches[:min(m.size, cap(m.searches))]) // those of all rounds
	m.size = 0
}
