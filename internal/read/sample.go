package read

import (
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Searches are counted where they happen, exactly, by the table. Filters that say no must cost nothing but the question, so
// their tables are counted by a sample of the lookups: after one in 64, filters are asked once more, and each that says no stands
// for 64. Of N answers no the estimate has a standard deviation of √(63·N): the number of samples among them is binomial.
const samplingBits = 6

// sampled tells whether a lookup is one of the sample, by its place in the order in which its counter counted. Lookups that
// come round with any period must not be in it more often than others, so it is not simply each 64th; multiples of an
// irrational number would do for one goroutine, but not for lookups that come in turns from many. The place is hashed.
func (r *Reader) sampled(place uint64) bool { return r.firstSampled(place) == 0 }

// firstSampled returns which lookup of a group is the first in the sample, by the group's place. Further ones follow in
// steps of sampleOf.
func (r *Reader) firstSampled(place uint64) uint64 {
	place *= 0x9e3779b97f4a7c15
	place ^= place >> 32
	return place * 0xd6e8feb86659fd93 >> (64 - r.SamplingBits)
}

// sampleOf is how many lookups one of the sample stands for.
func (r *Reader) sampleOf() uint64 { return 1 << r.SamplingBits }

// sample counts the negatives of a lookup that has ended, as of the state that is now the current one. Inlined it would make
// every lookup slower by a nanosecond.
//
//go:noinline
func (r *Reader) sample(key []byte, at ikey.Seq) {
	if s := r.tree.Load(); s != nil {
		countNegatives(s, key, r.Hash(key), min(at, r.tree.NewestSeq()), r.sampleOf())
	}
}

// countNegatives asks the filters that a lookup of key has asked, and counts n for each that says no. Filters that were loaded
// or dropped since may answer otherwise than they did.
func countNegatives(s *tree.State, key []byte, h bloomblock.SeededHash, seq ikey.Seq, n uint64) {
	if _, _, decided := inMemory(s, key, h.Mixed, seq); decided {
		return
	}
	for _, r := range s.Runs {
		i := r.Find(key)
		if i < 0 {
			continue
		}
		t := r.Tables[i]
		if maybe, probed := t.Reader.MayContain(h.Hash); probed && !maybe {
			t.Negatives.Add(n)
		}
		if t.Meta.RangeDeletes > 0 && t.Reader.RangeDels().Covering(key, seq) > 0 { // nothing older counts
			return
		}
	}
}
