// Package bucket writes nested buckets into the keys of a store that has none.
//
// A key is the names of the buckets on the way to it, from the outermost one, and its name in the last of them:
//
//	+-------------+-------+-------------+-------+-----+------------+
//	| bucket name | 00 01 | bucket name | 00 01 | ... | name       |     in each name, 00 is written as 00 ff
//	+-------------+-------+-------------+-------+-----+------------+
//
// Names that hold no zero are written as they are: "users\x00\x01alice". No two places have the same key; all that is in a
// bucket begins with the prefix of the bucket; and the order is that of bbolt, in each bucket the names of keys and of
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

// Prefix is what every key in a bucket begins with, for IterOptions.Prefix: outer is the prefix of the bucket around it, nil
// for none. The result is the caller's.
func Prefix(outer, name []byte) []byte {
	return append(Key(outer, name), end...)
}

// Key is the key of a name in the bucket with a prefix. The result is the caller's.
func Key(prefix, name []byte) []byte {
	return slices.Concat(prefix, bytes.ReplaceAll(name, zero, zeroInName))
}

// Split is the way back: the names of the buckets, from the outermost one, and the name in the last of them.
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
