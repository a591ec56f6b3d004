package tests

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A forgedTable is a decoded table, to be changed and encoded again with correct checksums. The parts of
// internal/sstable/format.go and internal/sstable/index.go without an exported encoder are written here a second time:
// TestATablePutTogetherAgainIsTheSame checks that both agree.
type forgedTable struct {
	id      uint64
	blocks  []forgedBlock
	index   []byte // payload; nil: made from blocks and separators
	prefix  []byte
	sample  []byte // payload; nil if absent
	keys    []byte // filter of keys; nil if absent
	second  []byte // filter of prefixes; nil if absent
	dels    []byte // payload; nil if absent
	props   []byte // payload
	foot    func(words []uint64, sample *uint32)
	tailLen uint64 // result of the last join
}

// A forgedBlock is a data block as stored, with its entry in the index.
type forgedBlock struct {
	payload []byte
	codec   sstable.Codec
	decoded uint32
	suffix  []byte // rest of the separator, after the prefix
}

const (
	// Kinds of blocks.
	forgeData, forgeIndex, forgeProps, forgeFilter, forgeDels, forgeSample, forgeSecond = 1, 2, 3, 4, 5, 6, 7

	forgeTrailer, forgeFooter = 5, 80
	forgePrefixes             = 80 // offset of the bounds in the properties
)

// forgeSum returns the checksum of a part of a table: of id, kind, offset and bytes.
func forgeSum(id uint64, kind byte, offset int, b []byte) uint32 {
	seed := binary.LittleEndian.AppendUint64(nil, id)
	seed = binary.LittleEndian.AppendUint64(append(seed, kind), uint64(offset))
	return crc32.Update(crc32.Checksum(seed, castagnoli), castagnoli, b)
}

// secondAt returns the offset of the second filter's length in the properties, or 0 if the table has only one filter.
func secondAt(props []byte) int {
	at := forgePrefixes
	for range 2 {
		if len(props) < at+4 {
			return 0
		}
		at += 4 + int(binary.LittleEndian.Uint32(props[at:]))
	}
	if len(props) < at+20 {
		return 0
	}
	return at + 8
}

// takeApart decodes an undamaged table.
func takeApart(file []byte) *forgedTable {
	foot := file[len(file)-forgeFooter:]
	word := func(i int) int { return int(binary.LittleEndian.Uint64(foot[8*i:])) }
	t := &forgedTable{id: binary.LittleEndian.Uint64(foot)}
	filterOff, filterLen, indexOff, indexLen, delsLen, propsLen := word(1), word(2), word(3), word(4), word(5), word(6)
	at := indexOff
	part := func(n int) []byte {
		at += n + forgeTrailer
		return bytes.Clone(file[at-n-forgeTrailer : at-forgeTrailer])
	}
	index := part(indexLen)
	if delsLen > 0 {
		t.dels = part(delsLen)
	}
	t.props = part(propsLen)
	if n := int(binary.LittleEndian.Uint32(foot[60:])); n > 0 {
		t.sample = bytes.Clone(file[filterOff-n-forgeTrailer:][:n])
	}
	if filterLen > 0 {
		t.keys = bytes.Clone(file[filterOff:indexOff])
		if at := secondAt(t.props); at > 0 {
			n := filterLen - int(binary.LittleEndian.Uint64(t.props[at:]))
			t.keys, t.second = t.keys[:n:n], t.keys[n:]
		}
	}
	count, prefix := int(binary.LittleEndian.Uint32(index)), int(binary.LittleEndian.Uint32(index[4:]))
	t.prefix = index[8 : 8+prefix]
	fixed := index[8+prefix:]
	seps := fixed[12*count:]
	offset := 0
	for i := range count {
		e := fixed[12*i:]
		stored, suffix := int(binary.LittleEndian.Uint32(e)), int(binary.LittleEndian.Uint32(e[8:]))
		t.blocks = append(t.blocks, forgedBlock{
			payload: bytes.Clone(file[offset : offset+stored]), codec: sstable.Codec(file[offset+stored]),
			decoded: binary.LittleEndian.Uint32(e[4:]), suffix: seps[:suffix],
		})
		seps = seps[suffix:]
		offset += stored + forgeTrailer
	}
	return t
}

