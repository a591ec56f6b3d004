package filterexam

import (
	"encoding/binary"
	"math"
	"math/bits"
)

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
	for ; len(payload) >= blockBytes; payload = payload[blockBytes:] {
		set := setBits(payload)
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

// setBits counts the bits of a block.
func setBits(block []byte) (set int) {
	for w := 0; w < blockBytes; w += wordBytes {
		set += bits.OnesCount64(binary.LittleEndian.Uint64(block[w:]))
	}
	return set
}
