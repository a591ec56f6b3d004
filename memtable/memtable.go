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

// Errors of Put, for errors.Is.
var (
	ErrSize = errors.New("key or value too large")
	ErrFull = errors.New("table is full")
)

// The largest key and value, in bytes, as in package sstable.
const (
	maxKey   = 64 << 10
	maxValue = 256 << 20
)

// A Table is a sorted map. Put may be called by one goroutine at a time, all other methods by any number of goroutines
// at the same time. Put keeps the old value until the whole table is garbage: what a table takes in memory never
// shrinks.
type Table struct {
	t    *engine.Table
	seed bloomblock.Seed // so that nobody can choose keys that crowd
	seq  atomic.Uint64   // of the last write that readers may see
}

// New returns an empty table.
func New() *Table { return &Table{t: engine.New(nil, 0, 0), seed: bloomblock.NewSeed()} }

// Put sets the value of a key. Both are copied. The error matches ErrSize, or ErrFull if the table would take more than
// 4 GiB.
func (t *Table) Put(key, value []byte) error {
	switch n := int64(len(key)) + int64(len(value)); {
	case len(key) > maxKey || len(value) > maxValue:
		return fmt.Errorf("%w: %d and %d bytes, want at most %d and %d",
			ErrSize, len(key), len(value), maxKey, maxValue)
	case t.t.Bytes() > engine.MaxBytes-n:
		return fmt.Errorf("%w: %d bytes, want at most %d", ErrFull, t.t.Bytes()+n, engine.MaxBytes)
	}
	seq := t.seq.Load() + 1
	t.t.Add(key, t.hash(key), ikey.Seq(seq), ikey.Set, value)
	t.seq.Store(seq)
	return nil
}

func (t *Table) hash(key []byte) bloomblock.Hash { return t.seed.Mix(bloomblock.HashKey(key)) }

// Get returns the value of a key and whether the table has it. The value must not be changed; it stays valid. Get
// allocates nothing.
func (t *Table) Get(key []byte) (value []byte, found bool) {
	value, _, found = t.t.Get(key, t.hash(key), ikey.Seq(t.seq.Load()))
	return value, found
}

// All returns the keys and values in ascending order, as they are when the loop begins. The slices must not be changed;
// they stay valid.
func (t *Table) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		var c engine.Cursor
		c.Reset(t.t, ikey.Seq(t.seq.Load()))
		for ok := c.First(); ok && yield(c.Key().User, c.Value()); ok = c.Next() {
		}
	}
}

// Bytes returns the memory that the table takes, in bytes.
func (t *Table) Bytes() int64 { return t.t.Bytes() }
