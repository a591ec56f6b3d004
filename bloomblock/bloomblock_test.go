package bloomblock

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

// numbered returns the key of 8 big-endian bytes for i.
func numbered(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

// hashesOf returns the hashes of keys from, from+1 ... from+n-1.
func hashesOf(key func(uint64) []byte, from, n uint64) iter.Seq[Hash] {
	return func(yield func(Hash) bool) {
		for i := range n {
			if !yield(HashKey(key(from + i))) {
				return
			}
		}
	}
}

// blockOf returns the block of a filter of hashes.
func blockOf(p Params, hashes iter.Seq[Hash]) []byte {
	var b Builder
	for h := range hashes {
		b.Add(h)
	}
	return b.AppendBlock(nil, p)
}

func filterOf(tb testing.TB, p Params, hashes iter.Seq[Hash]) *Filter {
	tb.Helper()
	f, err := Parse(blockOf(p, hashes))
	if err != nil {
		tb.Fatalf("parse what was built: %v", err)
	}
	return &f
}

func paramsOf(tb testing.TB, units ...Unit) Params {
	tb.Helper()
	p, err := NewParams(units...)
	must(tb, err)
	return p
}

// rowsOf returns p with units that are rows of the table, and with the rates that it has there.
func rowsOf(tb testing.TB, p Params, units ...Unit) Params {
	tb.Helper()
	for _, u := range units {
		i := slices.IndexFunc(table[:], func(r tableRow) bool { return r.Unit == u })
		if i < 0 {
			tb.Fatalf("no row %v", u)
		}
		p.add(u, table[i].Rate)
	}
	return p
}

func paramsFor(tb testing.TB, rate float64) Params {
	tb.Helper()
	p, err := ParamsFor(rate)
	must(tb, err)
	return p
}

// shapes are typical keys of applications.
var shapes = []struct {
	name string
	key  func(uint64) []byte
}{
	{"sequential big-endian", numbered},
	{"sequential little-endian", func(i uint64) []byte { return binary.LittleEndian.AppendUint64(nil, i) }},
	{"decimal", func(i uint64) []byte { return strconv.AppendUint(nil, i, 10) }},
	{"random", func(i uint64) []byte {
		r := rand.NewPCG(i, 17)
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64())
	}},
	{"long shared prefix", func(i uint64) []byte {
		return strconv.AppendUint([]byte(strings.Repeat("tenant/0000/", 8)), i, 10)
	}},
	{"one bit of a word, then a number", func(i uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1<<(i%64)), i/64)
	}},
}

func TestHashKeyIsXXH64(t *testing.T) {
	for key, want := range map[string]Hash{
		"":    0xef46db3751d8e999,
		"a":   0xd24ec4f1a98c6e5b,
		"abc": 0x44bc2cf5ad770999,
	} {
		if got := HashKey([]byte(key)); got != want {
			t.Errorf("HashKey(%q) = %x, want %x", key, got, want)
		}
	}
	if HashKey(nil) != HashKey([]byte{}) {
		t.Error("nil and the empty key differ")
	}
}

func TestNoKeyIsEverDenied(t *testing.T) {
	testkit.Long(t)
	params := []Params{{}, paramsFor(t, 0.5), paramsFor(t, 0.01), paramsFor(t, 1e-4), paramsFor(t, 1e-9)}
	for probes := 1; probes <= MaxProbes; probes++ {
		params = append(params, paramsOf(t, Unit{9.7, probes}, Unit{1.1, MaxProbes + 1 - probes}))
	}
	counts := []uint64{300, 1000, 1001, 9999, 100_000}
	for n := range uint64(70) {
		counts = append(counts, n)
	}
	for _, n := range counts {
		for i, p := range params {
			if n > 2000 && i > 4 || n > 10_000 && i != 2 && i != 4 {
				continue // takes too long
			}
			shape := shapes[(int(n)+i)%len(shapes)]
			f := filterOf(t, p, hashesOf(shape.key, 5, n))
			if f.Units() != len(p.Units()) {
				t.Fatalf("%d units, want %d", f.Units(), len(p.Units()))
			}
			for h := range hashesOf(shape.key, 5, n) {
				if !f.MayContain(h) {
					t.Fatalf("%d %s keys, %v: hash %x was added and is denied", n, shape.name, p.Units(), h)
				}
			}
		}
	}
}

