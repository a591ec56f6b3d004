package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/sstable"
)

// pairs are the keys and values that a cursor takes from one table without the merge, in batches, up to the next key of
// another source. That is possible if no source has range tombstones. The first visible version of a key in the table
// is then the newest one.
type pairs struct {
	table   *sstable.Iter // if not nil: it moves alone, and the merge is behind; the key is the table's
	outside []byte        // meanwhile, the memory of the cursor's key
	order   int           // the source of the last keys
	streak  int           // successive keys from it
}

// worthPairs is the number of successive keys from one of several sources after which moves try to take pairs. A seek
// does not: many iterators read one key.
const worthPairs = 8

// count records the source of a key, and whether it is the only one that is left.
func (p *pairs) count(order int, single bool) {
	switch {
	case single:
		p.streak = worthPairs
	case order == p.order:
		p.streak++
	default:
		p.order, p.streak = order, 0
	}
}

// enterPairs makes moves take pairs, if that is possible. On the way back the merge is before the cursor's key, and so
// is the table.
func (c *Cursor) enterPairs() bool {
	if len(c.covers) > 0 {
		return false
	}
	s, end := c.merge.Lead()
	t, ok := s.(*sstable.Iter)
	if !ok {
		return false
	}
	if b := &c.bounds; c.back {
		if len(b.lower) > 0 && (end == nil || bytes.Compare(b.lower, end) > 0) {
			end = b.lower
		}
		ok = t.EnterPairsBack(end, c.seq)
	} else {
		if !b.open && (end == nil || bytes.Compare(b.upper, end) < 0) {
			end = b.upper
		}
		ok = t.EnterPairs(end, c.seq)
	}
	if ok {
		c.pairs.table, c.pairs.outside = t, c.key
	}
	return ok
}

// leavePairs ends what enterPairs began.
func (c *Cursor) leavePairs() {
	if p := &c.pairs; p.table != nil {
		p.table.LeavePairs()
		c.key = append(p.outside[:0], c.key...)
		p.table, p.outside = nil, nil
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
