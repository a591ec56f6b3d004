package foreign

import "encoding/binary"

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

// String returns the name of the hash.
func (signed bloomHash) String() string {
	if signed {
		return "LevelDB's 32-bit hash, signed tail"
	}
	return "LevelDB's 32-bit hash"
}
