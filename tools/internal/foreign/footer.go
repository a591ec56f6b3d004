package foreign

import (
	"encoding/binary"
	"fmt"
)

// The last eight bytes of a file, which name its format: LevelDB's doc/table_format.md, RocksDB's
// table/block_based/block_based_table_builder.cc, table/plain and table/cuckoo, Pebble's sstable/table.go and
// sstable/blob/blob.go.
const (
	levelMagic  = "\x57\xfb\x80\x8b\x24\x75\x47\xdb"
	rocksMagic  = "\xf7\xcf\xf4\x85\xb7\x41\xe2\x88"
	pebbleMagic = "\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"
	magicLen    = 8
)

// unread are the magics of files that are recognized and not read.
var unread = map[string]string{
	"\x64\xf9\x6b\x66\x29\x22\x42\x82": "a plain table of RocksDB",
	"\xb8\x13\x8f\x7a\xeb\x18\x34\x4f": "a plain table of an old RocksDB",
	"\x73\x78\xf1\xc5\xd0\x89\x67\x92": "a cuckoo table of RocksDB",
	"\xf0\x9f\xaa\xb3\xf0\x9f\xa6\x80": "a blob file of Pebble",
}

// The newest formats that are read.
const (
	maxRocksVersion  = 7
	maxPebbleVersion = 8
)

// A footer is the end of a table. There are four, all numbers little-endian:
//
//	LevelDB       | handles 40                                             | magic 8 |
//	RocksDB 1–5   | checksum 1 | handles 40                    | version 4 | magic 8 |
//	Pebble 1–5    | checksum 1 | handles 40                    | version 4 | magic 8 |
//	Pebble 6      | checksum 1 | handles 40           | crc 4  | version 4 | magic 8 |
//	Pebble 7, 8   | checksum 1 | handles 40 | flags 4 | crc 4  | version 4 | magic 8 |
//	RocksDB 6, 7  | checksum 1 | 3e 00 7a 00 | sum 4 | context 4 | metaindex size 4 | 24 × 0 | version 4 | magic 8 |
//
// The handles are those of the metaindex and the index, as varints, padded with zeros. From RocksDB 6 on, the
// metaindex ends where the footer begins, and contains the handle of the index.
type footer struct {
	magic    string
	version  uint32
	checksum checksum
	context  uint32 // changes the checksums of all blocks; 0 before RocksDB 6
	flags    uint32 // from Pebble 7 on
	offset   uint64
	meta     handle
	index    handle // empty from RocksDB 6 on
}

// flagTwoLevel is set in the flags of a Pebble table with an index of two levels (Pebble's sstable/attributes.go).
const flagTwoLevel = 1 << 5

const (
	handlesLen     = 40
	levelFooterLen = handlesLen + magicLen
	rocksFooterLen = 1 + handlesLen + 4 + magicLen
	maxFooterLen   = rocksFooterLen + 4 + 4
)

// readFooter reads the footer of a table of LevelDB, RocksDB or Pebble. It returns nil for another file.
func readFooter(f *file) (*footer, error) {
	n := min(f.size, maxFooterLen)
	if n < magicLen {
		return nil, nil
	}
	tail, err := f.read(f.size-n, n, "footer")
	if err != nil {
		return nil, err
	}
	ft := &footer{magic: string(tail[n-magicLen:])}
	length := uint64(rocksFooterLen)
	switch ft.magic {
	case levelMagic:
		length, ft.checksum = levelFooterLen, crc32c
	case rocksMagic, pebbleMagic:
		if n < rocksFooterLen {
			return nil, f.damaged(f.size-n, "file of %d bytes with the magic of a table", f.size)
		}
		if err := ft.readVersion(f, tail); err != nil {
			return nil, err
		}
		if ft.magic == pebbleMagic && ft.version >= 6 {
			length += 4 * uint64(min(ft.version, 7)-5)
		}
	default:
		if what, known := unread[ft.magic]; known {
			return nil, f.unknown(f.size-magicLen, "%s", what)
		}
		return nil, nil
	}
	if n < length {
		return nil, f.damaged(f.size-n, "file of %d bytes, want a footer of %d", f.size, length)
	}
	ft.offset = f.size - length
	return ft, ft.parse(f, tail[n-length:])
}

