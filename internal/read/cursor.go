package read

import (
	"bytes"
	"errors"
	"runtime"
	"sync"

	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Cursor merges all that a state holds, shows the newest visible version of each key, and steps over what is deleted. It
// keeps what it may read from being removed, until Close. It is for one goroutine at a time. Cursors are pooled, with the
// memory that they have grown.
type Cursor struct {
	reader   *Reader
	state    *tree.State // a reference is held
	seq      ikey.Seq
	keysOnly bool
	lower    []byte
	upper    []byte // deadkeys.Beyond if there is no bound
	bounded  bool   // there is an upper bound
	opened   opened
	prefix   prefixProbe

	at    position
	key   []byte // where it stands, or stood
	value []byte
	err   error

	merge    merge.Iter // stands at the version of key, or after a backward move at the key before it
	back     bool       // the last move went backward
	more     bool       // with back: the merge stands at a key
	sources  []merge.Source
	mems     []*memtable.Cursor
	runs     []*runCursor
	covers   []cover  // range tombstones around the position of each source, in their order; empty if there are none
	target   ikey.Key // of a seek under way, moved on by each source's range tombstones
	eachGE   func(i int) ikey.Key
	eachLT   func(i int) ikey.Key
	kept     []byte  // a value, on the way back
	dead     deadRun // what this move stepped over
	boundary []byte  // memory of upper
}

// A position says where a cursor stands.
type position uint8

const (
	fresh       position = iota // nowhere yet
	standing                    // at a key
	beforeFirst                 // past the lower end
	afterLast                   // past the upper end
	broken                      // an error stopped it
	stopped                     // the store was closed; the key stays readable
)

var cursors = sync.Pool{New: func() any {
	c := &Cursor{key: []byte{}, kept: []byte{}} // neither the empty key nor an empty value is nil
	c.eachGE, c.eachLT = c.nextGE, c.nextLT
	return c
}}

// Open returns a cursor over the keys of [lower, upper) as of a moment; upper nil is no end. With keysOnly values are nil. The
// bounds are copied. The error is ErrClosed.
func (r *Reader) Open(lower, upper []byte, keysOnly bool, at AsOf) (*Cursor, error) {
	s, seq, ok := r.tree.HoldNow()
	if !ok || at.over() {
		if ok {
			r.tree.Release(s)
		}
		return nil, tree.ErrClosed
	}
	c := cursors.Get().(*Cursor) //nolint:errcheck // the pool holds nothing else
	c.reader, c.state = r, s
	c.seq = min(at.Seq, seq)
	c.keysOnly = keysOnly
	c.lower = append(c.lower[:0], lower...)
	c.bounded = upper != nil
	if c.bounded {
		c.boundary = append(c.boundary[:0], upper...)
		c.upper = c.boundary
	} else {
		c.upper = deadkeys.Beyond
	}
	c.prefix.ask(r.prefix, lower, upper)
	c.at, c.err, c.back = fresh, nil, false
	c.open()
	if c.opened.byN = 0; r.naming {
		c.opened.byN = runtime.Callers(2, c.opened.by[:])
	}
	r.open.add(c)
	return c, nil
}

// Standing reports whether the cursor stands at a key.
func (c *Cursor) Standing() bool { return c.at == standing }

// Readable reports whether Key and Value are valid: the cursor stands at a key, or did when the store was closed.
func (c *Cursor) Readable() bool { return c.at == standing || c.at == stopped }

// Key returns the key, valid until the next move.
func (c *Cursor) Key() []byte { return c.key }

// Value returns the value, valid until the next move.
func (c *Cursor) Value() []byte { return c.value }

// Err returns why the last move failed, nil if it did not.
func (c *Cursor) Err() error { return c.err }

// open sets the sources up. Nothing is read.
func (c *Cursor) open() {
	s := c.state
	c.sources, c.covers = c.sources[:0], c.covers[:0]
	covered := false
	for i := range 1 + len(s.Frozen) {
		m := s.Mem
		if i > 0 {
			m = s.Frozen[i-1]
		}
		if i == len(c.mems) {
			c.mems = append(c.mems, new(memtable.Cursor))
		}
		c.mems[i].Reset(m, c.seq, true)
		c.sources = append(c.sources, c.mems[i])
		v := cover{seq: c.seq}
		if d := m.RangeDels(); d != nil {
			v.set, covered = d, true
		}
		c.covers = append(c.covers, v)
	}
	for i, r := range s.Runs {
		if i == len(c.runs) {
			c.runs = append(c.runs, new(runCursor))
		}
		c.sources = append(c.sources, c.runs[i].begin(c, r))
		v := cover{seq: c.seq}
		if r.RangeDels {
			v.set, covered = c.runs[i], true
		}
		c.covers = append(c.covers, v)
	}
	if !covered {
		c.covers = c.covers[:0]
	}
	c.merge.Reset(c.sources)
}

// Close releases everything and puts the cursor into the pool.
func (c *Cursor) Close() error {
	c.reader.open.remove(c)
	c.reader.prefixes.add(&c.prefix)
	err := c.merge.Close()
	clear(c.sources)
	clear(c.covers)
	for _, r := range c.runs {
		r.end()
	}
	s := c.state
	c.state, c.value, c.target = nil, nil, ikey.Key{}
	if cap(c.kept) > 1<<20 {
		c.kept = []byte{} // an empty value is not nil
	}
	c.reader.tree.Release(s)
	c.reader = nil
	cursors.Put(c)
	return err
}

// First moves to the first key.
func (c *Cursor) First() bool { return !c.closed() && c.seekFrom(c.lower) }

// Last moves to the last key.
func (c *Cursor) Last() bool { return !c.closed() && c.seekBefore(c.upper) }

// SeekGE moves to the first key that is key or greater.
func (c *Cursor) SeekGE(key []byte) bool {
	if bytes.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	return !c.closed() && c.seekFrom(key)
}

// SeekLT moves to the last key that is less than key.
func (c *Cursor) SeekLT(key []byte) bool {
	if bytes.Compare(key, c.upper) > 0 {
		key = c.upper
	}
	return !c.closed() && c.seekBefore(key)
}

// Next moves to the next key; on a fresh cursor to the first.
func (c *Cursor) Next() bool {
	switch {
	case c.closed():
		return false
	case c.at == fresh || c.at == beforeFirst:
		return c.seekFrom(c.lower)
	case c.at != standing:
		return false
	case c.back: // the merge stands before the key
		return c.forward(c.merge.SeekGE(ikey.Key{User: c.key}), true)
	}
	return c.forward(c.merge.Next(), true)
}

// Prev moves to the key before; on a fresh cursor to the last.
func (c *Cursor) Prev() bool {
	switch {
	case c.closed():
		return false
	case c.at == fresh || c.at == afterLast:
		return c.seekBefore(c.upper)
	case c.at != standing:
		return false
	case c.back:
		return c.backward(c.more)
	}
	c.dead.reset(nil)
	return c.backward(c.merge.SeekLT(ikey.Search(c.key, ikey.MaxSeq)))
}

// closed stops the cursor if the store was closed. The key and value that it stands at stay readable.
func (c *Cursor) closed() bool {
	if c.reader.tree.Load() != nil {
		return false
	}
	if c.at == standing {
		c.at = stopped
	} else if c.at != stopped {
		c.at = broken
	}
	c.err = tree.ErrClosed
	return true
}

// seekFrom goes to the first living key from key on.
func (c *Cursor) seekFrom(key []byte) bool {
	c.err = nil
	if bytes.Compare(key, c.upper) >= 0 {
		return c.leave(afterLast)
	}
	c.dead.reset(key)
	if d, ok := c.reader.DeadKeys.At(key, c.seq); ok {
		key = d.Hi
		c.dead.from(d.Lo)
	}
	c.target = ikey.Search(key, c.seq)
	if len(c.covers) == 0 {
		return c.forward(c.merge.SeekGE(c.target), false)
	}
	return c.forward(c.merge.SeekGEEach(c.eachGE), false)
}

// nextGE is where source i begins, and moves on over what its range tombstones delete in the older ones.
func (c *Cursor) nextGE(i int) ikey.Key {
	k := c.target
	if v := &c.covers[i]; v.at(k.User) > 0 {
		c.target = ikey.Search(v.end(), c.seq)
	}
	return k
}

// seekBefore goes to the last living key before key.
func (c *Cursor) seekBefore(key []byte) bool {
	c.err = nil
	if bytes.Compare(key, c.lower) <= 0 {
		return c.leave(beforeFirst)
	}
	c.dead.reset(key)
	if d, ok := c.reader.DeadKeys.Below(key, c.seq); ok {
		key = d.Lo
		c.dead.from(d.Hi)
	}
	c.target = ikey.Search(key, ikey.MaxSeq)
	if len(c.covers) == 0 {
		return c.backward(c.merge.SeekLT(c.target))
	}
	return c.backward(c.merge.SeekLTEach(c.eachLT))
}

// nextLT is nextGE on the way back.
func (c *Cursor) nextLT(i int) ikey.Key {
	k := c.target
	if v := &c.covers[i]; v.at(k.User) > 0 && bytes.Compare(v.lo, k.User) < 0 {
		c.target = ikey.Search(v.lo, ikey.MaxSeq)
	}
	return k
}

const patience = 8 // steps over one key's older versions before the rest is sought over

// forward goes on from where the merge stands, if it does, to the first key that lives. Where again is true the older
// versions of c.key come first.
func (c *Cursor) forward(ok, again bool) bool {
	steps := 0
	for ok {
		k := c.merge.Key()
		switch {
		case c.bounded && bytes.Compare(k.User, c.upper) >= 0:
			c.bury(c.dead.edge, c.upper)
			return c.leave(afterLast)
		case k.Trailer.Seq() > c.seq:
			ok = c.merge.Next()
			continue
		case again && bytes.Equal(k.User, c.key):
			if steps++; steps < patience || k.Trailer == 0 { // which only a damaged store has
				ok = c.merge.Next()
			} else {
				ok = c.merge.SeekGE(ikey.Key{User: c.key})
			}
			continue
		}
		again, steps = true, 0
		c.key = append(c.key[:0], k.User...)
		if i := c.deletedBy(k.Trailer, c.merge.Order()); i >= 0 {
			c.dead.note(c.key)
			own := c.merge.Order() <= i
			if ok = c.merge.SkipGE(i, ikey.Search(c.covers[i].end(), c.seq)); ok && own {
				ok = c.merge.Next()
			}
			continue
		}
		if k.Trailer.Kind() == ikey.Delete {
			c.dead.note(c.key)
			if d, known := c.reader.DeadKeys.At(c.key, c.seq); known {
				c.dead.from(d.Lo)
				ok = c.merge.SeekGE(ikey.Search(d.Hi, c.seq))
			} else {
				ok = c.merge.Next()
			}
			continue
		}
		if c.failed() {
			return false
		}
		c.bury(c.dead.edge, c.key)
		if c.value = nil; !c.keysOnly {
			c.value = c.merge.Value()
		}
		c.at, c.back = standing, false
		return true
	}
	if c.failed() {
		return false
	}
	c.bury(c.dead.edge, c.upper)
	return c.leave(afterLast)
}

// backward goes on from where the merge stands, if it does, down to the next key that lives. A key's versions come oldest
// first, so that the merge stands before the key once the newest visible one is known.
func (c *Cursor) backward(ok bool) bool {
	for ok {
		k := c.merge.Key()
		if bytes.Compare(k.User, c.lower) < 0 {
			break
		}
		if k.Trailer.Seq() > c.seq {
			ok = c.merge.Prev()
			continue
		}
		c.key = append(c.key[:0], k.User...)
		var visible ikey.Trailer
		order := 0
		for ok && k.Trailer.Seq() <= c.seq && bytes.Equal(k.User, c.key) {
			visible, order = k.Trailer, c.merge.Order()
			if !c.keysOnly && visible.Kind() == ikey.Set {
				c.kept = append(c.kept[:0], c.merge.Value()...)
			}
			if ok = c.merge.Prev(); ok {
				k = c.merge.Key()
			}
		}
		if i := c.deletedBy(visible, order); i >= 0 {
			c.dead.note(c.key)
			ok = ok && c.merge.SkipLT(i, ikey.Search(c.covers[i].lo, ikey.MaxSeq))
			continue
		}
		if visible.Kind() == ikey.Delete {
			c.dead.note(c.key)
			if d, known := c.reader.DeadKeys.At(c.key, c.seq); known {
				c.dead.from(d.Hi)
				ok = c.merge.SeekLT(ikey.Search(d.Lo, ikey.MaxSeq))
			}
			continue
		}
		if c.failed() {
			return false
		}
		c.bury(c.afterKey(), c.dead.edge)
		if c.value = nil; !c.keysOnly {
			c.value = c.kept
		}
		c.at, c.back, c.more = standing, true, ok
		return true
	}
	if c.failed() {
		return false
	}
	c.bury(c.lower, c.dead.edge)
	return c.leave(beforeFirst)
}

// failed stops the cursor if a source did.
func (c *Cursor) failed() bool {
	err := c.merge.Err()
	for _, r := range c.runs[:len(c.state.Runs)] {
		if r.err != nil {
			err, r.err = errors.Join(err, r.err), nil
		}
	}
	if err == nil {
		return false
	}
	for i := range c.covers {
		c.covers[i].known = false
	}
	c.at, c.err = broken, c.reader.failed(err)
	return true
}

func (c *Cursor) leave(at position) bool {
	c.at, c.value = at, nil
	return false
}
