// Package read looks up keys, one or many, and moves cursors: it follows a key through the memtables and the runs of a
// tree's state, and counts what that costs. A read schedules nothing.
package read

import (
	"errors"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// ErrNotFound is the error for a key without a value. It is not wrapped.
var ErrNotFound = errors.New("bloomkv: not found")

// A Reader reads one store. It is safe for concurrent use.
type Reader struct {
	Config // constant after Init

	// SamplingBits determines the sample of lookups: one in 1<<SamplingBits. Tests that count exactly set it to 0.
	SamplingBits uint

	DeadKeys deadkeys.Ranges

	lookupCounts
	prefixCounts
	iterators
}

// Tables loads what lookups and cursors need of tables.
type Tables interface {
	Load(t *tree.Table) error                                // loads the index and the filter
	LoadTail(t *tree.Table) (loads, bytes uint64, err error) // is Load, and returns what it read
	LoadPrefixes(t *tree.Table) error                        // loads the prefix filter
	// CopyFilter returns the units of the filter that maxRate needs, for a digest.
	CopyFilter(t *tree.Table, maxRate float64) (sstable.FilterCopy, error)
	Damaged(t *tree.Table) // is called after a lookup has found damage of a filter in the file
	Count(bytes int64)     // is called after the memory of DeadKeys has changed, by so much
}

// A Config holds the parameters of Init.
type Config struct {
	Tree    *tree.Tree
	Tables  Tables
	Seed    bloomblock.Seed    // mixed into the hashes of keys
	Prefix  sstable.PrefixRule // rule of prefix filters
	Damaged func(err error)    // is called when a read finds damage
	Sought  func(n uint64)     // is called after seeks of cursors have looked into runs of level 0 n times
	Naming  bool               // cursors record who opened them, for Leaked, which costs 0.2 µs each
}

// Init initializes r. It is a method, so that r can be part of another struct.
func (r *Reader) Init(c Config) {
	r.Config = c
	r.SamplingBits = samplingBits
	r.stripes.Store(new(lookupStripes))
}

// Hash returns the hash of a key, computed once for all memtables and tables of the store.
func (r *Reader) Hash(key []byte) bloomblock.SeededHash { return r.Seed.Hash(bloomblock.HashKey(key)) }

// failed returns the error of a read that failed with err, which after Close is ErrClosed. It reports damage.
func (r *Reader) failed(err error) error {
	if errors.Is(err, tablefile.ErrClosed) || r.Tree.Load() == nil {
		return tree.ErrClosed
	}
	if errors.Is(err, corrupt.Err) {
		r.Damaged(err)
	}
	return err
}
