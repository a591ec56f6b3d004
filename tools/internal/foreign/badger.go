package foreign

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// A badger is a table of Badger, from version 3 on. It has no magic: it is recognized by the checksum of its index.
//
//	| blocks | index, a flatbuffer | length 4 | checksum of the index | length 4 |
//
// These lengths are big-endian. The index is a table of: blocks, filter, greatest version, number of keys, uncompressed
// size, size with values, size of stale data. A block is a table of: first key, offset, length. A block is compressed
// as a whole, by a codec that the table does not record, or encrypted. Decompressed it is
//
//	| entries | offset 4 of each entry | number of entries 4 | checksum of all before | length 4 |
//	entry     | overlap 2 | rest 2 | rest of the key | flags 1 | … |
//
// where only the number of entries and the length are big-endian. The overlap is with the first key of the block. A key
// ends with eight bytes of its version. Sources: Badger's table/builder.go, table/table.go and fb/flatbuffer.fbs.
type badger struct {
	*file
	index  flat
	at     uint64 // offset of the index
	blocks uint64 // place of the vector in the index
	count  uint64
}

const (
	badgerMaxSum   = 32 // bytes of a checksum, generously
	badgerVersion  = 8  // bytes of a version at the end of a key
	badgerDeleted  = 1  // flag
	badgerBlocks   = 0  // fields of the index
	badgerFilter   = 1
	badgerMax      = 2
	badgerKeys     = 3
	badgerFirstKey = 0 // fields of a block
	badgerOffset   = 1
	badgerLength   = 2
)

// badgerNumbers are the other fields of the index, which are shown as properties.
var badgerNumbers = []struct {
	name  string
	field uint64
	bytes uint64
}{
	{"max version", badgerMax, 8},
	{"key count", badgerKeys, 4},
	{"uncompressed size", 4, 4},
	{"on disk size", 5, 4},
	{"stale data size", 6, 4},
}

// openBadger reads the index of a table of Badger. It returns ErrNotForeign for another file.
func openBadger(f *file) (*Table, error) {
	n := min(f.size, badgerMaxSum+8)
	tail, err := f.read(f.size-n, n, "footer")
	if err != nil {
		return nil, err
	}
	sumLen, tail, ok := be32(tail)
	if !ok || sumLen > badgerMaxSum || sumLen > uint64(len(tail)) {
		return nil, ErrNotForeign
	}
	sum, ok := newProtoSum(tail[uint64(len(tail))-sumLen:])
	if !ok {
		return nil, ErrNotForeign
	}
	indexLen, _, ok := be32(tail[:uint64(len(tail))-sumLen])
	if !ok || indexLen == 0 || indexLen > f.size-sumLen-8 {
		return nil, ErrNotForeign
	}
	b := &badger{file: f, at: f.size - sumLen - 8 - indexLen}
	if b.index.b, err = f.read(b.at, indexLen, "index"); err != nil {
		return nil, err
	}
	if !sum.holds(b.index.b) {
		return nil, ErrNotForeign
	}
	root := b.index.table(b.index.follow(0))
	b.blocks, b.count = b.index.vector(root, badgerBlocks, 4)
	bits, bitsAt := b.index.bytes(root, badgerFilter)
	t := &Table{file: f, layout: b}
	t.Facts = Facts{
		Store: Badger, Format: "Badger 3 or later", Bytes: f.size,
		Checksum: [...]string{"CRC-32C", "XXH64"}[sum.algorithm], Blocks: b.count,
		Entries: b.index.number(root, badgerKeys, 4), Notes: []string{},
	}
	for _, p := range badgerNumbers {
		v := b.index.number(root, p.field, p.bytes)
		t.Properties = append(t.Properties, Property{p.name, strconv.FormatUint(v, 10)})
	}
	if b.index.bad || b.count == 0 || b.dataBlocks(func(dataBlock) error { return nil }) != nil {
		return nil, f.unknown(b.at, "index that is encrypted, or not of a table of Badger 3 or later")
	}
	if len(bits) > 0 {
		t.Filter = &Filter{
			Policy: "Badger", Layout: Full, Offset: b.at + bitsAt, Bytes: uint64(len(bits)), Recorded: t.Entries,
		}
		t.setFilter(&single{newPlain(bits, unsignedTail), b.at + bitsAt}, nil)
	}
	return t, nil
}

