package bloomblock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
)

// Parse reads a whole block: the header, every field of it, and the checksums of units and pages. The filter refers to
// block, which must not change while the filter is in use, unless the units stand side by side: then it has copies.
// Errors are those of ParseHeader.
func Parse(block []byte) (Filter, error) {
	h, err := ParseHeader(block)
	if err != nil {
		return Filter{}, err
	}
	if want := h.BlockSize(); uint64(len(block)) != want {
		return Filter{}, damaged("%d bytes, want %d", len(block), want)
	}
	units := block[HeaderSize:][:h.UnitsSize()]
	if h.paged {
		sums, err := h.ParseSums(block[HeaderSize+len(units):])
		if err != nil {
			return Filter{}, err
		}
		if err := sums.Verify(HeaderSize, units); err != nil {
			return Filter{}, err
		}
	}
	return h.Filter(h.Split(units))
}

// Filter returns a filter made from units that were loaded separately, or by Split: units[i] has the bytes of
// h.Units[i]. Units may be missing at the end, which raises the rate; without any every answer is maybe. The filter
// refers to the slices, which must not change while it is in use. The error matches ErrDamaged if a size or a checksum
// is wrong, and ErrParams if there are too many units.
func (h Header) Filter(units [][]byte) (Filter, error) {
	if len(units) > len(h.Units) || len(units) > MaxUnits {
		return Filter{}, fmt.Errorf("%w: %d units, the header has %d", ErrParams, len(units), len(h.Units))
	}
	return h.load(units, func(i int) bool { return i < len(units) })
}

// load returns a filter of the units for which has reports true, and verifies them.
func (h *Header) load(units [][]byte, has func(i int) bool) (Filter, error) {
	f := Filter{keys: h.Keys, seed: h.Seed, parts: h.Parts(), figures: new(figures)}
	for i := range h.Units[:min(len(h.Units), MaxUnits)] {
		u, nth := &h.Units[i], h.blooms(i)
		if !has(i) {
			if u.Columns == 0 {
				f.units[nth] = absentUnit
			}
			continue
		}
		var b []byte
		if i < len(units) {
			b = units[i]
		}
		if uint64(len(b)) != u.Bytes() {
			return Filter{}, damaged("unit %d: %d bytes, want %d", i, len(b), u.Bytes())
		}
		if got := checksum(b); got != u.CRC {
			return Filter{}, damaged("unit %d: checksum %08x, want %08x", i, got, u.CRC)
		}
		shape, ribboned, ok := h.shape(i)
		switch {
		case !ok:
			return Filter{}, fmt.Errorf("%w: unit %d: %d blocks, %d probes, %d columns",
				ErrParams, i, u.Blocks, u.Probes, u.Columns)
		case ribboned:
			f.ribbon = &ribbon{shape, b}
		default:
			f.units[nth] = h.bloom(nth, u, 0)
			f.units[nth].bits = b
			f.n = nth + 1
		}
	}
	return f, nil
}

// In returns the filter in a form of Forms. units[i] has the bytes of unit i, as Split returns them, for each unit
// that the form has; others are nil or missing. In verifies them and copies what the form keeps of them to dst, which
// has exactly form.Bytes bytes and should be aligned to 64 of them (AlignedBytes). The filter refers to dst, which must
// not change while the filter is in use, and not to units.
//
// The error matches ErrDamaged if the size or the checksum of a unit is wrong, and ErrParams if the form is not of this
// filter or dst has another size.
func (h Header) In(form Form, dst []byte, units [][]byte) (Filter, error) {
	f, err := h.load(units, form.Has)
	if err != nil {
		return Filter{}, err
	}
	smaller, ok := f.Reduce(h, form, dst)
	if !ok {
		return Filter{}, fmt.Errorf("%w: the form is not of this filter, or has not %d bytes", ErrParams, len(dst))
	}
	return smaller, nil
}

