package memtable

// A window begins at an end of the table, at a key, which belongs to it if the table has it, or after the last window.
// It has the refs of the next keys in one direction, and the cursor is at the first of them.

// fromEnd fills the window from the first key on or, back, from the last.
func (c *Cursor) fromEnd(back bool) {
	t := c.start(back, minTake)
	if t == nil {
		return
	}
	if back {
		c.next = c.tail - 1
		t.tree.Descend(c.visit)
	} else {
		c.next = 0
		t.tree.Ascend(c.visit)
	}
	c.stop(false)
}

// fromKey fills the window from a key on.
func (c *Cursor) fromKey(back bool, key []byte) {
	t := c.start(back, minTake)
	if t == nil {
		return
	}
	pivot := t.take(key)
	c.from(pivot)
	t.give(pivot)
	c.stop(true)
}

// fromEdge fills the window with the keys after the last window, which is not empty.
func (c *Cursor) fromEdge(back bool) {
	edge, take := c.refs[0], minTake
	if back == c.back {
		edge, take = c.refs[c.n-1], min(2*c.take, maxTake)
	}
	t := c.start(back, take)
	c.edge = edge
	c.from(newItem(t.headOf(edge), edge)) // the prefix may have changed
	c.stop(true)
	c.touch()
}

// start empties the window and returns the table, in which it takes the read lock if the table may still change.
func (c *Cursor) start(back bool, take int) *Table {
	c.back, c.take, c.edge, c.n, c.i, c.passed, c.full = back, take, 0, 0, 0, false, false
	if c.t == nil {
		return nil
	}
	if c.locked = !c.t.frozen.Load(); c.locked {
		c.t.mu.RLock()
	}
	c.tail = int(c.t.tail.n.Load())
	return c.t
}

// from puts the keys from an item on into the window.
func (c *Cursor) from(pivot item) {
	t := c.t
	c.next = t.search(pivot, c.tail)
	if !c.back {
		t.tree.AscendGreaterOrEqual(pivot, c.visit)
		return
	}
	if c.next == c.tail || t.less(pivot, *t.tail.at(c.next)) {
		c.next--
	}
	t.tree.DescendLessOrEqual(pivot, c.visit)
}

// stop ends the filling. passed reports that there may be keys behind it, where it began.
func (c *Cursor) stop(passed bool) {
	for !c.full && c.inTail() {
		c.takeTail()
	}
	if c.locked {
		c.t.mu.RUnlock()
	}
	c.passed = passed
}

// touch makes the processor fetch the versions of the window from memory all at once, rather than one at each step.
func (c *Cursor) touch() {
	for _, r := range c.refs[:c.n] {
		c.touched += c.t.arena.version(r).shape()
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
	if it.first == c.edge {
		return true
	}
	c.refs[c.n] = it.first
	c.n++
	c.full = c.n == c.take
	return !c.full
}
