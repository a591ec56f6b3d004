package bloomblock

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// askInFile asks a block for a key as a reader of its file does: it reads the pages of each step and verifies them. It
// returns the number of steps that it took and the bytes that it read.
func askInFile(tb testing.TB, h Header, sums PageSums, block []byte, key Hash) (maybe bool, steps int, read uint64) {
	tb.Helper()
	for step := range h.Steps() {
		offset, size := h.StepPages(step, key)
		pages := block[offset:][:size]
		must(tb, sums.Verify(offset, pages))
		read += size
		if !h.StepMayContain(step, key, pages) {
			return false, step + 1, read
		}
	}
	return true, h.Steps(), read
}

// sumsOf returns the checksums of the pages of a block, as a reader has them.
func sumsOf(tb testing.TB, h Header, block []byte) PageSums {
	tb.Helper()
	offset, size := h.SumsSpan()
	if size == 0 {
		return SumPages(block[HeaderSize:][:h.UnitsSize()])
	}
	sums, err := h.ParseSums(block[offset:][:size])
	must(tb, err)
	return sums
}

func TestAFilterAnswersInItsFileAsInMemory(t *testing.T) {
	testkit.Long(t)
	for name, p := range formParams(t) {
		for _, n := range []uint64{0, 1, 100, 3000, 5001, 40_000} {
			b := Builder{Seed: 5}
			for h := range hashesOf(numbered, 0, n) {
				b.Add(h)
			}
			block := b.AppendBlock(nil, p)
			h, units := unitsOf(t, block)
			f, err := h.Filter(units)
			must(t, err)
			sums := sumsOf(t, h, block)
			if got, want := uint64(len(sums.sums)), pagesOf(h.UnitsSize())*sumBytes; got != want {
				t.Fatalf("%s, %d keys: checksums of %d bytes, want %d", name, n, got, want)
			}
			absent, read, steps := 0, uint64(0), 0
			for key := range hashesOf(numbered, 0, n+10_000) {
				want := f.MayContain(key)
				got, s, r := askInFile(t, h, sums, block, key)
				if got != want {
					t.Fatalf("%s, %d keys: %x is %v in the file, %v in memory", name, n, key, got, want)
				}
				if !want {
					absent, read, steps = absent+1, read+r, steps+s
				}
			}
			if absent == 0 {
				continue
			}
			each := float64(read) / float64(steps)
			t.Logf("%s, %d keys: an absent key takes %.3f steps, of %.0f bytes each",
				name, n, float64(steps)/float64(absent), each)
			if limit := 1.05 * pageBytes; each > limit && (!h.sideBySide() || n > 20_000) {
				t.Errorf("%s, %d keys: %.0f bytes a step, want at most %.0f", name, n, each, limit)
			}
		}
	}
}

func TestUnitsSideBySideTakeOneReadAndLittleSpace(t *testing.T) {
	testkit.Long(t)
	three, err := ParamsSplit(3, 0.0086)
	must(t, err)
	for n := uint64(100); n < 300_000; n += 1 + n/5 {
		apart, together := headerOfBlock(t, three, n), headerOfBlock(t, three.SideBySide(), n)
		if got, want := together.sideBySide(), apart.UnitsSize() > pageBytes; got != want {
			t.Errorf("%d keys, %d bytes: side by side %v, want %v", n, apart.UnitsSize(), got, want)
		}
		want := 1
		if together.sideBySide() {
			want = 3
		}
		if together.Steps() != 1 || apart.Steps() != want {
			t.Errorf("%d keys: %d steps and %d of units apart, want 1 and %d", n, together.Steps(), apart.Steps(), want)
		}
	}
	// Tables of some MB and large ones, at rates of the last level.
	for _, rate := range []float64{0.03, 0.01, 0.00855} {
		p, err := ParamsSplit(3, rate)
		must(t, err)
		for n := uint64(35_000); n < 10_000_000; n += 1 + n/50 {
			apart, h := p.Header(n), p.SideBySide().Header(n)
			if !h.sideBySide() || pageBlocks%h.partBlocks() != 0 {
				t.Errorf("%d keys at %g: parts of %d blocks, want one part, or two or four, in a page",
					n, rate, h.partBlocks())
			}
			more := float64(h.UnitsSize())/float64(apart.UnitsSize()) - 1
			if limit := 0.005 + 16/float64(apart.UnitsSize()/blockBytes); more < 0 || more > limit {
				t.Errorf("%d keys at %g: %.4f more bytes than apart, want at most %.4f", n, rate, more, limit)
			}
		}
	}
	for name, p := range map[string]Params{
		"one unit": paramsFor(t, 0.01), "a Ribbon unit": ribbonOf(t, 0.05, 0.001),
		"a very low rate": paramsFor(t, 1e-9), "no units": {},
	} {
		if h := headerOfBlock(t, p.SideBySide(), 20_000); h.sideBySide() || h.Steps() != len(h.Units) {
			t.Errorf("%s: side by side", name)
		}
	}
	if p := three.SideBySide(); p.Leading(1) != three.Leading(1) || p.Leading(2) != three.Leading(2).SideBySide() ||
		p == three || p.Rate() != three.Rate() {
		t.Error("leading units are not those of the same filter")
	}
}

