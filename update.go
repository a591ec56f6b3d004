package bloomkv

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/step"
)

// Update runs f as a transaction: its reads see the store as of one moment, with its own writes over it, and its writes
// are applied as one batch, if nothing that it has read has changed by then. If something has, Update runs f again, on
// the store as it is then. So transactions are serializable, and in the order of real time: each is one step to all
// other writers and readers. Durability is Options.Durability; [Tx.SetDurability] is for another.
//
// f may run several times and should have no other effect than the writes of tx; it must not use tx after it returns.
// An error of f is returned as it is, and nothing is written. ctx is checked before each attempt and while Update waits
// for one. Other errors are those of Apply. If f has written nothing, Update commits nothing, and works with
// Options.ReadOnly too. If f panics, nothing is written.
//
// From the fourth attempt on, Update waits for its turn, in the order of arrival. While f runs in its turn, no other
// batch is applied, so it does not conflict. A turn ends after a millisecond: a function that takes longer, or waits
// for another write to the same store, may conflict all the same. After 64 attempts the error matches ErrConflict.
//
// While f runs, no lock is held, and files that it may still read are kept from being removed, as by an iterator. The
// check of what was read takes no file and no lock of its own, unless two memtables were frozen, or tables ingested,
// since f began: then the reads are repeated. A transaction that conflicts often, or reads for long, is better written
// with conditional writes such as [DB.CompareAndSwap]; for reads alone there is [DB.Snapshot].
func (db *DB) Update(ctx context.Context, f func(tx *Tx) error) error {
	if db.tree.Load() == nil {
		return ErrClosed
	}
	return db.writer.Attempts(ctx, func(turn *commit.Turn, timed bool) (time.Duration, bool, error) {
		return db.attempt(f, turn, timed)
	})
}

// attempt runs f once and commits what it wrote. It reports whether it did; if not, a read has changed. It ends the
// turn, and if timed is true, it returns how long f took.
func (db *DB) attempt(f func(tx *Tx) error, turn *commit.Turn, timed bool) (took time.Duration, done bool, err error) {
	defer turn.End() // even if f panics
	now, err := db.tree.Now()
	if err != nil {
		return 0, false, err
	}
	tx := &Tx{db: db, durability: db.opts.Durability, batch: newBatch()}
	tx.reads.At, tx.reads.Turn = now, turn
	defer tx.end() // even if f panics
	if timed {
		began := step.Now()
		err = f(tx)
		took = step.Since(began)
	} else {
		err = f(tx)
	}
	if err != nil {
		return took, false, err
	}
	tx.closeIterators()
	b := tx.batch
	if b.ops.Count == 0 && b.ops.Err == nil {
		return took, true, nil
	}
	if err := db.check(b, tx.durability); err != nil {
		return took, false, err
	}
	done, err = db.writer.CommitReads(b.ops.Bytes, b.ops.Count, tx.durability == DurabilitySync, &tx.reads)
	return took, done, err
}

// A Tx is a transaction while the function of [DB.Update] runs. Its reads see the store as of one moment, and over it
// what the Tx has written. After the function has returned, all methods return ErrClosed. A Tx must not be used by
// several goroutines at a time.
type Tx struct {
	db    *DB
	batch *Batch // nil after the end
	own   read.Writes
	reads commit.Reads

	durability Durability

	iterators []*Iterator // that are or were open
}

// end ends the transaction.
func (tx *Tx) end() {
	tx.closeIterators()
	recycle(tx.batch)
	tx.batch = nil
	tx.db.tree.Release(tx.reads.At.State)
}

// closeIterators closes the iterators that are still open, and adds what they have walked over to the reads.
func (tx *Tx) closeIterators() {
	for _, it := range tx.iterators {
		_ = it.Close() // its errors were those of its moves
	}
	tx.iterators = nil
}

func (tx *Tx) at() read.AsOf { return read.AsOf{Seq: tx.reads.At.Seq, Held: tx.reads.At.State} }

