package memtable

import (
	"math"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
)

// A Cursor reads the versions of a table in order, forward and backward, as of a sequence number: exactly those at or
// below it that were in the table when the cursor was reset, even if more are added meanwhile. It does not apply range
// tombstones. It is for one goroutine. The order of calls is
//
//	(Reset ((First | Last | SeekGE | SeekLT) (Next | Prev)*)* Close)*
//
// A move reports whether it found a version. After one that did not, only First, Last, SeekGE and SeekLT can move the
// cursor on. A cursor that is used again does not allocate, except when it walks backward over more versions of one key
// than ever before.
//
// The tree has no cursor of its own, and cloning it would make every later insert copy. So a Cursor copies a window of
// a few keys at a time under the read lock (without the lock once the table is frozen), and seeks again for the next
// window. That is exact, since a table only grows, and only by newer versions.
type Cursor struct {
	t      *Table
	limit  ikey.Trailer // the newest trailer that the cursor may show
	newest bool         // only one version of each key

	cur version // the current version, of the key at i; nil if the cursor stands at no version

	refs       [maxTake]ref // the window: the first versions of neighboring keys, in order
	begin, end int          // of the window in refs
	i          int
	before     bool // there may be keys before the window
	after      bool // and after it
	take       int  // number of keys in the next window: few at first, so that short scans are cheap

	// State of the window that is being filled.
	back   bool // in descending order
	edge   ref  // of a key that is left out since the last window had it, or 0
	tail   int  // items in the tail
	next   int  // index of the tail's next item
	full   bool
	locked bool

	// In a key with many versions, which are chained from the newest on: the refs of those from the newest visible one
	// to the current one, and maybe further. Only going back needs them.
	chain   []ref
	pos     int // of the current version in chain
	chained bool

	touched uint32 // unused: it keeps the compiler from dropping the reads

	visit func(item) bool // self.collect, made once
	self  *Cursor         // the cursor that visit belongs to, as the cursor may have been copied since
}

var _ merge.Source = (*Cursor)(nil)

const (
	minTake  = 8
	maxTake  = 64
	maxChain = 1 << 12 // capacity of chain that a closed cursor keeps
)

// Reset makes c a new cursor over the versions in t at or below seq: all of them, or the newest of each key. It stands
// at no version yet. The zero Cursor may be Reset.
func (c *Cursor) Reset(t *Table, seq ikey.Seq, newest bool) {
	c.forget()
	c.t, c.limit, c.newest = t, ikey.Search(nil, seq).Trailer, newest
	if c.self != c {
		c.self, c.visit = c, c.collect
	}
}

// Close ends the use of the cursor until it is reset. The cursor no longer refers to a table, and no move finds a
// version. Close always returns nil.
func (c *Cursor) Close() error {
	c.forget()
	c.t = nil
	if cap(c.chain) > maxChain {
		c.chain = nil
	}
	return nil
}

// forget clears the window and the position in it.
func (c *Cursor) forget() {
	c.cur, c.chained = nil, false
	c.begin, c.end, c.i, c.before, c.after = 0, 0, 0, false, false
}

// First moves to the first version.
func (c *Cursor) First() bool {
	c.fromEnd(false)
	return c.forward()
}

// Last moves to the last version.
func (c *Cursor) Last() bool {
	c.fromEnd(true)
	return c.backward()
}

// SeekGE moves to the first version at or after k.
func (c *Cursor) SeekGE(k ikey.Key) bool {
	c.fromKey(false, k.User)
	if !c.forward() {
		return false
	}
	for string(c.cur.key()) == string(k.User) && c.trailer() > k.Trailer {
		if !c.Next() {
			return false
		}
	}
	return true
}

// SeekLT moves to the last version before k.
func (c *Cursor) SeekLT(k ikey.Key) bool {
	c.fromKey(true, k.User)
	if c.i >= c.begin && string(c.t.keyOf(c.refs[c.i])) == string(k.User) {
		if k.Trailer < math.MaxUint64 && c.enter(k.Trailer+1) {
			return true
		}
		c.i--
	}
	return c.backward()
}

// Next moves to the next version: an older one of the same key, or the newest visible one of the next key.
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

// Prev moves to the version before: a newer one of the same key, or the oldest visible one of the key before.
func (c *Cursor) Prev() bool {
	if c.cur == nil {
		return false
	}
	if !c.newest {
		if !c.chained {
			c.gather(c.trailer())
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

// forward moves to the newest visible version of the first key from i on that has one.
func (c *Cursor) forward() bool {
	for {
		if c.i == c.end {
			if !c.after {
				c.cur = nil
				return false
			}
			c.fromEdge(false)
			continue
		}
		if r := c.visible(); r != 0 {
			c.cur, c.chained = c.t.arena.version(r), false
			return true
		}
		c.i++
	}
}

// backward moves to the oldest visible version of the last key up to i that has one.
func (c *Cursor) backward() bool {
	for {
		if c.i < c.begin {
			if !c.before {
				c.cur = nil
				return false
			}
			c.fromEdge(true)
			continue
		}
		if c.enter(0) {
			return true
		}
		c.i--
	}
}

// enter moves to the last visible version of the key at i that is not older than oldest, and reports whether there is
// one.
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
	if c.t.arena.trailer(v) < oldest {
		return false
	}
	c.cur = v
	return true
}

// gather collects the visible versions of the key at i that are not older than oldest, and moves to the last one.
func (c *Cursor) gather(oldest ikey.Trailer) {
	c.chain = c.chain[:0]
	for r := c.visible(); r != 0; {
		v := c.t.arena.version(r)
		if c.t.arena.trailer(v) < oldest {
			break
		}
		c.chain = append(c.chain, r)
		r = v.older()
	}
	c.pos, c.chained = len(c.chain)-1, true
}

// visible returns the newest visible version of the key at i, or 0.
func (c *Cursor) visible() ref {
	r := c.t.arena.newest(c.refs[c.i])
	for r != 0 {
		v := c.t.arena.version(r)
		if c.t.arena.trailer(v) <= c.limit {
			break
		}
		r = v.older()
	}
	return r
}

func (c *Cursor) trailer() ikey.Trailer { return c.t.arena.trailer(c.cur) }

// Key returns the current version's key and trailer. The bytes are part of the arena and stay valid until the table is
// released.
func (c *Cursor) Key() ikey.Key { return ikey.Key{User: c.cur.key(), Trailer: c.trailer()} }

// Value returns the current version's value, which is valid as long as the key.
func (c *Cursor) Value() []byte { return c.cur.value() }

// Err always returns nil.
func (c *Cursor) Err() error { return nil }