// headerOfBlock returns the header of a filter of n keys.
func headerOfBlock(tb testing.TB, p Params, n uint64) Header {
	tb.Helper()
	h, err := ParseHeader(blockOf(p, hashesOf(numbered, 0, n)))
	must(tb, err)
	return h
}

// TestUnitsInPartsPromiseWhatTheirBlocksKeep: shares of a part are not those of the parameters, and the promises follow
// them. Some filters fill whole pages exactly, so that rounding adds nothing.
func TestUnitsInPartsPromiseWhatTheirBlocksKeep(t *testing.T) {
	testkit.Long(t)
	split, err := ParamsSplit(3, 0.0086)
	must(t, err)
	for name, p := range map[string]Params{
		"equal units":       split,
		"exact equal units": paramsOf(t, Unit{3.5, 2}, Unit{3.5, 2}, Unit{3.5, 2}),
		"two units":         paramsOf(t, Unit{8, 5}, Unit{4, 3}),
		"a tiny unit":       paramsOf(t, Unit{16, 2}, Unit{0.5, 1}),
		"a full unit":       paramsOf(t, Unit{10, 4}, Unit{0.5, 8}),
		"a lower rate":      paramsOf(t, Unit{4.5, 3}, Unit{4.5, 3}, Unit{4.5, 3}),
	} {
		for pages := uint64(2); pages < 200; pages += 1 + pages/2 {
			n := uint64(float64(pages*pageBlocks*blockBits) / p.BitsPerKey())
			h := p.SideBySide().Header(n)
			if !h.sideBySide() {
				t.Errorf("%s, %d keys: units are not side by side", name, n)
				continue
			}
			if got := h.Rate(p.n); math.Abs(got/p.Rate()-1) > 1e-9 {
				t.Errorf("%s, %d keys: promised %.6g, want %.6g", name, n, got, p.Rate())
			}
			rate, uneven, expected := 1.0, 0.0, 0.0
			for i, u := range h.Units {
				if i == 0 || u.Blocks != h.Units[i-1].Blocks || u.Probes != h.Units[i-1].Probes {
					expected = binomialRate(n, u.Blocks, u.Probes)
				}
				for _, v := range h.Units[:i] {
					uneven += float64(u.Probes*v.Probes) * float64(h.parts) / float64(n)
				}
				rate *= expected
				if u.Rate < expected*(1-1e-5) || u.Rate > 1 {
					t.Errorf("%s, %d keys: unit %d promises %.6g, expected %.6g", name, n, i, u.Rate, expected)
				}
			}
			if rate *= 1 + uneven; rate > p.Rate()*(1+1e-5) || p == split && pages > 16 && p.Rate() > 1.1*rate {
				t.Errorf("%s, %d keys: promised %.6g, expected %.6g", name, n, p.Rate(), rate)
			}
		}
	}
}

// TestTheRateOfUnitsSideBySideIsThePromisedOne: the uneven number of keys in parts does not show.
func TestTheRateOfUnitsSideBySideIsThePromisedOne(t *testing.T) {
	testkit.Long(t)
	for _, units := range [][]Unit{{{3.5, 2}, {3.5, 2}, {3, 2}}, {{8, 5}, {4, 3}}, {{2, 1}, {2, 1}, {2, 1}}} {
		p := paramsOf(t, units...)
		const n, probes = 100_000, 3_000_000
		f := filterOf(t, p.SideBySide(), hashesOf(numbered, 0, n))
		got, bits := measure(f, numbered, 1<<40, probes), f.FalsePositiveRate()
		deviation := math.Sqrt(p.Rate() / probes)
		t.Logf("%v: promised %.5f, expected %.5f, by the bits %.5f, measured %.5f ± %.5f",
			units, p.Rate(), exactRate(f), bits, got, deviation)
		if math.Abs(got/bits-1) > unevenParts+4*deviation/bits || got > p.Rate()*1.01+4*deviation ||
			math.Abs(bits/exactRate(f)-1) > 0.02 {
			t.Errorf("%v: promised %.5f, expected %.5f, by the bits %.5f, measured %.5f ± %.5f",
				units, p.Rate(), exactRate(f), bits, got, deviation)
		}
	}
}

