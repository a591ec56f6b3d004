package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/sstable"
)

// enterLane makes Next walk over one table without the merge, up to the next key of another source, if no source has
// range tombstones. The first visible version of a key in the table is then the newest one.
func (c *Cursor) enterLane() {
	t, end := c.lead()
	if t == nil {
		return
	}
	if c.bounded && (end == nil || bytes.Compare(c.upper, end) < 0) {
		end = c.upper
	}
	if t.EnterLane(end, c.seq) {
		c.lane, c.outside = t, c.key
	}
}

// enterLaneBack does the same for Prev. Unlike the cursor, the merge is before the key, and so is the lane.
func (c *Cursor) enterLaneBack() {
	t, end := c.lead()
	if t == nil {
		return
	}
	if len(c.lower) > 0 && (end == nil || bytes.Compare(c.lower, end) > 0) {
		end = c.lower
	}
	if t.EnterLaneBack(end, c.seq) {
		c.lane, c.outside = t, c.key
	}
}

// lead returns the table that the current version of the merge is from, or nil if a walk over it alone is not possible,
// and the end of its lead over other sources: see merge.Iter.
func (c *Cursor) lead() (t *sstable.Iter, end []byte) {
	if len(c.covers) > 0 {
		return nil, nil
	}
	s, end := c.merge.Lead()
	t, _ = s.(*sstable.Iter)
	return t, end
}

// worthLane is the number of successive keys from one of several sources after which moves try to enter a lane.
const worthLane = 8

// came records the source of the key, which decides whether the next move tries to enter a lane.
func (c *Cursor) came(order int) {
	switch {
	case c.merge.Single():
		c.streak = worthLane
	case order == c.order:
		c.streak++
	default:
		c.order, c.streak = order, 0
	}
}

// leaveLane ends what enterLane or enterLaneBack began.
func (c *Cursor) leaveLane() {
	if c.lane != nil {
		c.lane.LeaveLane()
		c.key = append(c.outside[:0], c.key...)
		c.lane, c.outside = nil, nil
		c.merge.Moved()
	}
}

// show makes key and value the current ones, and returns true.
func (c *Cursor) show(key, value []byte) bool {
	c.key, c.value = key, value
	if c.keysOnly {
		c.value = nil
	}
	return true
}
