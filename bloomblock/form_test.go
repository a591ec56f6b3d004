package bloomblock

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// formParams are filters of all kinds: of one unit and several, equal and unequal, with a Ribbon and without.
func formParams(tb testing.TB) map[string]Params {
	tb.Helper()
	three, err := ParamsSplit(3, 0.0086)
	must(tb, err)
	nested, err := ParamsNested(0.1, 0.01, 1e-4)
	must(tb, err)
	return map[string]Params{
		"one Bloom unit":                  paramsOf(tb, Unit{10.5, 7}),
		"one Bloom unit of many bits":     paramsOf(tb, Unit{32, 14}),
		"one Bloom unit of one probe":     paramsOf(tb, Unit{32, 1}),
		"one Bloom unit of few bits":      paramsOf(tb, Unit{0.5, 1}),
		"three equal Bloom units":         three,
		"three Bloom units side by side":  three.SideBySide(),
		"two Bloom units side by side":    paramsOf(tb, Unit{9.5, 5}, Unit{2, 1}).SideBySide(),
		"three unequal Bloom units":       paramsOf(tb, Unit{5, 3}, Unit{10.5, 7}, Unit{2, 1}),
		"nested Bloom units":              nested,
		"a Ribbon unit":                   ribbonOf(tb, 0.0086),
		"a Ribbon unit of one rate":       ribbonOf(tb, 1.0/64),
		"a Ribbon unit and a Bloom unit":  ribbonOf(tb, 0.05, 0.003),
		"a Ribbon unit and two behind it": ribbonOf(tb, 0.05, 0.003, 1e-4),
	}
}

// unitsOf returns the header and the units of a block.
func unitsOf(tb testing.TB, block []byte) (h Header, units [][]byte) {
	tb.Helper()
	h, err := ParseHeader(block)
	must(tb, err)
	return h, h.Split(block[HeaderSize:][:h.UnitsSize()])
}

// in returns the filter in a form, made from only the units that the form has. The memory is not zero before.
func in(tb testing.TB, h Header, form Form, units [][]byte) Filter {
	tb.Helper()
	needed := make([][]byte, len(units))
	for i := range units {
		if form.Has(i) {
			needed[i] = units[i]
		}
	}
	f, err := h.In(form, bytes.Repeat([]byte{0xa5}, int(form.Bytes)), needed)
	must(tb, err)
	return f
}

// memory returns the bytes of a filter's units, in order.
func memory(f *Filter) (all []byte) {
	if f.ribbon != nil {
		all = append(all, f.ribbon.bits...)
	}
	for _, u := range f.units[:f.n] {
		if !u.absent {
			all = append(all, u.bits...)
		}
	}
	return all
}

func TestNoFormDeniesAKey(t *testing.T) {
	testkit.Long(t)
	counts := []uint64{0, 1, 2, 3, 47, 48, 49, 50, 97, 98, 150, 300, 1000, 4999, 40_000}
	for name, p := range formParams(t) {
		most := 0
		for i, n := range counts {
			b := Builder{Seed: Seed(i % 3 * 0x1234567)}
			for h := range hashesOf(numbered, 7, n) {
				b.Add(h)
			}
			h, units := unitsOf(t, b.AppendBlock(nil, p))
			forms := h.Forms(0)
			most = max(most, len(forms))
			for _, form := range forms {
				f := in(t, h, form, units)
				if int64(f.Bytes()) != form.Bytes || f.Keys() != n || f.Seed() != b.Seed {
					t.Fatalf("%s, %d keys: %d bytes; want %+v", name, n, f.Bytes(), form)
				}
				has := 0
				for i := range MaxUnits {
					if form.Has(i) {
						has++
					}
				}
				if f.Units() != has || len(f.UnitBits()) != has {
					t.Fatalf("%s, %d keys, %+v: %d units, want %d", name, n, form, f.Units(), has)
				}
				for h := range hashesOf(numbered, 7, n) {
					if !f.MayContain(h) {
						t.Fatalf("%s, %d keys, %+v: hash %x was added and is denied", name, n, form, h)
					}
				}
				if bits := rateOfBits(&f); math.Abs(f.FalsePositiveRate()/bits-1) > 0.05 && bits > 1e-9 {
					t.Errorf("%s, %d keys, %+v: rate %g, %g by units", name, n, form, f.FalsePositiveRate(), bits)
				}
			}
		}
		t.Logf("%s: up to %d forms", name, most)
	}
}

