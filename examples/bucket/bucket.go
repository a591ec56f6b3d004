// Package bucket encodes nested buckets as prefixes of keys, for a store that has no buckets.
//
// A key consists of the names of its buckets, from the outermost one, and its name in the innermost:
//
//	+-------------+-------+-------------+-------+-----+------------+
//	| bucket name | 00 01 | bucket name | 00 01 | ... | name       |   in each name, 00 is written as 00 ff
//	+-------------+-------+-------------+-------+-----+------------+
//
// Names without a zero are written unchanged: "users\x00\x01alice". Different names have different keys, every key in a
// bucket begins with the prefix of the bucket, and the order is that of bbolt: in each bucket the names of keys and of
// buckets together, ascending.
package bucket

import (
	"bytes"
	"slices"
)

var (
	end        = []byte{0, 1}
	zero       = []byte{0}
	zeroInName = []byte{0, 0xff}
)

// Prefix returns the prefix of every key in a bucket, for IterOptions.Prefix. outer is the prefix of the enclosing
// bucket, nil at the top. The caller owns the result.
func Prefix(outer, name []byte) []byte {
	return append(Key(outer, name), end...)
}

// Key returns the key of a name in the bucket with the given prefix. The caller owns the result.
func Key(prefix, name []byte) []byte {
	return slices.Concat(prefix, bytes.ReplaceAll(name, zero, zeroInName))
}

// Split returns the names of a key's buckets, from the outermost one, and its name in the innermost.
func Split(key []byte) (buckets [][]byte, name []byte) {
	for {
		bucket, rest, ok := bytes.Cut(key, end)
		if !ok {
			return buckets, bytes.ReplaceAll(key, zeroInName, zero)
		}
		buckets = append(buckets, bytes.ReplaceAll(bucket, zeroInName, zero))
		key = rest
	}
}
