package foreign

import (
	"encoding/binary"
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
func newTableFilter(b []byte) *unit {
	n := len(b) - tableFilterTrailer
	if n <= 0 {
		return always(false, "empty filter")
	}
	data, end := b[:n], b[n:]
	reserved := always(true, "filter of a reserved kind")
	switch {
	case end[0] == 0:
		return always(true, "filter that always says maybe")
	case end[0] <= 127:
		lines := uint64(binary.LittleEndian.Uint32(end[1:]))
		if lines == 0 || uint64(n)%lines != 0 || bits.OnesCount64(uint64(n)/lines) != 1 {
			return reserved
		}
		l := &bloomFilter{data, lines, uint64(n) / lines, int(end[0])}
		return &unit{
			kind: "blocked Bloom", hashName: signedTail.String(), hash: signedTail.hash, probes: l.k, probe: bitProbe,
			bits: l.bits, line: int(l.line), asker: l, //nolint:gosec // at most the length of the bits
		}
	case end[0] == 255:
		if end[1] != 0 || end[2] < 1 || end[2] > 30 || end[3]|end[4] != 0 || n < fastLine {
			return reserved
		}
		f := &fastFilter{data[:n/fastLine*fastLine], int(end[2])}
		return &unit{
			kind: "blocked Bloom, 64-bit hash", hashName: previewName, hash: xxph3, probes: f.k, probe: bitProbe,
			bits: f.bits, line: fastLine, asker: f,
		}
	case end[0] == 254:
		return newRibbon(data, end[1], uint32(end[2])|uint32(end[3])<<8|uint32(end[4])<<16)
	}
	return reserved
}

// A bloomFilter is a Bloom filter with all probes of a key in one line, or anywhere if it has no lines: line h mod
// lines, and bit (h + i·d) mod the bits of a line, or of the filter, where d is h rotated right by 17 bits, in 32-bit
// arithmetic. With lines: LegacyLocalityBloomImpl in RocksDB's util/bloom_impl.h, and Pebble's bloom/bloom.go; without:
// LevelDB's util/bloom.cc, and Badger's y/bloom.go.
type bloomFilter struct {
	bits  []byte
	lines uint64 // 0 without lines
	line  uint64 // bytes of a line, a power of two, or of the filter
	k     int
}

func (f *bloomFilter) rate() (float64, bool) {
	return meanRate(f.bits, int(f.line), f.k), false //nolint:gosec // at most the length of the bits
}

func (f *bloomFilter) ask(hash uint64, t *Trace) bool {
	t.begin(hash, 8)
	h, b := uint32(hash), f.bits //nolint:gosec // a 32-bit hash
	if f.lines > 0 {
		line := uint64(h) % f.lines
		if t != nil {
			t.Line = new(line)
		}
		b = f.bits[line*f.line:][:f.line]
	}
	step := bits.RotateLeft32(h, -17)
	maybe := true
	for range f.k {
		i := uint64(h)
		if f.lines > 0 { // as a line is a power of two
			i &= 8*f.line - 1
		} else {
			i %= 8 * f.line
		}
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

func (f *fastFilter) rate() (float64, bool) { return meanRate(f.bits, fastLine, f.k), true }

func (f *fastFilter) ask(hash uint64, t *Trace) bool {
	t.begin(hash, 16)
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

// newPlain returns the filter in b, which has no lines: the bits, and the number of probes, one byte. The stores answer
// yes for more than 30 probes, which are reserved, and no for a filter without bits.
func newPlain(b []byte, h bloomHash) *unit {
	if len(b) < 2 {
		return always(false, "empty filter")
	}
	last := len(b) - 1
	if b[last] > 30 {
		return always(true, "Bloom filter with a reserved number of probes")
	}
	p := &bloomFilter{bits: b[:last], line: uint64(last), k: int(b[last])} //nolint:gosec // a length
	return &unit{
		kind: "Bloom", hashName: h.String(), hash: h.hash, probes: p.k, probe: bitProbe, bits: p.bits, asker: p,
	}
}
