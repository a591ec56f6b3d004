// Package workload is shared by the benchmark, the demo and the comparison with other stores: sets of keys and values,
// choices of keys, phases of operations on any [Store], and the figures of a phase.
//
// A key and its value are computed from a set and an index, so that every value that a store returns can be checked
// without keeping a copy. The checks run while the clock is stopped. Where values change during a phase, a [Ledger]
// records their versions.
package workload

import (
	"context"
	"iter"
	"time"
)

// A Store is the subject of a phase. Its methods are called by several goroutines if the phase has several workers.
type Store interface {
	// Put sets one key without waiting for the disk. In all methods the slices belong to the caller and change after
	// the call.
	Put(key, value []byte) error
	// PutSync is Put, but durable when it returns.
	PutSync(key, value []byte) error
	// Apply sets all keys of a batch, or none.
	Apply(b Batch) error
	// AppendGet appends the value of key to dst and returns the longer slice. For an absent key it returns dst and
	// false.
	AppendGet(dst, key []byte) (out []byte, found bool, err error)
	// Scan calls each for up to limit keys, or all if limit is 0, in order, starting with the first key that is not
	// below from. The slices are valid until each returns. An error of each ends the scan and is returned.
	Scan(from []byte, limit int, each func(key, value []byte) error) error

	// Flush writes data in memory to tables, if the store has tables.
	Flush(ctx context.Context) error
	// Settle returns when the store has no background work left.
	Settle(ctx context.Context) error
	// Compact brings all data into its final form.
	Compact(ctx context.Context) error
	// Reopen closes the store cleanly and opens it again. It returns the time of the opening.
	Reopen() (opening time.Duration, err error)
	// Close closes the store.
	Close() error
}

// A FullStore has the calls that some phases need: Insert, Pop, and Absent and Present with Batch.
type FullStore interface {
	Store
	// PutIfAbsent sets a key unless the store holds it, and reports whether it did.
	PutIfAbsent(key, value []byte) (stored bool, err error)
	// Delete deletes one key. An absent key is not an error.
	Delete(key []byte) error
	// GetMany looks up keys and calls each for all of them, in their order; i is the index in keys. The value is valid
	// until each returns; it may be nil if found is false. An error of each ends the call and is returned.
	GetMany(keys [][]byte, each func(i int, value []byte, found bool) error) error
}

// A Looper is a Store that can also run all operations of a chunk in one call, for a store in another language, where
// each call takes long. Absent and Present without Batch, Seek and Scan then use these methods, and calls are not timed
// one by one.
type Looper interface {
	Store
	// LoopGet looks up each key of keys, appends its value with an empty key to answers, and sets found. The value of
	// a key that is not found is empty.
	LoopGet(keys, answers *Packed, found []bool) error
	// LoopSeek appends to answers, for each key of keys, up to limit pairs, starting with the first that is not below
	// the key, and sets counts to their numbers.
	LoopSeek(keys, answers *Packed, limit int, counts []int) error
	// LoopScan reads all pairs in order. It appends n pairs to answers, fewer at the end, and calls part, which empties
	// answers, until there are no more. An error of part ends the scan and is returned.
	LoopScan(answers *Packed, n int, part func() error) error
}

// A Set holds pairs of keys and values, numbered from 0, and keys that are absent from it. It never changes and is safe
// for concurrent use. The Append methods append to dst and return the longer slice.
type Set interface {
	// Len returns the number of pairs.
	Len() int
	// Sorted reports whether the keys are in the order of their numbers.
	Sorted() bool
	// AppendKey appends key i, 0 ≤ i < Len.
	AppendKey(dst []byte, i int) []byte
	// AppendValue appends the value of key i, 0 ≤ i < Len.
	AppendValue(dst []byte, i int) []byte
	// AppendVersion appends a later version of the value of key i. All versions of a key differ, and version 0 is the
	// value that AppendValue appends.
	AppendVersion(dst []byte, i int, version uint32) []byte
	// Index returns the number of a key, or false if the key is not in the set.
	Index(key []byte) (i int, ok bool)
	// Absents returns the number of absent keys.
	Absents() int
	// AppendAbsent appends absent key i, 0 ≤ i < Absents. Absent keys are distinct and lie between the keys of the set,
	// so that the bounds of tables do not exclude them and filters are needed.
	AppendAbsent(dst []byte, i int) []byte
}

// A Batch holds pairs that a store sets together: those from number from on, below to. It points into memory of the
// caller.
type Batch struct {
	packed   *Packed
	from, to int
}

// Len returns the number of pairs.
func (b Batch) Len() int { return b.to - b.from }

// All yields the pairs in the order in which they must be set.
func (b Batch) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for i := b.from; i < b.to; i++ {
			if !yield(b.packed.key(i), b.packed.value(i)) {
				return
			}
		}
	}
}

// Packed holds pairs end to end: pair i has the bytes of Keys between KeyEnds[i] and KeyEnds[i+1], and likewise of
// Values. The first end is 0.
type Packed struct {
	Keys, Values       []byte
	KeyEnds, ValueEnds []int
}

// grow allocates memory for n pairs with the given number of value bytes.
func (p *Packed) grow(n, values int) {
	p.Keys, p.Values = make([]byte, 0, n*64), make([]byte, 0, values+values/4)
	p.KeyEnds, p.ValueEnds = make([]int, 0, n+1), make([]int, 0, n+1)
}

func (p *Packed) reset() {
	p.Keys, p.Values = p.Keys[:0], p.Values[:0]
	p.KeyEnds, p.ValueEnds = append(p.KeyEnds[:0], 0), append(p.ValueEnds[:0], 0)
}

func (p *Packed) len() int { return max(0, len(p.KeyEnds)-1) }

// add appends a copy of one pair.
func (p *Packed) add(key, value []byte) {
	if len(p.KeyEnds) == 0 {
		p.reset()
	}
	p.Keys, p.Values = append(p.Keys, key...), append(p.Values, value...)
	p.end()
}

// end marks the bytes appended to keys and values since the last call as one pair.
func (p *Packed) end() {
	p.KeyEnds, p.ValueEnds = append(p.KeyEnds, len(p.Keys)), append(p.ValueEnds, len(p.Values))
}

func (p *Packed) key(i int) []byte { return p.Keys[p.KeyEnds[i]:p.KeyEnds[i+1]:p.KeyEnds[i+1]] }
func (p *Packed) value(i int) []byte {
	return p.Values[p.ValueEnds[i]:p.ValueEnds[i+1]:p.ValueEnds[i+1]]
}