// measure returns the share of absent keys for which f answers maybe.
func measure(f *Filter, key func(uint64) []byte, from, probes uint64) (rate float64) {
	found := 0
	for h := range hashesOf(key, from, probes) {
		if f.MayContain(h) {
			found++
		}
	}
	return float64(found) / float64(probes)
}

func TestMeasuredRateIsThePromisedOne(t *testing.T) {
	for _, tt := range []struct {
		name         string
		params       Params
		keys, probes uint64
	}{
		{"a tenth", paramsFor(t, 0.1), 50_000, 100_000},
		{"a hundredth", paramsFor(t, 0.01), 50_000, 150_000},
		{"a hundredth of few keys", paramsFor(t, 0.01), 1000, 150_000},
		{"a block count that is a power of two", paramsOf(t, Unit{10.24, 6}), 1024 * 50, 150_000},
		{"two units of five bits", paramsOf(t, Unit{5, 3}, Unit{5, 3}), 50_000, 150_000},
		{"three units", paramsOf(t, Unit{4, 3}, Unit{3, 2}, Unit{3.5, 2}), 50_000, 150_000},
		{"a thousandth", paramsFor(t, 0.001), 50_000, 1_000_000},
		{"many probes", paramsOf(t, Unit{10, 14}), 50_000, 150_000},
	} {
		for _, shape := range shapes {
			if tt.probes >= 1_000_000 && shape.name != "decimal" {
				continue // takes too long
			}
			t.Run(tt.name+", "+shape.name, func(t *testing.T) {
				t.Parallel()
				f := filterOf(t, tt.params, hashesOf(shape.key, 0, tt.keys))
				got, exact := measure(f, shape.key, 1<<33, tt.probes), exactRate(f)
				if exact > tt.params.Rate()*(1+1e-9) {
					t.Errorf("exact rate %v, promised %v", exact, tt.params.Rate())
				}
				// The keys are fixed, so this cannot fail now and then. 150,000 absent keys at a hundredth have a
				// standard deviation of 2.6 %. The bits of a filter with few keys differ much from the average
				// filter's.
				bound := 1.1
				if tt.keys < 10_000 {
					bound = 1.25
				}
				if got > bound*exact || got < exact/bound {
					t.Errorf("measured rate %v, exact %v, want within a factor of %v", got, exact, bound)
				}
			})
		}
	}
}

// TestTheRateOfOneToAMillionKeys compares the exact rate with the rate of many filters of random hashes, measured and
// by their bits, from a single key on.
func TestTheRateOfOneToAMillionKeys(t *testing.T) {
	testkit.Long(t)
	p := paramsFor(t, 0.01)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, keys := range []int{
		0, 1, 2, 5, 20, 40, 51, 52, 75, 102, 103, 250, 1000, 1023, 10_000, 100_000, 1_000_000,
	} {
		sets := max(1, min(2000, 200_000/max(keys, 1)))
		asked := max(1_000_000/sets, 2000)
		var exact, passed, bits, squares float64
		for set := range sets {
			f := filterOf(t, p, func(yield func(Hash) bool) {
				for range keys {
					if !yield(Hash(rng.Uint64())) {
						return
					}
				}
			})
			if set == 0 {
				exact = exactRate(f)
			}
			for range asked {
				if f.MayContain(Hash(rng.Uint64())) {
					passed++
				}
			}
			rate := rateOfBits(f)
			bits += rate
			squares += rate * rate
		}
		n := float64(sets)
		bits /= n
		spread := math.Sqrt(max(squares/n-bits*bits, 0) / n)
		if exact > p.Rate() {
			t.Errorf("%d keys: exact rate %v, promised %v", keys, exact, p.Rate())
		}
		if sets > 30 && math.Abs(bits-exact) > 4*spread+1e-9 { // with fewer sets the spread is not known
			t.Errorf("%d keys: rate %v by the bits of %d filters, exact %v, want within %v",
				keys, bits, sets, exact, 4*spread)
		}
		want, got := n*float64(asked)*exact, passed
		if math.Abs(got-want) > 4*math.Sqrt(want+math.Pow(float64(asked)*n*spread, 2))+0.01*want+1 {
			t.Errorf("%d keys: %.0f of %.0f absent ones passed, want %.1f", keys, got, n*float64(asked), want)
		}
	}
}

