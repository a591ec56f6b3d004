package bloomblock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// sampleBlockOf returns the sample block of hashes.
func sampleBlockOf(hashes iter.Seq[Hash]) []byte {
	var b Builder
	for h := range hashes {
		b.Add(h)
	}
	return b.AppendSample(nil)
}

func sampleOf(tb testing.TB, hashes iter.Seq[Hash]) *Sample {
	tb.Helper()
	s, err := ParseSample(sampleBlockOf(hashes))
	if err != nil {
		tb.Fatalf("parse what was built: %v", err)
	}
	return &s
}

func signSample(block []byte) { binary.LittleEndian.PutUint32(block[12:], sampleSum(block)) }

func TestMixIsUndone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		if h := Hash(rng.Uint64()); unmix(h.mix()) != h {
			t.Fatalf("unmix(%x) = %x, want %x", h.mix(), unmix(h.mix()), h)
		}
	}
}

func TestASampleIsTheHashesWithTheSmallestMix(t *testing.T) {
	for n, want := range map[uint64]int{
		0: 0, 1: 1, 63: 63, 64: 64, 65: 64, 1000: 64, 1600: 100, 16_383: 1023, 16_384: 1024, 100_000: 1024,
	} {
		s := sampleOf(t, hashesOf(numbered, 0, n))
		all := slices.SortedFunc(hashesOf(numbered, 0, n), func(a, b Hash) int {
			if a.mix() < b.mix() {
				return -1
			}
			return 1
		})
		if got := slices.Collect(s.Hashes()); !slices.Equal(got, all[:want]) || s.Len() != want || s.Keys() != n {
			t.Errorf("%d keys: sample of %d hashes of %d keys, want the first %d", n, s.Len(), s.Keys(), want)
		}
		for i, h := range all {
			index, found, taken := s.Find(h)
			if found != (i < want) || found && index != i || !found && taken {
				t.Fatalf("%d keys: Find of hash %d: %d, %v, %v", n, i, index, found, taken)
			}
		}
		if _, found, taken := s.Find(HashKey([]byte("absent"))); found || n <= minSample && !taken {
			t.Errorf("%d keys: Find of an absent hash: %v, %v", n, found, taken)
		}
	}
}

// TestASampleLiesInAllBlocksAndPlacesAlike compares the positions of the sample's hashes in each unit with an even
// distribution.
func TestASampleLiesInAllBlocksAndPlacesAlike(t *testing.T) {
	testkit.LongUnderRace(t)
	const bins = 64
	counts := map[string]*[bins]float64{}
	count := func(what string, bin uint64) {
		if counts[what] == nil {
			counts[what] = new([bins]float64)
		}
		counts[what][bin]++
	}
	for h := range sampleOf(t, hashesOf(numbered, 0, 1_000_000)).Hashes() {
		for unit := range MaxUnits + 1 {
			count(fmt.Sprintf("block of unit %d", unit), h.Block(bins))
			a, b := h.Fields()
			for probe := range wordFields {
				count(fmt.Sprintf("probe %d of unit %d", probe, unit), a>>(fieldBits*probe)&(bins-1))
				count(fmt.Sprintf("probe %d of unit %d", wordFields+probe, unit), b>>(fieldBits*probe)&(bins-1))
			}
			h = h.Next()
		}
	}
	for what, n := range counts {
		chi := 0.0
		for _, n := range n {
			const want = maxSample / bins
			chi += (n - want) * (n - want) / want
		}
		if chi > 120 { // expected 63 ± 11; the largest of sixty is rarely above 95
			t.Errorf("%s: χ² %.0f over %d bins, want about %d", what, chi, bins, bins-1)
		}
	}
}

func TestRepeatedAndCraftedHashesAreSampledOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		hash func(i int) Hash
		want int
	}{
		{"two hashes in turns", 1000, func(i int) Hash { return Hash(i & 1) }, 2},
		{"all come first", 40_000, func(i int) Hash { return unmix(uint64(i)) }, 1024},
		{"all come last", 40_000, func(i int) Hash { return unmix(math.MaxUint64 - uint64(i)) }, 1024},
		{"each twice", 40_000, func(i int) Hash { return unmix(uint64(i%20_000) << 48) }, 1024},
	} {
		s := sampleOf(t, func(yield func(Hash) bool) {
			for i := range c.n {
				if !yield(c.hash(i)) {
					return
				}
			}
		})
		if s.Len() != c.want || !slices.IsSorted(s.mixed) {
			t.Errorf("%s: %d hashes, want %d", c.name, s.Len(), c.want)
		}
		if d := s.Distinct(); c.want < minSample && d != float64(c.want) {
			t.Errorf("%s: %v distinct hashes, want %d exactly", c.name, d, c.want)
		}
	}
}

// TestSampleBytes reads and writes bytes of the format that must stay readable.
func TestSampleBytes(t *testing.T) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "sample of 3 numbered keys\n%x\n", sampleBlockOf(hashesOf(numbered, 0, 3)))
	for _, n := range []uint64{0, 1, 64, 65, 2000, 100_000} {
		b := sampleBlockOf(hashesOf(numbered, 0, n))
		fmt.Fprintf(&out, "%d numbered keys: %d bytes, CRC-32C %08x\n", n, len(b), crc32.Checksum(b, castagnoli))
	}
	testkit.Golden(t, "testdata/samples.txt", out.String())
}

