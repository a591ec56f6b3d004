package bloomkv

import (
	"bytes"
	"iter"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// IterOptions are the bounds of an iterator or a scan, and what it reads. The zero value means all keys with their
// values. nil bounds are unbounded; an inverted range is empty. The slices are copied.
type IterOptions struct {
	Lower []byte // inclusive
	Upper []byte // exclusive
	// Prefix restricts the keys to those that start with it; the bounds apply too. See also Options.FilterPrefix.
	Prefix   []byte
	KeysOnly bool // do not read values: they are nil
}

// KV is a key and its value. In a scan, both are valid until its next step and must not be changed. [DB.Ingest] reads
// both before it asks for the next KV, and does not keep them.
type KV struct{ Key, Value []byte }

// Scan returns the keys of a range with their values, in ascending order, as of the moment the loop begins: later
// writes are not seen. It takes no lock while it runs, and the loop may end at any time; until then, tables that it
// reads stay on the disk. An error, such as damage or ErrClosed, is the last element of the sequence, so that a
// failed scan cannot be mistaken for a complete one. The sequence may be ranged over more than once. The bounds are
// copied when a loop begins.
//
//	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte("user/")}) {
//		if err != nil {
//			return err
//		}
//		fmt.Printf("%s = %s\n", kv.Key, kv.Value)
//	}
func (db *DB) Scan(opts IterOptions) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) { scan(db.Iter(opts), yield) }
}

// scan yields all keys and values of an iterator, and closes it.
func scan(it *Iterator, yield func(KV, error) bool) {
	defer func() { _ = it.Close() }() // if the loop panics
	left := false
	for ok := it.First(); ok && !left; ok = !left && it.Next() {
		left = !yield(KV{it.Key(), it.Value()}, nil)
	}
	err := it.Close()
	if err != nil && !left {
		yield(KV{}, err)
	}
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

// A KeyRange is the range of keys k with Lower ≤ k < Upper. nil means unbounded.
type KeyRange struct{ Lower, Upper []byte }

// PrefixRange returns the range of all keys that start with prefix, for [DB.DeleteRange], [DB.ApproximateSize] or
// [IngestOptions]. The range may share the memory of prefix.
func PrefixRange(prefix []byte) KeyRange { return KeyRange{prefix, ikey.AfterPrefix(prefix)} }
