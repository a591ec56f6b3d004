package foreign

import (
	"encoding/binary"
	"math/bits"
)

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
