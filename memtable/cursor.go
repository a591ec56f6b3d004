package memtable

import (
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
)

// A Cursor reads a table in order, as of a sequence number: exactly the versions at or below it, all that were there when
// the cursor was made, whatever is added meanwhile. It is for one goroutine.
//
// The tree has no cursor of its own, and cloning it would make every later insert copy. So a Cursor takes a few items at a
// time under the read lock (none once the table is frozen), and then looks for the place behind the last one again. That
// is exact, since a table only grows and what grows is newer.
type Cursor struct {
	t   *Table
	seq ikey.Seq

	cur version // where the cursor stands; nil if nowhere

	refs [maxTake]ref // the newest versions of the next keys
	n, i int          // taken, used
	take int          // how many to take next: a short scan should not pay for a long one
	last item         // the last item taken
	skip bool         // the next item that the tree shows is last itself
	more bool         // there may be items after last

	visit func(item) bool // c.collect, made once
}

var _ merge.Source = (*Cursor)(nil)

const (
	minTake = 8
	maxTake = 64
)

// Iter returns a cursor over the versions at or below seq. It stands nowhere yet.
func (t *Table) Iter(seq ikey.Seq) *Cursor {
	c := &Cursor{t: t, seq: seq}
	c.visit = c.collect
	return c
}

// limit is the newest trailer that the cursor may show.
func (c *Cursor) limit() ikey.Trailer { return ikey.Search(nil, c.seq).Trailer }

// First goes to the first version.
func (c *Cursor) First() bool {
	c.take = minTake
	locked := c.lock()
	c.begin()
	c.t.tree.Ascend(c.visit)
	c.unlock(locked)
	return c.settle()
}

// SeekGE goes to the first version at or after k.
func (c *Cursor) SeekGE(k ikey.Key) bool {
	c.take = minTake
	locked := c.lock()
	c.begin()
	pivot := c.t.take(k.User)
	c.t.tree.AscendGreaterOrEqual(pivot, c.visit)
	c.t.give(pivot)
	c.unlock(locked)
	if !c.settle() {
		return false
	}
	for string(c.cur.key()) == string(k.User) && c.cur.trailer() > k.Trailer {
		if !c.Next() {
			return false
		}
	}
	return true
}

// Next goes to the next version: an older one of the same key, or the newest of the next key that has one.
func (c *Cursor) Next() bool {
	if c.cur == nil {
		return false
	}
	if r := c.cur.older(); r != 0 {
		c.cur = c.t.arena.version(r)
		return true
	}
	return c.settle()
}

// settle stands on the newest visible version of the next key that has one.
func (c *Cursor) settle() bool {
	limit := c.limit()
	for {
		if c.i == c.n {
			if !c.more {
				c.cur = nil
				return false
			}
			c.refill()
			continue
		}
		r := c.refs[c.i]
		c.i++
		for r != 0 {
			v := c.t.arena.version(r)
			if v.trailer() <= limit {
				c.cur = v
				return true
			}
			r = v.older()
		}
	}
}

// refill takes the items after the last.
func (c *Cursor) refill() {
	locked := c.lock()
	pivot := c.last
	pivot.head = ikey.HeadAfter(c.t.prefix, c.t.keyOf(pivot.first)) // the prefix may be another by now
	c.begin()
	c.skip = true
	c.t.tree.AscendGreaterOrEqual(pivot, c.visit)
	c.unlock(locked)
}

// begin forgets what was taken.
func (c *Cursor) begin() { c.n, c.i, c.skip, c.more = 0, 0, false, false }

// collect takes one item from the tree and says whether it wants another.
func (c *Cursor) collect(it item) bool {
	if c.skip {
		c.skip = false
		return true
	}
	c.refs[c.n] = ref(c.t.newest[it.id/newestChunk][it.id%newestChunk].Load())
	c.n++
	if c.n < c.take {
		return true
	}
	c.last, c.more = it, true
	c.take = min(2*c.take, maxTake)
	return false
}

// lock takes the read lock if the table still changes, and says whether it did.
func (c *Cursor) lock() bool {
	if c.t.frozen.Load() {
		return false
	}
	c.t.mu.RLock()
	return true
}

func (c *Cursor) unlock(locked bool) {
	if locked {
		c.t.mu.RUnlock()
	}
}

// Key is the version's place; the bytes are a part of the arena, and stay valid for as long as they are referred to.
func (c *Cursor) Key() ikey.Key { return ikey.Key{User: c.cur.key(), Trailer: c.cur.trailer()} }

// Value is the version's value, as long-lived as the key.
func (c *Cursor) Value() []byte { return c.cur.value() }

// Err is nil: memory does not fail.
func (c *Cursor) Err() error { return nil }

// Close ends the use of the cursor. It holds nothing but memory, and always returns nil.
func (c *Cursor) Close() error { return nil }