func TestFewKeysHaveTheProbesThatTheirBitsAreWorth(t *testing.T) {
	testkit.LongUnderRace(t)
	u := Unit{10, 6}
	for _, tt := range []struct {
		keys, blocks uint64
		least, most  int
	}{
		{0, 1, 6, 6},
		{1, 1, 6, 14},
		{20, 1, 9, 14},
		{51, 1, 6, 6},
		{52, 2, 9, 14},
		{1000, 20, 6, 6},
		{1024, 21, 6, 7},
		{1_000_000, 19532, 6, 6},
	} {
		got := bestProbes(tt.keys, tt.blocks, u)
		if got < tt.least || got > tt.most {
			t.Errorf("%d keys in %d blocks: %d probes, want %d to %d", tt.keys, tt.blocks, got, tt.least, tt.most)
		}
		for k := u.Probes; k <= MaxProbes; k++ {
			best, other := binomialRate(tt.keys, tt.blocks, got), binomialRate(tt.keys, tt.blocks, k)
			if got > u.Probes && best > 1.001*other && best > quickLow {
				t.Errorf("%d keys in %d blocks: rate %v with %d probes, %v with %d",
					tt.keys, tt.blocks, best, got, other, k)
			}
		}
	}
}

func TestMeasuredRateOfAMillionKeys(t *testing.T) {
	testkit.Long(t)
	const keys, probes = 1_000_000, 1_000_000
	for _, p := range []Params{paramsFor(t, 0.01), paramsOf(t, Unit{6, 4}, Unit{4, 3})} {
		f := filterOf(t, p, hashesOf(numbered, 0, keys))
		got, want := measure(f, numbered, keys, probes), p.Rate()
		if got > 1.1*want || got < want/1.1 {
			t.Errorf("%v: measured rate %v, promised %v", p.Units(), got, want)
		}
	}
}

func TestUnitsMultiply(t *testing.T) {
	testkit.LongUnderRace(t)
	p := paramsOf(t, Unit{4, 3}, Unit{4, 3}, Unit{4, 3})
	block := blockOf(p, hashesOf(numbered, 0, 100_000))
	h, err := ParseHeader(block)
	must(t, err)
	var units [][]byte
	for _, u := range h.Units {
		units = append(units, block[u.Offset:u.Offset+u.Bytes()])
	}
	for n := range len(units) + 1 {
		f, err := h.Filter(units[:n])
		must(t, err)
		got, want := measure(&f, numbered, 1<<40, 300_000), h.Rate(n)
		if got > 1.05*want || got < want/1.05 {
			t.Errorf("%d units: measured rate %v, promised %v", n, got, want)
		}
		if f.Bytes() != int(h.PrefixSize(n))-HeaderSize {
			t.Errorf("%d units: %d bytes, want %d", n, f.Bytes(), h.PrefixSize(n)-HeaderSize)
		}
	}
}

