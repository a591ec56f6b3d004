package foreign

import "math/bits"

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
