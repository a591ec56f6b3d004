// Package leveldb shows a bloomkv store as programs like to see goleveldb: behind a small interface of their own, such as
// go-ethereum's ethdb.KeyValueStore, whose shape this is. Copy it, and put your own interfaces in the place of these. It needs
// no lock and no list of what is open: every call of a closed store answers ErrClosed, a move of an iterator too.
package leveldb

import (
	"context"
	"slices"

	"github.com/bloomkv/bloomkv"
)

// A Writer is what a batch can be replayed into. An absent key may be deleted, and a range is [start, end), nil for no bound.
type Writer interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	DeleteRange(start, end []byte) error
}

// A Batch is writes that Write applies together. It is for one goroutine at a time.
type Batch interface {
	Writer
	ValueSize() int // bytes gathered so far
	Write() error   // may be called again
	Reset()
	Replay(w Writer) error
}

// An Iterator goes up, beginning with Next. Key and Value are valid until the next Next; Error also after Release.
type Iterator interface {
	Next() bool
	Error() error
	Key() []byte
	Value() []byte
	Release()
}

// A Database is an open store. Get, Has, Put, Delete, DeleteRange and Close are bloomkv's own, and so is what is not here.
// Opened with Options.Durability NoSync its writes are as durable as goleveldb's without WriteOptions.
type Database struct{ *bloomkv.DB }

// NewBatch returns an empty batch.
func (d Database) NewBatch() Batch { return &batch{db: d.DB} }

// NewBatchWithSize is NewBatch: a batch grows as it is filled, and Reset keeps its memory.
func (d Database) NewBatchWithSize(int) Batch { return d.NewBatch() }

// NewIterator returns an iterator over the keys with a prefix, from the key on that is prefix and start together.
func (d Database) NewIterator(prefix, start []byte) Iterator {
	return &iterator{Iterator: d.Iter(from(prefix, start))}
}

// NewSnapshot returns the store as it is now.
func (d Database) NewSnapshot() (Snapshot, error) {
	s, err := d.Snapshot()
	return Snapshot{s}, err
}

// Compact rewrites what lies between two keys into its last shape; nil is no bound.
func (d Database) Compact(lo, hi []byte) error { return d.DB.Compact(context.Background(), lo, hi) }

// SyncKeyValue makes all earlier writes durable.
func (d Database) SyncKeyValue() error { return d.Sync() }

// Stat is a page of figures for people.
func (d Database) Stat() (string, error) { return d.Metrics().String(), nil }

type batch struct {
	bloomkv.Batch
	db *bloomkv.DB
}

func (b *batch) Put(key, value []byte) error         { b.Batch.Put(key, value); return nil }
func (b *batch) Delete(key []byte) error             { b.Batch.Delete(key); return nil }
func (b *batch) DeleteRange(start, end []byte) error { b.Batch.DeleteRange(start, end); return nil }
func (b *batch) ValueSize() int                      { return b.Size() }
func (b *batch) Write() error                        { return b.db.Apply(&b.Batch, bloomkv.DefaultDurability) }

func (b *batch) Replay(w Writer) (err error) {
	for op := range b.Ops() {
		switch {
		case err != nil:
			return err
		case op.Kind == bloomkv.OpPut:
			err = w.Put(op.Key, op.Value)
		case op.Kind == bloomkv.OpDelete:
			err = w.Delete(op.Key)
		case op.Kind == bloomkv.OpDeleteRange:
			err = w.DeleteRange(op.Key, op.End)
		}
	}
	return err
}

type iterator struct {
	*bloomkv.Iterator
	err error // of the last move: Err is ErrClosed after Close
}

func (it *iterator) Next() bool   { ok := it.Iterator.Next(); it.err = it.Err(); return ok }
func (it *iterator) Error() error { return it.err }
func (it *iterator) Release()     { _ = it.Close() }

func from(prefix, start []byte) bloomkv.IterOptions {
	return bloomkv.IterOptions{Prefix: prefix, Lower: slices.Concat(prefix, start)}
}

// A Snapshot is the store as it was. Get and Has are bloomkv's own.
type Snapshot struct{ *bloomkv.Snapshot }

// NewIterator is Database.NewIterator as of the snapshot. The iterator may outlive it.
func (s Snapshot) NewIterator(prefix, start []byte) Iterator {
	return &iterator{Iterator: s.Iter(from(prefix, start))}
}

// Release ends the snapshot.
func (s Snapshot) Release() { _ = s.Close() }
