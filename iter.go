package bloomkv

import (
	"bytes"
	"iter"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/read"
)

// IterOptions are the bounds of an iterator or a scan, and what it reads. The zero value means all keys with their
// values. The slices are copied.
type IterOptions struct {
	Lower, Upper []byte // the bounds, as of a KeyRange
	// Prefix restricts the keys to those that start with it; the bounds apply too. See also Options.FilterPrefix.
	Prefix   []byte
	KeysOnly bool // do not read values: they are nil

	// Reverse and Limit are for Scan. An Iterator, which moves in both directions, ignores them.
	Reverse bool // from the last key of the range to the first
	Limit   int  // the most keys; 0 means no limit
}

// An Iterator moves over the keys of a range in both directions, as of the moment it was made: it does not see later
// writes. Its moves may be called in any order, past both ends and back:
//
//	(First | Last | Next | Prev | SeekGE | SeekLT)* Close
//
// Each move reports whether the iterator is at a key. Next past the last key stays there, and Prev then moves back to
// the last key; the same holds, reversed, at the first key. On a new iterator, Next is First and Prev is Last. After
// a move returned false, Err returns nil at the end of the range, otherwise the error. After an error, an absolute
// move (First, Last, SeekGE, SeekLT) may be tried again.
//
// Key and Value are valid until the next move or Close, and must not be changed. An iterator takes no lock while it
// reads. It opens tables when it reaches them, and keeps all files that it may still read from being removed, so it
// should be closed soon. If the store is closed first, the iterator keeps its key and value until the next move, which
// returns false; Err then returns ErrClosed. An iterator must not be used by several goroutines at a time.
type Iterator struct {
	c   *read.Cursor // nil after Close, or if begin failed
	err error        // returned by Err if c is nil
}

// Iter returns an iterator over a range of the store as it is now, which includes every write that has returned. The
// iterator is never nil and must be closed. Its Err and Close return errors of Iter itself, too. In the steady state,
// opening and using an iterator that does not escape its function allocates nothing.
func (db *DB) Iter(opts IterOptions) *Iterator {
	it := new(Iterator)
	it.begin(db, &opts, read.Newest, nil)
	return it
}

// begin opens the iterator as of a moment, with the writes of a transaction over it, if over is not nil.
func (it *Iterator) begin(db *DB, opts *IterOptions, at read.AsOf, over *read.Writes) {
	lower, upper := opts.bounds()
	it.c, it.err = db.read.Open(lower, upper, opts.KeysOnly, at, over)
}

// First moves to the first key of the range.
func (it *Iterator) First() bool { return it.open() && it.c.First() }

// Last moves to the last key of the range.
func (it *Iterator) Last() bool { return it.open() && it.c.Last() }

// Next moves to the next key.
func (it *Iterator) Next() bool { return it.open() && it.c.Next() }

// Prev moves to the previous key.
func (it *Iterator) Prev() bool { return it.open() && it.c.Prev() }

// SeekGE moves to the first key of the range that is greater than or equal to key. key is not changed or kept, and
// may be outside the range.
func (it *Iterator) SeekGE(key []byte) bool { return it.open() && it.c.SeekGE(key) }

// SeekLT moves to the last key of the range that is less than key. key is not changed or kept, and may be outside the
// range.
func (it *Iterator) SeekLT(key []byte) bool { return it.open() && it.c.SeekLT(key) }

// open reports whether moves are possible. If not, Err returns ErrClosed afterwards.
func (it *Iterator) open() bool {
	if it.c == nil {
		it.err = ErrClosed
	}
	return it.c != nil
}

// Valid reports whether the iterator is at a key.
func (it *Iterator) Valid() bool { return it.c != nil && it.c.Standing() }

// Key returns the key that the iterator is at, or nil if it is at no key. The empty key is not nil.
func (it *Iterator) Key() []byte {
	if !it.Valid() {
		return nil
	}
	return it.c.Key()
}

