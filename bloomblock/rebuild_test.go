package bloomblock

import (
	"errors"
	"slices"
	"testing"
)

func rebuilt(t *testing.T, block []byte, hashes func(yield func(Hash) bool)) Difference {
	t.Helper()
	r, err := NewRebuild(block)
	must(t, err)
	for x := range hashes {
		r.Add(x)
		r.Add(x) // as a second version of a key
	}
	return r.Finish()
}

func TestAFilterIsBuiltAgainBitForBit(t *testing.T) {
	nested, err := ParamsNested(0.01, 0.001, 0.00004)
	must(t, err)
	for _, p := range []Params{
		{},
		paramsFor(t, 0.5), paramsFor(t, 0.01), paramsFor(t, 1e-6), nested,
		ribbonOf(t, 0.01), ribbonOf(t, 0.07, 0.0009, 0.00005),
		paramsOf(t, Unit{3.5, 2}, Unit{3.5, 2}, Unit{3, 2}).SideBySide(),
	} {
		for _, keys := range []uint64{0, 1, 7, 300, 5000, 50_000} {
			block := blockOf(p, seededHashes(2, keys))
			d := rebuilt(t, block, seededHashes(2, keys))
			if d.Keys != keys || d.Missing+d.Extra != 0 || d.First != nil || slices.Max(append(d.Units, 0)) != 0 {
				t.Errorf("%d keys in %v: %+v, want no difference", keys, p.Units(), d)
			}
		}
	}
}

func TestEachBitThatDiffersIsCounted(t *testing.T) {
	p := paramsOf(t, Unit{10, 6}, Unit{5, 3})
	for name, p := range map[string]Params{"one after the other": p, "side by side": p.SideBySide()} {
		t.Run(name, func(t *testing.T) { eachBitThatDiffersIsCounted(t, p) })
	}
}

func eachBitThatDiffersIsCounted(t *testing.T, p Params) {
	t.Helper()
	block := blockOf(p, seededHashes(2, 5000))
	one := func(at int) (missing, extra uint64) {
		if block[at]&4 != 0 {
			return 1, 0
		}
		return 0, 1
	}
	h, err := ParseHeader(block)
	must(t, err)
	for _, at := range []int{HeaderSize, HeaderSize + 999, HeaderSize + int(h.UnitsSize()) - 1} {
		missing, extra := one(at)
		block[at] ^= 4
		d := rebuilt(t, block, seededHashes(2, 5000))
		block[at] ^= 4
		if d.Missing != missing || d.Extra != extra || d.First == nil || *d.First != uint64(at) ||
			d.Units[0]+d.Units[1] != 1 {
			t.Errorf("bit of byte %d flipped: %+v, want %d and %d there", at, d, missing, extra)
		}
	}
	d := rebuilt(t, block, seededHashes(3, 5000))
	if d.Missing == 0 || d.Extra == 0 || d.Units[0] == 0 || d.Units[1] == 0 {
		t.Errorf("other keys: %+v", d)
	}
	ribbon := blockOf(ribbonOf(t, 0.01), seededHashes(2, 5000))
	if d := rebuilt(t, ribbon, seededHashes(2, 4999)); d.Keys != 4999 {
		t.Errorf("a key fewer in a Ribbon: %+v", d)
	}
}

func TestOnlyABlockIsBuiltAgain(t *testing.T) {
	block := blockOf(paramsOf(t, Unit{10, 6}), seededHashes(2, 100))
	for _, b := range [][]byte{nil, block[:HeaderSize], block[:len(block)-1], append(slices.Clone(block), 0)} {
		if _, err := NewRebuild(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %v, want ErrDamaged", len(b), err)
		}
	}
}

func TestATraceIsTheAnswer(t *testing.T) {
	nested, err := ParamsNested(0.1, 0.03, 0.00004)
	must(t, err)
	for _, p := range []Params{
		{},
		paramsFor(t, 0.2), paramsOf(t, Unit{20, 14}), nested, ribbonOf(t, 0.2), ribbonOf(t, 0.3, 0.1),
		paramsOf(t, Unit{6, 4}, Unit{6, 9}).SideBySide(),
	} {
		f := filterOf(t, p, seededHashes(2, 3000))
		maybes := 0
		for h := range seededHashes(9, 3000) {
			all := true
			for _, u := range f.Trace(h) {
				all = all && u.Maybe
				each := true
				for _, probe := range u.Probes {
					each = each && probe.Set
				}
				for _, even := range u.Columns {
					each = each && even
				}
				if each != u.Maybe {
					t.Fatalf("hash %x: %+v", h, u)
				}
			}
			if all != f.MayContain(h) {
				t.Fatalf("hash %x: %v, and the trace is %+v", h, !all, f.Trace(h))
			}
			if all {
				maybes++
			}
		}
		for h := range seededHashes(2, 3000) {
			for _, u := range f.Trace(h) {
				if !u.Maybe {
					t.Fatalf("hash %x was added: %+v", h, u)
				}
			}
		}
		t.Logf("%v: %d of 3000", p.Units(), maybes)
	}
}
