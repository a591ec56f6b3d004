package filterexam

import "math"

// ExamineBits examines the bits of Bloom filters that another store has built, in blocks of 64 bytes; what follows the
// last whole block is left out. It sets Blocks, Min, Max, Histogram and the regions, and for cache lines of 64 bytes,
// which have all probes of a key, Shares. The histogram has expected numbers for these, and for a line of 0, which
// means that the probes of a key may be anywhere. For another line they are 0. If keys is 0, it is estimated from the
// bits.
// The bits of less than one block have no figures.
func ExamineBits(bits []byte, line int, keys uint64, probes int) *UnitExam {
	u := &UnitExam{Kind: "bloom", Probes: probes, Blocks: uint64(len(bits) / blockBytes)}
	if u.Blocks == 0 {
		return u
	}
	bits = bits[:u.Blocks*blockBytes]
	c, t := censusOf(bits), &theory{}
	mean, _ := c.moments()
	switch {
	case line == blockBytes && probes > 0:
		if keys == 0 {
			keys = uint64(math.Round(c.keys(probes)))
		}
		t = theoryOf(keys, u.Blocks, probes)
		u.shares(bits)
	case line == 0:
		t.scatter(mean / blockBits)
	}
	u.Min, u.Max = c.emptiest, c.fullest
	u.regions(bits)
	u.histogram(c, t)
	return u
}

// scatter sets the distribution for bits that are set independently of each other: it is binomial.
func (t *theory) scatter(fill float64) {
	logs := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	for x := range t.set {
		if fill > 0 && fill < 1 {
			t.set[x] = math.Exp(logs(blockBits) - logs(x) - logs(blockBits-x) + float64(x)*math.Log(fill) +
				float64(blockBits-x)*math.Log1p(-fill))
		}
	}
}