// first returns the first user key of block i.
func (b *badger) first(t flatTable) ([]byte, bool) {
	key, _ := b.index.bytes(t, badgerFirstKey)
	if len(key) < badgerVersion {
		return nil, false
	}
	return key[:len(key)-badgerVersion], true
}

// dataBlocks calls each for every block. No key of a block is greater than the first of the next.
func (b *badger) dataBlocks(each func(dataBlock) error) error {
	end := uint64(0)
	for i := range b.count {
		t := b.index.table(b.index.follow(b.blocks + 4*i))
		d := dataBlock{
			handle: handle{b.index.number(t, badgerOffset, 4), b.index.number(t, badgerLength, 4)},
			number: int(i),
		}
		_, ok := b.first(t)
		if i+1 < b.count {
			var next bool
			d.upper, next = b.first(b.index.table(b.index.follow(b.blocks + 4*(i+1))))
			ok = ok && next
		}
		if b.index.bad || !ok || d.offset < end || d.offset > b.at || d.size > b.at-d.offset {
			return b.damaged(b.at, "index: block %d of %d bytes at offset %d", i, d.size, d.offset)
		}
		end = d.offset + d.size
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

// plainBlock returns the entries of a block and their offsets if b is a block that is not compressed.
func plainBlock(b []byte) (entries, offsets []byte, ok bool) {
	sumLen, rest, ok := be32(b)
	if !ok || sumLen > badgerMaxSum || sumLen > uint64(len(rest)) {
		return nil, nil, false
	}
	body := rest[:uint64(len(rest))-sumLen]
	sum, ok := newProtoSum(rest[len(body):])
	if !ok || !sum.holds(body) {
		return nil, nil, false
	}
	count, rest, ok := be32(body)
	if !ok || 4*count > uint64(len(rest)) {
		return nil, nil, false
	}
	at := uint64(len(rest)) - 4*count
	return rest[:at], rest[at:], true
}

// entries calls each for every entry of a block.
func (b *badger) entries(d dataBlock, each func(*entry) error) error {
	raw, err := b.read(d.offset, d.size, dataBlockName)
	if err != nil {
		return err
	}
	entries, offsets, ok := plainBlock(raw)
	if !ok {
		decoded, err := unzstd(raw)
		if err != nil {
			decoded, err = unsnappy(raw)
		}
		if err == nil {
			entries, offsets, ok = plainBlock(decoded)
		}
		if !ok {
			return b.damaged(d.offset, "%s: the checksum is wrong, read as it is, by zstd and by snappy", dataBlockName)
		}
		raw = decoded
	}
	if err := b.spend(d.offset, len(raw)); err != nil {
		return err
	}
	var base, key []byte
	var e entry
	for i := 0; i < len(offsets); i += 4 {
		from := uint64(binary.LittleEndian.Uint32(offsets[i:]))
		if from > uint64(len(entries)) || uint64(len(entries))-from < 4 {
			return b.damaged(d.offset, "%s: entry at byte %d of %d", dataBlockName, from, len(entries))
		}
		rest := entries[from+4:]
		overlap := int(binary.LittleEndian.Uint16(entries[from:]))
		own := int(binary.LittleEndian.Uint16(entries[from+2:]))
		if overlap > len(base) || own >= len(rest) || overlap+own < badgerVersion {
			return b.damaged(d.offset, "%s: entry at byte %d shares %d bytes and has %d", dataBlockName, from,
				overlap, own)
		}
		key = append(append(key[:0], base[:overlap]...), rest[:own]...)
		if i == 0 {
			base = bytes.Clone(key)
		}
		if err := b.spend(d.offset, len(key)); err != nil {
			return err
		}
		user := key[:len(key)-badgerVersion]
		e = entry{key: user, filter: user, deleted: rest[own]&badgerDeleted != 0}
		if err := each(&e); err != nil {
			return err
		}
	}
	return nil
}

// A protoSum is the checksum that Badger writes after its blocks and its index, a protocol buffer of two numbers:
//
//	| 08 | algorithm: 0 is CRC-32C, 1 is XXH64 | 10 | checksum |
//
// A number that is 0 may be left out. Source: Badger's pb/badgerpb4.proto.
type protoSum struct{ algorithm, sum uint64 }

// newProtoSum parses a checksum. It returns false for anything else.
func newProtoSum(b []byte) (p protoSum, ok bool) {
	for len(b) > 0 {
		tag := b[0]
		var v uint64
		if v, b, ok = cutUvarint(b[1:]); !ok {
			return p, false
		}
		switch tag {
		case 0x08:
			p.algorithm = v
		case 0x10:
			p.sum = v
		default:
			return p, false
		}
	}
	return p, p.algorithm <= 1
}

// holds reports whether p is the checksum of b.
func (p protoSum) holds(b []byte) bool {
	if p.algorithm == 0 {
		return p.sum == uint64(crc32.Checksum(b, castagnoli))
	}
	return p.sum == xxhash.Sum64(b)
}

// be32 returns the last four bytes of b as a number, big-endian, and what is before them.
func be32(b []byte) (v uint64, rest []byte, ok bool) {
	n := len(b) - 4
	if n < 0 {
		return 0, nil, false
	}
	return uint64(binary.BigEndian.Uint32(b[n:])), b[:n], true
}

// A flat is a flatbuffer, of which Badger's index is one: https://flatbuffers.dev/internals/. Offsets are relative to
// where they are, and have four bytes. A read outside of the buffer sets bad and returns zero.
type flat struct {
	b   []byte
	bad bool
}

// A flatTable is a table of a flatbuffer: where it is, and where the offsets of its fields are.
type flatTable struct {
	at, fields, end uint64
}

func (f *flat) word(at, n uint64) (v uint64) {
	if size := uint64(len(f.b)); at > size || n > size-at {
		f.bad = true
		return 0
	}
	for i := range n {
		v |= uint64(f.b[at+i]) << (8 * i)
	}
	return v
}

// follow returns the place to which the offset at a place leads.
func (f *flat) follow(at uint64) uint64 { return at + f.word(at, 4) }

// table returns the table at a place. It begins with the distance back to the list of its fields, which begins with its
// length in bytes and that of the table, two bytes each.
func (f *flat) table(at uint64) flatTable {
	back := int64(int32(f.word(at, 4))) //nolint:gosec // signed, as specified
	list := uint64(int64(at) - back)    //nolint:gosec // checked by word
	size := f.word(list, 2)
	if size < 4 || size > uint64(len(f.b))-min(list, uint64(len(f.b))) {
		f.bad = true
		return flatTable{}
	}
	return flatTable{at, list + 4, list + size}
}

// field returns the place of a field, or 0 if the table does not have it.
func (f *flat) field(t flatTable, i uint64) uint64 {
	if at := t.fields + 2*i; at+2 <= t.end {
		if offset := f.word(at, 2); offset != 0 {
			return t.at + offset
		}
	}
	return 0
}

// number returns a field of n bytes, or 0 if the table does not have it.
func (f *flat) number(t flatTable, i, n uint64) uint64 {
	if at := f.field(t, i); at != 0 {
		return f.word(at, n)
	}
	return 0
}

// vector returns the place and the number of the elements of a vector, which have n bytes each.
func (f *flat) vector(t flatTable, i, n uint64) (at, count uint64) {
	field := f.field(t, i)
	if field == 0 {
		return 0, 0
	}
	at = f.follow(field)
	count = f.word(at, 4)
	if at += 4; f.bad || at > uint64(len(f.b)) || count > (uint64(len(f.b))-at)/n {
		f.bad = true
		return 0, 0
	}
	return at, count
}

// bytes returns a vector of bytes and its place.
func (f *flat) bytes(t flatTable, i uint64) (b []byte, at uint64) {
	at, n := f.vector(t, i, 1)
	return f.b[at:][:n], at
}
