package foreign

import (
	"encoding/binary"
	"math/bits"
)

// A bloomHash is the 32-bit hash of LevelDB's Bloom filters, in one of two versions: LevelDB, goleveldb and Badger add
// the last one to three bytes of a key as they are; RocksDB and Pebble add them as signed numbers (LevelDB's
// util/hash.cc and util/bloom.cc, RocksDB's util/hash.cc).
type bloomHash bool

const (
	unsignedTail bloomHash = false
	signedTail   bloomHash = true
)

func (signed bloomHash) of(key []byte) uint32 {
	const (
		seed   uint32 = 0xbc9f1d34
		factor uint32 = 0xc6a4a793
	)
	h := seed ^ uint32(len(key))*factor //nolint:gosec // modulo 2³², as in the format
	for ; len(key) >= 4; key = key[4:] {
		h = (h + binary.LittleEndian.Uint32(key)) * factor
		h ^= h >> 16
	}
	if len(key) == 0 {
		return h
	}
	for i, c := range key {
		v := uint32(c)
		if signed {
			v = uint32(int32(int8(c))) //nolint:gosec // the sign is extended, as in the format
		}
		h += v << (8 * i)
	}
	h *= factor
	return h ^ h>>24
}

// hash returns the hash of a key as that of a unit.
func (signed bloomHash) hash(key []byte) uint64 { return uint64(signed.of(key)) }

// String returns the name of the hash.
func (signed bloomHash) String() string {
	if signed {
		return "LevelDB's 32-bit hash, signed tail"
	}
	return "LevelDB's 32-bit hash"
}

// The primes of XXH32: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
const (
	prime32x1 uint32 = 0x9e3779b1
	prime32x2 uint32 = 0x85ebca77
	prime32x3 uint32 = 0xc2b2ae3d
	prime32x4 uint32 = 0x27d4eb2f
	prime32x5 uint32 = 0x165667b1
)

// xxh32 returns XXH32 of b with seed 0.
func xxh32(b []byte) uint32 {
	length := uint32(len(b)) //nolint:gosec // modulo 2³², as specified
	h := prime32x5
	if len(b) >= 16 {
		var zero uint32
		lanes := [4]uint32{zero + prime32x1, prime32x2, 0, zero - prime32x1}
		lanes[0] += prime32x2
		for ; len(b) >= 16; b = b[16:] {
			for i := range lanes {
				lanes[i] = bits.RotateLeft32(lanes[i]+binary.LittleEndian.Uint32(b[4*i:])*prime32x2, 13) * prime32x1
			}
		}
		h = bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) + bits.RotateLeft32(lanes[2], 12) +
			bits.RotateLeft32(lanes[3], 18)
	}
	h += length
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*prime32x3, 17) * prime32x4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*prime32x5, 11) * prime32x1
	}
	h = (h ^ h>>15) * prime32x2
	h = (h ^ h>>13) * prime32x3
	return h ^ h>>16
}

// XXH3 with 64 bits, seed 0 and the default secret, in two versions: the final one, which RocksDB uses for checksums,
// and the preview 0.7.2, which it uses to hash the keys of its filters. They differ for inputs of at most 16 bytes, in
// a factor, and for those of more than 240 bytes. Sources: the specification
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md and RocksDB's util/xxph3.h.

// secret is the default secret of both versions.
const secret = "" +
	"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c" +
	"\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4\xa4\xb7\xb3\x67\x1f" +
	"\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21" +
	"\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c" +
	"\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3" +
	"\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d" +
	"\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64" +
	"\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb" +
	"\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e" +
	"\x2b\x16\xbe\x58\x7d\x47\xa1\xfc\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce" +
	"\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e"

const (
	prime64x1 uint64 = 0x9e3779b185ebca87
	prime64x2 uint64 = 0xc2b2ae3d27d4eb4f
	prime64x3 uint64 = 0x165667b19e3779f9
	prime64x4 uint64 = 0x85ebca77c2b2ae63
	prime64x5 uint64 = 0x27d4eb2f165667c5

	finalFactor uint64 = 0x165667919e3779f9 // the preview has prime64x3 in its place

	midMax      = 240 // longer inputs are hashed in stripes
	stripe      = 64  // bytes of input that change all lanes once
	secretStep  = 8   // bytes of the secret from one stripe to the next
	secretLen   = len(secret)
	secretLeast = 136 // the shortest secret that the specification allows
)

var secretBytes = []byte(secret)

// secretWord returns eight bytes of the secret.
func secretWord(at int) uint64 { return binary.LittleEndian.Uint64(secretBytes[at:]) }

func le32(b []byte, at int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at:])) }

