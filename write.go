package bloomkv

import (
	"fmt"
	"sync"

	"github.com/bloomkv/bloomkv/internal/commit"
)

// Put stores value under key, replacing an older value. Both are copied; nil means an empty key, or an empty value.
// Put returns once the write is as durable as Options.Durability requires; every later read sees it. A key longer
// than MaxKeySize, or a value longer than MaxValueSize, is ErrTooLarge. Other errors are those of [DB.Apply].
func (db *DB) Put(key, value []byte) error {
	if len(value) >= commit.MinPut && len(value) <= MaxValueSize && len(key) <= MaxKeySize {
		// Not as a batch, whose memory would be in the heap.
		return db.writer.CommitPut(key, value, db.opts.Durability == DurabilitySync)
	}
	b := newBatch()
	b.Put(key, value)
	return db.applyPooled(b)
}

// Delete removes key, with the same durability and errors as Put. Deleting an absent key is not an error.
func (db *DB) Delete(key []byte) error {
	b := newBatch()
	b.Delete(key)
	return db.applyPooled(b)
}

// DeleteRange removes every key of a range, with the same durability and errors as Put. The cost does not depend on
// the number of keys: DeleteRange writes one range tombstone. Lookups and iterators apply it at once, and compaction
// removes the deleted keys, whole tables without reading them. The bounds are copied, and may be longer than a key.
//
//	err := db.DeleteRange(bloomkv.PrefixRange([]byte("user/")))
func (db *DB) DeleteRange(r KeyRange) error {
	b := newBatch()
	b.DeleteRange(r)
	return db.applyPooled(b)
}

func (db *DB) applyPooled(b *Batch) error {
	err := db.Apply(b)
	recycle(b)
	return err
}

// Apply applies all operations of b in order, atomically: readers see all of them or none, and so does recovery after
// a crash. Apply returns once they are as durable as Options.Durability requires; [DB.ApplyWith] is for another
// durability. Apply only reads the batch, which may be applied again, also by several goroutines.
//
// An error matching ErrReadOnly means that the log or the manifest could not be written or synced, now or earlier.
// The batch may or may not be there when the store is opened again, but never in part, and no reader of this DB sees
// it. With Options.ReadOnly, and after any other error, such as ErrTooLarge or ErrClosed, nothing was written. While
// compaction is behind, Apply takes longer, and finally waits.
func (db *DB) Apply(b *Batch) error { return db.ApplyWith(b, db.opts.Durability) }

// ApplyWith applies b as Apply does, with durability d instead of Options.Durability. Use it for the writes that must
// be synced in a store that does not sync each write, or the other way round. A write is durable only together with
// all earlier ones, so a synced write makes these durable too. An empty batch with [DurabilitySync] is the same as
// [DB.Sync].
func (db *DB) ApplyWith(b *Batch, d Durability) error {
	if err := db.check(b, d); err != nil {
		return err
	}
	switch {
	case b.ops.Count > 0:
		return db.writer.Commit(b.ops.Bytes, b.ops.Count, d == DurabilitySync)
	case d == DurabilitySync:
		return db.Sync()
	default:
		return db.tree.Writable()
	}
}

// check returns an error if b cannot be applied with durability d.
func (db *DB) check(b *Batch, d Durability) error {
	switch {
	case db.tree.Load() == nil:
		return ErrClosed
	case d > DurabilityNoSync:
		return fmt.Errorf("bloomkv: durability %d, want %d or %d", d, DurabilitySync, DurabilityNoSync)
	}
	return b.ops.Err
}

// Sync makes every write that has returned durable; it is the barrier after writes with DurabilityNoSync. If it fails,
// the store takes no more writes (ErrReadOnly).
func (db *DB) Sync() error {
	if db.tree.Load() == nil {
		return ErrClosed
	}
	return db.writer.Commit(nil, 0, true)
}

// PutIfAbsent stores value under key if the store has no value for key, and reports whether it did. The check and the
// write are one step to all other writers and readers. For a new key the check costs as much as a lookup of an absent
// key: the filters answer it. Durability is Options.Durability, errors are those of Put. If PutIfAbsent returns
// false, nothing was written, and the value that it found need not be durable yet.
func (db *DB) PutIfAbsent(key, value []byte) (bool, error) {
	b := newBatch()
	b.Put(key, value)
	return db.applyIf(b, key, nil)
}

// CompareAndSwap replaces the value of key with value if the present value equals old, and reports whether it did. It
// returns false if the store has no value for key. The comparison and the write are one step to all other writers and
// readers. A nil old or value is the empty value; both are copied or only read. Durability is Options.Durability,
// errors are those of Put. See [DB.PutIfAbsent] for a key without a value, and [DB.CompareAndDelete].
func (db *DB) CompareAndSwap(key, old, value []byte) (bool, error) {
	b := newBatch()
	b.Put(key, value)
	return db.applyIf(b, key, present(old))
}

// CompareAndDelete deletes key if its present value equals old, and reports whether it did. It is otherwise like
// [DB.CompareAndSwap].
func (db *DB) CompareAndDelete(key, old []byte) (bool, error) {
	b := newBatch()
	b.Delete(key)
	return db.applyIf(b, key, present(old))
}

// present returns value, or for nil an empty value that is not nil.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// applyIf applies b if the value of key equals old, or with a nil old if the store has no value for key. It returns b
// to the pool.
func (db *DB) applyIf(b *Batch, key, old []byte) (bool, error) {
	defer recycle(b)
	if err := db.check(b, db.opts.Durability); err != nil {
		return false, err
	}
	return db.writer.CommitIf(b.ops.Bytes, b.ops.Count, db.opts.Durability == DurabilitySync, key, old)
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// newBatch returns an empty batch from the pool.
func newBatch() *Batch {
	return batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
}

// recycle returns a batch to the pool, unless it has grown large.
func recycle(b *Batch) {
	if cap(b.ops.Bytes) <= 64<<10 {
		b.Reset()
		batches.Put(b)
	}
}
