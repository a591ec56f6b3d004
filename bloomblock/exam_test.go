package bloomblock

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// seededHashes returns n hashes of a seed.
func seededHashes(seed, n uint64) func(yield func(Hash) bool) {
	return func(yield func(Hash) bool) {
		random := rand.NewPCG(seed, n)
		for range n {
			if !yield(Hash(random.Uint64())) {
				return
			}
		}
	}
}

func examOf(tb testing.TB, block []byte) Exam {
	tb.Helper()
	e, err := Examine(block)
	must(tb, err)
	return e
}

// flagNames returns the names of a filter's flags.
func flagNames(e Exam) (names []FlagName) {
	for _, f := range e.Flags {
		names = append(names, f.Name)
	}
	return names
}

func TestTheFiguresOfSoundFiltersScatterAsTheirErrorsSay(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 800 filters")
	}
	// Each sum is over figures that should have mean 0 and deviation 1.
	type sums struct{ n, sum, squares float64 }
	figures := make(map[string]*sums)
	see := func(name string, units []Unit, s *Stat) {
		if s == nil {
			return
		}
		name = fmt.Sprintf("%s of %v", name, units)
		f := figures[name]
		if f == nil {
			f = new(sums)
			figures[name] = f
		}
		f.n++
		f.sum += s.Z
		f.squares += s.Z * s.Z
	}
	for _, units := range [][]Unit{{{10, 6}}, {{32, 14}}, {{2, 5}}, {{8, 5}, {3, 2}}} {
		p := paramsOf(t, units...)
		for seed := range uint64(100) {
			for _, keys := range []uint64{2000, 20000} {
				h, err := ParseHeader(blockOf(p, seededHashes(seed, keys)))
				must(t, err)
				f := filterOf(t, p, seededHashes(seed, keys))
				for i, u := range h.Units {
					x := UnitExam{Probes: u.Probes, Blocks: u.Blocks, Offset: u.Offset, Bytes: u.Bytes()}
					x.examine(f.unit(i), f.units[i].bits)
					see("set bits", units, x.SetBits)
					see("spread", units, x.Spread)
					see("keys", units, x.NumKeys)
					see("positions", units, x.Positions)
					see("regions", units, x.Evenness)
				}
			}
		}
	}
	for name, f := range figures {
		mean, dev := f.sum/f.n, math.Sqrt(f.squares/f.n)
		t.Logf("%s: %.0f figures, mean %.3f, deviation %.3f", name, f.n, mean, dev)
		if math.Abs(mean) > 4/math.Sqrt(f.n) || math.Abs(dev-1) > 4/math.Sqrt(2*f.n) {
			t.Errorf("%s: mean %.3f, deviation %.3f of %.0f figures", name, mean, dev, f.n)
		}
	}
}

func TestSoundFiltersAreNotFlagged(t *testing.T) {
	nested, err := ParamsNested(0.01, 0.001, 0.00004)
	must(t, err)
	for _, p := range []Params{
		paramsFor(t, 0.5), paramsFor(t, 0.1), paramsFor(t, 0.01), paramsFor(t, 0.001), nested,
		ribbonOf(t, 0.01), ribbonOf(t, 0.06, 0.002),
		paramsOf(t, Unit{3.5, 2}, Unit{3.5, 2}, Unit{3, 2}).SideBySide(),
		paramsOf(t, Unit{12, 6}, Unit{4, 3}).SideBySide(),
		{},
	} {
		for _, keys := range []uint64{0, 1, 2, 7, 63, 300, 2000, 20000, 200000} {
			e := examOf(t, blockOf(p, seededHashes(1, keys)))
			if len(e.Flags) > 0 {
				t.Errorf("%d keys in %v: %+v", keys, p.Units(), e.Flags)
			}
			if m := e.Measured; m != nil && math.Abs(m.Z) > 4 || (m == nil) != (p.n == 0) {
				t.Errorf("%d keys in %v: measured %+v, from the bits %g", keys, p.Units(), m, e.FromBits)
			}
		}
	}
}

