package read

import (
	"bytes"
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Writes are the operations of a transaction: one more memtable on top of the state that it reads. Their sequence
// numbers are above all of a store. The zero value has none. It is for one goroutine.
type Writes struct {
	// Walked is called with each range of keys that a cursor of the transaction has walked over: [lo, hi), without end
	// if hi is nil. The callee owns the slices.
	Walked func(lo, hi []byte)

	mem  *memtable.Table // nil without an operation
	seed bloomblock.Seed
	seq  ikey.Seq // of the last operation
	read int      // bytes of the operations added so far
}

// Add adds the operations of a batch that Add has not seen yet: ops begins with those that it has. The error describes
// invalid operations.
func (w *Writes) Add(ops []byte) error {
	var first ikey.Seq // nobody reads before all are added
	for w.read < len(ops) {
		left := ops[w.read:]
		kind, key, value, rest, err := batch.NextOp(left)
		if err != nil {
			return err
		}
		w.read += len(left) - len(rest)
		if w.mem == nil {
			w.mem, w.seed = memtable.New(nil, 0, 0), bloomblock.NewSeed()
			w.seq = ikey.MaxSeq / 2 // the largest number of a store: see manifest.MaxSeq
		}
		if w.seq++; first == 0 {
			first = w.seq
		}
		if kind != ikey.Mark {
			w.mem.AddOps(first, []memtable.Op{{Seq: w.seq, Kind: kind, Key: key, Value: value, Hash: w.hash(key)}})
		}
	}
	return nil
}

func (w *Writes) hash(key []byte) bloomblock.Hash { return w.seed.Mix(bloomblock.HashKey(key)) }

// Get returns the value of key. If decided is false, no operation is about key, and the store has its value; if live is
// false, key was deleted. The value must not be changed.
func (w *Writes) Get(key []byte) (value []byte, live, decided bool) {
	if w.mem == nil {
		return nil, false, false
	}
	return inTable(w.mem, key, w.hash(key), w.seq)
}

// SameKey reports whether key has the same value at two moments, or none at both. The caller holds their states.
func (r *Reader) SameKey(key []byte, a, b tree.Moment) (bool, error) {
	var room [256]byte
	old, err := r.AppendGet(room[:0], key, AsOf{Seq: a.Seq, Held: a.State})
	if errors.Is(err, ErrNotFound) {
		old, err = nil, nil
	}
	if err != nil {
		return false, err
	}
	return r.compare(key, old, AsOf{Seq: b.Seq, Held: b.State})
}

// SameRange reports whether the keys in [lower, upper) are the same at two moments, with the same values. A nil upper
// means no end. The caller holds the states.
func (r *Reader) SameRange(lower, upper []byte, a, b tree.Moment) (bool, error) {
	inA, err := r.Open(lower, upper, false, AsOf{Seq: a.Seq, Held: a.State}, nil)
	if err != nil {
		return false, err
	}
	defer inA.Close()
	inB, err := r.Open(lower, upper, false, AsOf{Seq: b.Seq, Held: b.State}, nil)
	if err != nil {
		return false, err
	}
	defer inB.Close()
	for {
		moreA, moreB := inA.Next(), inB.Next()
		if err := errors.Join(inA.Err(), inB.Err()); err != nil {
			return false, err
		}
		if !moreA || !moreB {
			return moreA == moreB, nil
		}
		if !bytes.Equal(inA.Key(), inB.Key()) || !bytes.Equal(inA.Value(), inB.Value()) {
			return false, nil
		}
	}
}

// A walk is what a cursor of a transaction has walked over in one direction, from a seek or a turn on. It ends at the
// current key, which belongs to it, or at the end of the range, also after an error.
type walk struct {
	over *Writes // of the transaction; nil outside
	on   bool
	from []byte
}

// beginWalk ends the walk of the cursor, if it is one of a transaction, and begins another at a key. The direction of
// the cursor is still that of the first one.
func (c *Cursor) beginWalk(from []byte) {
	if c.walk.over != nil {
		c.endWalk()
		c.walk.on, c.walk.from = true, append([]byte{}, from...)
	}
}

// endWalk reports what was walked over.
func (c *Cursor) endWalk() {
	if !c.walk.on {
		return
	}
	end := c.bounds.limit(c.back)
	if c.at == standing {
		end = c.key
		if !c.back {
			end = append(slices.Clip(end), 0) // the key belongs to the walk
		}
	}
	lo, hi := c.walk.from, end
	if c.back {
		lo, hi = hi, lo
	}
	if bytes.Equal(hi, deadkeys.Beyond) {
		hi = nil
	} else {
		hi = append([]byte{}, hi...) // an empty bound is not nil
	}
	c.walk.over.Walked(append([]byte{}, lo...), hi)
	c.walk.on = false
}
