package filterexam

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func unit(bitsPerKey float64, probes int) bloomblock.Unit {
	return bloomblock.Unit{BitsPerKey: bitsPerKey, Probes: probes}
}

func paramsOf(tb testing.TB, units ...bloomblock.Unit) bloomblock.Params {
	tb.Helper()
	p, err := bloomblock.NewParams(units...)
	must(tb, err)
	return p
}

func paramsFor(tb testing.TB, rate float64) bloomblock.Params {
	tb.Helper()
	p, err := bloomblock.ParamsFor(rate)
	must(tb, err)
	return p
}

func ribbonOf(tb testing.TB, rates ...float64) bloomblock.Params {
	tb.Helper()
	p, err := bloomblock.ParamsRibbon(rates...)
	must(tb, err)
	return p
}

func builderOf(hashes iter.Seq[bloomblock.Hash]) *bloomblock.Builder {
	var b bloomblock.Builder
	for h := range hashes {
		b.Add(h)
	}
	return &b
}

func blockOf(p bloomblock.Params, hashes iter.Seq[bloomblock.Hash]) []byte {
	return builderOf(hashes).AppendBlock(nil, p)
}

// partsOf returns the header of a block and its units.
func partsOf(tb testing.TB, block []byte) (bloomblock.Header, [][]byte) {
	tb.Helper()
	h, err := bloomblock.ParseHeader(block)
	must(tb, err)
	return h, h.Split(block[bloomblock.HeaderSize:][:h.UnitsSize()])
}

// sealed returns a block of units one after the other, with their checksums and without those of pages.
func sealed(h bloomblock.Header, units [][]byte) []byte {
	for i, unit := range units {
		h.Units[i].CRC = checksum(unit)
	}
	return append(h.Append(nil), slices.Concat(units...)...)
}

