package bloomblock

import (
	"encoding/binary"
	"math/bits"
)

// A filter of many keys can be asked in its file, where it is too large for the memory there is. The units, from the
// first byte of the first one, are cut into pages, and behind the units is an array of their checksums: CRC-32C, four
// bytes for each page of 4 KiB, a thousandth. The array is padded with zeros to 64 bytes; its own checksum, of all its
// bytes, is in the header. A filter of one page has no array.
//
// A key needs one block of a Bloom unit, or three segments of a Ribbon unit, so each unit takes a read. Units that
// stand side by side take one read for all: see unit.within. A Ribbon unit is cut as it is: some three in a hundred
// keys need the page behind theirs too. To repeat the beginning of that page, so that no key does, would take as many
// hundredths of the file and make the unit in the file another one than that in memory.
const (
	pageBytes  = 4096
	pageShift  = 12 // log2(pageBytes)
	pageBlocks = pageBytes / blockBytes
	sumBytes   = 4
)

// PageSums are the checksums of the pages of a filter: four bytes for each 4 KiB of it. They are immutable.
type PageSums struct{ sums []byte }

// SumPages returns the checksums of the pages of units that were verified as a whole (Header.Filter or In), for blocks
// that have none: those of version 2, and filters of at most one page. units are all units as they are in the block.
func SumPages(units []byte) PageSums { return PageSums{appendSums(nil, units)} }

// appendSums appends the checksums of the pages of units.
func appendSums(dst, units []byte) []byte {
	for len(units) > 0 {
		n := min(pageBytes, len(units))
		dst = binary.LittleEndian.AppendUint32(dst, checksum(units[:n]))
		units = units[n:]
	}
	return dst
}

// ParseSums returns the checksums of the pages. It refers to b, the bytes of SumsSpan, which must not change. The error
// matches ErrDamaged.
func (h Header) ParseSums(b []byte) (PageSums, error) {
	_, size := h.SumsSpan()
	if uint64(len(b)) != size {
		return PageSums{}, damaged("page checksums of %d bytes, want %d", len(b), size)
	}
	if got := checksum(b); h.paged && got != h.sums {
		return PageSums{}, damaged("checksum of the page checksums %08x, want %08x", got, h.sums)
	}
	n := pagesOf(h.UnitsSize()) * sumBytes
	if !h.paged {
		n = 0
	}
	if !zero(b[n:]) {
		return PageSums{}, damaged("padding of the page checksums is not zero")
	}
	return PageSums{b[:n]}, nil
}

// Verify compares pages, which are at the given offset of the block, with their checksums. The error matches
// ErrDamaged; it does too if the bytes are not whole pages.
func (s PageSums) Verify(offset uint64, pages []byte) error {
	if offset < HeaderSize || (offset-HeaderSize)%pageBytes != 0 {
		return damaged("page at %d", offset)
	}
	page := (offset - HeaderSize) / pageBytes
	for ; len(pages) > 0; page++ {
		n := min(pageBytes, len(pages))
		if page >= uint64(len(s.sums)/sumBytes) {
			return damaged("page %d of %d", page, len(s.sums)/sumBytes)
		}
		want := binary.LittleEndian.Uint32(s.sums[page*sumBytes:])
		if got := checksum(pages[:n]); got != want {
			return damaged("page %d: checksum %08x, want %08x", page, got, want)
		}
		pages = pages[n:]
	}
	return nil
}

// Steps returns the number of reads that it takes to ask the whole filter in the file: 1 if its Bloom units stand side
// by side or all are in one page, otherwise one for each unit. A step that answers no ends the search.
func (h Header) Steps() int {
	if h.sideBySide() || h.inOnePage() {
		return min(len(h.Units), 1)
	}
	return len(h.Units)
}

func (h *Header) inOnePage() bool { return h.UnitsSize() <= pageBytes }

// StepPages returns the pages that a step reads for a key: their offset in the block, a multiple of 4096 behind the
// header, and their size, nearly always one page, or what is left of the units.
func (h Header) StepPages(step int, key Hash) (offset, size uint64) {
	mixed := h.Seed.Mix(key)
	from, to := h.span(step, mixed)
	end := h.UnitsSize()
	from = from / pageBytes * pageBytes
	return HeaderSize + from, min(pagesOf(to)*pageBytes, end) - from
}

// span returns the range of bytes, from the beginning of the units, that a step needs.
func (h *Header) span(step int, mixed Hash) (from, to uint64) {
	if h.sideBySide() {
		size := h.partBlocks() * blockBytes
		from = mixed.Block(h.parts) * size
		return from, from + size
	}
	if h.inOnePage() {
		return 0, h.UnitsSize()
	}
	return h.unitSpan(step, mixed)
}

// unitSpan returns the range of bytes, from the beginning of the units, that a unit needs. Units are not side by side.
func (h *Header) unitSpan(step int, mixed Hash) (from, to uint64) {
	u := &h.Units[step]
	from = u.Offset - HeaderSize
	if shape, ribboned, ok := h.shape(step); ribboned && ok {
		start, _, _ := mixed.band(shape.starts)
		segment := start / segmentSlots
		return from + shape.at(segment)*wordBytes, from + shape.at(segment+bandSlots/segmentSlots+1)*wordBytes
	}
	for range h.blooms(step) {
		mixed = mixed.Next()
	}
	from += mixed.Block(u.Blocks) * blockBytes
	return from, from + blockBytes
}