func TestEachFieldOfASampleDamagedAloneIsRefused(t *testing.T) {
	good := sampleBlockOf(hashesOf(numbered, 0, 100))
	for _, tt := range []struct {
		name string
		at   int
		set  []byte
		want error
	}{
		{"magic", 0, []byte("bloomblk"), ErrDamaged},
		{"version 0", 8, []byte{0}, ErrUnknownKind},
		{"version 2", 8, []byte{2}, ErrUnknownKind},
		{"hash 2", 9, []byte{2}, ErrUnknownKind},
		{"no hashes", 10, []byte{0, 0}, ErrDamaged},
		{"one hash fewer", 10, []byte{63}, ErrDamaged},
		{"one hash more", 10, []byte{65}, ErrDamaged},
		{"more than 1,024 hashes", 10, []byte{1, 4}, ErrDamaged},
		{"fewer keys than hashes", 16, []byte{63}, ErrDamaged},
		{"no keys", 16, []byte{0}, ErrDamaged},
		{"two hashes alike", 32, good[24:32], ErrDamaged},
		{"the last hash is not the largest", len(good) - 8, make([]byte, 8), ErrDamaged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			block := slices.Clone(good)
			copy(block[tt.at:], tt.set)
			if _, err := ParseSample(block); !errors.Is(err, ErrDamaged) {
				t.Errorf("error %v, want ErrDamaged from the checksum", err)
			}
			signSample(block)
			if s, err := ParseSample(block); !errors.Is(err, tt.want) || s.Len() != 0 {
				t.Errorf("signed: error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestAnyFlippedBitOrOtherLengthOfASampleIsRefused(t *testing.T) {
	for _, n := range []uint64{0, 1, 100} {
		block := sampleBlockOf(hashesOf(numbered, 0, n))
		for i := range len(block) * 8 {
			block[i/8] ^= 1 << (i % 8)
			if _, err := ParseSample(block); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d keys: bit %d flipped: error %v, want ErrDamaged", n, i, err)
			}
			block[i/8] ^= 1 << (i % 8)
		}
		for l := range block {
			if _, err := ParseSample(block[:l:l]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d of %d bytes: error %v, want ErrDamaged", l, len(block), err)
			}
		}
	}
}

func TestASampleTellsHowManyHashesAreDistinct(t *testing.T) {
	testkit.LongUnderRace(t)
	for _, n := range []uint64{0, 1, 64} {
		if got := sampleOf(t, hashesOf(numbered, 0, n)).Distinct(); got != float64(n) {
			t.Errorf("%d keys: %v distinct, want it exactly", n, got)
		}
	}
	squares, worst := 0.0, 0.0
	const pairs, n = 40, 50_000
	for i := range uint64(pairs) {
		e := sampleOf(t, hashesOf(numbered, i*n, n)).Distinct()/n - 1
		squares += e * e
		worst = max(worst, math.Abs(e))
	}
	// The standard error is 3.1 hundredths; the root mean square of forty is within a third of it.
	if rms := math.Sqrt(squares / pairs); rms > 0.042 || rms < 0.021 {
		t.Errorf("root mean square error of the number of distinct keys %.4f, want 0.031", rms)
	} else {
		t.Logf("root mean square error %.4f, worst %.4f", rms, worst)
	}
}

// FuzzParseSample expects one of the two errors, or a sample that encodes to itself.
func FuzzParseSample(f *testing.F) {
	for _, n := range []uint64{0, 1, 64, 65, 2000} {
		f.Add(sampleBlockOf(hashesOf(numbered, 0, n)), true)
	}
	f.Add([]byte(sampleMagic), false)
	zero := sampleBlockOf(slices.Values([]Hash{0}))
	binary.LittleEndian.PutUint64(zero[16:], 1000) // keys
	f.Add(zero, true)
	f.Fuzz(func(t *testing.T, block []byte, repair bool) {
		if repair && len(block) >= sampleHeader {
			block = bytes.Clone(block)
			signSample(block)
		}
		s, err := ParseSample(block)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownKind) {
				t.Fatalf("error %v is neither ErrDamaged nor ErrUnknownKind", err)
			}
			return
		}
		for i, h := range slices.Collect(s.Hashes()) {
			if x := binary.LittleEndian.Uint64(block[sampleHeader+8*i:]); h.mix() != x {
				t.Fatalf("hash %d is mixed to %x, want %x", i, h.mix(), x)
			}
			if index, found, _ := s.Find(h); !found || index != i {
				t.Fatalf("hash %d is found at %d, %v", i, index, found)
			}
		}
		if d := s.Distinct(); !(d >= 0) {
			t.Fatalf("%v distinct hashes", d)
		}
		if o := s.Overlap(new(Filter)); o.Known {
			t.Fatalf("overlap %+v with nothing, want an unknown one", o)
		}
	})
}

// TestOverlapIsWithinTwoHundredths estimates the overlap of twenty pairs of sets of random hashes for each ratio of
// sizes, kind and state of the filter. The pairs share between none and all of the first set. The error is that of the
// share, so relative to the first set.
func TestOverlapIsWithinTwoHundredths(t *testing.T) {
	testkit.Long(t)
	const pairs, n = 20, 20_000
	ribbon, err := ParamsRibbon(0.01, 0.001)
	must(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		name  string
		p     Params
		units int // loaded
	}{
		{"one unit", paramsFor(t, 0.01), 1},
		{"the first unit of three", paramsOf(t, Unit{5, 3}, Unit{5, 3}, Unit{5, 3}), 1},
		{"Ribbon", ribbon, 2},
	} {
		for _, ratio := range []int{1, 10, 100} {
			squares, expected, worst := 0.0, 0.0, 0.0
			var f Filter
			var hashes []Hash
			for pair := range pairs {
				if pair == 0 || ratio == 1 {
					hashes = randomHashes(rng, n*ratio)
					f = partOf(t, hashes, c.p, c.units)
				}
				share := float64(pair) / (pairs - 1)
				shared := hashes[pair*n%len(hashes):][:int(share*n)]
				var a Builder
				for _, h := range append(randomHashes(rng, n-len(shared)), shared...) {
					a.Add(h)
				}
				s, err := ParseSample(a.AppendSample(nil))
				must(t, err)
				o := s.Overlap(&f)
				if !o.Known || o.Share < 0 || o.Share > 1 {
					t.Fatalf("%s, 1:%d: %+v", c.name, ratio, o)
				}
				e := o.Share - share
				squares, expected, worst = squares+e*e, expected+o.Err*o.Err, max(worst, math.Abs(e)/o.Err)
			}
			rms, want := math.Sqrt(squares/pairs), math.Sqrt(expected/pairs)
			t.Logf("%s, 1:%d: root mean square error %.4f, expected %.4f, the worst is %.1f standard errors",
				c.name, ratio, rms, want, worst)
			if rms > 0.02 || worst > 4 {
				t.Errorf("%s, 1:%d: root mean square error %.4f of the first set, want at most 0.02; "+
					"the worst is %.1f standard errors",
					c.name, ratio, rms, worst)
			}
		}
	}
}

func randomHashes(rng *rand.Rand, n int) []Hash {
	hashes := make([]Hash, n)
	for i := range hashes {
		hashes[i] = Hash(rng.Uint64())
	}
	return hashes
}

// partOf returns a filter of hashes with only its first units.
func partOf(tb testing.TB, hashes []Hash, p Params, units int) Filter {
	tb.Helper()
	block := blockOf(p, slices.Values(hashes))
	h, err := ParseHeader(block)
	must(tb, err)
	var parts [][]byte
	for _, u := range h.Units[:units] {
		parts = append(parts, block[u.Offset:][:u.Bytes()])
	}
	f, err := h.Filter(parts)
	must(tb, err)
	return f
}

func TestOverlapWithSeveralFilters(t *testing.T) {
	// A third of the 30,000 keys is in the first filter, a third in the second and third, the rest in none.
	s := sampleOf(t, hashesOf(numbered, 0, 30_000))
	p := paramsFor(t, 0.05)
	filters := []*Filter{
		filterOf(t, p, hashesOf(numbered, 0, 10_000)), filterOf(t, p, hashesOf(numbered, 10_000, 10_000)),
		filterOf(t, p, hashesOf(numbered, 5000, 15_000)),
	}
	for i := range uint64(10) {
		filters = append(filters, filterOf(t, p, hashesOf(numbered, 100_000+10_000*i, 10_000)))
	}
	o := s.Overlap(filters...)
	if want := 2.0 / 3; !o.Known || math.Abs(o.Share-want) > 3*o.Err || o.Err > 0.04 {
		t.Errorf("overlap %+v, want %.3f", o, want)
	}
	if o := s.Overlap(); o != (Overlap{Known: true, Err: o.Err}) || o.Err > 0.001 {
		t.Errorf("overlap with nothing %+v, want 0", o)
	}
}

func TestOverlapIsUnknownWhereFiltersSayNothing(t *testing.T) {
	s := sampleOf(t, hashesOf(numbered, 0, 1000))
	good := filterOf(t, paramsFor(t, 0.01), hashesOf(numbered, 0, 10))
	full := filterOf(t, paramsOf(t, Unit{1, 14}), hashesOf(numbered, 0, 10_000))
	for name, filters := range map[string][]*Filter{
		"no units": {good, new(Filter)}, "nil": {nil, good}, "all bits set": {good, full},
	} {
		if o := s.Overlap(filters...); o != (Overlap{Err: 1}) {
			t.Errorf("%s: %+v, want an unknown one", name, o)
		}
	}
	var empty Sample
	if o := empty.Overlap(good); o != (Overlap{Known: true}) {
		t.Errorf("of no keys: %+v, want none", o)
	}
}