// TestTheRateOfAFormIsThatOfItsAnswers compares the rate of a form with its bits, and its bits with its answers. An odd
// number of blocks folds to a last block of fewer keys.
func TestTheRateOfAFormIsThatOfItsAnswers(t *testing.T) {
	testkit.Long(t)
	for name, p := range formParams(t) {
		for _, n := range []uint64{150, 451, 3000, 20_000} {
			h, units := unitsOf(t, blockOf(p, hashesOf(numbered, 0, n)))
			for _, form := range h.Forms(0) {
				f := in(t, h, form, units)
				rate := rateOfBits(&f)
				// The deviation by chance is a few hundredths of these keys, but more of a low rate, which few full
				// blocks make.
				off := math.Abs(rate/form.Rate - 1)
				if off > 0.03+15/math.Sqrt(float64(n)) && n > 1000 && form.Rate > 1e-4 {
					t.Errorf("%s, %d keys, %+v: rate %g by the bits", name, n, form, rate)
				}
				if e := exactRate(&f); math.Abs(e/form.Rate-1) > 1e-4 && form.Rate > quickLow {
					t.Errorf("%s, %d keys, %+v: expected rate %g", name, n, form, e)
				}
				const probes = 100_000
				got, want := measure(&f, numbered, 1<<40, probes)*probes, rate*probes
				if math.Abs(got-want) > 5*math.Sqrt(want*(1-rate))+2 {
					t.Errorf("%s, %d keys, %+v: %g of %d absent keys pass, want %g by the bits",
						name, n, form, got, probes, want)
				}
			}
		}
	}
}

// TestTheLastBlockOfAFoldedUnitCountsLess folds three blocks to two. The rate is that of asking each of the three.
func TestTheLastBlockOfAFoldedUnitCountsLess(t *testing.T) {
	testkit.Long(t)
	h, units := unitsOf(t, blockOf(paramsOf(t, Unit{10.5, 7}), hashesOf(numbered, 0, 146)))
	if h.Units[0].Blocks != 3 {
		t.Fatalf("%d blocks, want 3", h.Units[0].Blocks)
	}
	form := Form{Bytes: 2 * blockBytes, kept: [MaxUnits]uint8{keptWhole + 1}}
	f := in(t, h, form, units)
	first, last := bitsRate(f.units[0].bits[:blockBytes], 7), bitsRate(f.units[0].bits[blockBytes:], 7)
	if got, want := f.FalsePositiveRate(), (2*first+last)/3; math.Abs(got-want) > 1e-15 {
		t.Errorf("rate %g, want %g", got, want)
	}
	if !bytes.Equal(f.units[0].bits[blockBytes:], units[0][2*blockBytes:]) {
		t.Error("the last block is not that of the file")
	}
	// Sets of many seeds, since 146 keys of one vary widely.
	sum, sets := 0.0, 2000
	for i := range sets {
		b := Builder{Seed: Seed(i)}
		for h := range hashesOf(numbered, 0, 146) {
			b.Add(h)
		}
		h, units := unitsOf(t, b.AppendBlock(nil, paramsOf(t, Unit{10.5, 7})))
		f := in(t, h, form, units)
		sum += f.FalsePositiveRate()
	}
	if got, want := sum/float64(sets), exactRate(&f); math.Abs(got/want-1) > 0.01 {
		t.Errorf("mean rate %g, want %g", got, want)
	}
}

// whole reports whether the units of a form are as in the file: none is folded and none has fewer columns.
func whole(f Form) bool { return slices.Max(f.kept[:]) <= keptWhole }

