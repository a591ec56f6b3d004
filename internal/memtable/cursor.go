package memtable

import (
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
)

// A Cursor reads a table in order, forward and backward, as of a sequence number: the newest version of each key at or
// below it, of those that were in the table when the cursor was reset, even if more are added meanwhile. It does not
// apply range tombstones. It is for one goroutine. The order of calls is
//
//	(Reset ((First | Last | SeekGE | SeekLT) (Next | Prev)*)* Close)*
//
// A move reports whether it found a version. After one that did not, only First, Last, SeekGE and SeekLT can move the
// cursor on. A cursor that is used again does not allocate.
//
// The tree has no cursor of its own, and cloning it would make every later insert copy. So a Cursor copies a window of
// a few keys at a time under the read lock (without the lock once the table is frozen), and seeks again for the next
// window. That is exact, since a table only grows, and only by newer versions.
type Cursor struct {
	t     *Table
	limit ikey.Trailer // the newest trailer that the cursor may show

	cur version // the current version, of the key at i; nil if the cursor stands at no version

	refs   [maxTake]ref // the window: the first versions of neighboring keys, in the order in which it was filled
	n      int          // of the window in refs
	i      int
	back   bool // it is in descending order
	passed bool // there may be keys before its first
	full   bool // and after its last
	take   int  // number of keys in the next window: few at first, so that short scans are cheap

	// State of the window that is being filled.
	edge   ref // of a key that is left out since the last window had it, or 0
	tail   int // items in the tail
	next   int // index of the tail's next item
	locked bool

	touched uint32 // unused: it keeps the compiler from dropping the reads

	visit func(item) bool // self.collect, made once
	self  *Cursor         // the cursor that visit belongs to, as the cursor may have been copied since
}

var _ merge.Source = (*Cursor)(nil)

const (
	minTake = 8
	maxTake = 64
)

// Reset makes c a new cursor over the newest versions in t at or below seq. It stands at no version yet. The zero
// Cursor may be Reset.
func (c *Cursor) Reset(t *Table, seq ikey.Seq) {
	c.t, c.limit, c.cur = t, ikey.Search(nil, seq).Trailer, nil
	c.n, c.i, c.passed, c.full = 0, 0, false, false
	if c.self != c {
		c.self, c.visit = c, c.collect
	}
}

// Close ends the use of the cursor until it is reset. The cursor no longer refers to a table, and no move finds a
// version. Close always returns nil.
func (c *Cursor) Close() error {
	c.Reset(nil, 0)
	return nil
}

// First moves to the first version.
func (c *Cursor) First() bool {
	c.fromEnd(false)
	return c.find(false)
}

// Last moves to the last version.
func (c *Cursor) Last() bool {
	c.fromEnd(true)
	return c.find(true)
}

// SeekGE moves to the first version at or after k.
func (c *Cursor) SeekGE(k ikey.Key) bool {
	c.fromKey(false, k.User)
	if !c.find(false) {
		return false
	}
	if string(c.cur.key()) == string(k.User) && c.trailer() > k.Trailer {
		return c.Next()
	}
	return true
}

// SeekLT moves to the last version before k.
func (c *Cursor) SeekLT(k ikey.Key) bool {
	c.fromKey(true, k.User)
	if c.n > 0 && string(c.t.keyOf(c.refs[0])) == string(k.User) {
		if c.enter() && c.trailer() > k.Trailer {
			return true
		}
		c.i++
	}
	return c.find(true)
}

// Next moves to the version of the next key.
func (c *Cursor) Next() bool {
	c.step(false)
	return c.cur != nil && c.find(false)
}

// Prev moves to the version of the key before.
func (c *Cursor) Prev() bool {
	c.step(true)
	return c.cur != nil && c.find(true)
}

// step moves i to the next key, or to the key before.
func (c *Cursor) step(back bool) {
	if back == c.back {
		c.i++
	} else {
		c.i--
	}
}

// find moves to the newest visible version of the first key from i on, or backward of the last key up to i, that has
// one.
func (c *Cursor) find(back bool) bool {
	for {
		switch {
		case c.i >= 0 && c.i < c.n:
			if c.enter() {
				return true
			}
			c.step(back)
		case c.i < 0 && c.passed || c.i >= 0 && c.full:
			c.fromEdge(back)
		default:
			c.cur = nil
			return false
		}
	}
}

// enter moves to the newest visible version of the key at i, and reports whether there is one.
func (c *Cursor) enter() bool {
	for r := c.t.arena.newest(c.refs[c.i]); r != 0; {
		v := c.t.arena.version(r)
		if c.t.arena.trailer(v) <= c.limit {
			c.cur = v
			return true
		}
		r = v.older()
	}
	return false
}

func (c *Cursor) trailer() ikey.Trailer { return c.t.arena.trailer(c.cur) }

// Key returns the current version's key and trailer. The bytes are part of the arena and stay valid until the table is
// released.
func (c *Cursor) Key() ikey.Key { return ikey.Key{User: c.cur.key(), Trailer: c.trailer()} }

// Value returns the current version's value, which is valid as long as the key.
func (c *Cursor) Value() []byte { return c.cur.value() }

// Err always returns nil.
func (c *Cursor) Err() error { return nil }
