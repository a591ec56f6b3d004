// Package workload is what the benchmark, the demo and the comparison with other stores run: sets of keys and values,
// choices among them, phases of operations on any [Store], and the figures of a phase.
//
// Every key and value follows from a set and an index, so that nothing is kept to check an answer against: every value that
// a store returns is compared with the one it should be, outside the clock. Only where values change under way is a [Ledger]
// kept of which version may be there. The package knows no store.
package workload

import (
	"context"
	"time"
)

// A Store is what a phase runs on. Its methods are called by as many goroutines as the phase has workers.
type Store interface {
	// Put sets one key, and nobody waits for the disk. The slices of all methods are the caller's, and change after the call.
	Put(key, value []byte) error
	// PutSync is a Put that is durable when it returns.
	PutSync(key, value []byte) error
	// PutIfAbsent sets a key that the store does not hold, and reports whether it did.
	PutIfAbsent(key, value []byte) (stored bool, err error)
	// Delete removes one key. An absent one is no error.
	Delete(key []byte) error
	// Apply sets the keys of a batch, all or none.
	Apply(b Batch) error
	// AppendGet appends the value of key to dst and returns the longer slice; for an absent key it returns dst and false.
	AppendGet(dst, key []byte) (out []byte, found bool, err error)
	// GetMany looks keys up and calls each for all of them, in their order: i is the place in keys. The value is the store's,
	// until each returns; where found is false it may be nil. An error of each ends the call and is returned.
	GetMany(keys [][]byte, each func(i int, value []byte, found bool) error) error
	// Scan calls each for the keys from the first that is not below from, in order: limit of them, or all if limit is 0. The
	// slices are the store's, until each returns. An error of each ends the scan and is returned.
	Scan(from []byte, limit int, each func(key, value []byte) error) error

	// Flush moves what is held in memory to tables, where the store has such a thing.
	Flush(ctx context.Context) error
	// Settle returns when the store has no work left to do in the background.
	Settle(ctx context.Context) error
	// Compact brings all data into its final form.
	Compact(ctx context.Context) error
	// Reopen closes the store cleanly and opens it again. It returns how long the opening took, without the closing.
	Reopen() (opening time.Duration, err error)
	// Close ends the use of the store.
	Close() error
}

// A Set is pairs of keys and values, numbered from 0, and keys that are absent from it. It never changes and is safe for
// concurrent use. The Append methods append to dst and return the longer slice, as append does.
type Set interface {
	// Len is the number of pairs.
	Len() int
	// Sorted reports whether the order of the numbers is the order of the keys.
	Sorted() bool
	// AppendKey appends key i, 0 ≤ i < Len.
	AppendKey(dst []byte, i int) []byte
	// AppendValue appends the value of key i, 0 ≤ i < Len.
	AppendValue(dst []byte, i int) []byte
	// AppendVersion appends what the value of key i is after it was changed: each version differs from all others of its key,
	// and version 0 is that of AppendValue.
	AppendVersion(dst []byte, i int, version uint32) []byte
	// Index is the number of a key, or false if the key is not in the set.
	Index(key []byte) (i int, ok bool)
	// Absents is how many absent keys the set can name.
	Absents() int
	// AppendAbsent appends absent key i, 0 ≤ i < Absents. Absent keys are distinct and lie between the keys of the set, so
	// that the bounds of tables do not answer for the filters.
	AppendAbsent(dst []byte, i int) []byte
}