func TestManyFiltersAnswerAsEachAloneDoes(t *testing.T) {
	testkit.Long(t)
	const keys, asked = 700, 20_000
	filters := []*Filter{nil, {}}
	for _, units := range [][]Unit{
		{{1, 1}},
		{{3, 2}},
		{{5, 3}},
		{{6, 4}},
		{{10, 6}},
		{{32, 14}},
		{{5, 3}, {7, 5}},
		{{7, 5}, {3, 2}, {4, 3}},
	} {
		p, err := NewParams(units...)
		must(t, err)
		filters = append(filters, filterOf(t, p, hashesOf(numbered, 0, keys)))
	}
	for _, rates := range [][]float64{{0.01}, {0.1, 0.001}} {
		p, err := ParamsRibbon(rates...)
		must(t, err)
		filters = append(filters, filterOf(t, p, hashesOf(numbered, 0, keys)))
	}
	seeds := [...]Seed{0, 1, 0x9e3779b97f4a7c15}
	for _, seed := range seeds[1:] {
		for _, p := range []Params{paramsOf(t, Unit{10, 6}), paramsOf(t, Unit{7, 5}, Unit{5, 3}), ribbonOf(t, 0.01)} {
			filters = append(filters, seededFilter(t, seed, p, hashesOf(numbered, 0, keys)))
		}
	}
	for len(filters) < 64 {
		filters = append(filters, filters...)
	}
	filters = filters[:64]
	alone := func(f *Filter, h Hash) bool { return f == nil || f.MayContain(h) }
	for i := range uint64(asked) {
		h := seeds[i%3].Hash(HashKey(numbered(i)))
		each := MayContainEach(filters[:32], h)
		for k, f := range filters[:32] {
			if got := each>>k&1 != 0; got != alone(f, h.Hash) {
				t.Fatalf("key %d, filter %d of 32: got %v, alone %v", i, k, got, !got)
			}
		}
	}
	if got := MayContainEach(nil, SeededHash{}); got != 0 {
		t.Errorf("no filters: got %b, want no bit", got)
	}
	hashes := make([]SeededHash, 64)
	for i := uint64(0); i < asked; i += 7 {
		n := int(i % 65)
		for k := range hashes {
			hashes[k] = seeds[i%3].Hash(HashKey(numbered((i + uint64(k)) % (2 * keys))))
		}
		many := MayContainMany(filters[:n], hashes[:n])
		for k, f := range filters[:n] {
			if got := many>>k&1 != 0; got != alone(f, hashes[k].Hash) {
				t.Fatalf("key %d, filter %d of %d: got %v, alone %v", i, k, n, got, !got)
			}
		}
		if many>>n != 0 {
			t.Fatalf("%d filters: got %b, want no bit beyond", n, many)
		}
	}
}

func TestZeroFilterSaysMaybe(t *testing.T) {
	var f Filter
	if !f.MayContain(42) || f.Units() != 0 || f.Bytes() != 0 || exactRate(&f) != 1 {
		t.Errorf("zero filter: %v %d %d %v, want maybe", f.MayContain(42), f.Units(), f.Bytes(), exactRate(&f))
	}
	none := filterOf(t, Params{}, hashesOf(numbered, 0, 10))
	if !none.MayContain(42) || none.Keys() != 10 {
		t.Errorf("block of no filter: %v, %d keys, want maybe, 10", none.MayContain(42), none.Keys())
	}
	if units := none.UnitBits(); units != nil {
		t.Errorf("units of no filter: %+v", units)
	}
}

func TestFilterOfNoKeysSaysNo(t *testing.T) {
	f := filterOf(t, paramsFor(t, 0.01), hashesOf(numbered, 0, 0))
	if f.MayContain(42) || exactRate(f) != 0 {
		t.Errorf("%v, rate %v, want no, 0", f.MayContain(42), exactRate(f))
	}
}

func TestProbesDoNotAllocate(t *testing.T) {
	f := filterOf(t, paramsFor(t, 1e-6), hashesOf(numbered, 0, 1000))
	key := numbered(7)
	if n := testing.AllocsPerRun(1000, func() {
		if !f.MayContain(HashKey(key)) {
			t.Error("denied")
		}
	}); n != 0 {
		t.Errorf("%v allocations in a probe, want 0", n)
	}
}

func TestBuilderDropsEqualNeighboursAndCanBeUsedAgain(t *testing.T) {
	var b Builder
	p := paramsFor(t, 0.01)
	for _, h := range []Hash{1, 1, 2, 2, 2, 1} {
		b.Add(h)
	}
	if b.Len() != 3 {
		t.Errorf("%d hashes, want 3", b.Len())
	}
	first := b.AppendBlock([]byte("before"), p)
	if string(first[:6]) != "before" || len(first) != 6+len(b.AppendBlock(nil, p)) {
		t.Errorf("%d bytes after %q, want %d", len(first)-6, first[:6], len(b.AppendBlock(nil, p)))
	}
	b.Reset()
	for _, h := range []Hash{1, 2, 1} {
		b.Add(h)
	}
	dirty := make([]byte, 0, 1<<12)
	for i := range cap(dirty) {
		dirty = append(dirty, byte(i))
	}
	second := b.AppendBlock(dirty[:0], p) // the former content must not be visible
	if string(first[6:]) != string(second) {
		t.Error("the same hashes gave different blocks")
	}
}

