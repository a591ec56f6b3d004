package memtable

// An origin is the position that a window begins at, in either direction.
type origin int

const (
	fromEnd  origin = iota // of the table
	fromKey                // at a key, which belongs to the window if the table has it
	fromEdge               // after the last window, which is not empty
)

// window copies the refs of the next keys in one direction from an origin, and moves to the first of them.
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
	t := c.t
	var pivot item
	switch from {
	case fromKey:
		pivot = t.take(key)
	case fromEdge:
		v := t.arena.version(c.refs[edge])
		pivot = item{head: t.headOf(c.refs[edge]), first: c.refs[edge], id: v.id()} // the prefix may have changed
		c.edge = v.id()
	case fromEnd:
	}
	c.tail = int(t.tail.n.Load())
	c.next = 0
	switch {
	case from != fromEnd:
		c.next = t.search(pivot, c.tail)
		if back && (c.next == c.tail || t.less(pivot, *t.tail.at(c.next))) {
			c.next--
		}
	case back:
		c.next = c.tail - 1
	}
	switch {
	case from == fromEnd && back:
		t.tree.Descend(c.visit)
	case from == fromEnd:
		t.tree.Ascend(c.visit)
	case back:
		t.tree.DescendLessOrEqual(pivot, c.visit)
	default:
		t.tree.AscendGreaterOrEqual(pivot, c.visit)
	}
	for !c.full && c.inTail() {
		c.takeTail()
	}
	if from == fromKey {
		t.give(pivot)
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

// touch makes the processor fetch the versions of the window from memory all at once, rather than one at each step.
func (c *Cursor) touch() {
	for _, r := range c.refs[c.begin:c.end] {
		c.touched += c.t.arena.version(r).trailer()
	}
}

// collect puts one key of the tree into the window, after the keys of the tail that come before it. It reports whether
// it wants another.
func (c *Cursor) collect(it item) bool {
	for c.inTail() && c.t.less(*c.t.tail.at(c.next), it) != c.back {
		if !c.takeTail() {
			return false
		}
	}
	return c.put(it)
}

// inTail reports whether the tail has more keys in the direction of the window.
func (c *Cursor) inTail() bool { return c.next >= 0 && c.next < c.tail }

// takeTail puts the next key of the tail into the window. It reports whether the window wants another.
func (c *Cursor) takeTail() bool {
	it := c.t.tail.at(c.next)
	if c.back {
		c.next--
	} else {
		c.next++
	}
	return c.put(*it)
}

// put puts a key into the window, unless it is the edge of the last window, and reports whether the window wants
// another.
func (c *Cursor) put(it item) bool {
	if c.skip && it.id == c.edge {
		return true
	}
	r := c.t.newestByID(it.id)
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

// lock takes the read lock if the table may still change, and reports whether it did.
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
