// Package memtable keeps keys and values in memory, in order and by hash, for one writer and any number of readers.
// With package sstable it writes a table file from keys that come in any order.
//
// It is a face of internal/memtable, which holds the newest writes of a bloomkv store, with what a program outside
// needs: that package keeps every version of a key and range tombstones, and its types follow the store's needs, so
// that exported aliases of them would have been too much to promise.
package memtable

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	engine "github.com/bloomkv/bloomkv/internal/memtable"
)

// Limits of a table, in bytes.
const (
	MaxKey   = 64 << 10
	MaxValue = 256 << 20
	MaxBytes = engine.MaxBytes // of a whole table, as Bytes counts
)

// Errors that a caller may test for with errors.Is.
var (
	ErrSize = errors.New("key or value too large")
	ErrFull = errors.New("table is full")
)

// A Table is a sorted map. Put and Delete may be called by one goroutine at a time, all other methods by any number of
// goroutines at the same time. Put and Delete keep the old value until the whole table is garbage: what a table takes
// in memory never shrinks.
type Table struct {
	t    *engine.Table
	seed bloomblock.Seed // so that nobody can choose keys that crowd
	seq  atomic.Uint64   // of the last write that readers may see
}

// New returns an empty table.
func New() *Table { return &Table{t: engine.New(nil, 0, 0), seed: bloomblock.NewSeed()} }

// Put sets the value of a key. Both are copied. The error matches ErrSize or ErrFull.
func (t *Table) Put(key, value []byte) error { return t.add(key, ikey.Set, value) }

// Delete deletes a key. The error matches ErrSize or ErrFull.
func (t *Table) Delete(key []byte) error { return t.add(key, ikey.Delete, nil) }

func (t *Table) add(key []byte, kind ikey.Kind, value []byte) error {
	n := int64(len(key)) + int64(len(value))
	switch {
	case len(key) > MaxKey || len(value) > MaxValue:
		return fmt.Errorf("%w: %d and %d bytes, want at most %d and %d",
			ErrSize, len(key), len(value), MaxKey, MaxValue)
	case t.t.Bytes() > MaxBytes-n:
		return fmt.Errorf("%w: %d bytes, want at most %d", ErrFull, t.t.Bytes()+n, MaxBytes)
	}
	seq := t.seq.Load() + 1
	t.t.Add(key, t.hash(key), ikey.Seq(seq), kind, value)
	t.seq.Store(seq)
	return nil
}

func (t *Table) hash(key []byte) bloomblock.Hash { return t.seed.Mix(bloomblock.HashKey(key)) }

// Get returns the value of a key and whether the table has it. The value must not be changed; it stays valid. Get
// allocates nothing.
func (t *Table) Get(key []byte) (value []byte, found bool) {
	value, trailer, found := t.t.Get(key, t.hash(key), ikey.Seq(t.seq.Load()))
	if !found || trailer.Kind() == ikey.Delete {
		return nil, false
	}
	return value, true
}

// All returns the keys and values in ascending order, as they are when the loop begins. The slices must not be changed;
// they stay valid.
func (t *Table) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		var c engine.Cursor
		c.Reset(t.t, ikey.Seq(t.seq.Load()), true)
		for ok := c.First(); ok; ok = c.Next() {
			k := c.Key()
			if k.Trailer.Kind() != ikey.Delete && !yield(k.User, c.Value()) {
				return
			}
		}
	}
}

// Bytes returns the memory that the table takes, in bytes.
func (t *Table) Bytes() int64 { return t.t.Bytes() }
