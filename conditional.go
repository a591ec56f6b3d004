package bloomkv

import (
	"bytes"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// PutIfAbsent stores value under key if the store holds none, and reports whether it did. The check and the write are one
// step to every other writer and reader. For a new key the check costs what the lookup of an absent key costs: the filters
// answer it. Durability is Options.Durability, errors are those of Put; nothing is written where it reports false, and what
// it saw there need not be durable yet.
func (db *DB) PutIfAbsent(key, value []byte) (bool, error) {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	defer recycle(b)
	b.Put(key, value)
	return db.applyIf(b, key, nil)
}

// CompareAndSwap replaces the value of key by value if it is old, and reports whether it did. The comparison and the write are
// one step to every other writer and reader. A nil old means that the store holds no value for key, and a nil value
// deletes it; an empty value is an empty slice that is not nil. old and value are only read. Durability is
// Options.Durability, errors are those of Put.
func (db *DB) CompareAndSwap(key, old, value []byte) (bool, error) {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	defer recycle(b)
	if value == nil {
		b.Delete(key)
	} else {
		b.Put(key, value)
	}
	if old == nil && value == nil && b.err == nil { // nothing is to be written
		found, err := db.Has(key)
		return err == nil && !found, err
	}
	return db.applyIf(b, key, old)
}

// A condition on one key, checked once before its writer queues up, and again when its turn comes.
type condition struct {
	key  []byte
	hash bloomblock.SeededHash
	old  []byte // the value that is wanted, nil for none
	held bool   // the last answer

	state *tree.State // of the first check
	seq   ikey.Seq    // and what it saw at least
}

// maxConditional bounds the bytes of a group that conditional writes may follow: each looks through all before it.
const maxConditional = 64 << 10

// applyIf applies b if the value of key is old, nil for none.
func (db *DB) applyIf(b *Batch, key, old []byte) (bool, error) {
	when := &condition{key: key, hash: db.read.Hash(key), old: old, state: db.tree.Load()}
	switch {
	case when.state == nil:
		return false, ErrClosed
	case b.err != nil:
		return false, b.err
	}
	when.seq = db.tree.NewestSeq()
	// The first check reads what must be read while nobody waits. What it saw is an answer if it is no.
	if held, err := db.compare(when); err != nil || !held {
		return false, err
	}
	err := db.commit(b.ops, b.count, db.opts.Durability == Sync, when)
	return err == nil && when.held, err
}

// compare looks the key up.
func (db *DB) compare(when *condition) (bool, error) {
	return db.read.Compare(when.key, when.old)
}

func (when *condition) wants(value []byte, found bool) bool {
	return found == (when.old != nil) && (!found || bytes.Equal(value, when.old))
}

// holds checks the condition for the commit: ops are what its group has written before it. commitMu is held.
func (db *DB) holds(when *condition, ops []byte) (bool, error) {
	held, decided := false, false
	for len(ops) > 0 {
		kind, key, value, rest, err := batch.NextOp(ops)
		if err != nil {
			return false, err
		}
		ops = rest
		switch {
		case kind == ikey.RangeDelete && bytes.Compare(key, when.key) <= 0 && (value == nil || bytes.Compare(when.key, value) < 0):
			held, decided = when.wants(nil, false), true
		case kind != ikey.RangeDelete && bytes.Equal(key, when.key):
			held, decided = when.wants(value, kind == ikey.Set), true
		}
	}
	if decided {
		return held, nil
	}
	if s := db.tree.Load(); s == when.state {
		// The tables are those of the first check, and so is all that was frozen: only the memtable can know more.
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