// Reduce returns the filter of header h in a smaller form of h.Forms, made from the bits of f in memory: the same bits
// as In makes of the file. ok is false if the form needs bits that f does not have, or dst does not have exactly
// form.Bytes bytes. The filter refers to dst as that of In does; dst must not overlap the memory of f.
func (f *Filter) Reduce(h Header, form Form, dst []byte) (smaller Filter, ok bool) {
	defer runtime.KeepAlive(f)
	if int64(len(dst)) != form.Bytes || len(h.Units) > MaxUnits || f.seed != h.Seed || f.keys != h.Keys ||
		f.n > 1 && f.parts != h.Parts() {
		return Filter{}, false
	}
	smaller = Filter{keys: f.keys, seed: f.seed, parts: f.parts, figures: new(figures)}
	for i, kept := range form.kept {
		if i >= len(h.Units) {
			if kept != keptNone {
				return Filter{}, false
			}
			continue
		}
		u, nth := &h.Units[i], h.blooms(i)
		switch {
		case u.Columns > 0 && kept == keptNone:
			continue
		case u.Columns > 0:
			smaller.ribbon, dst = f.ribbon.reduced(h.Keys, u, kept, dst)
			ok = smaller.ribbon != nil && i == 0
		default:
			smaller.units[nth], dst, ok = f.units[nth].reduced(h.bloom(nth, u, 0), kept, dst)
			if kept != keptNone {
				smaller.n = nth + 1
			}
		}
		if !ok {
			return Filter{}, false
		}
	}
	return smaller, len(dst) == 0
}

// absentUnit stands for a Bloom unit that is not in memory, where a later one is: the hash of a key in a unit follows
// from that in the unit before. It denies no key.
var absentUnit = unit{bits: bytes.Repeat([]byte{0xff}, blockBytes), blocks: 1, probes: 1, absent: true}

// reduced returns what is kept of a unit that is whole in the file, made of the bits of u, and the rest of dst.
func (u *unit) reduced(whole unit, kept uint8, dst []byte) (smaller unit, rest []byte, ok bool) {
	if kept == keptNone {
		return absentUnit, dst, true
	}
	folds := kept - keptWhole
	if u.absent || len(u.bits) == 0 || folds < u.folds || folds > maxFolds ||
		u.scale<<u.folds != whole.scale || u.blocks != whole.blocks || u.probes != whole.probes {
		return unit{}, nil, false
	}
	smaller = whole
	smaller.scale, smaller.folds = whole.scale>>folds, folds
	n := smaller.folded() * blockBytes
	if n > uint64(len(dst)) {
		return unit{}, nil, false
	}
	smaller.bits = dst[:n:n]
	fold(smaller.bits, u.bits, folds-u.folds)
	return smaller, dst[n:], true
}

// fold sets each block of dst to the OR of the 2^folds blocks of src that it replaces; the last one replaces those that
// are left.
func fold(dst, src []byte, folds uint8) {
	if folds == 0 {
		copy(dst, src)
		return
	}
	for ; len(dst) >= blockBytes; dst = dst[blockBytes:] {
		n := min(blockBytes<<folds, len(src))
		line, group := dst[:blockBytes], src[:n]
		copy(line, group)
		for group = group[blockBytes:]; len(group) >= blockBytes; group = group[blockBytes:] {
			for w := 0; w < blockBytes; w += wordBytes {
				word := binary.LittleEndian.Uint64(line[w:]) | binary.LittleEndian.Uint64(group[w:])
				binary.LittleEndian.PutUint64(line[w:], word)
			}
		}
		src = src[n:]
	}
}

// reduced returns what is kept of a Ribbon unit with header h, made of the columns of r, and the rest of dst. It
// returns nil if r, which may be nil, does not have them.
func (r *ribbon) reduced(keys uint64, h *UnitHeader, kept uint8, dst []byte) (smaller *ribbon, rest []byte) {
	whole, ok := shapeOf(keys, h.Blocks, h.Columns, h.Overhead)
	columns := int(kept) - keptWhole
	if !ok || r == nil || columns > h.Columns {
		return nil, nil
	}
	shape, blocks := whole, h.Blocks
	if columns > 0 {
		shape, blocks = whole.narrower(keys, columns, h.Overhead)
	}
	n := blocks * blockBytes
	if !r.includes(&shape) || n > uint64(len(dst)) {
		return nil, nil
	}
	smaller = &ribbon{shape, dst[:n:n]}
	if shape == r.ribbonShape {
		copy(smaller.bits, r.bits)
		return smaller, dst[n:]
	}
	for segment := range shape.segments {
		from, to := shape.at(segment)*wordBytes, shape.at(segment+1)*wordBytes
		copy(smaller.bits[from:to], r.bits[r.at(segment)*wordBytes:])
	}
	clear(smaller.bits[shape.at(shape.segments)*wordBytes:])
	return smaller, dst[n:]
}