// doubleHashed returns a probe of h by 32-bit double hashing: start, start+step, start+2·step and so on, modulo 512.
func doubleHashed(h Hash, probe int) int {
	start, step := uint32(h), uint32(h)>>17|uint32(h)<<15
	return int((start + uint32(probe)*step) % blockBits)
}

// doubleHashedBlock returns the block of a filter with these probes.
func doubleHashedBlock(t *testing.T, p Params, n uint64) []byte {
	t.Helper()
	block := blockOf(p, seededHashes(1, n))
	h, err := ParseHeader(block)
	must(t, err)
	u := h.Units[0]
	payload := block[HeaderSize:][:u.Bytes()]
	clear(payload)
	for x := range seededHashes(1, n) {
		for probe := range u.Probes {
			at := doubleHashed(x, probe)
			payload[x.Block(u.Blocks)*blockBytes+uint64(at/8)] |= 1 << (at % 8)
		}
	}
	return resealed(h, block)
}

// resealed returns the block with the checksums of its bytes.
func resealed(h Header, block []byte) []byte {
	block = block[:HeaderSize+h.UnitsSize()]
	for i, unit := range h.Split(block[HeaderSize:]) {
		h.Units[i].CRC = checksum(unit)
	}
	return h.finish(block, 0)
}

// recount sets another number of keys in the header of a block.
func recount(t *testing.T, block []byte, keys uint64) []byte {
	t.Helper()
	h, err := ParseHeader(block)
	must(t, err)
	h.Keys = keys
	h.put(block)
	return block
}

func TestFaultsAreFlaggedByName(t *testing.T) {
	const keys = 100_000
	p := paramsOf(t, Unit{16, 9})
	saturated := func() []byte { // twice the keys in a filter sized for keys
		small := paramsOf(t, Unit{8, 9})
		block := blockOf(small, seededHashes(1, 2*keys))
		h, err := ParseHeader(block)
		must(t, err)
		h.Units[0].Rate = p.Rate()
		h.put(block)
		return block
	}
	half := func() []byte { // half of the keys in a filter of all
		return recount(t, blockOf(paramsOf(t, Unit{32, 9}), seededHashes(1, keys/2)), keys)
	}
	skewed := func(change func(h Hash) Hash) []byte { // built without checking the bits
		var b Builder
		for h := range seededHashes(1, keys) {
			b.Add(change(h))
		}
		h := Header{Keys: uint64(b.n)}
		block, _ := b.appendUnits(make([]byte, HeaderSize), &h, p)
		h.Units[0].Rate = p.Rate()
		return resealed(h, block)
	}
	for _, c := range []struct {
		name   string
		block  []byte
		answer func(f *Filter, h Hash) bool
		want   []FlagName // among other flags, unless alone
		alone  bool
	}{
		{"double hashing of 32 bits inside a block", doubleHashedBlock(t, p, keys), func(f *Filter, h Hash) bool {
			line := f.units[0].line(h)
			for probe := range int(f.units[0].probes) {
				at := doubleHashed(h, probe)
				if line[at/8]>>(at%8)&1 == 0 {
					return false
				}
			}
			return true
		}, []FlagName{ProbesDependent}, false},
		{"half of the keys are missing", half(), nil, []FlagName{KeysDiffer, FillOff}, false},
		{"twice the keys it was sized for", saturated(), nil, []FlagName{Saturated}, true},
		{
			"more keys than were counted", recount(t, blockOf(p, seededHashes(1, keys)), keys-keys/50),
			nil,
			[]FlagName{KeysDiffer},
			false,
		},
		{
			"keys in half of the blocks", skewed(func(h Hash) Hash { return h >> 1 }),
			nil,
			[]FlagName{RegionsUneven, SpreadOff, AbovePromise},
			false,
		},
		{
			"hashes whose low bits are zero", skewed(func(h Hash) Hash { return h &^ 0x3ffffffff }),
			nil,
			[]FlagName{PositionsUneven},
			false,
		},
		{"one block that is full", func() []byte {
			block := blockOf(p, seededHashes(1, keys))
			h, _ := ParseHeader(block)
			for i := range block[HeaderSize:][:blockBytes] {
				block[HeaderSize+i] = 0xff
			}
			return resealed(h, block)
		}(), nil, []FlagName{WorstBlockOff}, false},
		{"a Ribbon of other bits", func() []byte {
			block := blockOf(ribbonOf(t, 0.01), seededHashes(1, keys))
			h, _ := ParseHeader(block)
			for i := range block[HeaderSize:] {
				if i%3 == 0 {
					block[HeaderSize+i] = 0
				}
			}
			return resealed(h, block)
		}(), nil, []FlagName{DensityOff}, false},
		{
			"a filter that denies half of all it should not", blockOf(paramsOf(t, Unit{6, 4}), seededHashes(1, keys)),
			func(f *Filter, h Hash) bool { return h&1 == 0 && f.MayContain(h) },
			[]FlagName{MeasuredOff},
			true,
		},
	} {
		many := MayContainMany
		if c.answer != nil {
			many = func(filters []*Filter, hashes []SeededHash) (maybe uint64) {
				for i, f := range filters {
					if c.answer(f, hashes[i].Hash) {
						maybe |= 1 << i
					}
				}
				return maybe
			}
		}
		e, err := examine(c.block, many)
		got := flagNames(e)
		if err != nil || c.alone && !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v alone", c.name, err, got, c.want)
		}
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %v; want %v among them", c.name, got, want)
			}
		}
		for _, f := range e.Flags {
			if f.Meaning == "" || strings.Contains(f.Meaning, "%!") {
				t.Errorf("%s: %s means %q", c.name, f.Name, f.Meaning)
			}
			t.Logf("%s: %s: %s", c.name, f.Name, f.Meaning)
		}
	}
}

