package memtable

import (
	"math"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
)

// A Cursor reads the versions of a table in order, forward and backward, as of a sequence number: exactly those at or
// below it, all that were there when the cursor was reset, whatever is added meanwhile. It knows nothing of range
// tombstones. It is for one goroutine.
//
//	Reset ((First | Last | SeekGE | SeekLT) (Next | Prev)*)* Close      as often as wanted
//
// A move says whether it found a version. After one that did not, only First, Last, SeekGE and SeekLT go on. Of a
// cursor that is used again, no move allocates, but for walking backward over more versions of one key than ever
// before.
//
// The tree has no cursor of its own, and cloning it would make every later insert copy. So a Cursor takes a window of a
// few keys at a time under the read lock (none once the table is frozen), and then looks for the place behind or before
// it again. That is exact, since a table only grows and what grows is newer.
type Cursor struct {
	t      *Table
	limit  ikey.Trailer // the newest that the cursor may show
	newest bool         // only one version of each key

	cur version // where the cursor stands, nil if nowhere; of the key at i

	refs       [maxTake]ref // the window: the newest versions of neighbouring keys, in order
	begin, end int          // of the window in refs
	i          int
	before     bool // there may be keys before the window
	after      bool // and after it
	take       int  // how many keys to take next: a short scan should not pay for a long one

	// of the window that is being taken
	back bool // downwards
	skip bool // the key with the id edge is known already
	edge uint32
	tail int // items in the tail
	next int // of them, to be taken
	full bool

	// In a key with many versions, which are chained from the newest on: the refs of those from the newest visible one
	// to the current one, and maybe further. Only going back needs them.
	chain   []ref
	pos     int // of the current one
	chained bool

	touched ikey.Trailer // of no use: it keeps the compiler from leaving the reads out

	visit func(item) bool // self.collect, made once
	self  *Cursor         // where the cursor was then: it may have been copied since
}

var _ merge.Source = (*Cursor)(nil)

const (
	minTake  = 8
	maxTake  = 64
	maxChain = 1 << 12 // refs that a closed cursor keeps room for
)

// Iter returns a cursor over all versions at or below seq. It stands nowhere yet.
func (t *Table) Iter(seq ikey.Seq) *Cursor {
	c := new(Cursor)
	c.Reset(t, seq, false)
	return c
}

// Reset makes c, which may be the zero Cursor, or have been used, a cursor over the versions in t at or below seq: all
// of them, or of each key the newest. It stands nowhere yet.
func (c *Cursor) Reset(t *Table, seq ikey.Seq, newest bool) {
	c.forget()
	c.t, c.limit, c.newest = t, ikey.Search(nil, seq).Trailer, newest
	if c.self != c {
		c.self, c.visit = c, c.collect
	}
}

// Close ends the use of the cursor until it is reset: it refers to no table any more, and no move finds anything. It
// always returns nil.
func (c *Cursor) Close() error {
	c.forget()
	c.t = nil
	if cap(c.chain) > maxChain {
		c.chain = nil
	}
	return nil
}

// forget leaves the window and the place in it.
func (c *Cursor) forget() {
	c.cur, c.chained = nil, false
	c.begin, c.end, c.i, c.before, c.after = 0, 0, 0, false, false
}

// First goes to the first version.
func (c *Cursor) First() bool {
	c.window(false, fromEnd, nil)
	return c.forward()
}

// Last goes to the last version.
func (c *Cursor) Last() bool {
	c.window(true, fromEnd, nil)
	return c.backward()
}

// SeekGE goes to the first version at or after k.
func (c *Cursor) SeekGE(k ikey.Key) bool {
	c.window(false, fromKey, k.User)
	if !c.forward() {
		return false
	}
	for string(c.cur.key()) == string(k.User) && c.cur.trailer() > k.Trailer {
		if !c.Next() {
			return false
		}
	}
	return true
}

// SeekLT goes to the last version before k.
func (c *Cursor) SeekLT(k ikey.Key) bool {
	c.window(true, fromKey, k.User)
	if c.i >= c.begin && string(c.t.keyOf(c.refs[c.i])) == string(k.User) {
		if k.Trailer < math.MaxUint64 && c.enter(k.Trailer+1) {
			return true
		}
		c.i--
	}
	return c.backward()
}

// Next goes to the next version: an older one of the same key, or the newest of the next key that has one.
func (c *Cursor) Next() bool {
	if c.cur == nil {
		return false
	}
	if r := c.cur.older(); r != 0 && !c.newest {
		c.cur = c.t.arena.version(r)
		if c.chained {
			if c.pos++; c.pos == len(c.chain) {
				c.chain = append(c.chain, r)
			}
		}
		return true
	}
	c.i++
	return c.forward()
}

// Prev goes to the version before: a newer one of the same key, or the oldest of the key before that has one.
func (c *Cursor) Prev() bool {
	if c.cur == nil {
		return false
	}
	if !c.newest {
		if !c.chained {
			c.gather(c.cur.trailer())
		}
		if c.pos > 0 {
			c.pos--
			c.cur = c.t.arena.version(c.chain[c.pos])
			return true
		}
	}
	c.i--
	return c.backward()
}

// forward stands on the newest visible version of the first key from i on that has one.
func (c *Cursor) forward() bool {
	for {
		if c.i == c.end {
			if !c.after {
				c.cur = nil
				return false
			}
			c.window(false, fromEdge, nil)
			continue
		}
		if r := c.visible(); r != 0 {
			c.cur, c.chained = c.t.arena.version(r), false
			return true
		}
		c.i++
	}
}

// backward stands on the last visible version of the last key up to i that has one.
func (c *Cursor) backward() bool {
	for {
		if c.i < c.begin {
			if !c.before {
				c.cur = nil
				return false
			}
			c.window(true, fromEdge, nil)
			continue
		}
		if c.enter(0) {
			return true
		}
		c.i--
	}
}

// enter stands on the last visible version of the key at i that is not older than oldest, if there is one.
func (c *Cursor) enter(oldest ikey.Trailer) bool {
	if !c.newest {
		if c.gather(oldest); len(c.chain) == 0 {
			return false
		}
		c.cur = c.t.arena.version(c.chain[c.pos])
		return true
	}
	r := c.visible()
	if r == 0 {
		return false
	}
	v := c.t.arena.version(r)
	if v.trailer() < oldest {
		return false
	}
	c.cur = v
	return true
}

// gather chains the visible versions of the key at i that are not older than oldest, and goes to the last one.
func (c *Cursor) gather(oldest ikey.Trailer) {
	c.chain = c.chain[:0]
	for r := c.visible(); r != 0; {
		v := c.t.arena.version(r)
		if v.trailer() < oldest {
			break
		}
		c.chain = append(c.chain, r)
		r = v.older()
	}
	c.pos, c.chained = len(c.chain)-1, true
}

// visible is the newest visible version of the key at i, 0 if it has none.
func (c *Cursor) visible() ref {
	r := c.refs[c.i]
	for r != 0 {
		v := c.t.arena.version(r)
		if v.trailer() <= c.limit {
			break
		}
		r = v.older()
	}
	return r
}

// Key is the version's place; the bytes are a part of the arena, and stay valid for as long as they are referred to.
func (c *Cursor) Key() ikey.Key { return ikey.Key{User: c.cur.key(), Trailer: c.cur.trailer()} }

// Value is the version's value, as long-lived as the key.
func (c *Cursor) Value() []byte { return c.cur.value() }

// Err is nil: memory does not fail.
func (c *Cursor) Err() error { return nil }