// Value returns the value of Key, or nil if Key is nil or with IterOptions.KeysOnly. The empty value is not nil.
func (it *Iterator) Value() []byte {
	if !it.Valid() {
		return nil
	}
	return it.c.Value()
}

// Err returns the error for which the last move returned false, or nil. After Close it returns what Close returned,
// and ErrClosed once a move was tried.
func (it *Iterator) Err() error {
	if it.c == nil {
		return it.err
	}
	return it.c.Err()
}

// Close closes the iterator and releases what it holds. It returns what Err returns; a second Close returns
// ErrClosed and does nothing.
func (it *Iterator) Close() error {
	if it.c == nil {
		return ErrClosed
	}
	it.err = it.c.Err() // before Close: afterwards the cursor may be in use by another iterator
	it.c.Close()
	it.c = nil
	return it.err
}

// All returns a sequence of all keys of the range with their values, from the first on. Both are valid until the next
// step of the loop. An error ends the loop; Err and Close return it. After an early exit from the loop, the iterator
// stays where it was.
func (it *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.First(); ok && yield(it.Key(), it.Value()); ok = it.Next() {
		}
	}
}

// Backward returns a sequence like that of All, but from the last key to the first.
func (it *Iterator) Backward() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.Last(); ok && yield(it.Key(), it.Value()); ok = it.Prev() {
		}
	}
}

// KV is a key and its value. In a scan, both are valid until its next step and must not be changed. [DB.Ingest] reads
// both before it asks for the next KV, and does not keep them.
type KV struct{ Key, Value []byte }

// Scan returns the keys of a range with their values, in ascending order or with IterOptions.Reverse in descending
// order, as of the moment the loop begins: later writes are not seen. It takes no lock while it runs, and the loop may
// end at any time; until then, tables that it reads stay on the disk. An error, such as damage or ErrClosed, is the
// last element of the sequence, so that a failed scan cannot be mistaken for a complete one. The sequence may be ranged
// over more than once. The bounds are copied when a loop begins.
//
//	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte("user/")}) {
//		if err != nil {
//			return err
//		}
//		fmt.Printf("%s = %s\n", kv.Key, kv.Value)
//	}
func (db *DB) Scan(opts IterOptions) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) { scan(db.Iter(opts), &opts, yield) }
}

// scan yields the keys and values of a new iterator, and closes it.
func scan(it *Iterator, opts *IterOptions, yield func(KV, error) bool) {
	defer func() { _ = it.Close() }() // if the loop panics
	left := false
	for n := 0; !left && (n < opts.Limit || opts.Limit <= 0) && it.step(opts.Reverse); n++ {
		left = !yield(KV{it.Key(), it.Value()}, nil)
	}
	err := it.Close()
	if err != nil && !left {
		yield(KV{}, err)
	}
}

// step moves to the next key, or to the previous one. On a new iterator that is the first or the last.
func (it *Iterator) step(reverse bool) bool {
	if reverse {
		return it.Prev()
	}
	return it.Next()
}

// bounds returns the intersection of the prefix and the bounds: [lower, upper), where a nil upper means no end.
func (o IterOptions) bounds() (lower, upper []byte) {
	lower, upper = o.Lower, o.Upper
	if bytes.Compare(o.Prefix, lower) > 0 {
		lower = o.Prefix
	}
	if end := ikey.AfterPrefix(o.Prefix); end != nil && (upper == nil || bytes.Compare(end, upper) < 0) {
		upper = end
	}
	return lower, upper
}

// A KeyRange is the range of keys k with Lower ≤ k < Upper. A nil bound is none, so the zero value is the range of all
// keys. A range whose Lower is not below its Upper is empty, which is never an error.
type KeyRange struct{ Lower, Upper []byte }

// PrefixRange returns the range of all keys that start with prefix. The range may share the memory of prefix.
func PrefixRange(prefix []byte) KeyRange { return KeyRange{prefix, ikey.AfterPrefix(prefix)} }