func TestAnExamOfADamagedBlockGoesAsFarAsItCan(t *testing.T) {
	good := blockOf(paramsOf(t, Unit{10, 6}, Unit{5, 3}), seededHashes(1, 1000))
	for _, c := range []struct {
		name    string
		change  func(b []byte) []byte
		fields  int
		units   int
		badUnit int
	}{
		{"nothing", func(b []byte) []byte { return nil }, 0, 0, -1},
		{"half a header", func(b []byte) []byte { return b[:20] }, 7, 0, -1},
		{"a header alone", func(b []byte) []byte { return b[:HeaderSize] }, 24, 2, -1},
		{"a flipped bit of the header", func(b []byte) []byte { b[16] ^= 1; return b }, 24, 0, -1},
		{"a flipped bit of unit 1", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 24, 2, 1},
		{"a byte too many", func(b []byte) []byte { return append(b, 0) }, 24, 2, -1},
	} {
		e, err := Examine(c.change(slices.Clone(good)))
		if !errors.Is(err, ErrDamaged) || !slices.Equal(flagNames(e), []FlagName{Damaged}) {
			t.Errorf("%s: %v, flags %v", c.name, err, flagNames(e))
		}
		if len(e.Header) != c.fields || len(e.Units) != c.units {
			t.Errorf("%s: %d fields and %d units, want %d and %d",
				c.name, len(e.Header), len(e.Units), c.fields, c.units)
		}
		for i, u := range e.Units {
			if bad := u.CRCFound != "" && u.CRC != u.CRCFound; bad != (i == c.badUnit) {
				t.Errorf("%s: unit %d: checksum %s, found %q", c.name, i, u.CRC, u.CRCFound)
			}
		}
	}
}

