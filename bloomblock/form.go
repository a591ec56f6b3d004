package bloomblock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
)

// A Form says how much of the filter in a file is kept in memory: which units, how often each Bloom unit is folded, and
// how many columns of a Ribbon unit. A form with less has a higher rate and denies no key.
//
// To fold a Bloom unit is to OR its neighbouring blocks in pairs: half the blocks remain, each with the bits of two,
// and the block of a key is half its index before. Folding never moves a key, whatever the number of blocks, since the
// index of a block is always computed for the blocks in the file and then halved. A Ribbon unit is a matrix whose
// columns each deny half of the absent keys, so any of its columns are a unit of their own.
//
// The zero Form is no filter: every answer is maybe. So is the first of Header.Forms, which also has the Rate of 1.
// Forms are values of one file's filter and may be compared with ==.
type Form struct {
	Bytes int64   // of the units in memory; 0 without any
	Rate  float64 // expected false positive rate, exact in theory for this number of keys and blocks; 1 without units

	kept [MaxUnits]uint8 // of each unit of the file; see the constants
}

// What a form keeps of a unit.
const (
	keptNone  = 0
	keptWhole = 1 // plus the number of folds of a Bloom unit, or plus the number of columns of a narrower Ribbon unit
)

const (
	// maxFolds is the largest number of folds of a unit; see unit.line. A unit of 32 bits a key and one probe is
	// folded six times before its rate exceeds uselessRate, others fewer times.
	maxFolds = blockShift

	// uselessRate is the rate above which a folded unit is not offered: of its memory a smaller filter makes more.
	uselessRate = 0.95
)

// Has reports whether the form needs unit i of the file.
func (f Form) Has(unit int) bool { return unit >= 0 && unit < MaxUnits && f.kept[unit] != keptNone }

// Whole reports whether the units of the form are as in the file: none is folded and none has fewer columns.
func (f Form) Whole() bool {
	for _, k := range f.kept {
		if k > keptWhole {
			return false
		}
	}
	return true
}

// Forms returns the forms of the filter that are worth their memory, in ascending order of Bytes and descending order
// of Rate. The first has no units. The last has the leading units that UnitsFor(rate) counts, whole; with a rate of 1
// or more it is the first. Forms that Rate says deny nothing are left out.
//
// Each further byte lowers the rate by less than the one before. Memory that is distributed over many filters in steps,
// each where it lowers the sum of rates most, is therefore distributed optimally, but for one step.
//
// It takes some tens of microseconds.
func (h Header) Forms(rate float64) []Form {
	forms := []Form{{Rate: 1}}
	last := Form{Rate: 1}
	var units [MaxUnits][]Form
	if len(h.Units) > MaxUnits {
		return forms
	}
	for i := range h.Units {
		units[i] = h.unitForms(i)
		if len(units[i]) == 0 {
			return forms
		}
		if i < h.UnitsFor(rate) {
			last = last.with(units[i][len(units[i])-1])
		}
	}
	if !(last.Rate < 1) {
		return forms
	}
	for i := range h.Units {
		twin := i > 0 && h.twins(i-1, i)
		for _, form := range forms {
			if twin && form.kept[i-1] == keptNone {
				continue // the same form again, with two units exchanged
			}
			for _, u := range units[i] {
				if twin && u.kept[i] < form.kept[i-1] {
					continue // likewise
				}
				if f := form.with(u); f.Bytes < last.Bytes && f.Rate > last.Rate {
					forms = append(forms, f)
				}
			}
		}
	}
	return lowerHull(append(forms, last))
}

// twins reports whether two units are Bloom units of the same size and number of probes.
func (h *Header) twins(i, j int) bool {
	u, v := &h.Units[i], &h.Units[j]
	return u.Columns == 0 && v.Columns == 0 && u.Blocks == v.Blocks && u.Probes == v.Probes
}

// with returns the form with the units of both. They have none in common.
func (f Form) with(g Form) Form {
	f.Bytes += g.Bytes
	f.Rate *= g.Rate
	for i, k := range g.kept {
		f.kept[i] += k
	}
	return f
}

