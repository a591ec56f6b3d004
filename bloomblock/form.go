package bloomblock

import (
	"cmp"
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

	// MorePages is for a filter that is asked in its file too: the expected number of pages that a key which passes in
	// memory is asked in there, beyond the first. Units that the form has whole are not asked again.
	MorePages float64

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

// HasWhole reports whether the form has unit i of the file as it is there.
func (f Form) HasWhole(unit int) bool { return f.Has(unit) && f.kept[unit] == keptWhole }

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
	forms = lowerHull(append(forms, last))
	if h.Steps() > 1 {
		for i := range forms {
			forms[i].MorePages = max(forms[i].pages(units[:len(h.Units)])-1, 0)
		}
	}
	return forms
}

// pages returns the expected number of units that are asked in the file, of a key that passes the form. units are the
// forms of each unit.
func (f *Form) pages(units [][]Form) (sum float64) {
	passes := 1.0
	for i, forms := range units {
		if f.HasWhole(i) {
			continue
		}
		sum += passes
		whole := forms[len(forms)-1].Rate
		if at := slices.IndexFunc(forms, func(u Form) bool { return u.kept[i] == f.kept[i] }); at >= 0 {
			whole /= forms[at].Rate // the key has passed a part of the unit
		}
		passes *= whole
	}
	return sum
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