// readVersion reads the version and refuses those that are not known.
func (ft *footer) readVersion(f *file, tail []byte) error {
	at := len(tail) - magicLen - 4
	ft.version = binary.LittleEndian.Uint32(tail[at:])
	store, last := "RocksDB", uint32(maxRocksVersion)
	if ft.magic == pebbleMagic {
		store, last = "Pebble", maxPebbleVersion
	}
	if ft.version == 0 || ft.version > last {
		return f.unknown(f.size-magicLen-4, "table format version %d of %s, want 1..%d", ft.version, store, last)
	}
	return nil
}

// parse reads the fields of a footer that has its whole length.
func (ft *footer) parse(f *file, b []byte) error {
	if ft.magic == levelMagic {
		return ft.readHandles(f, b[:handlesLen])
	}
	ft.checksum = checksum(b[0])
	if ft.checksum > lastChecksum {
		return f.unknown(ft.offset, "checksum type %d, want 0..%d", b[0], lastChecksum)
	}
	if ft.magic == rocksMagic && ft.version >= 6 {
		return ft.parseContext(f, b)
	}
	if ft.magic == pebbleMagic && ft.version >= 6 {
		at := len(b) - magicLen - 4 - 4
		got := binary.LittleEndian.Uint32(b[at:])
		rest := append(append([]byte{}, b[:at]...), b[at+4:]...)
		if want := crc32c.of(rest); got != want {
			return f.damaged(ft.offset, "footer: checksum %08x, want %08x", got, want)
		}
		if ft.version >= 7 {
			ft.flags = binary.LittleEndian.Uint32(b[at-4:])
		}
	}
	return ft.readHandles(f, b[1:][:handlesLen])
}

// parseContext reads the footer of RocksDB 6 and 7.
func (ft *footer) parseContext(f *file, b []byte) error {
	const extended = "\x3e\x00\x7a\x00"
	if got := string(b[1:5]); got != extended {
		return f.damaged(ft.offset+1, "extended magic % x, want % x", got, extended)
	}
	got := binary.LittleEndian.Uint32(b[5:])
	ft.context = binary.LittleEndian.Uint32(b[9:])
	clear(b[5:9]) // the checksum was computed with itself zero
	if want := ft.checksum.of(b) + modifier(ft.context, ft.offset); got != want && ft.checksum != noChecksum {
		return f.damaged(ft.offset, "footer: checksum %08x, want %08x", got, want)
	}
	size := uint64(binary.LittleEndian.Uint32(b[13:]))
	if size+trailerLen > ft.offset {
		return f.damaged(ft.offset+13, "metaindex of %d bytes before offset %d", size, ft.offset)
	}
	ft.meta = handle{ft.offset - trailerLen - size, size}
	if reserved := binary.LittleEndian.Uint64(b[33:]); reserved != 0 {
		return f.unknown(ft.offset+33, "reserved bytes %x in the footer, want 0", reserved)
	}
	return nil
}

func (ft *footer) readHandles(f *file, b []byte) error {
	var ok bool
	if ft.meta, b, ok = cutHandle(b); ok {
		ft.index, _, ok = cutHandle(b)
	}
	if !ok {
		return f.damaged(ft.offset, "the handles of metaindex and index end after the footer")
	}
	return nil
}

// cutHandle reads a handle from the beginning of b.
func cutHandle(b []byte) (h handle, rest []byte, ok bool) {
	if h.offset, b, ok = cutUvarint(b); !ok {
		return h, nil, false
	}
	h.size, b, ok = cutUvarint(b)
	return h, b, ok
}

// cutUvarint reads a number from the beginning of b.
func cutUvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// format returns the name of the format.
func (ft *footer) format() string {
	switch ft.magic {
	case levelMagic:
		return "LevelDB"
	case pebbleMagic:
		return fmt.Sprintf("Pebble %d", ft.version)
	default:
		return fmt.Sprintf("RocksDB %d", ft.version)
	}
}
