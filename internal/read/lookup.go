package read

import (
	"bytes"
	"errors"
	"sync"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Get returns a copy of the value of key. The error is ErrNotFound if key has no value.
func (r *Reader) Get(key []byte, at AsOf) ([]byte, error) {
	value, err := r.AppendGet(nil, key, at)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

// AppendGet appends the value of key to dst and returns the result. The error is ErrNotFound if there is no value;
// then dst is returned unchanged.
func (r *Reader) AppendGet(dst, key []byte, at AsOf) ([]byte, error) {
	var l lookup
	return l.appendGet(r, dst, key, at)
}

// Has reports whether key has a value.
func (r *Reader) Has(key []byte, at AsOf) (bool, error) {
	var l lookup
	found, err := l.find(r, key, at)
	l.end(r, key, at)
	return found, err
}

// View calls f with the value of key, which is valid only until f returns. The error is ErrNotFound if there is no
// value, or that of f.
func (r *Reader) View(key []byte, at AsOf, f func(value []byte) error) error {
	var l lookup
	found, err := l.find(r, key, at)
	value := l.value
	switch {
	case found && l.inTable:
		var held bool
		if value, held = l.hit.Held(); held {
			l.hit.Hold() // the guard must not be held while f runs
			defer l.hit.Release()
		} else {
			c := valueCopies.Get().(*valueCopy) //nolint:errcheck // the pool holds nothing else
			defer c.put()
			value, err = l.appendValue(r, c.b[:0])
			c.b = value
		}
	case found:
		l.state.Hold() // for the same reason
		defer r.Tree.Release(l.state)
	}
	l.end(r, key, at)
	switch {
	case err != nil:
		return err
	case !found:
		return ErrNotFound
	}
	return f(value)
}

// A valueCopy is the memory for a copy of a value that cannot be held.
type valueCopy struct{ b []byte }

const keepCopy = 64 << 10 // the largest copy kept for reuse

var valueCopies = sync.Pool{New: func() any { return &valueCopy{b: []byte{}} }}

func (c *valueCopy) put() {
	if cap(c.b) <= keepCopy {
		valueCopies.Put(c)
	}
}

// GetTraced returns the value of key like Get, and the cost of the lookup, even for an absent key.
func (r *Reader) GetTraced(key []byte) ([]byte, Trace, error) {
	var t Trace
	l := lookup{trace: &t}
	value, err := l.appendGet(r, []byte{}, key, Newest)
	t.Counts = l.cost.counts()
	if t.Gets = 1; l.cost.memtableHit {
		t.MemtableHits = 1
	}
	if errors.Is(err, ErrNotFound) {
		value = nil
	}
	return value, t, err
}

// An AsOf is the moment at which a reader reads.
type AsOf struct {
	Seq ikey.Seq  // newer versions are not visible
	Pin *tree.Pin // of the snapshot; nil without one

	Held *tree.State // the state to read, which the caller holds; nil for the current one
}

// Newest is the moment of a read without a snapshot.
var Newest = AsOf{Seq: ikey.MaxSeq}

// over reports whether the snapshot was closed, so that what was read since then may lack versions.
func (at AsOf) over() bool { return at.Pin != nil && at.Pin.Closed.Load() }

// state returns the state to read, given the current one.
func (at AsOf) state(current *tree.State) *tree.State {
	if at.Held != nil {
		return at.Held
	}
	if at.Pin != nil {
		if kept := at.Pin.Kept.Load(); kept != nil {
			return kept
		}
	}
	return current
}

// hold returns the state to read, with a reference, and the newest sequence visible in it. The error is ErrClosed, also
// if the snapshot was closed. If it is closed later, the state still has what it needs.
func (r *Reader) hold(at AsOf) (*tree.State, ikey.Seq, error) {
	now, err := r.Tree.Now()
	if err != nil {
		return nil, 0, err
	}
	g := r.Tree.Domain.Enter()
	kept := at.state(now.State) // after the current state was loaded
	if kept != now.State {
		kept.Hold()
	}
	g.Leave()
	if kept != now.State {
		r.Tree.Release(now.State)
	}
	if at.over() {
		r.Tree.Release(kept)
		return nil, 0, tree.ErrClosed
	}
	return kept, min(now.Seq, at.Seq), nil
}

// A lookup follows one key through memtables and tables. It lives on its caller's stack.
type lookup struct {
	value   []byte      // valid until end; from a memtable
	state   *tree.State // has the memtable of value
	hit     sstable.Hit // has the value if it is from a table
	inTable bool
	guard   epoch.Guard
	inside  bool // the guard was entered
	cost    lookupCost
	trace   *Trace // nil if the lookup is not traced
}

// appendGet does the whole lookup: see AppendGet.
func (l *lookup) appendGet(r *Reader, dst, key []byte, at AsOf) ([]byte, error) {
	found, err := l.find(r, key, at)
	if found {
		dst, err = l.appendValue(r, dst)
	}
	l.end(r, key, at)
	if err == nil && !found {
		err = ErrNotFound
	}
	return dst, err
}

// appendValue appends the value that was found to dst.
func (l *lookup) appendValue(r *Reader, dst []byte) ([]byte, error) {
	if !l.inTable {
		return append(dst, l.value...), nil
	}
	dst, err := l.hit.AppendValue(dst)
	if err != nil {
		return dst, r.failed(err)
	}
	return dst, nil
}

// end leaves the guard and counts the cost of the lookup of key.
func (l *lookup) end(r *Reader, key []byte, at AsOf) {
	if l.inside {
		l.guard.Leave()
	}
	l.cost.part(l.cost.reads.FilterParts, l.cost.searches, l.cost.found)
	if r.firstSampled(r.lookupCounts.add(&l.cost)) == 0 {
		r.sample(key, at.Seq)
	}
}

// find looks up the newest version of key. It returns false for an absent or deleted key. end must follow.
func (l *lookup) find(r *Reader, key []byte, at AsOf) (bool, error) {
	found, err := l.follow(r, key, at)
	if at.over() {
		return false, tree.ErrClosed
	}
	return found, err
}

func (l *lookup) follow(r *Reader, key []byte, at AsOf) (bool, error) {
	h := r.Hash(key)
	// Load the state first, then the sequence: a state older than the sequence lacks only what is newer than the call.
	// In the other order, a compaction could have dropped the version that an older sequence needs. What a snapshot
	// needs is kept while it is open.
	s := r.Tree.Load()
	if s == nil {
		return false, tree.ErrClosed
	}
	s = at.state(s)
	step.At("get: state")
	seq := min(at.Seq, r.Tree.NewestSeq())
	maybe, deleted := filtered(s, key, h.Mixed, seq)
	if deleted {
		l.cost.memtableHit = true
		return false, nil
	}
	var room [8]candidate
	var candidates []candidate
	if !maybe {
		if candidates = candidatesIn(s, room[:0], key, h, seq, &l.cost); len(candidates) == 0 {
			return false, nil
		}
	}
	step.At("get: filters")
	// From here on, versions in memtables, files and cached blocks are used. They are released once no reader inside a
	// guard can see them. So the state must be one that was current while this reader was inside: load it again.
	l.guard, l.inside = r.Tree.Domain.Enter(), true
	now := r.Tree.Load()
	if now == nil {
		return false, tree.ErrClosed
	}
	if now = at.state(now); now != s {
		s, seq, maybe = now, min(at.Seq, r.Tree.NewestSeq()), true
	}
	if maybe {
		value, live, decided := inMemory(s, key, h.Mixed, seq)
		if decided {
			l.cost = lookupCost{memtableHit: true}
			l.value, l.state = value, s
			return live, nil
		}
		l.cost = lookupCost{}
		candidates = candidatesIn(s, room[:0], key, h, seq, &l.cost)
	}
	for i := range candidates {
		step.At("get: search")
		c := &candidates[i]
		found, decided, err := l.search(r, c, key, h, seq)
		if err != nil || decided {
			return found, err
		}
	}
	return false, nil
}

// search searches one table. If decided is true, older data does not count.
func (l *lookup) search(
	r *Reader, c *candidate, key []byte, h bloomblock.SeededHash, seq ikey.Seq,
) (found, decided bool, err error) {
	if search, err := c.ready(r, key, h.Hash, seq, &l.cost); err != nil || !search {
		return false, c.deleted > 0, err
	}
	before := l.cost.reads
	hit, ok, err := c.table.Reader.Get(key, seq, &l.cost.reads)
	if err != nil {
		return false, false, r.failed(err)
	}
	present := l.cost.reads.Present > before.Present // some version of the key, even one that is too new
	if l.trace != nil {
		l.trace.add(c, present, before, l.cost.reads)
	}
	found, decided = c.decide(&hit, ok, present, &l.cost)
	if found {
		l.hit, l.inTable = hit, true
	}
	return found, decided, nil
}

// MayContain reports whether the store may hold a value for key, using only memory. It takes no lock, reads no file
// and counts nothing. After Close it returns true.
func (r *Reader) MayContain(key []byte) bool {
	var cost lookupCost // discarded: this is not counted as a lookup
	return r.askMemory(key, ikey.MaxSeq, &cost)
}

// Compare reports whether the value of key equals old; if old is nil, whether there is no value.
func (r *Reader) Compare(key, old []byte) (bool, error) { return r.compare(key, old, Newest) }

func (r *Reader) compare(key, old []byte, at AsOf) (bool, error) {
	var room [256]byte
	value, err := r.AppendGet(room[:0], key, at)
	if errors.Is(err, ErrNotFound) {
		return old == nil, nil
	}
	return err == nil && old != nil && bytes.Equal(value, old), err
}
