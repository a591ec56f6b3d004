package foreign

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// A Layout says how the filters of a table are divided.
type Layout string

// The layouts of filters.
const (
	Full        Layout = "one for the table"
	PerRange    Layout = "one for each range of data blocks" // of 2 KiB, by default
	Partitioned Layout = "partitions, each for a range of keys"
)

// A unit is one filter: of a whole table, a partition, or a range of data blocks.
type unit interface {
	kind() string
	hashName() string
	hash(key []byte) uint64
	// ask reports whether a key with that hash may be in the set. If t is not nil, it receives everything that is
	// probed.
	ask(hash uint64, t *Trace) bool
	// probes returns how much of the unit a lookup compares, and what is counted.
	probes() (n int, what string)
	// size returns the number of bits, and of those that are set.
	size() (all, set uint64)
	// bloom returns the bits of a Bloom filter and the length of its cache lines in bytes, or 0 without lines. It
	// returns nil for another filter.
	bloom() (bits []byte, line int)
	// rate returns the share of hashes that are not denied, if the probes of a hash are independent of each other.
	// exact reports whether they are.
	rate() (share float64, exact bool)
}

// A Trace is what a lookup of a key reads of a unit.
type Trace struct {
	Part    int     `json:"part"`           // number of the unit
	Offset  uint64  `json:"offset"`         // of the unit in the file; of its block if that is compressed
	Kind    string  `json:"kind"`           // of the unit
	Hash    string  `json:"hash"`           // in hexadecimal digits
	Line    *uint64 `json:"line,omitempty"` // number of the cache line that has all probes
	Probes  []Probe `json:"probes"`
	Columns []bool  `json:"columns,omitempty"` // whether a sum of bits is that of a key that was added
}

// A Probe is a bit that a lookup reads.
type Probe struct {
	Bit uint64 `json:"bit"` // in the unit, or in its line
	Set bool   `json:"set"`
}

// begin records the hash.
func (t *Trace) begin(u unit, hash uint64, digits int) {
	if t != nil {
		t.Kind = u.kind()
		t.Hash = strconv.FormatUint(hash, 16)
		for len(t.Hash) < digits {
			t.Hash = "0" + t.Hash
		}
	}
}

// probe records a bit and reports whether the lookup goes on: to the first clear bit, and for a trace to the last.
func (t *Trace) probe(bit uint64, set bool, maybe *bool) bool {
	*maybe = *maybe && set
	if t == nil {
		return set
	}
	t.Probes = append(t.Probes, Probe{bit, set})
	return true
}

// bit returns a bit of b, the lowest of each byte first.
func bit(b []byte, i uint64) bool { return b[i/8]>>(i%8)&1 != 0 }

// countSet returns the number of bits that are set.
func countSet(b []byte) uint64 {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return uint64(n)
}

// meanRate returns the mean of fill^probes over the lines of a blocked filter, of which b has at least one.
func meanRate(b []byte, line, probes int) float64 {
	sum := 0.0
	for at := 0; at+line <= len(b); at += line {
		sum += math.Pow(float64(countSet(b[at:at+line]))/float64(8*line), float64(probes))
	}
	return sum / float64(len(b)/line)
}

// Bloom returns the bits of the Bloom filters of the table, those of one unit after those of the unit before, and the
// length of their cache lines in bytes: 0 if the probes of a key may be anywhere in a filter, and -1 if the lines of
// the units differ, or if there is a filter for each range of data blocks. Other filters add no bits.
func (t *Table) Bloom() (bits []byte, line int) {
	if t.filters == nil {
		return nil, 0
	}
	n := t.filters.parts()
	for part := range n {
		u, _, err := t.filters.unit(part)
		if err != nil {
			break // which Examine has reported
		}
		b, l := u.bloom()
		switch {
		case n == 1:
			return b, l
		case len(b) == 0:
			continue
		case len(bits) > 0 && l != line || l == 0:
			l = -1
		}
		bits, line = append(bits, b...), l
	}
	return bits, line
}

// What is counted by the number of probes: bits that must be set, or sums of bits that must be those of the key.
const (
	bitProbe         = "probe"
	columnProbe      = "column"
	fingerprintProbe = "fingerprint bit"
)

// A constant is a filter without bits, or one that its store does not use: it has the same answer for every key.
type constant struct {
	answer bool
	reason string
}

func (c constant) kind() string                { return c.reason }
func (c constant) hashName() string            { return "none" }
func (c constant) hash([]byte) uint64          { return 0 }
func (c constant) ask(_ uint64, t *Trace) bool { t.begin(c, 0, 1); return c.answer }
func (c constant) probes() (int, string)       { return 0, bitProbe }
func (c constant) size() (all, set uint64)     { return 0, 0 }
func (c constant) bloom() ([]byte, int)        { return nil, 0 }
func (c constant) rate() (float64, bool) {
	if c.answer {
		return 1, true
	}
	return 0, true
}
