package memtable

import "github.com/bloomkv/bloomkv/internal/ikey"

// An origin is where a window is taken from, in either direction.
type origin int

const (
	fromEnd  origin = iota // of the table
	fromKey                // which belongs to the window if the table has it
	fromEdge               // of the last window, which is not empty; its key does not belong to the new one
)

// window takes the keys that lie forward, or back, from an origin, and goes to the first one taken.
func (c *Cursor) window(back bool, from origin, key []byte) {
	if c.t == nil {
		c.i = 0
		if back {
			c.i = -1
		}
		return
	}
	if from == fromEdge && back == c.back {
		c.take = min(2*c.take, maxTake)
	} else {
		c.take = minTake
	}
	edge := c.begin
	if !back {
		edge = c.end - 1
	}
	c.begin, c.end = 0, 0
	if back {
		c.begin, c.end = maxTake, maxTake
	}
	c.back, c.skip, c.full = back, from == fromEdge, false

	locked := c.lock()
	var pivot item
	switch from {
	case fromKey:
		pivot = c.t.take(key)
	case fromEdge:
		r := c.refs[edge]
		pivot = item{head: ikey.HeadAfter(c.t.prefix, c.t.keyOf(r)), first: r} // the prefix may be another by now
	case fromEnd:
	}
	switch {
	case from == fromEnd && back:
		c.t.tree.Descend(c.visit)
	case from == fromEnd:
		c.t.tree.Ascend(c.visit)
	case back:
		c.t.tree.DescendLessOrEqual(pivot, c.visit)
	default:
		c.t.tree.AscendGreaterOrEqual(pivot, c.visit)
	}
	if from == fromKey {
		c.t.give(pivot)
	}
	c.unlock(locked)
	if from == fromEdge {
		c.touch()
	}

	if back {
		c.i, c.before, c.after = c.end-1, c.full, from != fromEnd
	} else {
		c.i, c.before, c.after = c.begin, from != fromEnd, c.full
	}
}

// touch has the processor fetch the versions of the window from memory all at once, rather than one for each step.
func (c *Cursor) touch() {
	for _, r := range c.refs[c.begin:c.end] {
		c.touched += c.t.arena.version(r).trailer()
	}
}

// collect takes one key from the tree and says whether it wants another.
func (c *Cursor) collect(it item) bool {
	if c.skip {
		c.skip = false
		return true
	}
	r := ref(c.t.newest[it.id/newestChunk][it.id%newestChunk].Load())
	if c.back {
		c.begin--
		c.refs[c.begin] = r
	} else {
		c.refs[c.end] = r
		c.end++
	}
	c.full = c.end-c.begin == c.take
	return !c.full
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