// seededHashes returns n hashes of a seed.
func seededHashes(seed, n uint64) iter.Seq[bloomblock.Hash] {
	return func(yield func(bloomblock.Hash) bool) {
		random := rand.NewPCG(seed, n)
		for range n {
			if !yield(bloomblock.Hash(random.Uint64())) {
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
		t.Skip("reads 160 filters")
	}
	// Each sum is over figures that should have mean 0 and deviation 1.
	type sums struct{ n, sum, squares float64 }
	figures := make(map[string]*sums)
	see := func(name string, units []bloomblock.Unit, s *Stat) {
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
	for _, units := range [][]bloomblock.Unit{
		{unit(10, 6)}, {unit(32, 14)}, {unit(2, 5)}, {unit(8, 5), unit(3, 2)},
	} {
		p := paramsOf(t, units...)
		for seed := range uint64(20) {
			for _, keys := range []uint64{2000, 20000} {
				h, bits := partsOf(t, blockOf(p, seededHashes(seed, keys)))
				for i, u := range h.Units {
					x := UnitExam{Probes: u.Probes, Blocks: u.Blocks, Offset: u.Offset, Bytes: u.Bytes()}
					x.examine(&h, bits[i])
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
	nested, err := bloomblock.ParamsNested(0.01, 0.001, 0.00004)
	must(t, err)
	for _, p := range []bloomblock.Params{
		paramsFor(t, 0.5), paramsFor(t, 0.1), paramsFor(t, 0.01), paramsFor(t, 0.001), nested,
		ribbonOf(t, 0.01), ribbonOf(t, 0.06, 0.002),
		paramsOf(t, unit(3.5, 2), unit(3.5, 2), unit(3, 2)).SideBySide(),
		paramsOf(t, unit(12, 6), unit(4, 3)).SideBySide(),
		{},
	} {
		for _, keys := range []uint64{0, 1, 2, 7, 63, 300, 2000, 20000, 200000} {
			e := examOf(t, blockOf(p, seededHashes(1, keys)))
			if len(e.Flags) > 0 {
				t.Errorf("%d keys in %v: %+v", keys, p.Units(), e.Flags)
			}
			if m := e.Measured; m != nil && math.Abs(m.Z) > 4 || (m == nil) != (len(p.Units()) == 0) {
				t.Errorf("%d keys in %v: measured %+v, from the bits %g", keys, p.Units(), m, e.FromBits)
			}
		}
	}
}

// doubleHashed returns a probe of h by 32-bit double hashing: start, start+step, start+2·step and so on, modulo 512.
func doubleHashed(h bloomblock.Hash, probe int) int {
	start, step := uint32(h), uint32(h)>>17|uint32(h)<<15
	return int((start + uint32(probe)*step) % blockBits)
}

// doubleHashedBlock returns the block of a filter of one unit with these probes, and a function that answers as it
// should.
func doubleHashedBlock(
	t *testing.T, p bloomblock.Params, n uint64,
) (block []byte, answer func(f *bloomblock.Filter, x bloomblock.Hash) bool) {
	t.Helper()
	h := p.Header(n)
	u := h.Units[0]
	payload := make([]byte, u.Bytes())
	bit := func(x bloomblock.Hash, probe int) (in *byte, mask byte) {
		at := doubleHashed(x, probe)
		return &payload[x.Block(u.Blocks)*blockBytes+uint64(at/8)], 1 << (at % 8)
	}
	for x := range seededHashes(1, n) {
		for probe := range u.Probes {
			in, mask := bit(x, probe)
			*in |= mask
		}
	}
	return sealed(h, [][]byte{payload}), func(_ *bloomblock.Filter, x bloomblock.Hash) bool {
		for probe := range u.Probes {
			if in, mask := bit(x, probe); *in&mask == 0 {
				return false
			}
		}
		return true
	}
}

// changed returns the block with another header.
func changed(t *testing.T, block []byte, change func(h *bloomblock.Header)) []byte {
	t.Helper()
	h, units := partsOf(t, block)
	change(&h)
	return sealed(h, units)
}

// recount sets another number of keys in the header of a block.
func recount(t *testing.T, block []byte, keys uint64) []byte {
	t.Helper()
	return changed(t, block, func(h *bloomblock.Header) { h.Keys = keys })
}

func TestFaultsAreFlaggedByName(t *testing.T) {
	const keys = 100_000
	p := paramsOf(t, unit(16, 9))
	saturated := func() []byte { // twice the keys in a filter sized for keys
		block := blockOf(paramsOf(t, unit(8, 9)), seededHashes(1, 2*keys))
		return changed(t, block, func(h *bloomblock.Header) { h.Units[0].Rate = p.Rate() })
	}
	half := func() []byte { // half of the keys in a filter of all
		return recount(t, blockOf(paramsOf(t, unit(32, 9)), seededHashes(1, keys/2)), keys)
	}
	skewed := func(change func(h bloomblock.Hash) bloomblock.Hash) []byte { // built without checking the bits
		var b bloomblock.Builder
		for h := range seededHashes(1, keys) {
			b.Add(change(h))
		}
		h := p.Header(uint64(b.Len()))
		units, err := b.Rebuild(h)
		must(t, err)
		return sealed(h, units)
	}
	hashedTwice, answer := doubleHashedBlock(t, p, keys)
	for _, c := range []struct {
		name   string
		block  []byte
		answer func(f *bloomblock.Filter, h bloomblock.Hash) bool
		want   []FlagName // among other flags, unless alone
		alone  bool
	}{
		{"double hashing of 32 bits inside a block", hashedTwice, answer, []FlagName{ProbesDependent}, false},
		{"half of the keys are missing", half(), nil, []FlagName{KeysDiffer, FillOff}, false},
		{"twice the keys it was sized for", saturated(), nil, []FlagName{Saturated}, true},
		{
			"more keys than were counted", recount(t, blockOf(p, seededHashes(1, keys)), keys-keys/50),
			nil,
			[]FlagName{KeysDiffer},
			false,
		},
		{
			"keys in half of the blocks", skewed(func(h bloomblock.Hash) bloomblock.Hash { return h >> 1 }),
			nil,
			[]FlagName{RegionsUneven, SpreadOff, AbovePromise},
			false,
		},
		{
			"hashes whose low bits are zero",
			skewed(func(h bloomblock.Hash) bloomblock.Hash { return h &^ 0x3ffffffff }),
			nil,
			[]FlagName{PositionsUneven},
			false,
		},
		{"one block that is full", func() []byte {
			h, units := partsOf(t, blockOf(p, seededHashes(1, keys)))
			for i := range blockBytes {
				units[0][i] = 0xff
			}
			return sealed(h, units)
		}(), nil, []FlagName{WorstBlockOff}, false},
		{"a Ribbon of other bits", func() []byte {
			h, units := partsOf(t, blockOf(ribbonOf(t, 0.01), seededHashes(1, keys)))
			for i := 0; i < len(units[0]); i += 3 {
				units[0][i] = 0
			}
			return sealed(h, units)
		}(), nil, []FlagName{DensityOff}, false},
		{
			"a filter that denies half of all it should not", blockOf(paramsOf(t, unit(6, 4)), seededHashes(1, keys)),
			func(f *bloomblock.Filter, h bloomblock.Hash) bool { return h&1 == 0 && f.MayContain(h) },
			[]FlagName{MeasuredOff},
			true,
		},
	} {
		many := bloomblock.MayContainMany
		if c.answer != nil {
			many = func(filters []*bloomblock.Filter, hashes []bloomblock.SeededHash) (maybe uint64) {
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
	good := blockOf(paramsOf(t, unit(10, 6), unit(5, 3)), seededHashes(1, 1000))
	for _, c := range []struct {
		name    string
		change  func(b []byte) []byte
		fields  int
		units   int
		badUnit int
	}{
		{"nothing", func(b []byte) []byte { return nil }, 0, 0, -1},
		{"half a header", func(b []byte) []byte { return b[:20] }, 7, 0, -1},
		{"a header alone", func(b []byte) []byte { return b[:bloomblock.HeaderSize] }, 24, 2, -1},
		{"a flipped bit of the header", func(b []byte) []byte { b[16] ^= 1; return b }, 24, 0, -1},
		{"a flipped bit of unit 1", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 24, 2, 1},
		{"a byte too many", func(b []byte) []byte { return append(b, 0) }, 24, 2, -1},
	} {
		e, err := Examine(c.change(slices.Clone(good)))
		if !errors.Is(err, bloomblock.ErrDamaged) || !slices.Equal(flagNames(e), []FlagName{Damaged}) {
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
	for _, p := range []bloomblock.Params{
		{},
		paramsFor(t, 0.01), ribbonOf(t, 0.01, 0.0001), paramsOf(t, unit(10, 6), unit(5, 3), unit(2, 1)),
		paramsOf(t, unit(0.5, 1)), paramsOf(t, unit(10, 6), unit(5, 3), unit(2, 1)).SideBySide(),
	} {
		block := blockOf(p, seededHashes(1, 5000))
		at := 0
		for _, f := range examOf(t, block).Header {
			if f.Offset != at || f.Name == "" || f.Value == "" {
				t.Errorf("field %+v, want it at %d", f, at)
			}
			at += f.Bytes
		}
		if at != bloomblock.HeaderSize {
			t.Errorf("the fields end at %d, want %d", at, bloomblock.HeaderSize)
		}
	}
}

func TestTheHistogramHasEveryBlock(t *testing.T) {
	for _, keys := range []uint64{0, 1, 500, 30000} {
		for _, u := range examOf(t, blockOf(paramsOf(t, unit(12, 7), unit(0.5, 14)), seededHashes(3, keys))).Units {
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
		// The same by another formula, which has five digits.
		forms := bloomblock.Header{
			Keys: c.keys, Units: []bloomblock.UnitHeader{{Blocks: c.blocks, Probes: c.probes}},
		}.Forms(0)
		want := forms[len(forms)-1].Rate
		if math.Abs(rate-want) > 1e-9+1e-5*want || math.Abs(th.rate()-rate) > 1e-9*rate {
			t.Errorf("%+v: rate %g and %g, want %g", c, rate, th.rate(), want)
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

func TestTheCensusOfAUnitAgreesWithTheory(t *testing.T) {
	const keys = 200_000
	h, units := partsOf(t, blockOf(paramsOf(t, unit(10, 6), unit(6, 4)), seededHashes(4, keys)))
	for i, u := range h.Units {
		c := censusOf(units[i])
		// Mean and variance of the occupancy of a block with a Poisson number of keys (filters with k independent
		// probes).
		k, lambda := float64(u.Probes), keys/float64(u.Blocks)
		q1, q2 := 1-math.Pow(1-1.0/blockBits, k), 1-math.Pow(1-2.0/blockBits, k)
		clear1, clear2 := math.Exp(-lambda*q1), math.Exp(-lambda*q2)
		mean := blockBits * (1 - clear1)
		dev := math.Sqrt(blockBits*(blockBits-1)*clear2 + blockBits*clear1 - blockBits*blockBits*clear1*clear1)
		gotMean, gotDev := c.moments()
		if math.Abs(gotMean/mean-1) > 0.005 || math.Abs(gotDev/dev-1) > 0.05 {
			t.Errorf("unit %d: %v ± %v bits set, want %v ± %v", i, gotMean, gotDev, mean, dev)
		}
		total := uint64(0)
		for _, n := range c.withSetBits {
			total += n
		}
		if total != u.Blocks || c.withSetBits[c.emptiest] == 0 || c.withSetBits[c.fullest] == 0 {
			t.Errorf("unit %d: %d blocks with %d to %d bits", i, total, c.emptiest, c.fullest)
		}
		if got := c.keys(u.Probes); math.Abs(got/keys-1) > 0.005 {
			t.Errorf("unit %d: estimated %v keys, want %v", i, got, keys)
		}
	}
	full := censusOf([]byte(strings.Repeat("\xff", blockBytes)))
	_, dev := full.moments()
	if keys := full.keys(6); full.emptiest != blockBits || math.IsInf(keys, 0) || dev != 0 {
		t.Errorf("full block: %d bits, keys %v, deviation %v", full.emptiest, keys, dev)
	}
	if empty := censusOf(make([]byte, blockBytes)); empty.fullest != 0 || empty.keys(6) != 0 {
		t.Errorf("empty block: %d bits, keys %v", empty.fullest, empty.keys(6))
	}
}

// TestTheFieldsOfAHeaderHaveItsValues reads the fields of a header of which each is another number.
func TestTheFieldsOfAHeaderHaveItsValues(t *testing.T) {
	h := bloomblock.Header{Keys: 123_456, Seed: 0xabcdef}
	for i := range bloomblock.MaxUnits {
		n := i + 1
		h.Units = append(h.Units, bloomblock.UnitHeader{
			Probes: n, Blocks: uint64(100 + n), Rate: 0.5 / float64(n), CRC: uint32(n),
		})
	}
	h.Units[0].Probes, h.Units[0].Columns, h.Units[0].Overhead = 0, 7, 9
	got := map[string]string{}
	for _, f := range fields(h.Append(nil)) {
		got[f.Name] = f.Value
	}
	for name, want := range map[string]string{
		"magic": `"bloomblk"`, "version": "2", "kind": "2", "hash": "1", "units": "3", "line": "6", "keys": "123456",
		"seed":          "0000000000abcdef",
		"unit 0 blocks": "101", "unit 0 rate": "0.5", "unit 0 checksum": "00000001", "unit 0 columns": "7",
		"unit 0 overhead": "9",
		"unit 1 blocks":   "102", "unit 1 rate": "0.25", "unit 1 checksum": "00000002", "unit 1 probes": "2",
		"unit 2 blocks": "103", "unit 2 checksum": "00000003", "unit 2 probes": "3", "unit 2 overhead": "0",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	side := paramsOf(t, unit(3.5, 2), unit(3.5, 2)).SideBySide()
	block := blockOf(side, seededHashes(1, 50_000))
	h, _ = partsOf(t, block)
	for _, f := range fields(block) {
		if f.Name == "version" && f.Value != "3" || f.Name == "page" && f.Value != "12" ||
			f.Name == "parts" && f.Value != strconv.FormatUint(h.Parts(), 10) {
			t.Errorf("%s: %s in a block of %d parts", f.Name, f.Value, h.Parts())
		}
	}
}
