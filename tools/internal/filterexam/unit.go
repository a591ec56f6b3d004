package filterexam

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

const (
	maxRegions = 512
	maxBins    = 16
	maxZ       = 1e6
)

// examine sets the figures of the bits of an intact unit, except FromBits. h is the header of a filter of this unit
// alone.
func (u *UnitExam) examine(h *bloomblock.Header, payload []byte) {
	c := censusOf(payload)
	mean, deviation := c.moments()
	u.Min, u.Max = c.emptiest, c.fullest
	sums, sizes := u.regions(payload)
	if u.Columns > 0 {
		forms := h.Forms(0)
		u.ByTable = forms[len(forms)-1].Rate
		s := shapeOf(h.Keys, &h.Units[0])
		u.Slots, u.Segments, u.Wide = s.slots, s.segments, s.wide
		n := float64(s.at(s.segments) * segmentSlots) // without the zeros that round the unit up to a whole block
		u.Density = stat(mean*float64(u.Blocks)/n, 0.5, 0.5/math.Sqrt(n))
		return
	}
	t := theoryOf(h.Keys, u.Blocks, u.Probes)
	u.ByTable, u.chance = t.rate(), math.Sqrt(t.rateVar())
	blocks := float64(u.Blocks)
	u.SetBits = stat(mean, t.mean(), math.Sqrt(t.meanVar()))
	if dev := math.Sqrt(t.variance()); u.Blocks > 1 && dev > 0 {
		// The error of a square root is the error of its argument over twice the root.
		u.Spread = stat(deviation*math.Sqrt(blocks/(blocks-1)), dev, math.Sqrt(t.varianceVar())/(2*dev))
	}
	keysErr := math.Sqrt(blocks * max(0, t.estimateVar-t.estimate*t.estimate))
	u.NumKeys = stat(c.keys(u.Probes)-blocks*t.estimate, float64(h.Keys), keysErr)
	counts := u.shares(payload)
	u.Positions = chi2(deviations(counts, slices.Repeat([]float64{1}, blockBits)), blocks*(t.clear-t.both), blockBits-1)
	if len(sums) > 1 {
		u.Evenness = chi2(deviations(sums, sizes), t.variance()-blockBits*blockBits*t.across, float64(len(sums)-1))
	}
	u.Worst = &WorstBlock{
		Index: c.fullestAt, Offset: u.Offset + c.fullestAt*blockBytes, Set: u.Max,
		Rate: passes(u.Max, u.Probes), Chance: t.atLeast(u.Max),
	}
	u.histogram(c, t)
}

// regions sets the shares of up to maxRegions regions, and returns the set bits of each and its size in blocks.
func (u *UnitExam) regions(payload []byte) (sums []uint64, sizes []float64) {
	blocks := (len(payload)/blockBytes + maxRegions - 1) / maxRegions
	u.RegionBlocks = uint64(blocks)
	for region := range slices.Chunk(payload, blocks*blockBytes) {
		sum, size := uint64(setBits(region)), float64(len(region)/blockBytes) //nolint:gosec // a count
		sums, sizes = append(sums, sum), append(sizes, size)
		u.Regions = append(u.Regions, float64(sum)/(size*blockBits))
	}
	return sums, sizes
}

// shares sets the shares of the positions, and returns the number of blocks in which each is set.
func (u *UnitExam) shares(payload []byte) []uint64 {
	counts := positions(payload)
	for _, count := range counts {
		u.Shares = append(u.Shares, float64(count)/float64(u.Blocks))
	}
	return counts
}

// stat compares a figure with its expected value and standard deviation.
func stat(got, want, deviation float64) *Stat {
	s := Stat{Got: got, Want: want, Err: deviation}
	switch off := got - want; {
	case math.Abs(off) > maxZ*deviation:
		s.Z = math.Copysign(maxZ, off)
	case deviation > 0:
		s.Z = off / deviation
	}
	return &s
}

// chi2 compares a sum of squares, divided by the variance of its terms, with the degrees of freedom. It returns nil
// without a variance.
func chi2(sum, variance, freedom float64) *Stat {
	if !(variance > 1e-9) {
		return nil
	}
	return stat(sum/variance, freedom, math.Sqrt(2*freedom))
}

