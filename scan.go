package bloomkv

import (
	"bytes"
	"iter"
	"slices"
)

// IterOptions are the bounds of an iterator or a scan, and what it reads. The zero value is all keys with their values. nil
// bounds are infinite; an inverted range is empty. The slices are copied.
type IterOptions struct {
	Lower    []byte // inclusive
	Upper    []byte // exclusive
	Prefix   []byte // only keys that start with it; together with the bounds, both hold. See also Options.FilterPrefix
	KeysOnly bool   // values are not wanted: they come as nil
}

// KV is a key and its value. Of a scan both are valid until its next step and must not be changed; given to [DB.Ingest] both
// are read before the next step, and not kept.
type KV struct{ Key, Value []byte }

// Scan returns the keys of a range with their values, ascending, as of the moment the loop begins: later writes are not
// seen. It takes no lock while it runs and may be left at any time; tables that it reads stay on the disk until then. An
// error, such as damage or ErrClosed, comes as the last element, so that a broken scan cannot pass for a finished one. The
// sequence may be ranged over more than once; the bounds are copied when a loop begins.
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

// scan yields all that an iterator has, and ends it.
func scan(it *Iterator, yield func(KV, error) bool) {
	defer func() { _ = it.Close() }() // where the loop panics
	left := false
	for ok := it.First(); ok && !left; ok = !left && it.Next() {
		left = !yield(KV{it.Key(), it.Value()}, nil)
	}
	err := it.Close()
	if err != nil && !left {
		yield(KV{}, err)
	}
}

// bounds brings the prefix and the bounds together: [lower, upper), upper nil for no end.
func (o IterOptions) bounds() (lower, upper []byte) {
	lower, upper = o.Lower, o.Upper
	if bytes.Compare(o.Prefix, lower) > 0 {
		lower = o.Prefix
	}
	if end := after(o.Prefix); end != nil && (upper == nil || bytes.Compare(end, upper) < 0) {
		upper = end
	}
	return lower, upper
}

// KeyRange is the keys from Lower on and before Upper: Lower is inclusive, Upper exclusive. nil is infinite.
type KeyRange struct{ Lower, Upper []byte }

// PrefixRange is the range of all keys that start with prefix, as [DB.DeleteRange], [DB.ApproximateSize] or
// [IngestOptions] want it. It may share the memory of prefix.
func PrefixRange(prefix []byte) KeyRange { return KeyRange{prefix, after(prefix)} }

// after is the smallest key that is greater than all keys with the prefix; nil if there is none.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := slices.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}
