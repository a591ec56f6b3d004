package bloomblock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// A filter block is a header and the units one after the other, each a multiple of 64 bytes. Version 3 is for blocks
// with checksums of the pages of the units behind them, or with units side by side, both of which are drawn in page.go;
// blocks that have neither are of version 2. All numbers are little-endian.
//
//	+----------------+----------------------+----------------------+----------------------+-----------------+
//	| header, 128 B  | unit 0, 64·blocks B  | unit 1, 64·blocks B  | unit 2, 64·blocks B  | page checksums  |
//	+----------------+----------------------+----------------------+----------------------+-----------------+
//
// The header:
//
//	  0  magic      8 bytes "bloomblk"
//	  8  version    u8      2; 3 if parts or page is not 0
//	  9  kind       u8      0 no filter, 1 blocked Bloom, 2 Ribbon: unit 0 is one, any others are Bloom units
//	 10  hash       u8      1 = XXH64, seed 0, and then mixed with the seed below
//	 11  units      u8      0 if kind is 0, otherwise 1..3
//	 12  line       u8      6 = log2 of the bytes in a block
//	 13  reserved   3 bytes
//	 16  keys       u64     hashes added
//	 24  seed       u64     see Seed.Mix
//	 32  unit 0     24 bytes
//	 56  unit 1     24 bytes
//	 80  unit 2     24 bytes
//	104  parts      u64     of units side by side, 2 or more; otherwise 0
//	112  sums       u32     CRC-32C of the page checksums with their padding; 0 without any
//	116  page       u8      12 = log2 of the bytes in a page; 0 without page checksums
//	117  reserved   7 bytes
//	124  checksum   u32     CRC-32C of bytes 0..123
//
// A unit. An absent one is all zero. Each unit begins where the one before it ends, the first one behind the header:
//
//	  0  blocks     u64     1..2⁴⁰, at most 64 and one for each 8 keys
//	  8  rate       f64     the rate promised for this unit alone, above 0 and at most 1
//	 16  checksum   u32     CRC-32C of the unit's bytes
//	 20  probes     u8      1..14; columns of a Ribbon unit, 1..15
//	 21  overhead   u8      0; percent by which a Ribbon unit has more slots than keys, 1..100
//	 22  reserved   2 bytes
//
// The first Bloom unit uses the mixed hash of a key, each further one Hash.Next of the hash before, and a Ribbon unit
// the third Next, whatever other units there are. In units side by side with n blocks in a part, a key is in part
// p = Hash.Block(parts) of its mixed hash, in block p·n + Hash.Block(n) of a further unit, by the unit's own hash.
//
// Reserved bytes are zero. Magic, version and the header's checksum keep their offsets in all versions, so that a newer
// block can be distinguished from a damaged one. Seed.Mix, Hash.Block, Hash.Fields and Hash.Next determine the
// positions of bits in a unit.

// HeaderSize is the size in bytes of a header, a multiple of 64.
const HeaderSize = 128

