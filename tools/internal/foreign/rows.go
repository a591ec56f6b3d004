package foreign

import "encoding/binary"

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

// next reads the next entry. It returns false after the last.
func (r *rows) next() (bool, error) {
	if r.pos >= r.end {
		return false, nil
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
		return false, r.damaged("an entry reaches beyond the block or shares more than the key before it has")
	}
	r.key = append(r.key[:r.shared], b[:rest]...)
	b = b[rest:]
	if r.bare {
		r.value = b
		r.pos = r.end - len(b)
		return true, nil
	}
	r.value = b[:length]
	r.pos = r.end - len(b) + int(length)
	return true, nil
}

// skip ends an entry whose value has no length: rest is what follows it.
func (r *rows) skip(rest []byte) { r.pos = r.end - len(rest) }

// damaged returns the error of the current entry.
func (r *rows) damaged(format string, args ...any) error {
	args = append([]any{r.pos}, args...)
	return r.f.damaged(r.at, "byte %d of the block: "+format, args...)
}
