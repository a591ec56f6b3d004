package foreign

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A fuseFilter is the binary fuse filter of a table of Pebble. It is an array of fingerprints in segments of 2ⁿ. A key
// has a fingerprint, and a place in each of three neighboring segments. It was added if its fingerprint is the sum,
// without carry, of the fingerprints at its places.
//
//	| fingerprints | seed 8 | segments, without the last two 4 | n 1 | bits of a fingerprint 1 |
//
// Fingerprints of 4, 8, 10, 12 or 16 bits follow each other, from the lowest bit of each byte on. Three spare bytes are
// after those of 10 bits, and one is after those of 12 bits. Sources: filter.go and bitpacking in Pebble's
// sstable/tablefilters/binaryfuse; Graf, Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters", JEA 2022.
type fuseFilter struct {
	data     []byte
	seed     uint64
	segments uint64
	n        uint
	width    uint64 // bits of a fingerprint
}

const fuseTrailer = 8 + 4 + 1 + 1

// newFuse returns the filter in b.
func newFuse(f *file, b block) (*unit, error) {
	n := len(b.data) - fuseTrailer
	if n <= 0 {
		return always(false, "empty filter"), nil
	}
	end := b.data[n:]
	u := &fuseFilter{
		data: b.data[:n], seed: binary.LittleEndian.Uint64(end), segments: uint64(binary.LittleEndian.Uint32(end[8:])),
		n: uint(end[12]), width: uint64(end[13]),
	}
	places := (u.segments + 2) << min(u.n, 31)
	var want uint64 // bytes
	switch u.width {
	case 4, 8, 16:
		want = (places*u.width + 7) / 8
	case 10:
		want = (places*10+7)/8 + 3
	case 12:
		want = (places+1)/2*3 + 1
	default:
		return nil, f.unknown(b.at, "fingerprints of %d bits, want 4, 8, 10, 12 or 16", u.width)
	}
	if u.segments == 0 || u.n > 31 || places > 2*uint64(n) || want != uint64(n) {
		return nil, f.damaged(b.at, "%d bytes for %d + 2 segments of 2^%d fingerprints of %d bits", n, u.segments, u.n,
			u.width)
	}
	return &unit{
		kind: "binary fuse", hashName: "XXH3", hash: xxh3, probes: int(u.width), //nolint:gosec // at most 16
		probe: fingerprintProbe, bits: u.data, line: notBloom, asker: u,
	}, nil
}

func (f *fuseFilter) rate() (float64, bool) { return math.Ldexp(1, -int(f.width)), true } //nolint:gosec // at most 16

func (f *fuseFilter) ask(hash uint64, t *Trace) bool {
	t.begin(hash, 16)
	h := hash + f.seed // then the end of MurmurHash3
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33

	segment := uint64(1) << f.n
	first, _ := bits.Mul64(h, f.segments<<f.n)
	second := (first + segment) ^ h>>18&(segment-1)
	third := (first + 2*segment) ^ h&(segment-1)
	sum := (h ^ h>>32) & (1<<f.width - 1)
	sum ^= f.fingerprint(first) ^ f.fingerprint(second) ^ f.fingerprint(third)
	if t != nil {
		for i := range f.width {
			t.Columns = append(t.Columns, sum>>i&1 == 0)
		}
	}
	return sum == 0
}

// fingerprint returns fingerprint i, which is in at most two bytes.
func (f *fuseFilter) fingerprint(i uint64) uint64 {
	at := i * f.width
	v := uint64(f.data[at/8])
	if next := at/8 + 1; next < uint64(len(f.data)) {
		v |= uint64(f.data[next]) << 8
	}
	return v >> (at % 8) & (1<<f.width - 1)
}
