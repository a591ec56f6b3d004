package foreign

import (
	"encoding/binary"
	"errors"
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
	raw  bool   // it is in the file as it is here
}

// readBlock reads a block, verifies it and decompresses it.
func (s *sst) readBlock(h handle, what string) (block, error) {
	if h.size > maxRead {
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
	case s.magic == levelMagic:
		data, err = unpackLevel(codec, body)
	case s.magic == rocksMagic && s.version < 2 && codec > codecSnappy:
		err = errCodec // its lengths are recorded in other ways
	default:
		data, err = unpack(codec, body, s.magic == pebbleMagic)
	}
	switch {
	case errors.Is(err, errCodec):
		return block{}, s.unknown(h.offset, "%s: %s of format %s", what, codecName(codec), s.format())
	case err != nil:
		return block{}, s.damaged(h.offset, "%s: %w", what, err)
	}
	return block{data, h.offset, codec == codecNone}, nil
}