const (
	magic        = "bloomblk"
	version      = 2
	versionPages = 3 // of blocks with checksums of pages or with units side by side
	kindNone     = 0
	kindBlocked  = 1
	kindRibbon   = 2
	hashXXH64    = 1

	offVersion                                                = 8
	offKind                                                   = 9
	offHash                                                   = 10
	offUnits                                                  = 11
	offLine                                                   = 12
	offKeys                                                   = 16
	offSeed                                                   = 24
	offUnit                                                   = 32
	unitSize                                                  = 24
	unitRate, unitCRC, unitProbes, unitOverhead, unitReserved = 8, 16, 20, 21, 22
	offParts                                                  = offUnit + MaxUnits*unitSize
	offSums                                                   = offParts + 8
	offPage                                                   = offSums + 4
	offChecksum                                               = HeaderSize - 4

	maxBlocks = 1 << 40 // 64 TiB: three units still count in 64 bits
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// A Header describes a block before its units are read. ParseHeader returns one with every field checked.
type Header struct {
	Keys  uint64       // hashes added, consecutive equal ones once
	Seed  Seed         // mixed into each
	Units []UnitHeader // none if the block has no filter

	parts uint64 // of Bloom units side by side; otherwise 0
	paged bool   // there are checksums of pages behind the units
	sums  uint32 // CRC-32C of these
}

// A UnitHeader describes one unit.
type UnitHeader struct {
	Probes   int     // of a Bloom unit, 1..MaxProbes; 0 for a Ribbon unit
	Columns  int     // of a Ribbon unit, at least 1, one more in its front part; 0 for a Bloom unit
	Overhead int     // of a Ribbon unit: slots beyond the number of keys, in percent
	Blocks   uint64  // of 64 bytes, at least 1
	Offset   uint64  // of its first byte, from the start of the header; a multiple of 64; see Header.Parts
	Rate     float64 // promised for this unit alone
	CRC      uint32  // CRC-32C of its bytes
}

// Bytes returns the size of the unit.
func (u UnitHeader) Bytes() uint64 { return u.Blocks * blockBytes }

// BlockSize returns the size in bytes of the whole block.
func (h Header) BlockSize() uint64 {
	_, sums := h.SumsSpan()
	return h.PrefixSize(len(h.Units)) + sums
}

// PrefixSize returns the size in bytes of the header and its first n units. They are adjacent at the start of the
// block, unless they stand side by side with others.
func (h Header) PrefixSize(n int) uint64 {
	size := uint64(HeaderSize)
	for _, u := range h.Units[:n] {
		size += u.Bytes()
	}
	return size
}

// pagesOf returns the number of pages of the given number of bytes.
func pagesOf(bytes uint64) uint64 { return (bytes + pageBytes - 1) / pageBytes }

// sumsSize returns the size of the array of checksums of units with the given size; 0 if they are one page.
func sumsSize(bytes uint64) uint64 {
	if bytes <= pageBytes {
		return 0
	}
	return (pagesOf(bytes)*sumBytes + blockBytes - 1) &^ (blockBytes - 1)
}

// UnitsSize returns the size in bytes of all units, which are in the block directly behind the header.
func (h Header) UnitsSize() uint64 { return h.PrefixSize(len(h.Units)) - HeaderSize }

// SumsSpan returns where in the block the checksums of its pages are. The size is 0 if the block has none: a caller
// then verifies the units as a whole once, and makes the checksums with SumPages.
func (h Header) SumsSpan() (offset, size uint64) {
	if !h.paged {
		return 0, 0
	}
	return HeaderSize + h.UnitsSize(), sumsSize(h.UnitsSize())
}

// sideBySide reports whether the units stand side by side.
func (h *Header) sideBySide() bool { return h.parts > 0 && len(h.Units) > 1 }

// Parts returns the number of parts into which units side by side are cut, or 0 if each unit is whole in the block. No
// unit in parts can be read alone: Split takes all of them apart.
func (h Header) Parts() uint64 {
	if h.sideBySide() {
		return h.parts
	}
	return 0
}

// place sets the offsets of the units, which are those of their first parts if they stand side by side.
func (h *Header) place() {
	offset := uint64(HeaderSize)
	for i := range h.Units {
		u := &h.Units[i]
		u.Offset = offset
		offset += u.Bytes() / max(h.Parts(), 1)
	}
}

// partBlocks returns the number of blocks in a part of all units side by side.
func (h *Header) partBlocks() (n uint64) {
	for i := range h.Units {
		n += h.Units[i].Blocks / h.parts
	}
	return n
}

// Rate returns the rate promised for the first n units: their product.
func (h Header) Rate(n int) float64 {
	rate := 1.0
	for i := range h.Units[:n] {
		rate *= h.Units[i].Rate
	}
	return rate
}

// UnitsFor returns the smallest number of leading units whose promised rate is at most rate, or all of them if that is
// not low enough.
func (h Header) UnitsFor(rate float64) int {
	for n := range h.Units {
		if h.Rate(n) <= rate {
			return n
		}
	}
	return len(h.Units)
}

// Append appends the header to dst, as it is at the start of a block of these units without checksums of pages. A
// header with fewer units at the end describes a block of its own: it has the same keys, and a higher rate.
func (h Header) Append(dst []byte) []byte {
	h.paged, h.sums = false, 0
	dst = append(dst, make([]byte, HeaderSize)...)
	h.put(dst[len(dst)-HeaderSize:])
	return dst
}

// put writes the header into the first HeaderSize bytes of block, which are zero.
func (h Header) put(block []byte) {
	copy(block, magic)
	block[offVersion] = version
	if parts := h.Parts(); h.paged || parts > 0 {
		block[offVersion] = versionPages
		binary.LittleEndian.PutUint64(block[offParts:], parts)
	}
	if h.paged {
		binary.LittleEndian.PutUint32(block[offSums:], h.sums)
		block[offPage] = pageShift
	}
	switch {
	case len(h.Units) == 0:
		block[offKind] = kindNone
	case h.Units[0].Columns > 0:
		block[offKind] = kindRibbon
	default:
		block[offKind] = kindBlocked
	}
	block[offHash] = hashXXH64
	block[offUnits] = byte(len(h.Units)) //nolint:gosec // ≤ MaxUnits
	block[offLine] = blockShift
	binary.LittleEndian.PutUint64(block[offKeys:], h.Keys)
	binary.LittleEndian.PutUint64(block[offSeed:], uint64(h.Seed))
	for i, u := range h.Units {
		b := block[offUnit+i*unitSize:]
		binary.LittleEndian.PutUint64(b, u.Blocks)
		binary.LittleEndian.PutUint64(b[unitRate:], math.Float64bits(u.Rate))
		binary.LittleEndian.PutUint32(b[unitCRC:], u.CRC)
		b[unitProbes] = byte(u.Probes + u.Columns) //nolint:gosec // one is 0, the other ≤ maxColumns
		b[unitOverhead] = byte(u.Overhead)         //nolint:gosec // ≤ maxOverhead
	}
	binary.LittleEndian.PutUint32(block[offChecksum:], checksum(block[:offChecksum]))
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

func unknown(what string, got, want byte) error {
	return fmt.Errorf("%w: %s %d, want %d", ErrUnknownKind, what, got, want)
}

// ParseHeader reads the header at the start of b, which may be longer, and checks every field. It does not retain b.
// The error matches ErrDamaged, or ErrUnknownKind if the header is intact but of an unknown kind.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, damaged("%d bytes, want %d for the header", len(b), HeaderSize)
	}
	b = b[:HeaderSize]
	if got := string(b[:len(magic)]); got != magic {
		return Header{}, damaged("magic %q, want %q", got, magic)
	}
	if got, want := checksum(b[:offChecksum]), binary.LittleEndian.Uint32(b[offChecksum:]); got != want {
		return Header{}, damaged("header checksum %08x, want %08x", got, want)
	}
	switch {
	case b[offVersion] != version && b[offVersion] != versionPages:
		return Header{}, fmt.Errorf("%w: version %d, want %d or %d",
			ErrUnknownKind, b[offVersion], version, versionPages)
	case b[offKind] > kindRibbon:
		return Header{}, fmt.Errorf("%w: kind %d, want at most %d", ErrUnknownKind, b[offKind], kindRibbon)
	case b[offHash] != hashXXH64:
		return Header{}, unknown("hash", b[offHash], hashXXH64)
	case b[offLine] != blockShift:
		return Header{}, unknown("line", b[offLine], blockShift)
	}
	n := int(b[offUnits])
	switch {
	case b[offKind] == kindNone && n != 0:
		return Header{}, damaged("%d units in a block of no filter, want 0", n)
	case b[offKind] != kindNone && (n < 1 || n > MaxUnits):
		return Header{}, damaged("%d units, want 1..%d", n, MaxUnits)
	case !zero(b[offLine+1:offKeys]) || !zero(b[offUnit+n*unitSize:offParts]) || !zero(b[offPage+1:offChecksum]):
		return Header{}, damaged("reserved bytes are not zero")
	}
	h := Header{Keys: binary.LittleEndian.Uint64(b[offKeys:]), Seed: Seed(binary.LittleEndian.Uint64(b[offSeed:]))}
	for i := range n {
		u, err := parseUnit(b[offUnit+i*unitSize:][:unitSize], h.Keys, i == 0 && b[offKind] == kindRibbon)
		if err != nil {
			return Header{}, fmt.Errorf("unit %d: %w", i, err)
		}
		h.Units = append(h.Units, u)
	}
	if err := h.parsePages(b); err != nil {
		return Header{}, err
	}
	h.place()
	return h, nil
}