func TestBuilderKnowsEqualNeighboursInDifferentChunks(t *testing.T) {
	var b Builder
	const n = 2*chunk + 10
	blocks := [2][]byte{}
	for i := range blocks { // the second time without allocating
		for h := range hashesOf(numbered, 0, n) {
			b.Add(h)
			if i == 0 {
				b.Add(h)
			}
		}
		if b.Len() != n {
			t.Errorf("%d hashes, want %d", b.Len(), n)
		}
		blocks[i] = b.AppendBlock(nil, paramsFor(t, 0.01))
		b.Reset()
	}
	if !bytes.Equal(blocks[0], blocks[1]) {
		t.Error("the same hashes gave different blocks")
	}
	f, err := Parse(blocks[0])
	must(t, err)
	for h := range hashesOf(numbered, 0, n) {
		if !f.MayContain(h) {
			t.Fatalf("%x is denied", h)
		}
	}
}

// TestGoldenBytes builds one small filter and summaries of larger ones, whose bytes must never change.
func TestGoldenBytes(t *testing.T) {
	var out strings.Builder
	small := blockOf(paramsOf(t, Unit{10, 6}, Unit{10, 6}), hashesOf(shapes[2].key, 0, 20))
	fmt.Fprintf(&out, "header of 20 decimal keys, two units of 10 bits\n")
	for i := 0; i < HeaderSize; i += 32 {
		fmt.Fprintf(&out, "%x\n", small[i:i+32])
	}
	for u := range 2 {
		fmt.Fprintf(&out, "unit %d\n", u)
		for i := range blockBits {
			if small[HeaderSize+u*blockBytes+i/8]>>(i%8)&1 == 1 {
				out.WriteByte('1')
			} else {
				out.WriteByte('.')
			}
			if i%64 == 63 {
				out.WriteByte('\n')
			}
		}
	}
	for _, c := range []struct {
		rate  float64
		units []Unit
	}{
		{1, nil},
		{0.5, []Unit{{1.5, 1}}},
		{0.1, []Unit{{5, 3}}},
		{0.01, []Unit{{10, 6}}},
		{0.001, []Unit{{16, 8}}},
		{1e-4, []Unit{{10.5, 6}, {9.5, 5}}},
		{1e-6, []Unit{{10, 6}, {10, 6}, {10, 5}}},
		{1e-9, []Unit{{16, 8}, {15.5, 8}, {15.5, 8}}},
	} {
		block := blockOf(rowsOf(t, Params{}, c.units...), hashesOf(shapes[2].key, 0, 1000))
		fmt.Fprintf(&out, "1000 decimal keys at %v: %d bytes, CRC-32C %08x\n", c.rate, len(block), checksum(block))
	}
	one, two := rowsOf(t, Params{}, Unit{10, 6}), rowsOf(t, ribbonOf(t, 0.01), Unit{5, 3})
	for _, p := range []Params{one, paramsOf(t, Unit{7, 5}, Unit{5, 3}), two} {
		b := Builder{Seed: 0x123456789abcdef}
		for h := range hashesOf(shapes[2].key, 0, 1000) {
			b.Add(h)
		}
		block := b.AppendBlock(nil, p)
		fmt.Fprintf(&out, "1000 decimal keys with a seed at %.5f: %d bytes, CRC-32C %08x\n",
			p.Rate(), len(block), checksum(block))
	}
	testkit.Golden(t, "testdata/blocks.txt", out.String())

	// Blocks of version 3: with checksums of pages, with units side by side, with both, and with neither.
	out.Reset()
	side := paramsOf(t, Unit{3.5, 2}, Unit{3.5, 2}, Unit{3, 2}).SideBySide()
	for _, p := range []Params{one, side, two} {
		for _, n := range []uint64{3200, 3500, 20_000} {
			block := blockOf(p, hashesOf(shapes[2].key, 0, n))
			h, err := ParseHeader(block)
			must(t, err)
			fmt.Fprintf(&out, "%d decimal keys at %.5f: version %d, %d bytes, %d parts, CRC-32C %08x\n",
				n, p.Rate(), block[offVersion], len(block), h.parts, checksum(block))
			fmt.Fprintf(&out, "%x\n%x\n", block[:HeaderSize], block[HeaderSize+h.UnitsSize():])
		}
	}
	testkit.Golden(t, "testdata/pages.txt", out.String())
}

