package bloomkv

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/batch"
)

// Mark returns a copy of the mark of the store, nil if it has none. The mark is a few bytes that a program keeps with
// the data, without a key of its own: the applied index of a replica, the offset of a stream that it consumes, the
// number of a load. A batch that sets it ([Batch.SetMark]) is applied and recovered with it or not at all, and so is
// the sequence of [IngestOptions.Mark]. Who sees the mark sees all writes of its batch and of earlier ones;
// [Snapshot.Mark] is for reads that need no later ones. [DB.Checkpoint] and [DB.Digest] carry the mark; package
// salvage does if nothing is lost.
//
// Mark reads memory and takes no lock. The error is ErrClosed.
func (db *DB) Mark() ([]byte, error) {
	if db.tree.Load() == nil {
		return nil, ErrClosed
	}
	return copyOf(db.tree.Mark()), nil
}

// DurableMark returns a copy of the newest mark that is known to be on stable storage, with all writes up to it, nil
// without one. No crash and no power cut takes it back: the next Open finds this mark or a later one. With
// [DurabilityNoSync] it may be older than that of [DB.Mark], until [DB.Sync], a synced write, a flush or Close. A
// program that may forget what the store will not forget, such as a replica that truncates its log, asks DurableMark.
//
// DurableMark reads memory and takes no lock. The errors are ErrClosed and, with Options.ReadOnly, ErrReadOnly: what
// another program wrote need not be on stable storage.
func (db *DB) DurableMark() ([]byte, error) {
	switch {
	case db.tree.Load() == nil:
		return nil, ErrClosed
	case db.opts.ReadOnly:
		return nil, db.tree.Writable()
	default:
		return copyOf(db.tree.DurableMark()), nil
	}
}

// copyOf returns a copy of a mark, nil for none.
func copyOf(m batch.Mark) []byte {
	if len(m.Bytes) == 0 {
		return nil
	}
	return bytes.Clone(m.Bytes)
}