// parsePages reads the fields that version 3 added. A block has that version only if it has one of them.
func (h *Header) parsePages(b []byte) error {
	if b[offVersion] == version {
		if !zero(b[offParts:offChecksum]) {
			return damaged("reserved bytes are not zero")
		}
		return nil
	}
	h.parts, h.sums = binary.LittleEndian.Uint64(b[offParts:]), binary.LittleEndian.Uint32(b[offSums:])
	switch shift := b[offPage]; {
	case shift == pageShift:
		h.paged = true
	case shift != 0:
		return unknown("page", shift, pageShift)
	case h.sums != 0 || h.parts == 0:
		return damaged("version %d with %d parts and without pages, but the checksum %08x",
			versionPages, h.parts, h.sums)
	}
	if h.paged && h.UnitsSize() <= pageBytes {
		return damaged("page checksums of %d bytes", h.UnitsSize())
	}
	if h.parts == 0 {
		return nil
	}
	if h.parts == 1 || len(h.Units) < 2 || h.Units[0].Columns > 0 {
		return damaged("%d parts of %d units, or of a Ribbon unit", h.parts, len(h.Units))
	}
	for i := range h.Units {
		u := &h.Units[i]
		if u.Blocks%h.parts != 0 {
			return damaged("unit %d: %d blocks in %d parts", i, u.Blocks, h.parts)
		}
	}
	return nil
}

