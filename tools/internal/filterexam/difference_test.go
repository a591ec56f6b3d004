package filterexam

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
)

func rebuilt(t *testing.T, block []byte, hashes iter.Seq[bloomblock.Hash]) Difference {
	t.Helper()
	var b bloomblock.Builder
	for x := range hashes {
		b.Add(x)
		b.Add(x) // as a second version of a key
	}
	d, err := Compare(block, &b)
	must(t, err)
	return d
}

func TestAFilterIsBuiltAgainBitForBit(t *testing.T) {
	nested, err := bloomblock.ParamsNested(0.01, 0.001, 0.00004)
	must(t, err)
	for _, p := range []bloomblock.Params{
		{},
		paramsFor(t, 0.5), paramsFor(t, 0.01), paramsFor(t, 1e-6), nested,
		ribbonOf(t, 0.01), ribbonOf(t, 0.07, 0.0009, 0.00005),
		paramsOf(t, unit(3.5, 2), unit(3.5, 2), unit(3, 2)).SideBySide(),
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
	p := paramsOf(t, unit(10, 6), unit(5, 3))
	for name, p := range map[string]bloomblock.Params{"one after the other": p, "side by side": p.SideBySide()} {
		t.Run(name, func(t *testing.T) { eachBitThatDiffersIsCounted(t, p) })
	}
}

func eachBitThatDiffersIsCounted(t *testing.T, p bloomblock.Params) {
	t.Helper()
	block := blockOf(p, seededHashes(2, 5000))
	one := func(at int) (missing, extra uint64) {
		if block[at]&4 != 0 {
			return 1, 0
		}
		return 0, 1
	}
	h, _ := partsOf(t, block)
	const first = bloomblock.HeaderSize
	for _, at := range []int{first, first + 999, first + int(h.UnitsSize()) - 1} {
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
	block := blockOf(paramsOf(t, unit(10, 6)), seededHashes(2, 100))
	header, cut, longer := block[:bloomblock.HeaderSize], block[:len(block)-1], append(slices.Clone(block), 0)
	for _, b := range [][]byte{nil, header, cut, longer} {
		if _, err := Compare(b, new(bloomblock.Builder)); !errors.Is(err, bloomblock.ErrDamaged) {
			t.Errorf("%d bytes: %v, want ErrDamaged", len(b), err)
		}
	}
}