// blooms returns the number of Bloom units before unit i.
func (h *Header) blooms(i int) int {
	if i > 0 && h.Units[0].Columns > 0 {
		return i - 1
	}
	return i
}

// StepMayContain asks the pages of StepPages for the same step and key. They must have been verified. False is certain;
// pages of another size answer maybe. It does not allocate.
func (h Header) StepMayContain(step int, key Hash, pages []byte) bool {
	offset, size := h.StepPages(step, key)
	if uint64(len(pages)) != size {
		return true
	}
	mixed, pagesAt := h.Seed.Mix(key), offset-HeaderSize
	if h.sideBySide() {
		from, to := h.span(step, mixed)
		b := pages[from-pagesAt : to-pagesAt]
		hash, at := mixed, uint64(0)
		for i := range h.Units {
			u := &h.Units[i]
			n := u.Blocks / h.parts
			block := hash.Block(n)
			if i == 0 {
				block = hash.Block(u.Blocks) % n
			}
			if !lineMayContain(b[(at+block)*blockBytes:][:blockBytes], hash, u.Probes) {
				return false
			}
			hash, at = hash.Next(), at+n
		}
		return true
	}
	for i := range h.Units {
		if (i == step || h.inOnePage()) && !h.unitMayContain(i, mixed, pages, pagesAt) {
			return false
		}
	}
	return true
}

// unitMayContain asks a unit, not side by side with others, in pages that begin at an offset from the beginning of the
// units.
func (h *Header) unitMayContain(i int, mixed Hash, pages []byte, offset uint64) bool {
	shape, ribboned, ok := h.shape(i)
	if !ok {
		return true
	}
	from, to := h.unitSpan(i, mixed)
	b := pages[from-offset : to-offset]
	if ribboned {
		return shape.windowMayContain(b, mixed)
	}
	for range h.blooms(i) {
		mixed = mixed.Next()
	}
	return lineMayContain(b, mixed, h.Units[i].Probes)
}

// lineMayContain asks one block of a Bloom unit.
func lineMayContain(line []byte, h Hash, probes int) bool {
	a, b := h.Fields()
	for p := range probes {
		field := a >> (fieldBits * p)
		if p >= wordFields {
			field = b >> (fieldBits * (p - wordFields))
		}
		if line[field>>3&(blockBytes-1)]>>(field&7)&1 == 0 {
			return false
		}
	}
	return true
}

// windowMayContain asks a Ribbon unit of which only the segments of the key's band are at hand.
func (s *ribbonShape) windowMayContain(window []byte, mixed Hash) bool {
	start, lo, hi := mixed.band(s.starts)
	segment, shift := start/segmentSlots, start%segmentSlots
	m0, m1, m2 := lo<<shift, hi<<shift|lo>>1>>(63-shift), hi>>1>>(63-shift)
	word := func(i, column uint64) uint64 {
		return binary.LittleEndian.Uint64(window[(s.at(segment+i)-s.at(segment)+column)*wordBytes:])
	}
	for c := range s.of(segment) {
		if bits.OnesCount64(m0&word(0, c)^m1&word(1, c)^m2&word(2, c))&1 != 0 {
			return false
		}
	}
	return true
}

// Units that stand side by side are cut into the same number of parts, and part p of the block has part p of each:
//
//	+----------------+----------------+-----+----------------+----------------+-----+
//	| unit 0, part 0 | unit 1, part 0 |  …  | unit 0, part 1 | unit 1, part 1 |  …  |
//	+----------------+----------------+-----+----------------+----------------+-----+
//
// All blocks of a key are in the same part, that of the first unit's block, so they are read at once. Inside a part
// each unit places the key independently. A part has some hundred keys or more, so parts are filled almost evenly.

// Split returns the bytes of each unit, from those of all units as they are in the block, UnitsSize of them. Units side
// by side are copied, others refer to units. Bytes of another size are split as far as they go, and Header.Filter or In
// refuses what is missing.
func (h Header) Split(units []byte) [][]byte { return h.SplitInto(nil, units) }

// SplitInto does what Split does. Units side by side are copied to room, if that is aligned to 8 bytes and as long as
// units, and to new memory otherwise.
func (h Header) SplitInto(room, units []byte) [][]byte {
	split := make([][]byte, len(h.Units))
	if uint64(len(units)) != h.UnitsSize() {
		return split
	}
	for i := range h.Units {
		n := h.Units[i].Bytes()
		switch {
		case !h.sideBySide():
			split[i], units = units[:n:n], units[n:]
		case uint64(len(room)) >= n:
			split[i], room = room[:0:n], room[n:]
		default:
			split[i] = AlignedBytes(int64(n))[:0] //nolint:gosec // as long as a part of units
		}
	}
	for range h.Parts() {
		for i := range h.Units {
			n := h.Units[i].Blocks / h.parts * blockBytes
			split[i], units = append(split[i], units[:n]...), units[n:]
		}
	}
	return split
}

// AlignedBytes returns n zeroed bytes that begin at a multiple of 64, so that no block lies in two cache lines.
func AlignedBytes(n int64) []byte {
	// The runtime places objects without pointers whose size is a multiple of 64 at multiples of 64: so are all of its
	// size classes that such sizes get, and larger objects begin with a page.
	return make([]byte, (n+blockBytes-1)&^(blockBytes-1))[:n:n]
}