func TestFormsAreAConvexLadder(t *testing.T) {
	for name, p := range formParams(t) {
		for n := uint64(0); n < 1e7; n += 1 + n/3 {
			h := headerOf(p, n)
			for _, rate := range []float64{2, 1, 0.5, 0.1, 0.01, 1e-3, 0} {
				forms, units := h.Forms(rate), h.UnitsFor(rate)
				if forms[0].Bytes != 0 || forms[0].Rate != 1 || !whole(forms[0]) {
					t.Fatalf("%s, %d keys: the first form is %+v", name, n, forms[0])
				}
				last := forms[len(forms)-1]
				if !whole(last) || last.Bytes != int64(h.PrefixSize(units)-HeaderSize) {
					t.Fatalf("%s, %d keys, rate %g: the last form is %+v, want %d units", name, n, rate, last, units)
				}
				for i := range MaxUnits + 1 {
					if last.Has(i) != (i < units) || last.Has(-1) {
						t.Fatalf("%s, %d keys, rate %g: the last form has unit %d: %v", name, n, rate, i, last.Has(i))
					}
				}
				for i, f := range forms[1:] {
					if before := forms[i]; f.Bytes <= before.Bytes || f.Rate >= before.Rate || f.Bytes%blockBytes != 0 {
						t.Fatalf("%s, %d keys, rate %g: %+v follows %+v", name, n, rate, f, before)
					}
					if i > 0 && !steeper(forms[i-1], forms[i], f) {
						t.Fatalf("%s, %d keys, rate %g: not convex at %+v", name, n, rate, forms[i])
					}
				}
			}
		}
	}
	good := UnitHeader{Blocks: 1, Probes: 1, Rate: 0.5}
	for name, h := range map[string]Header{
		"no filter":         {Keys: 3},
		"a unit of nothing": {Keys: 3, Units: []UnitHeader{good, {Rate: 0.5}}},
		"many probes":       {Keys: 3, Units: []UnitHeader{{Blocks: 1, Probes: 15, Rate: 0.5}}},
		"many columns":      {Keys: 3, Units: []UnitHeader{{Blocks: 1, Columns: 15, Rate: 0.5}}},
		"many units":        {Keys: 3, Units: []UnitHeader{good, good, good, good}},
		"many keys":         {Keys: 1e9, Units: []UnitHeader{good}}, // all bits are set
	} {
		if forms := h.Forms(0); len(forms) != 1 || forms[0] != (Form{Rate: 1}) {
			t.Errorf("%s: %+v, want only the form of no units", name, forms)
		}
	}
}

// headerOf returns the header of a filter of n keys without building it.
func headerOf(p Params, n uint64) Header {
	h, offset := Header{Keys: n}, uint64(HeaderSize)
	for i, unit := range p.units[:p.n] {
		u := UnitHeader{
			Probes: unit.Probes, Blocks: max(1, uint64(math.Ceil(float64(n)*unit.BitsPerKey/blockBits))),
			Rate: p.rates[i], Offset: offset,
		}
		if i == 0 && p.ribbon {
			if s, blocks := planRibbon(n, p.rates[0]*ribbonMargin, usualOverhead); blocks < u.Blocks {
				u.Probes, u.Columns, u.Overhead, u.Blocks = 0, int(s.columns), usualOverhead, blocks
			}
		}
		h.Units, offset = append(h.Units, u), offset+u.Bytes()
	}
	return h
}

// mixed returns the least mean rate of many filters with these forms and the given bytes each.
func mixed(forms []Form, each float64) float64 {
	for i, f := range forms {
		if float64(f.Bytes) >= each && i > 0 {
			a := forms[i-1]
			return a.Rate - (a.Rate-f.Rate)*(each-float64(a.Bytes))/float64(f.Bytes-a.Bytes)
		}
	}
	return forms[len(forms)-1].Rate
}

