// Package leveldb puts a bloomkv store behind the interface that many programs have for goleveldb, such as
// go-ethereum's ethdb.KeyValueStore, on which it is modeled. Copy it, and replace these interfaces by your own. It
// needs no lock and no list of open iterators: every call on a closed store returns ErrClosed, and so does moving an
// iterator.
package leveldb

import (
	"context"
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv"
)

// A Writer receives the writes of a replayed batch. Deleting an absent key is no error. A range is [start, end); nil
// is no bound.
type Writer interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	DeleteRange(start, end []byte) error
}

// A Batch collects writes, which Write applies together. It is for one goroutine at a time.
type Batch interface {
	Writer
	ValueSize() int // bytes collected so far
	Write() error   // may be called again
	Reset()
	Replay(w Writer) error
}

// An Iterator ascends; the first call is Next. Key and Value are valid until the next call of Next, Error also after
// Release.
type Iterator interface {
	Next() bool
	Error() error
	Key() []byte
	Value() []byte
	Release()
}

// A Database is an open store. Get, Has, Put, Delete, Close and all methods not defined here are bloomkv's own. If it
// was opened with Options.Durability DurabilityNoSync, its writes are as durable as goleveldb's without
// WriteOptions.
type Database struct{ *bloomkv.DB }

// NewBatch returns an empty batch.
func (d Database) NewBatch() Batch { return &batch{db: d.DB} }

// NewBatchWithSize returns an empty batch and ignores the size: a batch grows as it is filled, and Reset keeps its
// memory.
func (d Database) NewBatchWithSize(int) Batch { return d.NewBatch() }

// NewIterator returns an iterator over the keys with the given prefix, beginning at prefix + start.
func (d Database) NewIterator(prefix, start []byte) Iterator {
	return &iterator{Iterator: d.Iter(from(prefix, start))}
}

// NewSnapshot returns a snapshot of the current state.
func (d Database) NewSnapshot() (Snapshot, error) {
	s, err := d.Snapshot()
	return Snapshot{s}, err
}

// DeleteRange deletes the keys in [start, end); nil is no bound.
func (d Database) DeleteRange(start, end []byte) error {
	return d.DB.DeleteRange(bloomkv.KeyRange{Lower: start, Upper: end})
}

// Compact compacts the range between two keys; nil is no bound.
func (d Database) Compact(lo, hi []byte) error {
	r := bloomkv.KeyRange{Lower: lo, Upper: hi}
	return d.DB.Compact(context.Background(), bloomkv.CompactOptions{Range: r})
}

// SyncKeyValue makes all earlier writes durable.
func (d Database) SyncKeyValue() error { return d.Sync() }

// Stat returns the metrics as text.
func (d Database) Stat() (string, error) { return d.Metrics().String(), nil }

type batch struct {
	bloomkv.Batch
	db *bloomkv.DB
}

func (b *batch) Put(key, value []byte) error { b.Batch.Put(key, value); return nil }
func (b *batch) Delete(key []byte) error     { b.Batch.Delete(key); return nil }
func (b *batch) ValueSize() int              { return b.Size() }
func (b *batch) Write() error                { return b.db.Apply(&b.Batch) }

func (b *batch) DeleteRange(start, end []byte) error {
	b.Batch.DeleteRange(bloomkv.KeyRange{Lower: start, Upper: end})
	return nil
}

func (b *batch) Replay(w Writer) (err error) {
	for op := range b.Ops() {
		switch op.Kind {
		case bloomkv.OpPut:
			err = w.Put(op.Key, op.Value)
		case bloomkv.OpDelete:
			err = w.Delete(op.Key)
		case bloomkv.OpDeleteRange:
			err = w.DeleteRange(op.Range.Lower, op.Range.Upper)
		case bloomkv.OpSetMark:
			err = errors.New("the batch sets a mark")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type iterator struct {
	*bloomkv.Iterator
	err error // of the last move, since Err returns ErrClosed after Close
}

func (it *iterator) Next() bool   { ok := it.Iterator.Next(); it.err = it.Err(); return ok }
func (it *iterator) Error() error { return it.err }
func (it *iterator) Release()     { _ = it.Close() }

func from(prefix, start []byte) bloomkv.IterOptions {
	return bloomkv.IterOptions{Prefix: prefix, Lower: slices.Concat(prefix, start)}
}

// A Snapshot is a snapshot of a Database. Get and Has are bloomkv's own.
type Snapshot struct{ *bloomkv.Snapshot }

// NewIterator returns an iterator as Database.NewIterator does, over the snapshot. The iterator may outlive the
// snapshot.
func (s Snapshot) NewIterator(prefix, start []byte) Iterator {
	return &iterator{Iterator: s.Iter(from(prefix, start))}
}

// Release closes the snapshot.
func (s Snapshot) Release() { _ = s.Close() }
