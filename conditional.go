package bloomkv

import (
	"bytes"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// PutIfAbsent stores value under key if the store has no value for key, and reports whether it did. The check and the
// write are one step to all other writers and readers. For a new key the check costs as much as a lookup of an absent
// key: the filters answer it. Durability is Options.Durability, errors are those of Put. If PutIfAbsent returns
// false, nothing was written, and the value that it found need not be durable yet.
func (db *DB) PutIfAbsent(key, value []byte) (bool, error) {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	defer recycle(b)
	b.Put(key, value)
	return db.applyIf(b, key, nil)
}

// CompareAndSwap replaces the value of key with value if the present value equals old, and reports whether it did.
// The comparison and the write are one step to all other writers and readers. A nil old means that the store has no
// value for key; a nil value deletes the key. The empty value is an empty slice that is not nil. old and value are
// not changed or kept. Durability is Options.Durability, errors are those of Put.
func (db *DB) CompareAndSwap(key, old, value []byte) (bool, error) {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	defer recycle(b)
	if value == nil {
		b.Delete(key)
	} else {
		b.Put(key, value)
	}
	if old == nil && value == nil && b.err == nil { // nothing to write
		found, err := db.Has(key)
		return err == nil && !found, err
	}
	return db.applyIf(b, key, old)
}

// A condition on the value of one key. It is checked before its writer queues, and again when the writer's turn
// comes.
type condition struct {
	key  []byte
	hash bloomblock.SeededHash
	old  []byte // the value that key must have; nil if key must be absent
	held bool   // the result of the last check

	state *tree.State // of the first check
	seq   ikey.Seq    // the first check saw all writes up to this, or more
}

// maxConditional bounds the operations, in bytes, that may precede a conditional write in its group, since the write
// searches through all of them.
const maxConditional = 64 << 10

// applyIf applies b if the value of key equals old, or with a nil old if the store has no value for key.
func (db *DB) applyIf(b *Batch, key, old []byte) (bool, error) {
	when := &condition{key: key, hash: db.read.Hash(key), old: old, state: db.tree.Load()}
	switch {
	case when.state == nil:
		return false, ErrClosed
	case b.err != nil:
		return false, b.err
	}
	when.seq = db.tree.NewestSeq()
	// The first check reads from files while no other writer waits. If its answer is no, that is final.
	if held, err := db.compare(when); err != nil || !held {
		return false, err
	}
	err := db.commit(b.ops, b.count, db.opts.Durability == Sync, when)
	return err == nil && when.held, err
}

// compare checks the condition by a lookup.
func (db *DB) compare(when *condition) (bool, error) {
	return db.read.Compare(when.key, when.old)
}

func (when *condition) wants(value []byte, found bool) bool {
	return found == (when.old != nil) && (!found || bytes.Equal(value, when.old))
}

// holds checks the condition for the commit. ops are the operations of its group that were written before it.
// commitMu is held.
func (db *DB) holds(when *condition, ops []byte) (bool, error) {
	held, decided := false, false
	for len(ops) > 0 {
		kind, key, value, rest, err := batch.NextOp(ops)
		if err != nil {
			return false, err
		}
		ops = rest
		switch {
		case kind == ikey.RangeDelete && bytes.Compare(key, when.key) <= 0 &&
			(value == nil || bytes.Compare(when.key, value) < 0):
			held, decided = when.wants(nil, false), true
		case kind != ikey.RangeDelete && bytes.Equal(key, when.key):
			held, decided = when.wants(value, kind == ikey.Set), true
		}
	}
	if decided {
		return held, nil
	}
	if s := db.tree.Load(); s == when.state {
		// The tables and frozen memtables are those of the first check. Only the memtable can have newer versions.
		last := ikey.Seq(0)
		if d := s.Mem.RangeDels(); d != nil {
			last = d.Covering(when.key, ikey.MaxSeq)
		}
		if _, trailer, ok := s.Mem.Get(when.key, when.hash.Mixed, ikey.MaxSeq); ok {
			last = max(last, trailer.Seq())
		}
		if last <= when.seq {
			return true, nil
		}
	}
	return db.compare(when)
}
