// Package ikey defines the order of a store's versions: user key ascending, then newest first.
package ikey

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
)

// Seq numbers the operations of a store in commit order. It has 56 bits; 0 means "older than every snapshot".
type Seq uint64

// MaxSeq is the largest sequence number.
const MaxSeq Seq = 1<<56 - 1

// Kind is the kind of a version. The values are on disk.
type Kind uint8

const (
	Delete      Kind = 0 // a point tombstone
	Set         Kind = 1 // a value
	RangeDelete Kind = 2 // a range tombstone; its value is the end of the range
	ValueRef    Kind = 3 // reserved for values stored elsewhere
	Mark        Kind = 4 // a mark of the store, only in batches and logs; no version has it
	maxKind          = 0xff
)

// String returns the name of the kind for tools.
func (k Kind) String() string {
	switch k {
	case Delete:
		return "DEL"
	case Set:
		return "SET"
	case RangeDelete:
		return "RANGEDEL"
	case ValueRef:
		return "REF"
	case Mark:
		return "MARK"
	default:
		return "KIND(" + string("0123456789abcdef"[k>>4]) + string("0123456789abcdef"[k&15]) + ")"
	}
}

// Trailer is a sequence number and a kind in one word: seq << 8 | kind. A larger trailer is newer.
type Trailer uint64

// MakeTrailer packs seq and kind.
func MakeTrailer(seq Seq, kind Kind) Trailer { return Trailer(seq)<<8 | Trailer(kind) }

// Seq returns the sequence number in t.
func (t Trailer) Seq() Seq { return Seq(t >> 8) }

// Kind returns the kind in t.
func (t Trailer) Kind() Kind { return Kind(t & 0xff) }

// Key is the position of one version in the order.
type Key struct {
	User    []byte
	Trailer Trailer
}

// Search returns the position just before the newest version of user that a reader at seq may see.
func Search(user []byte, seq Seq) Key { return Key{user, MakeTrailer(seq, maxKind)} }

// Compare orders by user key, then newest first.
func Compare(a, b Key) int {
	if c := bytes.Compare(a.User, b.User); c != 0 {
		return c
	}
	return cmp.Compare(b.Trailer, a.Trailer)
}

// Head returns the first eight bytes of b as a big-endian number, padded with zeros. Heads order as the bytes do; equal
// heads decide nothing.
func Head(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var h uint64
	for i, c := range b {
		h |= uint64(c) << (56 - 8*i)
	}
	return h
}

// HeadFrom returns Head(key[n:]). Where that is shorter than a head, it is one load nevertheless if the key is not: the
// last eight bytes of the key, without those before n.
func HeadFrom(key []byte, n int) uint64 {
	if rest := len(key) - n; rest < 8 && len(key) >= 8 {
		return binary.BigEndian.Uint64(key[len(key)-8:]) << (64 - 8*rest)
	}
	return Head(key[n:])
}

// Less returns 1 if a < b and 0 otherwise, without a branch: in a search among heads, a branch would be mispredicted
// half of the time.
func Less(a, b uint64) int {
	_, borrow := bits.Sub64(a, b, 0)
	return int(borrow) //nolint:gosec // 0 or 1
}

// HeadAfter returns the head of key relative to keys that start with prefix: 0 for a key before all of them, the
// largest number for a key after all of them, otherwise the head of the bytes after the prefix. It never orders two
// keys wrongly; ties decide nothing.
func HeadAfter(prefix, key []byte) uint64 {
	if len(prefix) == 0 || bytes.HasPrefix(key, prefix) {
		return HeadFrom(key, len(prefix))
	}
	if bytes.Compare(key, prefix) < 0 {
		return 0
	}
	return ^uint64(0)
}

// AfterPrefix returns the smallest key that is greater than all keys with the prefix, or nil if no key is.
func AfterPrefix(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] < 0xff {
			after := bytes.Clone(prefix[:n])
			after[n-1]++
			return after
		}
	}
	return nil
}

// CommonPrefix returns the length of the longest common prefix of a and b.
func CommonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for ; i < n; i++ {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