// TestFormsMakeTheMostOfMemory compares mixes of forms with filters that are built for the memory there is.
func TestFormsMakeTheMostOfMemory(t *testing.T) {
	const n = 1_000_000
	three, err := ParamsSplit(3, 0.007)
	must(t, err)
	if got, want := three.Units(), (Unit{3.5, 2}); len(got) != 3 || got[0] != want || got[1] != want ||
		got[2] != (Unit{3.46875, 2}) {
		t.Fatalf("three units of a rate of 0.007 are %v, want each about %v", got, want)
	}
	smaller, err := ParamsSplit(3, 0.0086)
	must(t, err)
	one := headerOf(paramsOf(t, Unit{10.5, 6}), n).Forms(0)
	fewer := headerOf(smaller, n).Forms(0)
	many := headerOf(three, n).Forms(0)
	ribbon := headerOf(ribbonOf(t, 0.0086), n).Forms(0)
	for _, tt := range []struct{ bits, bloom, one, three, ribbon float64 }{
		// Bits of memory a key; the rates of a Bloom unit built for them, of forms of one unit of 10.5 bits, of three
		// of 3.5 bits, and of a Ribbon unit of 7.25 bits, by which a Ribbon unit built for them is not lower.
		{10.5, 0.0078, 0.0079, 0.0069, 0.0086},
		{8.4, 0.0195, 0.0460, 0.0206, 0.0086},
		{7.25, 0.0326, 0.0669, 0.0333, 0.0086},
		{6, 0.0577, 0.0896, 0.0659, 0.0201},
		{5.25, 0.0827, 0.1033, 0.0882, 0.0312},
		{4, 0.1481, 0.3043, 0.1609, 0.0744},
		{2.625, 0.2848, 0.5255, 0.3270, 0.1875},
		{1.3, 0.5366, 0.7650, 0.6019, 0.4405},
		{0.5, 0.8647, 0.9096, 0.8469, 0.7619},
	} {
		each := tt.bits * n / 8
		a, b, c := mixed(one, each), mixed(many, each), mixed(ribbon, each)
		if r := mixed(fewer, each); r > 1.2*tt.bloom {
			t.Errorf("%v bits: rate %.4f of three smaller units, want at most a fifth above %.4f", tt.bits, r, tt.bloom)
		}
		t.Logf("%6.3f bits: one unit %.4f, three %.4f, Ribbon %.4f", tt.bits, a, b, c)
		if math.Abs(a/tt.one-1) > 0.02 {
			t.Errorf("%v bits: rate %.4f of one unit, want %.4f", tt.bits, a, tt.one)
		}
		if b > 1.02*tt.three || b > 1.2*tt.bloom {
			t.Errorf("%v bits: rate %.4f of three units, want at most %.4f, and a fifth above %.4f",
				tt.bits, b, tt.three, tt.bloom)
		}
		if math.Abs(c/tt.ribbon-1) > 0.02 {
			t.Errorf("%v bits: rate %.4f of a Ribbon unit, want %.4f", tt.bits, c, tt.ribbon)
		}
	}
}

// TestReduceMakesTheBitsOfTheFile reduces each form to each other one: if that is possible, the bits are those made of
// the file, and it is possible if and only if each unit has what the other needs.
func TestReduceMakesTheBitsOfTheFile(t *testing.T) {
	for name, p := range formParams(t) {
		for _, n := range []uint64{1, 146, 3001} {
			h, units := unitsOf(t, blockOf(p, hashesOf(numbered, 0, n)))
			forms := h.Forms(0)
			whole, err := h.Filter(units)
			must(t, err)
			if last := forms[len(forms)-1]; int64(whole.Bytes()) != last.Bytes || whole.expectedRate() != last.Rate {
				t.Errorf("%s, %d keys: whole filter of %d bytes, rate %v, want %+v", name, n, whole.Bytes(),
					whole.expectedRate(), last)
			}
			for i, from := range forms {
				f := in(t, h, from, units)
				for j, to := range forms {
					want := in(t, h, to, units)
					got, ok := f.Reduce(h, to, bytes.Repeat([]byte{0x5a}, int(to.Bytes)))
					possible := true
					for unit := range h.Units {
						possible = possible && includes(h.Units[unit], from.kept[unit], to.kept[unit])
					}
					if ok != possible || i == j && !ok {
						t.Fatalf("%s, %d keys, %+v to %+v: %v, want %v", name, n, from, to, ok, possible)
					}
					if !ok {
						if !got.MayContain(1) || got.Units() != 0 {
							t.Fatalf("%s, %d keys, %+v to %+v: a filter comes with false", name, n, from, to)
						}
						continue
					}
					if !bytes.Equal(memory(&got), memory(&want)) {
						t.Fatalf("%s, %d keys, %+v to %+v: other bits than from the file", name, n, from, to)
					}
				}
				g, ok := whole.Reduce(h, from, make([]byte, from.Bytes))
				if !ok || !bytes.Equal(memory(&g), memory(&f)) {
					t.Fatalf("%s, %d keys, from the whole filter to %+v: %v, or other bits", name, n, from, ok)
				}
			}
		}
	}
}

