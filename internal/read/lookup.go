package read

import (
	"bytes"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

func (r *Reader) Get(key []byte, at AsOf) ([]byte, error) {
	value, err := r.AppendGet(nil, key, at)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

func (r *Reader) AppendGet(dst, key []byte, at AsOf) ([]byte, error) {
	var l lookup
	found, err := l.find(r, key, at)
	if found {
		dst = append(dst, l.value...)
	}
	l.end(r, key, at)
	if err == nil && !found {
		err = ErrNotFound
	}
	return dst, err
}

func (r *Reader) Has(key []byte, at AsOf) (bool, error) {
	var l lookup
	found, err := l.find(r, key, at)
	l.end(r, key, at)
	return found, err
}

func (r *Reader) View(key []byte, at AsOf, f func(value []byte) error) error {
	var l lookup
	found, err := l.find(r, key, at)
	if found && l.inside {
		l.hit.Hold() // the guard must not last as long as f
		defer l.hit.Release()
	}
	l.end(r, key, at)
	switch {
	case err != nil:
		return err
	case !found:
		return ErrNotFound
	}
	return f(l.value)
}

// An AsOf is the moment that a reader wants to see.
type AsOf struct {
	Seq    ikey.Seq     // newer versions are not visible
	Closed *atomic.Bool // of the snapshot that keeps the moment; nil for Newest
}

var Newest = AsOf{Seq: ikey.MaxSeq}

// over reports whether the snapshot was closed, so that what was read since may lack versions.
func (at AsOf) over() bool { return at.Closed != nil && at.Closed.Load() }

// A lookup follows one key downstairs. It lives on its caller's stack.
type lookup struct {
	value  []byte      // valid until end, if it is of a table; a memtable's stays valid
	hit    sstable.Hit // where the value is, if it is of a table
	guard  epoch.Guard
	inside bool // the guard is entered
	cost   lookupCost
	trace  *Trace // nil: nobody asks
}

// end leaves the guard and counts what the lookup of key cost.
func (l *lookup) end(r *Reader, key []byte, at AsOf) {
	if l.inside {
		l.guard.Leave()
	}
	l.cost.part(l.cost.searches, l.cost.found)
	if r.sampled(r.lookups.add(&l.cost)) {
		r.sample(key, at.Seq)
	}
}

// find looks for the newest version of key. It reports false for an absent or deleted key. end must follow.
func (l *lookup) find(r *Reader, key []byte, at AsOf) (bool, error) {
	found, err := l.follow(r, key, at.Seq)
	if at.over() {
		return false, tree.ErrClosed
	}
	return found, err
}

func (l *lookup) follow(r *Reader, key []byte, at ikey.Seq) (bool, error) {
	h := r.Hash(key)
	// The state first, then the sequence: a state that is older than the sequence misses only what is newer than the call;
	// the other way round a compaction could have dropped the version that an older sequence needs. What a snapshot needs
	// stays for as long as it is open.
	s := r.tree.Load()
	if s == nil {
		return false, tree.ErrClosed
	}
	seq := min(at, r.tree.NewestSeq())
	value, live, decided := inMemory(s, key, h.Mixed, seq)
	if decided {
		l.cost.memtableHit = true
		l.value = value
		return live, nil
	}
	var room [8]candidate
	candidates := candidatesIn(s, room[:0], key, h, seq, &l.cost)
	if len(candidates) == 0 {
		return false, nil
	}
	// From here on files and cached blocks are touched, which are released once no reader inside can see them. The state
	// that this reader works on must be one that was current while it was inside.
	l.guard, l.inside = r.tree.Domain.Enter(), true
	for {
		now := r.tree.Load()
		if now == nil {
			return false, tree.ErrClosed
		}
		if now == s {
			break
		}
		s, seq = now, min(at, r.tree.NewestSeq())
		l.cost = lookupCost{}
		if value, live, decided = inMemory(s, key, h.Mixed, seq); decided {
			l.cost.memtableHit = true
			l.value = value
			return live, nil
		}
		candidates = candidatesIn(s, room[:0], key, h, seq, &l.cost)
	}
	for i := range candidates {
		c := &candidates[i]
		found, decided, err := l.search(r, c, key, h, seq)
		if err != nil || decided {
			return found, err
		}
	}
	return false, nil
}

// search looks into one table. Where decided is true, older data does not count.
func (l *lookup) search(r *Reader, c *candidate, key []byte, h bloomblock.SeededHash, seq ikey.Seq) (found, decided bool, err error) {
	if search, err := c.ready(r, key, h.Hash, seq, &l.cost); err != nil || !search {
		return false, c.deleted > 0, err
	}
	before := l.cost.reads
	hit, ok, err := c.table.Reader.Get(key, seq, &l.cost.reads)
	if err != nil {
		return false, false, r.failed(err)
	}
	if l.cost.reads.TailLoads > before.TailLoads {
		r.tables.Recount(c.table)
	}
	present := l.cost.reads.Present > before.Present // some version of the key, if only one that is too new
	c.count(present, &l.cost)
	if l.trace != nil {
		l.trace.add(c, present, before, l.cost.reads)
	}
	if !ok || hit.Trailer.Seq() < c.deleted {
		return false, c.deleted > 0, nil
	}
	l.value, l.hit = hit.Value, hit
	return hit.Trailer.Kind() == ikey.Set, true, nil
}

// ready makes sure that a table can be searched. One that was not loaded yet is, and says again whether it must be.
func (c *candidate) ready(rd *Reader, key []byte, h bloomblock.Hash, seq ikey.Seq, cost *lookupCost) (search bool, err error) {
	r := c.table.Reader
	if r.Loaded() && !c.unknown {
		return true, nil
	}
	loads, bytes, err := rd.tables.LoadTail(c.table)
	cost.tailLoads += loads
	cost.tailBytes += bytes
	if err != nil {
		return false, rd.failed(err)
	}
	if c.table.Meta.RangeDeletes > 0 {
		c.deleted, c.unknown = r.RangeDels().Covering(key, seq), false
	}
	if c.probed {
		return c.table.Meta.Entries > 0, nil
	}
	maybe, probed := r.MayContain(h)
	if probed {
		cost.probes++
	}
	if !maybe || c.table.Meta.Entries == 0 {
		return false, nil
	}
	if probed {
		cost.passed++
	}
	c.probed = probed
	return true, nil
}

// count notes a search, and what the filter's answer was worth.
func (c *candidate) count(present bool, cost *lookupCost) {
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
}

// MayContain reports whether the store may hold a value for key, from memory alone. It takes no lock, reads no file and counts
// nothing. After Close it returns true.
func (r *Reader) MayContain(key []byte) bool {
	s := r.tree.Load()
	if s == nil {
		return true
	}
	h, seq := r.Hash(key), r.tree.NewestSeq()
	if _, live, decided := inMemory(s, key, h.Mixed, seq); decided {
		return live
	}
	var cost lookupCost // of no lookup: it is not counted
	var room [8]candidate
	return len(candidatesIn(s, room[:0], key, h, seq, &cost)) > 0
}

// Compare reports whether the value of key is old; with old nil, whether there is none.
func (r *Reader) Compare(key, old []byte) (bool, error) {
	var l lookup
	found, err := l.find(r, key, Newest)
	equal := err == nil && found == (old != nil) && (!found || bytes.Equal(l.value, old))
	l.end(r, key, Newest)
	return equal, err
}