// parseUnit reads all of a unit except its offset, which follows from the units before it.
func parseUnit(b []byte, keys uint64, ribbon bool) (UnitHeader, error) {
	u := UnitHeader{
		Blocks: binary.LittleEndian.Uint64(b),
		Rate:   math.Float64frombits(binary.LittleEndian.Uint64(b[unitRate:])),
		CRC:    binary.LittleEndian.Uint32(b[unitCRC:]),
		Probes: int(b[unitProbes]),

		Overhead: int(b[unitOverhead]),
	}
	if ribbon {
		u.Probes, u.Columns = 0, u.Probes
	}
	switch {
	case u.Blocks < 1 || u.Blocks > maxBlocks:
		return u, damaged("%d blocks, want 1..%d", u.Blocks, uint64(maxBlocks))
	case u.Blocks > pageBlocks+keys/8: // twice the largest number of bits for each key
		return u, damaged("%d blocks for %d keys, want at most %d", u.Blocks, keys, pageBlocks+keys/8)
	case !(u.Rate > 0 && u.Rate <= 1): // also refuses NaN
		return u, damaged("rate %v, want above 0 and at most 1", u.Rate)
	case !zero(b[unitReserved:]) || !ribbon && u.Overhead != 0:
		return u, damaged("reserved bytes are not zero")
	case ribbon:
		if _, ok := shapeOf(keys, u.Blocks, u.Columns, u.Overhead); !ok {
			return u, damaged("Ribbon of %d columns and %d %% overhead in %d blocks for %d keys",
				u.Columns, u.Overhead, u.Blocks, keys)
		}
	case u.Probes < 1 || u.Probes > MaxProbes:
		return u, damaged("%d probes, want 1..%d", u.Probes, MaxProbes)
	}
	return u, nil
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// shape reports whether unit i is a Ribbon unit, and which shape it has. ok is false if it is no unit at all, which a
// header made by ParseHeader does not have.
func (h *Header) shape(i int) (s ribbonShape, ribboned, ok bool) {
	u := &h.Units[i]
	if i == 0 && u.Probes == 0 {
		s, ok = shapeOf(h.Keys, u.Blocks, u.Columns, u.Overhead)
		return s, true, ok
	}
	return s, false, u.Blocks >= 1 && u.Blocks <= maxBlocks && u.Columns == 0 && u.Probes >= 1 && u.Probes <= MaxProbes
}