func le64(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// fold returns the halves of a·b, combined.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// avalanche ends both versions, each with its own factor.
func avalanche(h, factor uint64) uint64 {
	h = (h ^ h>>37) * factor
	return h ^ h>>32
}

// xxh3 returns the final XXH3 of b.
func xxh3(b []byte) uint64 {
	switch {
	case len(b) <= 16:
		return finalShort(b)
	case len(b) <= midMax:
		return middle(b, finalFactor)
	}
	return long(b, finalFactor, 1)
}

const previewName = "XXH3, preview 0.7.2"

// xxph3 returns the preview XXH3 of b.
func xxph3(b []byte) uint64 {
	switch {
	case len(b) <= 16:
		return previewShort(b)
	case len(b) <= midMax:
		return middle(b, prime64x3)
	}
	return long(b, prime64x3, 0)
}

// mix combines 16 bytes of b with 16 bytes of the secret.
func mix(b []byte, at, secretAt int) uint64 {
	return fold(le64(b, at)^secretWord(secretAt), le64(b, at+8)^secretWord(secretAt+8))
}

// middle hashes 17 to 240 bytes.
func middle(b []byte, factor uint64) uint64 {
	n := len(b)
	h := uint64(n) * prime64x1
	if n <= 128 {
		for i := (n - 1) / 32; i >= 0; i-- { // pairs from both ends
			h += mix(b, 16*i, 32*i) + mix(b, n-16*(i+1), 32*i+16)
		}
		return avalanche(h, factor)
	}
	for i := range 8 {
		h += mix(b, 16*i, 16*i)
	}
	h = avalanche(h, factor)
	for i := 8; i < n/16; i++ {
		h += mix(b, 16*i, 16*(i-8)+3)
	}
	return avalanche(h+mix(b, n-16, secretLeast-17), factor)
}

// long hashes more than 240 bytes. Each lane adds the input of the lane whose number differs by swap in one bit: 1 in
// the final version, 0 in the preview. Only the final version always ends with the last stripe.
func long(b []byte, factor uint64, swap int) uint64 {
	lanes := [8]uint64{
		uint64(prime32x3), prime64x1, prime64x2, prime64x3, prime64x4, uint64(prime32x2), prime64x5, uint64(prime32x1),
	}
	const stripes = (secretLen - stripe) / secretStep // until the lanes are scrambled
	left, n := b, 0
	for len(left) >= stripe+swap {
		if n == stripes {
			scramble(&lanes)
			n = 0
		}
		accumulate(&lanes, left, n*secretStep, swap)
		left = left[stripe:]
		n++
	}
	if n == stripes {
		scramble(&lanes)
	}
	if len(left) > 0 {
		accumulate(&lanes, b[len(b)-stripe:], secretLen-stripe-7, swap)
	}
	h := uint64(len(b)) * prime64x1
	for i := 0; i < len(lanes); i += 2 {
		h += fold(lanes[i]^secretWord(11+8*i), lanes[i+1]^secretWord(11+8*i+8))
	}
	return avalanche(h, factor)
}

// scramble mixes each lane with the end of the secret.
func scramble(lanes *[8]uint64) {
	for i := range lanes {
		lanes[i] = (lanes[i] ^ lanes[i]>>47 ^ secretWord(secretLen-stripe+8*i)) * uint64(prime32x1)
	}
}

// accumulate adds a stripe to the lanes.
func accumulate(lanes *[8]uint64, b []byte, secretAt, swap int) {
	for i := range lanes {
		v := le64(b, 8*i)
		k := v ^ secretWord(secretAt+8*i)
		lanes[i^swap] += v
		lanes[i] += (k & 0xffffffff) * (k >> 32)
	}
}

// finalShort hashes at most 16 bytes in the final version.
func finalShort(b []byte) uint64 {
	n := len(b)
	switch {
	case n == 0:
		return xxh64End(secretWord(56) ^ secretWord(64))
	case n <= 3:
		v := uint64(b[0])<<16 | uint64(b[n/2])<<24 | uint64(b[n-1]) | uint64(n)<<8
		return xxh64End(v ^ le32(secretBytes, 0) ^ le32(secretBytes, 4))
	case n <= 8:
		h := (le32(b, n-4) + le32(b, 0)<<32) ^ secretWord(8) ^ secretWord(16)
		h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
		h *= 0x9fb21c651e98df25
		h ^= h>>35 + uint64(n)
		h *= 0x9fb21c651e98df25
		return h ^ h>>28
	default:
		low := le64(b, 0) ^ secretWord(24) ^ secretWord(32)
		high := le64(b, n-8) ^ secretWord(40) ^ secretWord(48)
		return avalanche(uint64(n)+bits.ReverseBytes64(low)+high+fold(low, high), finalFactor)
	}
}

// xxh64End is the end of XXH64.
func xxh64End(h uint64) uint64 {
	h = (h ^ h>>33) * prime64x2
	h = (h ^ h>>29) * prime64x3
	return h ^ h>>32
}

// previewShort hashes at most 16 bytes in the preview version. RocksDB hashes the empty key in its own way.
func previewShort(b []byte) uint64 {
	n := len(b)
	switch {
	case n == 0:
		return fold(secretWord(0), prime64x2)
	case n <= 3:
		v := uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16 | uint64(n)<<24
		return avalanche((v^le32(secretBytes, 0))*prime64x1, prime64x3)
	case n <= 8:
		v := (le32(b, 0) | le32(b, n-4)<<32) ^ secretWord(0)
		v = uint64(n) + (v^v>>51)*uint64(prime32x1)
		return avalanche((v^v>>47)*prime64x2, prime64x3)
	default:
		low, high := le64(b, 0)^secretWord(0), le64(b, n-8)^secretWord(8)
		return avalanche(uint64(n)+low+high+fold(low, high), prime64x3)
	}
}