// unitForms returns the forms that consist of unit i alone, the whole unit last; none if it is no unit.
func (h *Header) unitForms(i int) []Form {
	var forms []Form
	add := func(kept int, blocks uint64, rate float64) {
		f := Form{Bytes: int64(blocks * blockBytes), Rate: rate} //nolint:gosec // ≤ maxBlocks
		f.kept[i] = uint8(kept)                                  //nolint:gosec // ≤ maxColumns + 1
		forms = append(forms, f)
	}
	u := &h.Units[i]
	whole, ribboned, ok := h.shape(i)
	if !ok {
		return nil
	}
	if ribboned {
		for c := 1; c <= u.Columns; c++ {
			if s, blocks := whole.narrower(h.Keys, c, u.Overhead); blocks < u.Blocks {
				add(keptWhole+c, blocks, s.rate())
			}
		}
		add(keptWhole, u.Blocks, whole.rate())
		return forms
	}
	for folds := range maxFolds + 1 {
		b := h.bloom(0, u, uint8(folds))
		rate := b.expectedRate(h.Keys)
		if folds > 0 && (rate > uselessRate || u.Blocks>>(folds-1) <= 1) {
			break
		}
		add(keptWhole+folds, b.folded(), rate)
	}
	slices.Reverse(forms)
	return forms
}

// lowerHull returns the forms on the lower convex hull of all, whose last one has the most bytes and the lowest rate.
func lowerHull(all []Form) []Form {
	slices.SortStableFunc(all, func(a, b Form) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Rate, b.Rate))
	})
	hull := all[:0]
	for _, f := range all {
		if n := len(hull); n > 0 && f.Rate >= hull[n-1].Rate {
			continue
		}
		for n := len(hull); n > 1 && !steeper(hull[n-2], hull[n-1], f); n = len(hull) {
			hull = hull[:n-1]
		}
		hull = append(hull, f)
	}
	return slices.Clip(hull)
}

// steeper reports whether the rate falls by more for a byte from a to b than from b to c.
func steeper(a, b, c Form) bool {
	return (a.Rate-b.Rate)*float64(c.Bytes-b.Bytes) > (b.Rate-c.Rate)*float64(b.Bytes-a.Bytes)
}

// AlignedBytes returns n zeroed bytes that begin at a multiple of 64, so that no block lies in two cache lines.
func AlignedBytes(n int64) []byte {
	// The runtime places objects without pointers whose size is a multiple of 64 at multiples of 64: so are all of its
	// size classes that such sizes get, and larger objects begin with a page.
	return make([]byte, (n+blockBytes-1)&^(blockBytes-1))[:n:n]
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
	smaller = Filter{keys: f.keys, seed: f.seed, parts: f.parts, figures: &figures{form: form}}
	blooms := 0
	for i, kept := range form.kept {
		if i >= len(h.Units) {
			if kept != keptNone {
				return Filter{}, false
			}
			continue
		}
		u := &h.Units[i]
		switch {
		case u.Columns > 0 && kept == keptNone:
			continue
		case u.Columns > 0:
			smaller.ribbon, dst = f.ribbon.reduced(h.Keys, u, kept, dst)
			ok = smaller.ribbon != nil && i == 0
		default:
			smaller.units[blooms], dst, ok = f.units[blooms].reduced(h.bloom(blooms, u, 0), kept, dst)
			blooms++
			if kept != keptNone {
				smaller.n = blooms
			}
		}
		if !ok {
			return Filter{}, false
		}
	}
	return smaller, len(dst) == 0
}

// Form returns the form that f has in memory.
func (f *Filter) Form() Form {
	if f.figures == nil {
		return Form{Rate: 1}
	}
	form := f.figures.form
	if n := f.Units(); n > 0 && form.Bytes == 0 { // whole units
		form = Form{Bytes: int64(f.Bytes()), Rate: f.expectedRate(0)}
		for i := range n {
			form.kept[i] = keptWhole
		}
	}
	return form
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

// narrower returns the shape of the same keys with the given number of columns, and its size in blocks. The words up to
// a whole block are columns of its front part, as in any unit.
func (s *ribbonShape) narrower(keys uint64, columns, overhead int) (narrow ribbonShape, blocks uint64) {
	blocks = blocksOf(s.segments * uint64(columns)) //nolint:gosec // ≤ maxColumns
	narrow, _ = shapeOf(keys, blocks, columns, overhead)
	return narrow, blocks
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

// includes reports whether a unit of shape s has all columns of one of shape other.
func (s *ribbonShape) includes(other *ribbonShape) bool {
	return s.starts == other.starts && s.segments == other.segments &&
		(s.columns > other.columns || s.columns == other.columns && s.wide >= other.wide)
}
