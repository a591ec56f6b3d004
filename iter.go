package bloomkv

import (
	"errors"
	"iter"

	"github.com/bloomkv/bloomkv/internal/read"
)

// An Iterator walks the keys of a range in both directions, as of the moment it was made: later writes are not seen. Its
// moves come in any order, past both ends and back:
//
//	(First | Last | Next | Prev | SeekGE | SeekLT)* Close
//
// A move reports whether the iterator stands at a key. Next from past the last key stays there, and Prev comes back to the
// last one; so it is at the other end. On a new iterator Next is First, and Prev is Last. After a move that returned false,
// Err tells the end of the range, nil, from what went wrong; a move to an absolute place may then be tried again.
//
// Key and Value are valid until the next move or Close, and must not be changed. An iterator takes no lock while it reads,
// opens tables as it reaches them, and keeps what it may still read from being removed: it should be closed soon. When the
// store is closed first, the iterator keeps its key and value, and its moves answer ErrClosed. It is for one goroutine at a
// time.
type Iterator struct {
	c   *read.Cursor // nil after Close, or if begin failed
	err error        // without a cursor: what Err says
}

// Iter returns an iterator over a range of the store as it is now: every write that returned is in it. It is never nil and
// must be closed; what goes wrong is told by Err and Close. Opening and using one allocates nothing in the steady state
// where it does not escape its function.
func (db *DB) Iter(opts IterOptions) *Iterator {
	it := new(Iterator)
	it.begin(db, &opts, read.Newest)
	return it
}

// begin opens the iterator at a moment.
func (it *Iterator) begin(db *DB, opts *IterOptions, at read.AsOf) {
	lower, upper := opts.bounds()
	it.c, it.err = db.read.Open(lower, upper, opts.KeysOnly, at)
}

// First moves to the first key of the range.
func (it *Iterator) First() bool { return it.open() && it.c.First() }

// Last moves to the last key of the range.
func (it *Iterator) Last() bool { return it.open() && it.c.Last() }

// Next moves to the next key.
func (it *Iterator) Next() bool { return it.open() && it.c.Next() }

// Prev moves to the key before.
func (it *Iterator) Prev() bool { return it.open() && it.c.Prev() }

// SeekGE moves to the first key of the range that is key or greater. key is only read, and may lie outside the range.
func (it *Iterator) SeekGE(key []byte) bool { return it.open() && it.c.SeekGE(key) }

// SeekLT moves to the last key of the range that is less than key. key is only read, and may lie outside the range.
func (it *Iterator) SeekLT(key []byte) bool { return it.open() && it.c.SeekLT(key) }

// open reports whether moves are possible, and else has Err say why not.
func (it *Iterator) open() bool {
	if it.c == nil {
		it.err = ErrClosed
	}
	return it.c != nil
}

// Valid reports whether the iterator stands at a key.
func (it *Iterator) Valid() bool { return it.c != nil && it.c.Standing() }

// Key is the key that the iterator stands at, nil where it stands at none; the empty key is not nil.
func (it *Iterator) Key() []byte {
	if !it.readable() {
		return nil
	}
	return it.c.Key()
}

// Value is the value of Key; nil with IterOptions.KeysOnly. An empty value is not nil.
func (it *Iterator) Value() []byte {
	if !it.readable() {
		return nil
	}
	return it.c.Value()
}

func (it *Iterator) readable() bool {
	return it.c != nil && it.c.Readable()
}

// Err is nil, or why the last move returned false. After Close it is what Close said, and ErrClosed once a move was tried.
func (it *Iterator) Err() error {
	if it.c == nil {
		return it.err
	}
	return it.c.Err()
}

// Close ends the iterator and lets go of what it held. It returns what Err says; a second Close is ErrClosed.
func (it *Iterator) Close() error {
	if it.c == nil {
		it.err = ErrClosed
		return ErrClosed
	}
	err := it.c.Err() // before end: then the cursor is another's
	ended := it.c.Close()
	it.c, it.err = nil, errors.Join(err, ended)
	if errors.Is(it.err, ErrClosed) {
		it.err = ErrClosed // bare
	}
	return it.err
}

// All is every key of the range from the first on, with its value. Both are valid until the loop's next step. What goes
// wrong ends the loop; Err and Close tell it. A loop may be left early; the iterator then stands where it was left.
func (it *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.First(); ok && yield(it.Key(), it.Value()); ok = it.Next() {
		}
	}
}

// Backward is every key of the range from the last one down, as All.
func (it *Iterator) Backward() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.Last(); ok && yield(it.Key(), it.Value()); ok = it.Prev() {
		}
	}
}