// includes reports whether a unit has what another form of it needs.
func includes(u UnitHeader, from, to uint8) bool {
	switch {
	case to == keptNone || from == keptWhole:
		return true
	case from == keptNone:
		return false
	case u.Columns > 0:
		return to != keptWhole && to <= from
	}
	return to >= from
}

func TestDamageOfAnyUnitOfAFormIsNoticed(t *testing.T) {
	for name, p := range formParams(t) {
		h, units := unitsOf(t, blockOf(p, hashesOf(numbered, 0, 300)))
		for _, form := range h.Forms(0) {
			dst := AlignedBytes(form.Bytes)
			for i, b := range units {
				b[len(b)/2] ^= 4
				f, err := h.In(form, dst, units)
				if errors.Is(err, ErrDamaged) != form.Has(i) || form.Has(i) && f.Units() > 0 {
					t.Errorf("%s, %+v, unit %d damaged: error %v", name, form, i, err)
				}
				b[len(b)/2] ^= 4
				short := append([][]byte(nil), units...)
				for _, bad := range [][]byte{nil, b[:len(b)-1], append(bytes.Clone(b), 0)} {
					short[i] = bad
					if _, err := h.In(form, dst, short); errors.Is(err, ErrDamaged) != form.Has(i) {
						t.Errorf("%s, %+v, unit %d of %d bytes: error %v", name, form, i, len(bad), err)
					}
				}
				if _, err := h.In(form, dst, units[:i]); errors.Is(err, ErrDamaged) !=
					(form.Has(i) || form.Has(i+1) || form.Has(i+2)) {
					t.Errorf("%s, %+v, %d units: error %v", name, form, i, err)
				}
			}
		}
	}
}

func TestAFormOfAnotherFilterIsRefused(t *testing.T) {
	testkit.LongUnderRace(t)
	var all []Form
	headers, files := map[string]Header{}, map[string][][]byte{}
	for name, p := range formParams(t) {
		h, units := unitsOf(t, blockOf(p, hashesOf(numbered, 0, 2000)))
		headers[name], files[name] = h, units
		all = append(all, h.Forms(0)...)
	}
	for k := range 256 { // none that Forms returns
		for i := range MaxUnits {
			f := Form{Bytes: 128}
			f.kept[i] = uint8(k)
			all = append(all, f)
		}
	}
	for name, h := range headers {
		for _, form := range all {
			dst := make([]byte, form.Bytes)
			if f, err := h.In(form, dst, files[name]); err == nil {
				for h := range hashesOf(numbered, 0, 2000) {
					if !f.MayContain(h) {
						t.Fatalf("%s, %+v: a key is denied", name, form)
					}
				}
			} else if !errors.Is(err, ErrParams) {
				t.Fatalf("%s, %+v: error %v, want ErrParams", name, form, err)
			}
			if _, err := h.In(form, append(dst, 0), files[name]); !errors.Is(err, ErrParams) {
				t.Fatalf("%s, %+v, a byte more: error %v, want ErrParams", name, form, err)
			}
		}
		for other := range headers {
			f, err := headers[other].Filter(files[other])
			must(t, err)
			form := h.Forms(0)[1]
			if small, ok := f.Reduce(h, form, make([]byte, form.Bytes)); ok {
				for h := range hashesOf(numbered, 0, 2000) {
					if !small.MayContain(h) {
						t.Fatalf("%s reduced to a form of %s denies a key", other, name)
					}
				}
			}
		}
	}
	var none Filter
	if f, ok := none.Reduce(Header{}, Form{}, nil); !ok || !f.MayContain(1) || f.FalsePositiveRate() != 1 {
		t.Errorf("the zero filter reduced to nothing: %v", ok)
	}
	bad := Header{Units: []UnitHeader{{}}}
	if _, ok := none.Reduce(bad, Form{kept: [MaxUnits]uint8{1}}, nil); ok {
		t.Error("a unit of no blocks is made")
	}
}

