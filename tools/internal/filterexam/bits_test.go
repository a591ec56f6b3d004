package filterexam

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBitsOfOtherFiltersAreComparedWithTheory sets bits at random: for a filter with cache lines all probes of a key
// in one, for another one anywhere. The histogram of each should be the one that theory expects, and not the other's.
func TestBitsOfOtherFiltersAreComparedWithTheory(t *testing.T) {
	const lines, keys, probes = 4000, 200_000, 6
	random := rand.New(rand.NewPCG(1, 2))
	lined, plain := make([]byte, lines*blockBytes+5), make([]byte, lines*blockBytes)
	for range keys {
		line := random.IntN(lines) * blockBits
		for range probes {
			at, anywhere := line+random.IntN(blockBits), random.IntN(lines*blockBits)
			lined[at/8] |= 1 << (at % 8)
			plain[anywhere/8] |= 1 << (anywhere % 8)
		}
	}
	for _, c := range []struct {
		name string
		bits []byte
		line int
		keys uint64
		want bool // that the histogram is that of theory
	}{
		{"cache lines", lined, blockBytes, keys, true},
		{"cache lines, with keys that are not known", lined, blockBytes, 0, true},
		{"no lines", plain, 0, keys, true},
		{"cache lines, taken for none", lined, 0, keys, false},
		{"no lines, taken for some", plain, blockBytes, keys, false},
	} {
		u := ExamineBits(c.bits, c.line, c.keys, probes)
		off, want := 0.0, 0.0
		for _, b := range u.Histogram {
			off, want = off+math.Abs(float64(b.Blocks)-b.Want), want+b.Want
		}
		if fits := off < lines/10; fits != c.want || math.Abs(want-lines) > 1 || u.Blocks != lines ||
			(len(u.Shares) > 0) != (c.line > 0) {
			t.Errorf("%s: %d blocks, %.0f by theory, which differ in %.0f; %d shares", c.name, u.Blocks, want, off,
				len(u.Shares))
		}
	}
	if u := ExamineBits(lined[:63], 64, 1, 6); u.Blocks != 0 || u.Histogram != nil {
		t.Errorf("less than a block: %+v", u)
	}
	for _, b := range ExamineBits(lined, -1, keys, probes).Histogram {
		if b.Want != 0 {
			t.Errorf("bits of unknown order are compared with theory: %+v", b)
		}
	}
}
