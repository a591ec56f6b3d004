package read

import (
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Searches are counted exactly, by the table that is searched. A negative answer of a filter must cost nothing but
// the query, so negatives are counted by a sample: after one lookup in 64, its filters are queried once more, and
// each negative counts as 64. For N negatives, the estimate has a standard deviation of √(63·N): the number of
// sampled ones is binomial.
const samplingBits = 6

// firstSampled returns the index of the first sampled lookup of a group, given the group's number in its counter.
// Further ones follow in steps of 1 << SamplingBits. A lookup alone is in the sample if the index is 0. Lookups that
// repeat with any period must not be sampled more often than others, so firstSampled does not choose every 64th.
// Multiples of an irrational number would work for one goroutine, but not for lookups from many in turn. It hashes the
// number.
func (r *Reader) firstSampled(number uint64) uint64 {
	number *= 0x9e3779b97f4a7c15
	number ^= number >> 32
	return number * 0xd6e8feb86659fd93 >> (64 - r.SamplingBits)
}

// sample counts the negatives of a lookup that has ended, using the current state. Filters that were loaded or dropped
// since then may answer differently. If it were inlined, every lookup would take a nanosecond longer.
//
//go:noinline
func (r *Reader) sample(key []byte, at ikey.Seq) {
	cost := lookupCost{sample: 1 << r.SamplingBits} // 64, or 1 in tests
	r.askMemory(key, at, &cost)
}
