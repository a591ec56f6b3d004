// Package overlay shows the writes of a transaction, which are in no store yet, over what a store holds.
package overlay

import (
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
)

// Writes are the operations of a transaction, by key. The zero value has none. It is for one goroutine.
type Writes struct {
	mem  *memtable.Table // nil without an operation
	seed bloomblock.Seed
	seq  ikey.Seq // of the last operation
	read int      // bytes of the operations added so far
}

// Add adds the operations of a batch that Add has not seen yet: ops begins with those that it has. The error describes
// invalid operations.
func (w *Writes) Add(ops []byte) error {
	for w.read < len(ops) {
		left := ops[w.read:]
		kind, key, value, rest, err := batch.NextOp(left)
		if err != nil {
			return err
		}
		w.read += len(left) - len(rest)
		if w.mem == nil {
			w.mem, w.seed = memtable.New(nil, 0, 0), bloomblock.NewSeed()
		}
		w.seq++
		switch kind {
		case ikey.Mark:
		case ikey.RangeDelete:
			w.mem.AddRange(key, value, w.seq)
		default:
			w.mem.Add(key, w.hash(key), w.seq, kind, value)
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
	deleted := w.mem.RangeDels().Covering(key, w.seq)
	value, trailer, found := w.mem.Get(key, w.hash(key), w.seq)
	if found && trailer.Seq() > deleted {
		return value, trailer.Kind() == ikey.Set, true
	}
	return nil, false, found || deleted > 0
}