// Get returns a copy of the value of key, which the caller owns, or ErrNotFound: see [DB.Get].
func (tx *Tx) Get(key []byte) ([]byte, error) {
	value, err := tx.AppendGet(nil, key)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

// AppendGet appends the value of key to dst: see [DB.AppendGet].
func (tx *Tx) AppendGet(dst, key []byte) ([]byte, error) {
	value, live, decided, err := tx.written(key)
	switch {
	case err != nil:
		return dst, err
	case decided && live:
		return append(dst, value...), nil
	case decided:
		return dst, ErrNotFound
	}
	tx.reads.Key(key)
	return tx.db.read.AppendGet(dst, key, tx.at())
}

// Has reports whether key has a value: see [DB.Has].
func (tx *Tx) Has(key []byte) (bool, error) {
	_, live, decided, err := tx.written(key)
	if err != nil || decided {
		return live, err
	}
	tx.reads.Key(key)
	return tx.db.read.Has(key, tx.at())
}

// written returns what the transaction itself has written under key, if it decides the value.
func (tx *Tx) written(key []byte) (value []byte, live, decided bool, err error) {
	if tx.batch == nil {
		return nil, false, false, ErrClosed
	}
	if tx.batch.ops.Count == 0 {
		return nil, false, false, nil
	}
	if err := tx.own.Add(tx.batch.ops.Bytes); err != nil {
		return nil, false, false, err
	}
	value, live, decided = tx.own.Get(key)
	return value, live, decided, nil
}

// Put stores value under key when the transaction commits. Both are copied. The error matches ErrTooLarge if the key,
// the value or the whole transaction is too large for a batch; Update returns it too.
func (tx *Tx) Put(key, value []byte) error {
	return tx.write(func(b *Batch) { b.Put(key, value) })
}

// Delete removes key when the transaction commits. The errors are those of Put.
func (tx *Tx) Delete(key []byte) error {
	return tx.write(func(b *Batch) { b.Delete(key) })
}

// DeleteRange removes the keys of a range when the transaction commits: see [DB.DeleteRange]. The errors are those of
// Put.
func (tx *Tx) DeleteRange(r KeyRange) error {
	return tx.write(func(b *Batch) { b.DeleteRange(r) })
}

// SetMark sets the mark of the store when the transaction commits: see [Batch.SetMark]. The errors are those of Put.
func (tx *Tx) SetMark(mark []byte) error {
	return tx.write(func(b *Batch) { b.SetMark(mark) })
}

// SetDurability sets the durability of the commit, instead of Options.Durability: see [DB.ApplyWith]. A transaction
// that writes nothing commits nothing, and makes nothing durable.
func (tx *Tx) SetDurability(d Durability) error {
	if tx.batch == nil {
		return ErrClosed
	}
	tx.durability = d
	return nil
}

func (tx *Tx) write(add func(*Batch)) error {
	if tx.batch == nil {
		return ErrClosed
	}
	add(tx.batch)
	return tx.batch.ops.Err
}

// Iter returns an iterator over a range, with what the transaction has written so far; it does not see later writes. It
// is never nil. Update closes it when the function returns, if it is still open. A transaction conflicts with writes in
// the intervals that its iterators have walked over, also of keys that are new, and not with writes outside.
func (tx *Tx) Iter(opts IterOptions) *Iterator {
	it := new(Iterator)
	if tx.batch == nil {
		it.err = ErrClosed
	} else if it.err = tx.own.Add(tx.batch.ops.Bytes); it.err == nil {
		tx.own.Walked = tx.reads.Walked
		it.begin(tx.db, &opts, tx.at(), &tx.own)
		closed := func(it *Iterator) bool { return it.c == nil }
		tx.iterators = append(slices.DeleteFunc(tx.iterators, closed), it)
	}
	return it
}

// Scan returns the keys of a range with their values, with what the transaction has written before the loop begins: see
// [DB.Scan] and [Tx.Iter].
func (tx *Tx) Scan(opts IterOptions) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) { scan(tx.Iter(opts), &opts, yield) }
}
