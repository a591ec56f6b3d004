package foreign

import (
	"math"
	"math/bits"
)

// A plain filter is a Bloom filter whose probes may be anywhere: the bits, and the number of probes, one byte. Probe i
// is bit (h + i·d) mod m, where d is h rotated right by 17 bits, in 32-bit arithmetic (LevelDB's util/bloom.cc, and
// Badger's y/bloom.go).
type plain struct {
	bits []byte
	k    int
	h    bloomHash
}

// newPlain returns the filter in b. The stores answer yes for more than 30 probes, which are reserved, and no for a
// filter without bits.
func newPlain(b []byte, h bloomHash) unit {
	if len(b) < 2 {
		return constant{false, "empty filter"}
	}
	last := len(b) - 1
	if b[last] > 30 {
		return constant{true, "Bloom filter with a reserved number of probes"}
	}
	return &plain{b[:last], int(b[last]), h}
}

func (p *plain) kind() string           { return "Bloom" }
func (p *plain) hashName() string       { return p.h.String() }
func (p *plain) hash(key []byte) uint64 { return uint64(p.h.of(key)) }
func (p *plain) probes() int            { return p.k }

func (p *plain) size() (all, set uint64) { return 8 * uint64(len(p.bits)), countSet(p.bits) }

func (p *plain) rate() (float64, bool) {
	all, set := p.size()
	return math.Pow(float64(set)/float64(all), float64(p.k)), false
}

func (p *plain) ask(hash uint64, t *Trace) bool {
	t.begin(p, hash, 8)
	h, m := uint32(hash), 8*uint64(len(p.bits)) //nolint:gosec // a 32-bit hash
	step := bits.RotateLeft32(h, -17)
	maybe := true
	for range p.k {
		i := uint64(h) % m
		if !t.probe(i, bit(p.bits, i), &maybe) {
			return false
		}
		h += step
	}
	return maybe
}