func TestEachBitOfAPageIsUnderItsChecksum(t *testing.T) {
	for name, p := range map[string]Params{
		"one unit":     paramsFor(t, 0.01),
		"a Ribbon":     ribbonOf(t, 0.01, 0.001),
		"side by side": paramsOf(t, Unit{3.5, 2}, Unit{3.5, 2}).SideBySide(),
	} {
		block := blockOf(p, hashesOf(numbered, 0, 5000))
		h, err := ParseHeader(block)
		must(t, err)
		sums := sumsOf(t, h, block)
		at, size := h.SumsSpan()
		if at+size != uint64(len(block)) || h.BlockSize() != uint64(len(block)) || size == 0 || size%blockBytes != 0 {
			t.Fatalf("%s: checksums of %d bytes at %d of %d", name, size, at, len(block))
		}
		for bit := uint64(0); bit < 8*(at-HeaderSize); bit += 101 {
			i := HeaderSize + bit/8
			page := (i - HeaderSize) / pageBytes * pageBytes
			pages := block[HeaderSize+page : min(HeaderSize+page+pageBytes, at)]
			must(t, sums.Verify(HeaderSize+page, pages))
			block[i] ^= 1 << (bit % 8)
			if err := sums.Verify(HeaderSize+page, pages); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s: bit %d flipped: error %v, want ErrDamaged", name, bit, err)
			}
			block[i] ^= 1 << (bit % 8)
		}
		for bit := range 8 * size {
			block[at+bit/8] ^= 1 << (bit % 8)
			_, err := h.ParseSums(block[at:])
			_, parseErr := Parse(block)
			if !errors.Is(err, ErrDamaged) || !errors.Is(parseErr, ErrDamaged) {
				t.Fatalf("%s: bit %d of the checksums flipped: errors %v and %v, want ErrDamaged",
					name, bit, err, parseErr)
			}
			block[at+bit/8] ^= 1 << (bit % 8)
		}
		// Checksums that are themselves intact but those of other pages, and padding that is not zero.
		for _, i := range []uint64{at, at + size - 1} {
			wrong := slices.Clone(block)
			wrong[i] ^= 1
			h := h
			h.sums = checksum(wrong[at:])
			h.put(wrong)
			if _, err := Parse(wrong); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: byte %d of %d changed: error %v, want ErrDamaged", name, i-at, size, err)
			}
		}
		for _, b := range [][]byte{nil, block[at : at+size-1], append(slices.Clone(block[at:]), 0)} {
			if _, err := h.ParseSums(b); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: checksums of %d bytes: error %v, want ErrDamaged", name, len(b), err)
			}
		}
		for _, page := range []struct{ offset, size uint64 }{
			{0, pageBytes},
			{HeaderSize + 64, pageBytes},
			{HeaderSize, pageBytes - 64},
			{at, 64},
			{HeaderSize + pagesOf(at-HeaderSize)*pageBytes, 64},
			{math.MaxUint64/pageBytes*pageBytes + HeaderSize, 64},
		} {
			if err := sums.Verify(page.offset, block[:page.size]); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %d bytes at %d: error %v, want ErrDamaged", name, page.size, page.offset, err)
			}
		}
		key := HashKey(numbered(1 << 50))
		for step := range h.Steps() {
			offset, n := h.StepPages(step, key)
			for _, pages := range [][]byte{nil, block[offset:][:n-1], make([]byte, n+1)} {
				if !h.StepMayContain(step, key, pages) {
					t.Errorf("%s, step %d: pages of %d bytes deny a key, want maybe", name, step, len(pages))
				}
			}
		}
	}
}