// deviations returns the sum of squared deviations of counts from their expected values, which are proportional to
// weights and so are their variances.
func deviations(counts []uint64, weights []float64) (squares float64) {
	sum, all := 0.0, 0.0
	for i, c := range counts {
		sum += float64(c)
		all += weights[i]
	}
	for i, c := range counts {
		d := float64(c) - sum*weights[i]/all
		squares += d * d / weights[i]
	}
	return squares
}

// positions counts the blocks in which each position is set. It counts in columns: digit d of the counters of a word's
// 64 positions is one word, so that adding a block's word takes two operations on average, not 64.
func positions(payload []byte) []uint64 {
	counts := make([]uint64, blockBits)
	const digits = 16
	var columns [blockBytes / wordBytes][digits]uint64
	flush := func() {
		for w := range columns {
			for d, column := range columns[w] {
				for ; column != 0; column &= column - 1 {
					counts[w*64+bits.TrailingZeros64(column)] += 1 << d
				}
			}
			columns[w] = [digits]uint64{}
		}
	}
	for n := 1; len(payload) >= blockBytes; n, payload = n+1, payload[blockBytes:] {
		for w := range columns {
			carry := binary.LittleEndian.Uint64(payload[w*wordBytes:])
			for d := 0; carry != 0; d++ {
				columns[w][d], carry = columns[w][d]^carry, columns[w][d]&carry
			}
		}
		if n%(1<<digits-1) == 0 {
			flush()
		}
	}
	flush()
	return counts
}

// histogram sets at most maxBins bins, which cover all blocks and all numbers of set bits that are likely.
func (u *UnitExam) histogram(c *census, t *theory) {
	blocks := float64(u.Blocks)
	from, to := u.Min, u.Max
	for x, p := range t.set {
		if p*blocks >= 0.01 {
			from, to = min(from, x), max(to, x)
		}
	}
	width := (to-from)/maxBins + 1
	for ; from <= to; from += width {
		b := Bin{From: from, To: min(from+width-1, to)}
		for x := b.From; x <= b.To; x++ {
			b.Blocks += c.withSetBits[x]
			b.Want += t.set[x] * blocks
		}
		u.Histogram = append(u.Histogram, b)
	}
}

// A census counts the blocks of a unit by the number of their set bits. There is at least one block.
type census struct {
	blocks      uint64
	emptiest    int    // set bits
	fullest     int    // set bits
	fullestAt   uint64 // index of the first of the fullest blocks
	withSetBits [blockBits + 1]uint64
}

func censusOf(payload []byte) *census {
	c := &census{emptiest: blockBits, fullest: -1}
	for block := range slices.Chunk(payload, blockBytes) {
		set := setBits(block)
		if set > c.fullest {
			c.fullest, c.fullestAt = set, c.blocks
		}
		c.emptiest = min(c.emptiest, set)
		c.withSetBits[set]++
		c.blocks++
	}
	return c
}

// sum adds up a function of a block's set bits over all blocks.
func (c *census) sum(of func(set int) float64) (sum float64) {
	for set := c.emptiest; set <= c.fullest; set++ {
		if count := c.withSetBits[set]; count > 0 {
			sum += float64(count) * of(set)
		}
	}
	return sum
}

// moments returns the mean and the standard deviation of the set bits of a block.
func (c *census) moments() (mean, deviation float64) {
	blocks := float64(c.blocks)
	mean = c.sum(func(set int) float64 { return float64(set) }) / blocks
	squares := c.sum(func(set int) float64 { return float64(set * set) }) / blocks
	return mean, math.Sqrt(max(squares-mean*mean, 0))
}

// keys estimates the number of keys of a Bloom unit, from each block alone, summed up (Swamidass, Baldi, "Mathematical
// Correction for Fingerprint Similarity Measures", 2007). The same formula over all bits at once would be low by up to
// a hundredth, since blocks are unevenly full.
func (c *census) keys(probes int) float64 {
	return c.sum(func(set int) float64 { return keysFrom(set, probes) })
}

// setBits counts the bits of blocks.
func setBits(blocks []byte) (set int) {
	for ; len(blocks) >= wordBytes; blocks = blocks[wordBytes:] {
		set += bits.OnesCount64(binary.LittleEndian.Uint64(blocks))
	}
	return set
}
