package tests

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A forgedTable is a decoded table, to be changed and encoded again with correct checksums. What format.go, index.go
// and parts.go of internal/sstable draw without an exported encoder is written here a second time:
// TestATablePutTogetherAgainIsTheSame checks that both agree.
type forgedTable struct {
	id      uint64
	blocks  []forgedBlock
	index   []byte // payload of the index or the top; nil: made from blocks and separators
	prefix  []byte
	cuts    []int          // number of blocks of each part of the index; nil: the index is one block
	parts   map[int][]byte // payloads of parts that are not made from blocks and separators, by part
	extra   []byte         // what is in front of the footer, without its checksum; nil: what belongs there
	sample  []byte         // payload; nil if absent
	keys    []byte         // filter of keys; nil if absent
	second  []byte         // filter of prefixes; nil if absent
	dels    []byte         // payload; nil if absent
	props   []byte         // payload
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
	forgePart, forgeTop, forgeExtra                                                     = 8, 9, 10

	forgeTrailer, forgeFooter = 5, 80
	forgeExtraSize            = 48
	forgePrefixes             = 80 // offset of the bounds in the properties

	// Offsets in the header of a filter: of its units, and of the checksum of the checksums of its pages.
	forgeUnit, forgeSums = 32, 112
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
	if binary.LittleEndian.Uint32(foot[68:]) > 1 {
		t.takeParts(file, index)
	} else {
		t.takeIndex(file, index)
	}
	return t
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
	for i := range t.cuts {
		seal(forgePart, t.partPayload(i), sstable.None)
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
	indexOff := uint64(len(b))
	words[0], words[3] = t.id, indexOff
	index := t.indexPayload()
	words[4], words[5], words[6] = uint64(len(index)), uint64(len(t.dels)), uint64(len(t.props))
	kind, version := byte(forgeIndex), uint32(1)
	if t.cuts != nil {
		kind, version = forgeTop, 2
	}
	seal(kind, index, sstable.None)
	if len(t.dels) > 0 {
		seal(forgeDels, t.dels, sstable.None)
	}
	seal(forgeProps, t.props, sstable.None)
	if t.foot != nil {
		t.foot(words, &sample)
	}
	at := len(b)
	if t.cuts != nil {
		b = append(b, t.extraPayload()...)
		b = binary.LittleEndian.AppendUint32(b, forgeSum(t.id, forgeExtra, at, b[at:]))
		at = len(b)
	}
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, sum), sample)
	head := b[at:]
	tail := append(binary.LittleEndian.AppendUint32(nil, version), "bloomsst"...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, tail))
	b = append(b, tail...)
	t.tailLen = uint64(len(b)) - indexOff
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

// resumFilter recomputes the checksums of a changed filter: those of units and pages, and that of the header, which is
// its last field. h is the header before the change.
func resumFilter(b []byte, h bloomblock.Header) {
	if len(b) < bloomblock.HeaderSize {
		return
	}
	end := bloomblock.HeaderSize + h.UnitsSize()
	if uint64(len(b)) >= end {
		units := b[bloomblock.HeaderSize:end]
		for i, unit := range h.Split(units) {
			binary.LittleEndian.PutUint32(b[forgeUnit+24*i+16:], crc32.Checksum(unit, castagnoli))
		}
		if _, size := h.SumsSpan(); size > 0 && uint64(len(b)) == end+size {
			sums := b[end:]
			for page := range slices.Chunk(units, 4096) {
				binary.LittleEndian.PutUint32(sums, crc32.Checksum(page, castagnoli))
				sums = sums[4:]
			}
			binary.LittleEndian.PutUint32(b[forgeSums:], crc32.Checksum(b[end:], castagnoli))
		}
	}
	sealFilter(b)
}

// sealFilter recomputes the checksum of the header of a filter.
func sealFilter(b []byte) {
	const sealed = bloomblock.HeaderSize - 4
	binary.LittleEndian.PutUint32(b[sealed:], crc32.Checksum(b[:sealed], castagnoli))
}
