// Package bloomblock builds, reads and explains filter blocks: small immutable sets of key hashes that answer
// "certainly not here" or "maybe here". A store has one for each table and asks it before it reads the table.
//
// # The promise
//
// MayContain never denies a key that was added: there are no false negatives, for any set of keys of any size. It
// answers maybe for an absent key at no more than the rate that Params promised, for keys of any shape. Damage (a
// flipped bit) or an unknown format is an error of Parse and never a filter that denies keys.
//
// # How it works
//
// A filter has one to three units. Each unit is a Bloom filter cut into 512-bit blocks, so that all probes of a key
// fall into one cache line of 64 bytes: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters",
// WEA 2007. The block is the high half of hash × blocks (Lemire, "Fast Random Integer Generation in an Interval",
// TOMACS 2019), and the positions in it are 9-bit fields of further multiplications. Double hashing inside a block
// (Kirsch, Mitzenmacher, "Less Hashing, Same Performance", ESA 2006) would need one multiplication less, but has only
// 2¹⁸ patterns in 512 bits, which makes the rate three times as high at 16 bits per key and seven times at 20.
//
// Blocks are filled unevenly, which costs a blocked filter more the lower its rate is. Several units of one filter
// place a key independently, so the unevenness averages out and the rate is the product of theirs. Units can also be
// loaded one by one: the first n units are a filter of the same keys with a higher rate.
//
// HashKey hashes each key once, and every filter of a store is asked with the same Hash.
//
// # Less memory than filter
//
// A filter in a file can be held in memory in smaller forms (Header.Forms): without some of its units, with Bloom units
// folded to half of their blocks once or several times, with fewer columns of a Ribbon unit. Each form has its exact
// rate, and none denies a key. What is written to a file or sent elsewhere is always the whole filter.
//
// # Keys chosen by an adversary
//
// HashKey is not a secret, so anybody can choose keys whose hashes crowd into a few blocks. Each filter therefore has
// a Seed, which it mixes into every hash. Without knowing the seed nobody can choose such keys. The Builder does not
// rely on the seed alone: it measures the bits that it has set, and starts again with another seed if they miss their
// rate.
package bloomblock

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// MaxUnits is the largest number of units in one filter.
const MaxUnits = 3

// MaxProbes is the largest number of probes in one unit: two multiplications give 7 fields of 9 bits each.
const MaxProbes = 14

const (
	blockBytes = 64             // one cache line
	blockBits  = 8 * blockBytes // a 9-bit field addresses each
	blockShift = 6              // log2(blockBytes)
	fieldBits  = 9              // log2(blockBits)
	wordFields = 7              // whole fields in 64 bits
)

// Errors of Parse, ParamsFor and related functions. A caller that knows the file wraps them with its name and the
// offset.
var (
	// ErrDamaged is returned for bytes that are not a filter block or sample block: a checksum or a field is wrong.
	ErrDamaged = errors.New("filter block damaged")
	// ErrUnknownKind is returned for an intact block with an unknown version, kind or hash. The caller must continue
	// as if every answer were maybe.
	ErrUnknownKind = errors.New("filter block of unknown kind")
	// ErrRate is returned if no filter can have the requested rate.
	ErrRate = errors.New("false positive rate out of range")
	// ErrParams is returned if bits per key, probes or the number of units are out of range.
	ErrParams = errors.New("filter parameters out of range")
)

// Hash is the 64-bit hash of a key. It is the only thing filters know about keys.
type Hash uint64

// HashKey hashes a key with XXH64, seed 0. A nil key is the empty key. It does not retain key.
func HashKey(key []byte) Hash { return Hash(xxhash.Sum64(key)) }

// A Seed determines, together with a hash, where a filter places a key. Seed 0 uses hashes unchanged, which is enough
// for keys that nobody chose on purpose.
type Seed uint64

// NewSeed returns a random seed other than 0.
func NewSeed() Seed {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails
		if s := Seed(binary.LittleEndian.Uint64(b[:])); s != 0 {
			return s
		}
	}
}

// Mix returns the hash that a filter with seed s uses instead of h. Equal hashes stay equal.
//
// It folds the 128-bit product of two secret-dependent factors, as wyhash does (Wang Yi). The usual alternative, a
// keyed hash of the key itself, would have to hash the key again for each seed.
func (s Seed) Mix(h Hash) Hash {
	hi, lo := bits.Mul64(uint64(h)^uint64(s), uint64(s)*mulMix|1)
	return Hash(hi ^ lo)
}

// A SeededHash is a key's hash together with the result of mixing it with a seed, so that a lookup mixes once for all
// filters with that seed. The zero value is Hash 0 with Seed 0.
type SeededHash struct {
	Hash  Hash // by HashKey
	Mixed Hash // Seed.Mix(Hash)
	Seed  Seed
}

// Hash returns h together with s.Mix(h).
func (s Seed) Hash(h Hash) SeededHash { return SeededHash{Hash: h, Mixed: s.Mix(h), Seed: s} }

// under returns the hash that a filter with the given seed uses.
func (h *SeededHash) under(s Seed) Hash {
	if s == h.Seed {
		return h.Mixed
	}
	return s.Mix(h.Hash)
}

// Odd multipliers: 2⁶⁴ divided by the golden ratio, and two from searches for good bit avalanche (Vigna's SplitMix64).
const (
	mulFields = 0x9e3779b97f4a7c15
	mulSecond = 0xbf58476d1ce4e5b9
	mulNext   = 0x94d049bb133111eb
)

// Block returns the index, below n, of the block of h, a mixed hash, in a unit of n blocks.
func (h Hash) Block(n uint64) uint64 {
	hi, _ := bits.Mul64(uint64(h), n)
	return hi
}

// Fields returns the positions of h inside its block: 9-bit fields from the low end, seven in each word, a before b.
// Fields 0..6 of a are probes 0..6, those of b probes 7..13. Position i is bit i&7 of byte i>>3, which is also bit
// i&63 of little-endian word i>>6.
//
// The low fields of one product depend on the low bits of h alone, so a second product of h itself would repeat their
// coincidences; the second word is therefore made from the folded first.
func (h Hash) Fields() (a, b uint64) {
	a = uint64(h) * mulFields
	return a, (a ^ a>>32) * mulSecond
}

// Next returns the hash of the same key in the next unit of a filter: a different block and positions, independent of
// those of h.
func (h Hash) Next() Hash {
	x := (uint64(h) ^ uint64(h)>>32) * mulNext
	return Hash(x ^ x>>29)
}
