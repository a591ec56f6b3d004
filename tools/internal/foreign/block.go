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
	data, err := s.unpack(codec, body)
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

// Rows are the entries of a block, each with the number of bytes that its key shares with the key before it:
//
//	entries    | shared | rest | value length | rest of the key | value |   varints; index values may have no length
//	restarts   | offsets of entries that share nothing, 4 bytes each |
//	hash index | one byte for each bucket, and their number, 2 bytes |     with flag 31 only
//	number     | number of restarts, 4 bytes; its upper four bits are flags |
//
// Sources: LevelDB's doc/table_format.md and table/block_builder.cc, RocksDB's table/block_based/block_builder.cc and
// data_block_footer.h. The entries are read in their order, so the restarts are only counted.
type rows struct {
	f    *file
	at   uint64 // offset of the block in the file
	data []byte
	pos  int
	end  int  // of the entries
	bare bool // values have no length

	key    []byte // of the current entry, overwritten by next
	value  []byte // or what follows the key, if values have no length: then skip must be called
	shared uint64
	err    error // that has ended the entries
}

// The flags of a block.
const (
	flagHashIndex = 1 << 31
	flagUniform   = 1 << 29 // says how keys are distributed; nothing else changes
	restartBits   = 1<<28 - 1
)

// newRows checks the end of a block. Its entries are checked by next.
func newRows(f *file, b block, bare bool) (*rows, error) {
	end := len(b.data) - 4
	if end < 0 {
		return nil, f.damaged(b.at, "block of %d bytes, want at least 4", len(b.data))
	}
	word := binary.LittleEndian.Uint32(b.data[end:])
	if flags := word &^ restartBits; flags&^(flagHashIndex|flagUniform) != 0 {
		return nil, f.unknown(b.at, "flags %08x of a block, want only %08x", flags, uint32(flagHashIndex|flagUniform))
	}
	if word&flagHashIndex != 0 {
		if end < 2 {
			return nil, f.damaged(b.at, "block of %d bytes with a hash index", len(b.data))
		}
		end -= 2 + int(binary.LittleEndian.Uint16(b.data[end-2:]))
	}
	if restarts := int64(word & restartBits); restarts*4 > int64(end) {
		return nil, f.damaged(b.at, "%d restarts in a block of %d bytes", restarts, len(b.data))
	}
	end -= 4 * int(word&restartBits)
	return &rows{f: f, at: b.at, data: b.data, end: end, bare: bare}, nil
}

// next reads the next entry. It returns false after the last, and after an error, which err then has.
func (r *rows) next() bool {
	if r.pos >= r.end {
		return false
	}
	b := r.data[r.pos:r.end]
	var rest, length uint64
	var ok bool
	if r.shared, b, ok = cutUvarint(b); ok {
		rest, b, ok = cutUvarint(b)
	}
	if ok && !r.bare {
		length, b, ok = cutUvarint(b)
	}
	if !ok || r.shared > uint64(len(r.key)) || rest > uint64(len(b)) || length > uint64(len(b))-rest {
		r.err = r.damaged("an entry reaches beyond the block or shares more than the key before it has")
		return false
	}
	r.key = append(r.key[:r.shared], b[:rest]...)
	r.value = b[rest:]
	if !r.bare {
		r.value = r.value[:length]
	}
	r.pos = r.end - len(b) + int(rest+length)
	return true
}

// skip ends an entry whose value has no length: rest is what follows it.
func (r *rows) skip(rest []byte) { r.pos = r.end - len(rest) }

// damaged returns the error of the current entry.
func (r *rows) damaged(format string, args ...any) error {
	args = append([]any{r.pos}, args...)
	return r.f.damaged(r.at, "byte %d of the block: "+format, args...)
}
