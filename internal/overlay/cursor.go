package overlay

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
)

// A Base is a cursor over the keys in the bounds of an overlay Cursor, as a store has them. Each move reports whether
// it found a key; Key and Value are valid until the next move.
type Base interface {
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	Last() bool
	Next() bool
	Prev() bool
	Key() []byte
	Value() []byte
	Err() error
}

// A Cursor shows a range of a store with the writes of a transaction over it, in both directions. It shows the writes
// as they were when it was made. The order of calls is that of merge.Source. It is for one goroutine.
type Cursor struct {
	base Base
	own  memtable.Cursor     // the newest operation of each key
	dels *memtable.RangeDels // of the operations
	seq  ikey.Seq            // of the last operation; 0 without one

	// The next keys of both in the direction of the last move, the current one included. Only those that decide the
	// current key moved on to it.
	inBase, inOwn    bool
	atBase, atOwn    bool // the current key is that of base, that of own, or of both
	back             bool
	key              []byte // a copy
	lower            []byte
	upper            []byte
	bounded, refused bool // there is an upper bound; the last move ended with an error
}

// Cursor returns a cursor over the keys in [lower, upper), the bounds of base; a nil upper means no end. It keeps the
// bounds, and does not close base.
func (w *Writes) Cursor(base Base, lower, upper []byte) *Cursor {
	c := &Cursor{base: base, seq: w.seq, lower: lower, upper: upper, bounded: upper != nil}
	if w.mem == nil {
		c.seq = 0 // there may have been marks
	} else {
		c.own.Reset(w.mem, w.seq, true)
		c.dels = w.mem.RangeDels()
	}
	return c
}

// Key returns the current key, valid until the next move.
func (c *Cursor) Key() []byte { return c.key }

// Value returns the value of the current key, valid until the next move.
func (c *Cursor) Value() []byte {
	if c.atOwn {
		return c.own.Value()
	}
	return c.base.Value()
}

// Err returns the error of the last move, or nil.
func (c *Cursor) Err() error {
	if c.refused {
		return c.base.Err()
	}
	return nil
}

// SeekGE moves to the first key that is greater than or equal to key.
func (c *Cursor) SeekGE(key []byte) bool {
	if bytes.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	c.back = false
	c.inBase = c.base.SeekGE(key)
	c.inOwn = c.seq > 0 && c.own.SeekGE(ikey.Search(key, ikey.MaxSeq))
	return c.settle()
}

// SeekLT moves to the last key that is less than key.
func (c *Cursor) SeekLT(key []byte) bool {
	if c.bounded && bytes.Compare(key, c.upper) > 0 {
		key = c.upper
	}
	c.back = true
	c.inBase = c.base.SeekLT(key)
	c.inOwn = c.seq > 0 && c.own.SeekLT(ikey.Search(key, ikey.MaxSeq))
	return c.settle()
}

// Last moves to the last key.
func (c *Cursor) Last() bool {
	if c.bounded {
		return c.SeekLT(c.upper)
	}
	c.back = true
	c.inBase = c.base.Last()
	c.inOwn = c.seq > 0 && c.own.Last()
	return c.settle()
}

// Next moves to the next key.
func (c *Cursor) Next() bool {
	if c.back {
		return c.SeekGE(append(c.key, 0))
	}
	c.step()
	return c.settle()
}

// Prev moves to the previous key.
func (c *Cursor) Prev() bool {
	if !c.back {
		return c.SeekLT(c.key)
	}
	c.step()
	return c.settle()
}

// step moves those that are at the current key.
func (c *Cursor) step() {
	if c.atBase {
		c.inBase = c.move(c.base)
	}
	if c.atOwn {
		c.inOwn = c.move(&c.own)
	}
}

// move moves base or own in the direction of the cursor.
func (c *Cursor) move(s interface {
	Next() bool
	Prev() bool
},
) bool {
	if c.back {
		return s.Prev()
	}
	return s.Next()
}

// settle moves on from where base and own are to the first key that is alive.
func (c *Cursor) settle() bool {
	for {
		if c.refused = !c.inBase && c.base.Err() != nil; c.refused {
			return false
		}
		c.atBase, c.atOwn = c.inBase, c.inOwn && c.inBounds(c.own.Key().User)
		if c.atBase && c.atOwn {
			order := bytes.Compare(c.base.Key(), c.own.Key().User)
			if c.back {
				order = -order
			}
			c.atBase, c.atOwn = order <= 0, order >= 0
		}
		switch {
		case c.atOwn:
			k := c.own.Key()
			if k.Trailer.Kind() == ikey.Set && c.dels.Covering(k.User, c.seq) < k.Trailer.Seq() {
				c.key = append(c.key[:0], k.User...)
				return true
			}
		case !c.atBase:
			return false
		case c.dels.Covering(c.base.Key(), c.seq) == 0:
			c.key = append(c.key[:0], c.base.Key()...)
			return true
		}
		c.step()
	}
}

func (c *Cursor) inBounds(key []byte) bool {
	return bytes.Compare(key, c.lower) >= 0 && (!c.bounded || bytes.Compare(key, c.upper) < 0)
}