// indexPayload returns the index of the current blocks.
func (t *forgedTable) indexPayload() []byte {
	if t.index != nil {
		return t.index
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(t.blocks)))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t.prefix))), t.prefix...)
	for _, x := range t.blocks {
		for _, v := range [...]uint32{uint32(len(x.payload)), x.decoded, uint32(len(x.suffix))} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, x := range t.blocks {
		b = append(b, x.suffix...)
	}
	return b
}

// join encodes the table with correct checksums.
func (t *forgedTable) join() []byte {
	var b []byte
	seal := func(kind byte, payload []byte, c sstable.Codec) {
		at := len(b)
		b = append(append(b, payload...), byte(c))
		b = binary.LittleEndian.AppendUint32(b, forgeSum(t.id, kind, at, b[at:]))
	}
	for _, x := range t.blocks {
		seal(forgeData, x.payload, x.codec)
	}
	words, sum := make([]uint64, 7), uint32(0)
	sample := uint32(len(t.sample))
	if t.keys != nil {
		n := len(b)
		if t.sample != nil {
			n += len(t.sample) + forgeTrailer
		}
		b = append(b, make([]byte, -n&63)...)
		if t.sample != nil {
			seal(forgeSample, t.sample, sstable.None)
		}
		words[1] = uint64(len(b))
		sum = forgeSum(t.id, forgeFilter, len(b), t.keys[:min(len(t.keys), bloomblock.HeaderSize-4)])
		b = append(b, t.keys...)
		if at := secondAt(t.props); t.second != nil && at > 0 {
			binary.LittleEndian.PutUint32(t.props[at+8:],
				forgeSum(t.id, forgeSecond, len(b), t.second[:min(len(t.second), bloomblock.HeaderSize-4)]))
		}
		b = append(b, t.second...)
		words[2] = uint64(len(b)) - words[1]
	} else {
		words[1] = uint64(len(b))
	}
	words[0], words[3] = t.id, uint64(len(b))
	index := t.indexPayload()
	words[4], words[5], words[6] = uint64(len(index)), uint64(len(t.dels)), uint64(len(t.props))
	seal(forgeIndex, index, sstable.None)
	if len(t.dels) > 0 {
		seal(forgeDels, t.dels, sstable.None)
	}
	seal(forgeProps, t.props, sstable.None)
	if t.foot != nil {
		t.foot(words, &sample)
	}
	at := len(b)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, sum), sample)
	head := b[at:]
	tail := append(binary.LittleEndian.AppendUint32(nil, 1), "bloomsst"...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, tail))
	b = append(b, tail...)
	t.tailLen = uint64(forgeFooter + 2*forgeTrailer + len(index) + len(t.props))
	if len(t.dels) > 0 {
		t.tailLen += uint64(len(t.dels) + forgeTrailer)
	}
	return b
}

var (
	forgeEncoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	forgeDecoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
)

// decode returns the block's entries, uncompressed.
func (x *forgedBlock) decode() ([]byte, error) {
	switch x.codec {
	case sstable.S2:
		return s2.Decode(nil, x.payload)
	case sstable.Zstd:
		return forgeDecoder.DecodeAll(x.payload, nil)
	default:
		return bytes.Clone(x.payload), nil
	}
}

// encode stores data with a codec if that makes it shorter, and uncompressed otherwise.
func (x *forgedBlock) encode(data []byte, c sstable.Codec) {
	x.payload, x.codec, x.decoded = data, sstable.None, uint32(len(data))
	var b []byte
	switch c {
	case sstable.S2:
		b = s2.Encode(nil, data)
	case sstable.Zstd:
		b = forgeEncoder.EncodeAll(data, nil)
	case sstable.None:
	}
	if b != nil && len(b) < len(data) {
		x.payload, x.codec = b, c
	}
}

// resumFilter recomputes the checksums of a changed filter: those of the changed units, and that of the header, which
// is its last field. h is the header before the change.
func resumFilter(b []byte, h bloomblock.Header) {
	if len(b) < bloomblock.HeaderSize {
		return
	}
	for _, u := range h.Units {
		if u.Offset+u.Bytes() > uint64(len(b)) {
			continue
		}
		old := binary.LittleEndian.AppendUint32(nil, u.CRC)
		if at := bytes.Index(b[:bloomblock.HeaderSize-4], old); at >= 0 {
			binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[u.Offset:u.Offset+u.Bytes()], castagnoli))
		}
	}
	binary.LittleEndian.PutUint32(b[bloomblock.HeaderSize-4:], crc32.Checksum(b[:bloomblock.HeaderSize-4], castagnoli))
}