func TestEachFieldOfVersion3DamagedAloneIsRefused(t *testing.T) {
	p := paramsOf(t, Unit{3.5, 2}, Unit{3.5, 2}, Unit{3, 2})
	paged, together := blockOf(p, hashesOf(numbered, 0, 5000)), blockOf(p.SideBySide(), hashesOf(numbered, 0, 5000))
	one := blockOf(paramsFor(t, 0.01), hashesOf(numbered, 0, 5000))
	ribbon := blockOf(ribbonOf(t, 0.05, 0.001), hashesOf(numbered, 0, 10_000))
	small := blockOf(p, hashesOf(numbered, 0, 100))
	for _, tt := range []struct {
		name  string
		block []byte
		at    int
		set   []byte
		want  error
	}{
		{"version 2 with pages", paged, offVersion, []byte{2}, ErrDamaged},
		{"version 4", paged, offVersion, []byte{4}, ErrUnknownKind},
		{"no pages, but a checksum", paged, offPage, []byte{0}, ErrDamaged},
		{"no pages, and no checksum", paged, offSums, make([]byte, 5), ErrDamaged},
		{"pages of another size", paged, offPage, []byte{13}, ErrUnknownKind},
		{"another checksum", paged, offSums, []byte{1, 2, 3, 4}, ErrDamaged},
		{"first reserved byte", paged, offPage + 1, []byte{1}, ErrDamaged},
		{"last reserved byte", paged, offChecksum - 1, []byte{1}, ErrDamaged},
		{"one part", together, offParts, []byte{1}, ErrDamaged},
		{"parts that do not divide the blocks", together, offParts, []byte{7}, ErrDamaged},
		{"no parts", together, offParts, []byte{0}, ErrDamaged},
		{"more parts than blocks", together, offParts, []byte{0, 0, 0, 0, 0, 0, 0, 1}, ErrDamaged},
		{"parts of one unit", one, offParts, []byte{2}, ErrDamaged},
		{"parts of a Ribbon unit", ribbon, offParts, []byte{2}, ErrDamaged},
		{"pages of a filter of one", small, offVersion, []byte{3}, ErrDamaged},
	} {
		block := slices.Clone(tt.block)
		copy(block[tt.at:], tt.set)
		if tt.name == "pages of a filter of one" {
			block[offPage] = pageShift
		}
		sign(block)
		if f, err := Parse(block); !errors.Is(err, tt.want) || !f.MayContain(1) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestBytesOfAnotherSizeAreNotSplit(t *testing.T) {
	for _, p := range []Params{paramsOf(t, Unit{6, 4}, Unit{6, 4}), paramsOf(t, Unit{6, 4}, Unit{6, 4}).SideBySide()} {
		block := blockOf(p, hashesOf(numbered, 0, 5000))
		h, err := ParseHeader(block)
		must(t, err)
		for _, b := range [][]byte{nil, block, block[HeaderSize:][:h.UnitsSize()-1]} {
			units := h.Split(b)
			if len(units) != 2 || units[0] != nil || units[1] != nil {
				t.Errorf("%d bytes are split, want %d", len(b), h.UnitsSize())
			}
			if _, err := h.Filter(units); !errors.Is(err, ErrDamaged) {
				t.Errorf("%d bytes: error %v, want ErrDamaged", len(b), err)
			}
		}
	}
}

func TestAskingInTheFileDoesNotAllocate(t *testing.T) {
	for name, p := range formParams(t) {
		block := blockOf(p, hashesOf(numbered, 0, 20_000))
		h, err := ParseHeader(block)
		must(t, err)
		sums := sumsOf(t, h, block)
		key := Hash(0)
		if n := testing.AllocsPerRun(1000, func() {
			key += 0x9e3779b97f4a7c15
			for step := range h.Steps() {
				offset, size := h.StepPages(step, key)
				_ = sums.Verify(offset, block[offset:][:size])
				h.StepMayContain(step, key, block[offset:][:size])
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkAskInFile(b *testing.B) {
	for name, p := range formParams(b) {
		block := blockOf(p, hashesOf(numbered, 0, 100_000))
		h, err := ParseHeader(block)
		must(b, err)
		sums := sumsOf(b, h, block)
		b.Run(name, func(b *testing.B) {
			key := Hash(0)
			for b.Loop() {
				key += 0x9e3779b97f4a7c15
				askInFile(b, h, sums, block, key)
			}
		})
	}
}

func TestAStepReadsThePagesOfItsSpan(t *testing.T) {
	for name, p := range formParams(t) {
		h, err := ParseHeader(blockOf(p, hashesOf(numbered, 0, 30_000)))
		must(t, err)
		for i := range uint64(1000) {
			key := HashKey(numbered(i))
			for step := range h.Steps() {
				from, to := h.span(step, h.Seed.Mix(key))
				offset, size := h.StepPages(step, key)
				at := offset - HeaderSize
				if at%pageBytes != 0 || at > from || from-at >= pageBytes || at+size < to || at+size >= to+pageBytes {
					t.Fatalf("%s, step %d: bytes %d to %d in %d bytes at %d", name, step, from, to, size, at)
				}
			}
		}
	}
}