// probedPlainly answers as MayContain does, probe by probe.
func probedPlainly(f *Filter, key Hash) bool {
	mixed := f.seed.Mix(key)
	hash, part := mixed, uint64(0)
	for i := range f.units[:f.n] {
		u := &f.units[i]
		if i > 0 {
			hash, part = hash.Next(), mixed.Block(f.parts)
		}
		if !lineMayContain(u.bits[u.at(hash, part):][:blockBytes], hash, int(u.probes)) {
			return false
		}
	}
	r := f.ribbon
	if r == nil {
		return true
	}
	start, _, _ := mixed.band(r.starts)
	return r.windowMayContain(r.bits[r.at(start/segmentSlots)*wordBytes:], mixed)
}

// TestFormsAnswerAlikeByAnyCall asks filters in all forms at once, with the seed of the lookup and another.
func TestFormsAnswerAlikeByAnyCall(t *testing.T) {
	testkit.LongUnderRace(t)
	var filters []*Filter
	for name, p := range formParams(t) {
		b := Builder{Seed: Seed(len(name) % 2 * 99)}
		for h := range hashesOf(numbered, 0, 2000) {
			b.Add(h)
		}
		h, units := unitsOf(t, b.AppendBlock(nil, p))
		for _, form := range h.Forms(0) {
			filters = append(filters, new(in(t, h, form, units)))
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(filters), func(i, j int) {
		filters[i], filters[j] = filters[j], filters[i]
	})
	for at := 0; at < len(filters); at += 30 {
		some := append([]*Filter{nil}, filters[at:min(at+30, len(filters))]...)
		for key := range hashesOf(numbered, 1000, 2000) {
			each := MayContainEach(some, Seed(99).Hash(key))
			hashes := make([]SeededHash, len(some))
			for i := range hashes {
				hashes[i] = Seed(99).Hash(key)
			}
			together := MayContainMany(some, hashes)
			for i, f := range some {
				want := f == nil || probedPlainly(f, key)
				one, of, many := f == nil || f.MayContain(key), each>>i&1 == 1, together>>i&1 == 1
				if one != want || of != want || many != want {
					t.Fatalf("filter %d: %v alone, %v of each, %v of many, want %v", i, one, of, many, want)
				}
			}
		}
	}
}

func TestProbesOfAFormDoNotAllocate(t *testing.T) {
	var filters []*Filter
	h, units := unitsOf(t, blockOf(formParams(t)["a Ribbon unit and two behind it"], hashesOf(numbered, 0, 2000)))
	for _, form := range h.Forms(0) {
		filters = append(filters, new(in(t, h, form, units)))
	}
	filters = filters[:min(len(filters), 32)]
	key, hashes := Hash(0), make([]SeededHash, len(filters))
	if n := testing.AllocsPerRun(1000, func() {
		key += 0x9e3779b97f4a7c15
		for _, f := range filters {
			f.MayContain(key)
		}
		MayContainEach(filters, Seed(0).Hash(key))
		for i := range hashes {
			hashes[i] = Seed(0).Hash(key + Hash(i))
		}
		MayContainMany(filters, hashes)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAlignedBytesAre(t *testing.T) {
	for n := int64(0); n < 1<<20; n += 1 + n/50 {
		b := AlignedBytes(n)
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); int64(len(b)) != n || n > 0 && at%blockBytes != 0 {
			t.Errorf("%d bytes at %x, want %d at a multiple of %d", len(b), at, n, blockBytes)
		}
	}
}

func BenchmarkForms(b *testing.B) {
	for name, p := range formParams(b) {
		h := headerOf(p, 34_567)
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = len(h.Forms(0))
			}
			b.ReportMetric(float64(n), "forms")
		})
	}
}

func BenchmarkReduce(b *testing.B) {
	for name, p := range formParams(b) {
		h, units := unitsOf(b, blockOf(p, hashesOf(numbered, 0, 100_000)))
		forms := h.Forms(0)
		f, err := h.Filter(units)
		must(b, err)
		form := forms[len(forms)/2]
		dst := AlignedBytes(form.Bytes)
		b.Run(fmt.Sprintf("%s/%d of %d bytes", name, form.Bytes, f.Bytes()), func(b *testing.B) {
			b.SetBytes(int64(f.Bytes()))
			for b.Loop() {
				if _, ok := f.Reduce(h, form, dst); !ok {
					b.Fatal("not reduced")
				}
			}
		})
	}
}
