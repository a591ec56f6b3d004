package sstable

import (
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// This file is for package salvage, which reads a damaged table block by block: where the blocks are, and what is in
// one. Each is checked by itself.

const (
	// TrailerSize is the number of bytes after the payload of a block.
	TrailerSize = trailerSize
	// FooterSize is the number of bytes of the footer that every version has.
	FooterSize = footerSize
	// FilterAlign is what the offset of a filter is a multiple of. There are zeros before it.
	FilterAlign = filterAlign
	// MaxGap is the largest number of bytes between the data blocks, or the parts of the index, and the filter.
	MaxGap = filterAlign - 1 + maxSample + trailerSize
	// MaxBlock is the largest number of bytes of a data block with its trailer.
	MaxBlock = maxPlain + trailerSize
	// LastCodec is the codec with the largest value.
	LastCodec = lastCodec
)

// An Extent is where a block is in the file.
type Extent struct {
	Kind   Kind
	Offset uint64 // of the payload
	Length uint64 // of the payload; 0 if there is no such block
}

// A Footer describes the tail of a table.
type Footer struct {
	ID, TailLen, FilterLen       uint64
	Index, RangeDels, Properties Extent // the index is KindIndex, or KindTop if it is in parts
	Limit, Slack                 uint64 // for ParseIndex
}

// ParseFooter checks the footer of a file of size bytes. b is the end of the file: of 2·FooterSize bytes, or all.
func ParseFooter(b []byte, size uint64) (Footer, error) {
	f, err := parseFooter(b, size)
	if err != nil {
		return Footer{}, err
	}
	return Footer{
		ID: f.id, TailLen: f.tailLen, FilterLen: f.filterLen, Limit: f.sampleOff(), Slack: f.slack(),
		Index:      Extent{f.indexKind(), f.indexOff, f.indexLen},
		RangeDels:  Extent{KindRangeDels, f.rangeDelOff(), f.rangeDelLen},
		Properties: Extent{KindProperties, f.propsOff(), f.propsLen},
	}, nil
}

// ParseRangeDels checks a block of range tombstones. It keeps no reference to b.
func ParseRangeDels(b []byte) (rangedel.List, error) {
	x, err := parseRangeDels(b)
	return x.List(), err
}

// IsPart reports whether a payload may be a part of an index.
func IsPart(payload []byte) bool {
	_, err := viewPart(payload)
	return err == nil
}

// An Index locates blocks: the data blocks of a table or of a part of its index, or, as the top of an index in parts,
// these parts.
type Index struct {
	index *index
	top   *top // instead of index
}

// ParseIndex checks an index in one block, or a top. What it locates ends at most slack bytes before limit.
func ParseIndex(k Kind, payload []byte, limit, slack uint64) (x Index, err error) {
	if k == KindTop {
		x.top, err = parseTop(payload, limit, slack)
	} else {
		x.index, err = parseIndex(payload, limit, slack)
	}
	return x, err
}

// Len returns the number of blocks.
func (x Index) Len() int {
	if x.top != nil {
		return len(x.top.parts)
	}
	return x.index.blocks()
}

// Extent returns where block i is, and for a part of an index where the data blocks that it locates begin and end.
func (x Index) Extent(i int) (e Extent, start, end uint64) {
	if x.top != nil {
		p := &x.top.parts[i]
		return Extent{KindPart, p.offset, uint64(p.length)}, p.start, p.start + p.data
	}
	offset, stored, _ := x.index.extent(i)
	return Extent{KindData, offset, uint64(stored)}, 0, 0 //nolint:gosec // a length
}

// Upper returns a key that no key of block i, or of the data blocks of part i, is after.
func (x Index) Upper(i int) []byte {
	if x.top != nil {
		return x.top.separatorKey(i)
	}
	return x.index.separatorKey(i)
}

// Part checks part i of an index, which x is the top of.
func (x Index) Part(i int, payload []byte) (part Index, err error) {
	part.index, err = x.top.parsePart(i, payload)
	return part, err
}

// A Block is a decoded data block.
type Block struct {
	block
	plain []byte
}

// Decode makes b the block with a payload. It reuses the memory of b, and refers to the payload if that is not
// compressed. After an error b has no entry.
func (b *Block) Decode(payload []byte, c Codec) error {
	b.block = block{}
	n, err := decodedLen(payload, c)
	if err != nil {
		return err
	}
	data := payload
	if c != None {
		if most := min(uint64(len(payload))*maxRatio, maxCoded); n > most { // before memory is taken for it
			return fmt.Errorf("%w: %d, want at most %d", errDecoded, n, most)
		}
		b.plain = slices.Grow(b.plain[:0], int(n))[:n] //nolint:gosec // at most maxCoded
		if err := decompress(b.plain, payload, c); err != nil {
			return err
		}
		data = b.plain
	}
	if err := checkBlock(data, seqSpan{0, ikey.MaxSeq}); err != nil {
		return err
	}
	b.block = parseBlock(data)
	return nil
}

// Len returns the number of entries.
func (b *Block) Len() int { return b.n }

// Entry returns version i and its value. The user key is appended to key.
func (b *Block) Entry(i int, key []byte) (k ikey.Key, value []byte) {
	e := b.entry(i)
	return ikey.Key{User: b.appendKey(key, i, &e), Trailer: e.trailer}, e.value
}