// rateOfBits returns the exact rate of a filter's bits, of a Ribbon unit too.
func rateOfBits(f *Filter) float64 {
	rate := 1.0
	for _, u := range f.UnitBits() {
		rate *= u.Rate
	}
	return rate
}

// exactRate returns expectedRate, with rates of units that are not folded computed exactly.
func exactRate(f *Filter) float64 {
	rate := 1.0
	if f.ribbon != nil {
		rate = f.ribbon.rate()
	}
	for i := range f.n {
		switch u := &f.units[i]; {
		case u.absent:
		case u.folds > 0:
			rate *= u.expectedRate(f.keys)
		default:
			rate *= binomialRate(f.keys, u.blocks, int(u.probes))
		}
	}
	return rate
}

func TestBitsAgreeWithTheory(t *testing.T) {
	const keys = 200_000
	f := filterOf(t, paramsOf(t, Unit{10, 6}, Unit{6, 4}), hashesOf(numbered, 0, keys))
	if got, want := rateOfBits(f), exactRate(f); math.Abs(got/want-1) > 0.03 {
		t.Errorf("rate of the bits %v, exact %v", got, want)
	}
	for i, bits := range f.UnitBits() {
		u := &f.units[i]
		// The mean occupancy of a block with a Poisson number of keys (filters with k independent probes).
		unset := math.Exp(-keys / float64(u.blocks) * (1 - math.Pow(1-1.0/blockBits, float64(u.probes))))
		if math.Abs(bits.Fill/(1-unset)-1) > 0.005 {
			t.Errorf("unit %d: %v of the bits set, want %v", i, bits.Fill, 1-unset)
		}
		sum, squares, n := 0.0, 0.0, float64(u.blocks)
		for b := u.bits; len(b) > 0; b = b[blockBytes:] {
			rate := bitsRate(b[:blockBytes], int(u.probes))
			sum += rate
			squares += rate * rate
		}
		if math.Abs(sum/n/bits.Rate-1) > 1e-9 {
			t.Errorf("unit %d: mean rate of its blocks %v, its rate %v", i, sum/n, bits.Rate)
		}
		got, want := (squares/n-sum*sum/n/n)/n, rateVar(keys, u.blocks, int(u.probes))
		if math.Abs(got/want-1) > 0.15 {
			t.Errorf("unit %d: variance of the rate %v by its blocks, want %v", i, got, want)
		}
	}
}

func TestRatesOfFullAndEmptyBlocks(t *testing.T) {
	full, empty := bytes.Repeat([]byte{0xff}, blockBytes), make([]byte, blockBytes)
	for _, c := range []struct {
		bits       []byte
		rate, fill float64
	}{{full, 1, 1}, {empty, 0, 0}, {append(full, empty...), 0.5, 0.5}} {
		if rate := bitsRate(c.bits, 6); rate != c.rate || fill(c.bits) != c.fill {
			t.Errorf("rate %v, fill %v, want %v, %v", rate, fill(c.bits), c.rate, c.fill)
		}
	}
}

// many is the number of keys of TestOfManyKeysNoneIsDenied.
var many = flag.Uint64("keys", 1_000_000, "keys of the test that none of them is denied")

func TestOfManyKeysNoneIsDenied(t *testing.T) {
	testkit.Long(t)
	for _, p := range []Params{
		paramsFor(t, 0.00855), paramsFor(t, 1e-5), ribbonOf(t, 0.00855), ribbonOf(t, 0.1, 1e-4),
	} {
		t.Run(fmt.Sprintf("%d units, Ribbon %v", len(p.Units()), p.Ribbon()), func(t *testing.T) {
			f := filterOf(t, p, hashesOf(numbered, 0, *many))
			if (f.ribbon != nil) != p.Ribbon() {
				t.Errorf("a Ribbon unit is there: %v, want %v", f.ribbon != nil, p.Ribbon())
			}
			for h := range hashesOf(numbered, 0, *many) {
				if !f.MayContain(h) {
					t.Fatalf("%x is denied", h)
				}
			}
			if rate := rateOfBits(f); rate > p.Rate()*1.005 {
				t.Errorf("%.4g from the bits, promised %.4g", rate, p.Rate())
			}
		})
	}
}
