package foreign

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"
)

// trailerLen is the length of the trailer of a block of LevelDB, RocksDB and Pebble: the compression, and the checksum
// of the block and of that byte.
const trailerLen = 1 + 4

// dataBlockName is the name of data blocks in errors.
const dataBlockName = "data block"

// A block is a block without its trailer, decompressed.
type block struct {
	data []byte
	at   uint64 // its offset in the file
}

// readBlock reads a block, verifies it and decompresses it.
func (s *sst) readBlock(h handle, what string) (block, error) {
	if h.size > s.size { // else the trailer may not be countable
		return block{}, s.damaged(h.offset, "%s of %d bytes in a file of %d", what, h.size, s.size)
	}
	b, err := s.read(h.offset, h.size+trailerLen, what)
	if err != nil {
		return block{}, err
	}
	body, codec := b[:h.size], b[h.size]
	got := binary.LittleEndian.Uint32(b[h.size+1:])
	if want := s.checksum.of(b[:h.size+1]) + modifier(s.context, h.offset); got != want && s.checksum != noChecksum {
		return block{}, s.damaged(h.offset, "%s: checksum %08x, want %08x", what, got, want)
	}
	if s.dictionary && what == dataBlockName && codec > codecSnappy {
		return block{}, s.unknown(h.offset, "%s: %s with a dictionary", what, codecName(codec))
	}
	var data []byte
	switch {
	case codec > codecSnappy && (s.magic == rocksMagic && s.version < 2 || s.magic == levelMagic && len(s.raw) > 0):
		err = errCodec // RocksDB before format 2, which recorded lengths in other ways; LevelDB has no properties
	case s.magic == levelMagic:
		data, err = unpackLevel(codec, body)
	default:
		data, err = unpack(codec, body, s.magic == pebbleMagic)
	}
	switch {
	case errors.Is(err, errCodec):
		return block{}, s.unknown(h.offset, "%s: %s of format %s", what, codecName(codec), s.format())
	case errors.Is(err, errTooLong):
		return block{}, s.unknown(h.offset, "%s: %v", what, err)
	case err != nil:
		return block{}, s.damaged(h.offset, "%s: %w", what, err)
	}
	return block{data, h.offset}, s.spend(h.offset, len(data))
}

// A checksum is a kind of checksum of blocks. The values are in files: RocksDB's include/rocksdb/table.h.
type checksum byte

const (
	noChecksum checksum = 0
	crc32c     checksum = 1
	xxHash32   checksum = 2
	xxHash64   checksum = 3
	xxHash3    checksum = 4

	lastChecksum = xxHash3
)

// String returns the name of the checksum.
func (c checksum) String() string {
	return [...]string{"none", "CRC-32C", "XXH32", "XXH64", "XXH3"}[c]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// of returns the checksum of b, which has at least one byte. CRC-32C is masked as in LevelDB's util/crc32c.h. XXH3 is
// computed without the last byte, which is then mixed into the result (ModifyChecksumForLastByte in RocksDB's
// table/format.cc).
func (c checksum) of(b []byte) uint32 {
	switch c {
	case crc32c:
		sum := crc32.Checksum(b, castagnoli)
		return (sum>>15 | sum<<17) + 0xa282ead8
	case xxHash32:
		return xxh32(b)
	case xxHash64:
		return uint32(xxhash.Sum64(b)) //nolint:gosec // the lower half is the checksum
	case xxHash3:
		last := len(b) - 1
		return uint32(xxh3(b[:last])) ^ uint32(b[last])*0x6b9083d9 //nolint:gosec // as above
	case noChecksum:
	}
	return 0
}

// modifier returns what is added to the checksum of a block at an offset (ChecksumModifierForContext in RocksDB's
// table/format.h), so that a block that was moved does not match.
func modifier(context uint32, offset uint64) uint32 {
	if context == 0 {
		return 0
	}
	return context ^ (uint32(offset) + uint32(offset>>32)) //nolint:gosec // both halves
}
