package foreign

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The filter of a table of RocksDB or Pebble, or of a partition, ends with five bytes:
//
//	| bits | probes 1..127 | lines 4            |   a Bloom filter in cache lines of 2ⁿ bytes
//	| bits | 0             |                    |   always yes
//	| bits | 255 | 0 | probes 1..30 | 0 0       |   a Bloom filter in cache lines of 64 bytes, with a hash of 64 bits
//	| bits | 254 | seed | blocks 3              |   a Ribbon filter
//
// Everything else is reserved, and RocksDB answers yes. Source: RocksDB's table/block_based/filter_policy.cc.
const tableFilterTrailer = 5

// newTableFilter returns the filter in b.
func newTableFilter(b []byte) unit {
	n := len(b) - tableFilterTrailer
	if n <= 0 {
		return constant{false, "empty filter"}
	}
	data, end := b[:n], b[n:]
	reserved := constant{true, "filter of a reserved kind"}
	switch {
	case end[0] == 0:
		return constant{true, "filter that always says maybe"}
	case end[0] <= 127:
		lines := uint64(binary.LittleEndian.Uint32(end[1:]))
		if lines == 0 || uint64(n)%lines != 0 || bits.OnesCount64(uint64(n)/lines) != 1 {
			return reserved
		}
		return &lineFilter{data, lines, uint64(n) / lines, int(end[0])}
	case end[0] == 255:
		if end[1] != 0 || end[2] < 1 || end[2] > 30 || end[3]|end[4] != 0 || n < fastLine {
			return reserved
		}
		return &fastFilter{data[:n/fastLine*fastLine], int(end[2])}
	case end[0] == 254:
		return newRibbon(data, end[1], uint32(end[2])|uint32(end[3])<<8|uint32(end[4])<<16)
	}
	return reserved
}

// A lineFilter is a Bloom filter with all probes of a key in one line: line h mod lines, and bit (h + i·d) mod the
// bits of a line, where d is h rotated right by 17 bits (LegacyLocalityBloomImpl in RocksDB's util/bloom_impl.h, and
// Pebble's bloom/bloom.go).
type lineFilter struct {
	bits  []byte
	lines uint64
	line  uint64 // bytes, a power of two
	k     int
}

func (l *lineFilter) kind() string           { return "blocked Bloom" }
func (l *lineFilter) hashName() string       { return signedTail.String() }
func (l *lineFilter) hash(key []byte) uint64 { return uint64(signedTail.of(key)) }
func (l *lineFilter) probes() (int, string)  { return l.k, bitProbe }

func (l *lineFilter) bloom() ([]byte, int) {
	return l.bits, int(l.line) //nolint:gosec // at most the length of the bits
}

func (l *lineFilter) size() (all, set uint64) { return 8 * uint64(len(l.bits)), countSet(l.bits) }

func (l *lineFilter) rate() (float64, bool) {
	return meanRate(l.bits, int(l.line), l.k), false //nolint:gosec // at most the length of the bits
}

func (l *lineFilter) ask(hash uint64, t *Trace) bool {
	t.begin(l, hash, 8)
	h := uint32(hash) //nolint:gosec // a 32-bit hash
	line := uint64(h) % l.lines
	if t != nil {
		t.Line = new(line)
	}
	b := l.bits[line*l.line:][:l.line]
	step := bits.RotateLeft32(h, -17)
	maybe := true
	for range l.k {
		i := uint64(h) & (8*l.line - 1)
		if !t.probe(i, bit(b, i), &maybe) {
			return false
		}
		h += step
	}
	return maybe
}

// fastLine is the length of a line of a fastFilter in bytes.
const fastLine = 64

// A fastFilter is a Bloom filter of lines of 64 bytes: the lower half of the hash chooses the line, and the upper half,
// multiplied once more for each probe, has the number of the bit in its highest nine bits (FastLocalBloomImpl in
// RocksDB's util/bloom_impl.h).
type fastFilter struct {
	bits []byte
	k    int
}

func (f *fastFilter) kind() string           { return "blocked Bloom, 64-bit hash" }
func (f *fastFilter) hashName() string       { return "XXH3, preview 0.7.2" }
func (f *fastFilter) hash(key []byte) uint64 { return xxph3(key) }
func (f *fastFilter) probes() (int, string)  { return f.k, bitProbe }

func (f *fastFilter) bloom() ([]byte, int) { return f.bits, fastLine }

func (f *fastFilter) size() (all, set uint64) { return 8 * uint64(len(f.bits)), countSet(f.bits) }

func (f *fastFilter) rate() (float64, bool) { return meanRate(f.bits, fastLine, f.k), true }

func (f *fastFilter) ask(hash uint64, t *Trace) bool {
	t.begin(f, hash, 16)
	line := hash & 0xffffffff * uint64(len(f.bits)/fastLine) >> 32
	if t != nil {
		t.Line = new(line)
	}
	b := f.bits[line*fastLine:][:fastLine]
	h := uint32(hash >> 32)
	maybe := true
	for range f.k {
		i := uint64(h >> (32 - 9))
		if !t.probe(i, bit(b, i), &maybe) {
			return false
		}
		h *= 0x9e3779b9
	}
	return maybe
}

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
func (p *plain) probes() (int, string)  { return p.k, bitProbe }

func (p *plain) bloom() ([]byte, int) { return p.bits, 0 }

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