func TestTheFieldsOfAHeaderAreAllItsBytes(t *testing.T) {
	for _, p := range []Params{
		{},
		paramsFor(t, 0.01), ribbonOf(t, 0.01, 0.0001), paramsOf(t, Unit{10, 6}, Unit{5, 3}, Unit{2, 1}),
		paramsOf(t, Unit{0.5, 1}), paramsOf(t, Unit{10, 6}, Unit{5, 3}, Unit{2, 1}).SideBySide(),
	} {
		block := blockOf(p, seededHashes(1, 5000))
		at := 0
		for _, f := range examOf(t, block).Header {
			if f.Offset != at || f.Name == "" || f.Value == "" {
				t.Errorf("field %+v, want it at %d", f, at)
			}
			at += f.Bytes
		}
		if at != HeaderSize {
			t.Errorf("the fields end at %d, want %d", at, HeaderSize)
		}
	}
}

func TestTheHistogramHasEveryBlock(t *testing.T) {
	for _, keys := range []uint64{0, 1, 500, 30000} {
		for _, u := range examOf(t, blockOf(paramsOf(t, Unit{12, 7}, Unit{0.5, 14}), seededHashes(3, keys))).Units {
			blocks, want, last := uint64(0), 0.0, -1
			for _, b := range u.Histogram {
				blocks += b.Blocks
				want += b.Want
				if last >= 0 && b.From != last+1 || b.To < b.From {
					t.Errorf("%d keys: bin %+v after one that ends at %d", keys, b, last)
				}
				last = b.To
			}
			if blocks != u.Blocks || math.Abs(want-float64(blocks)) > 0.02*float64(blocks) ||
				len(u.Histogram) > maxBins || u.Worst.Set != u.Max {
				t.Errorf("%d keys, %d blocks: %d in %d bins, %.1f expected",
					keys, u.Blocks, blocks, len(u.Histogram), want)
			}
			set := 0.0
			for _, share := range u.Shares {
				set += share
			}
			if len(u.Shares) != blockBits || math.Abs(set-u.SetBits.Got) > 1e-9*blockBits {
				t.Errorf("%d keys: the shares of %d positions add up to %v, want the %v bits of a block",
					keys, len(u.Shares), set, u.SetBits.Got)
			}
		}
	}
}

func TestPositionsAreCounted(t *testing.T) {
	payload := make([]byte, 70_000*blockBytes) // more blocks than the columns count to
	for i := range payload {
		payload[i] = byte(i * i >> 3)
	}
	want := make([]uint64, blockBits)
	for i, c := range payload {
		for bit := range 8 {
			want[i%blockBytes*8+bit] += uint64(c >> bit & 1)
		}
	}
	if got := positions(payload); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTheoryAgreesWithItself(t *testing.T) {
	for _, c := range []struct {
		keys, blocks uint64
		probes       int
	}{
		{0, 1, 6},
		{1, 1, 6},
		{50, 1, 6},
		{100, 2, 14},
		{5000, 100, 6},
		{1 << 20, 20480, 9},
		{1 << 40, 1 << 35, 7},
		{1 << 62, 1, 1},
		{300, 1 << 40, 3},
	} {
		th := theoryOf(c.keys, c.blocks, c.probes)
		sum, mean, square, rate := 0.0, 0.0, 0.0, 0.0
		for x, p := range th.set {
			sum += p
			mean += p * float64(x)
			square += p * float64(x) * float64(x)
			rate += p * passes(x, c.probes)
		}
		variance := square - mean*mean
		if math.Abs(sum-1) > 1e-6 || math.Abs(mean-th.mean()) > 1e-4 || math.Abs(variance-th.variance()) > 1e-2 {
			t.Errorf("%+v: sum %g, mean %g by the closed form %g, variance %g by the closed form %g",
				c, sum, mean, th.mean(), variance, th.variance())
		}
		if want := binomialRate(c.keys, c.blocks, c.probes); math.Abs(rate-want) > 1e-9+1e-6*want {
			t.Errorf("%+v: rate %g, want %g", c, rate, want)
		}
		for name, v := range map[string]float64{
			"mean": th.meanVar(), "variance": th.varianceVar(), "rate": th.rateVar(), "worst": th.atLeast(1),
		} {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Errorf("%+v: variance of the %s is %g", c, name, v)
			}
		}
	}
}
