package bloomkv

import (
	"errors"
	"iter"
	"slices"

	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/overlay"
	"github.com/bloomkv/bloomkv/internal/read"
)

// A TxIterator moves over the keys of a range in a transaction, like an [Iterator]: in both directions, in any order of
// moves, past both ends and back. Key and Value are valid until the next move or Close, and must not be changed.
type TxIterator struct {
	tx           *Tx
	base         *read.Cursor // nil after Close, or if Iter failed
	c            *overlay.Cursor
	lower, upper []byte
	keysOnly     bool
	at           place
	err          error

	// What was walked over since the last absolute move.
	walked  commit.Range
	walking bool // a move has ended, so both bounds of walked are known
	loRoom  []byte
	hiRoom  []byte
}

// A place is where an iterator stands.
type place uint8

const (
	unmoved place = iota
	atKey
	atStart // before the first key
	atEnd   // past the last key
	failed
)

// First moves to the first key of the range.
func (it *TxIterator) First() bool { return it.SeekGE(it.lower) }

// Last moves to the last key of the range.
func (it *TxIterator) Last() bool {
	if !it.open() {
		return false
	}
	it.restart()
	it.walked.Hi = it.upper
	return it.back(it.c.Last())
}

// SeekGE moves to the first key of the range that is greater than or equal to key, which is not changed or kept.
func (it *TxIterator) SeekGE(key []byte) bool {
	if !it.open() {
		return false
	}
	it.restart()
	if it.walked.Lo = it.lower; string(key) > string(it.lower) {
		it.walked.Lo = append([]byte{}, key...)
	}
	return it.forth(it.c.SeekGE(key))
}

// SeekLT moves to the last key of the range that is less than key, which is not changed or kept.
func (it *TxIterator) SeekLT(key []byte) bool {
	if !it.open() {
		return false
	}
	it.restart()
	if it.walked.Hi = it.upper; it.upper == nil || string(key) < string(it.upper) {
		it.walked.Hi = append([]byte{}, key...)
	}
	return it.back(it.c.SeekLT(key))
}

// Next moves to the next key: on a new iterator to the first, past the end nowhere.
func (it *TxIterator) Next() bool {
	switch {
	case !it.open() || it.at == atEnd || it.at == failed:
		return false
	case it.at == unmoved:
		return it.First()
	case it.at == atStart: // the range that was walked begins at the lower bound
		return it.forth(it.c.SeekGE(it.lower))
	default:
		return it.forth(it.c.Next())
	}
}

// Prev moves to the previous key: on a new iterator to the last, before the start nowhere.
func (it *TxIterator) Prev() bool {
	switch {
	case !it.open() || it.at == atStart || it.at == failed:
		return false
	case it.at == unmoved:
		return it.Last()
	case it.at == atEnd:
		return it.back(it.c.Last())
	default:
		return it.back(it.c.Prev())
	}
}

// forth ends a forward move, which has walked up to the key that it found, or to the end of the range.
func (it *TxIterator) forth(found bool) bool {
	switch {
	case !it.arrived(found, atEnd):
	case !found:
		it.walked.Hi = it.upper
	default:
		key := it.c.Key()
		if !it.walking || it.walked.Hi != nil && string(it.walked.Hi) <= string(key) {
			it.hiRoom = append(append(it.hiRoom[:0], key...), 0) // the first key behind it
			it.walked.Hi = it.hiRoom
		}
	}
	it.walking = true
	return found
}

// back ends a backward move, which has walked down to the key that it found, or to the start of the range.
func (it *TxIterator) back(found bool) bool {
	switch {
	case !it.arrived(found, atStart):
	case !found:
		it.walked.Lo = it.lower
	default:
		key := it.c.Key()
		if !it.walking || string(key) < string(it.walked.Lo) {
			it.loRoom = append(it.loRoom[:0], key...)
			it.walked.Lo = it.loRoom
		}
	}
	it.walking = true
	return found
}

// arrived notes where a move has ended: at a key, or at the given end of the range. It returns false for an error.
func (it *TxIterator) arrived(found bool, end place) bool {
	it.at = atKey
	if !found {
		it.at = end
		if it.err = bare(it.c.Err()); it.err != nil {
			it.at = failed
		}
	}
	return it.at != failed
}

// restart adds what was walked over to the reads of the transaction, before an absolute move or the end.
func (it *TxIterator) restart() {
	w := it.walked
	if it.walking && (w.Hi == nil || string(w.Lo) < string(w.Hi)) {
		it.tx.reads.Ranges = append(it.tx.reads.Ranges, w)
		it.loRoom, it.hiRoom = nil, nil
	}
	it.walked, it.walking, it.err = commit.Range{}, false, nil
}

// open reports whether moves are possible.
func (it *TxIterator) open() bool {
	if it.base == nil && it.err == nil {
		it.err = ErrClosed
	}
	return it.base != nil
}

// Valid reports whether the iterator is at a key.
func (it *TxIterator) Valid() bool { return it.base != nil && it.at == atKey }

// Key returns the key that the iterator is at, or nil if it is at no key. The empty key is not nil.
func (it *TxIterator) Key() []byte {
	if !it.Valid() {
		return nil
	}
	return it.c.Key()
}

// Value returns the value of Key, or nil if Key is nil or with IterOptions.KeysOnly. The empty value is not nil.
func (it *TxIterator) Value() []byte {
	if !it.Valid() || it.keysOnly {
		return nil
	}
	return it.c.Value()
}

// Err returns the error for which the last move returned false, or nil.
func (it *TxIterator) Err() error { return it.err }

// Close closes the iterator. It returns what Err returns; a second Close returns ErrClosed and does nothing. What the
// iterator has walked over stays among the reads of the transaction.
func (it *TxIterator) Close() error {
	if it.base == nil {
		return ErrClosed
	}
	err := it.err
	it.restart()
	ended := it.base.Close()
	i := slices.Index(it.tx.iterators, it)
	it.tx.iterators = slices.Delete(it.tx.iterators, i, i+1)
	it.base, it.err = nil, bare(errors.Join(err, ended))
	return it.err
}

// All returns a sequence of all keys of the range with their values, from the first on: see [Iterator.All].
func (it *TxIterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.First(); ok && yield(it.Key(), it.Value()); ok = it.Next() {
		}
	}
}

// Backward returns a sequence like that of All, but from the last key to the first.
func (it *TxIterator) Backward() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.Last(); ok && yield(it.Key(), it.Value()); ok = it.Prev() {
		}
	}
}
