package foreign

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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
type unit struct {
	kind     string
	hashName string
	hash     func(key []byte) uint64
	probes   int    // how much of the unit a lookup compares
	probe    string // what of it is counted
	bits     []byte // nil without bits
	line     int    // length of the cache lines of a Bloom filter in bytes, 0 without lines; notBloom of another filter
	asker
}

// notBloom is the line of a unit that is no Bloom filter.
const notBloom = -1

// An asker has the answers of a unit.
type asker interface {
	// ask reports whether a key with that hash may be in the set. If t is not nil, it receives everything that is
	// probed.
	ask(hash uint64, t *Trace) bool
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
func (t *Trace) begin(hash uint64, digits int) {
	if t != nil {
		t.Hash = fmt.Sprintf("%0*x", digits, hash)
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
		l := u.line
		switch {
		case l == notBloom:
			continue
		case n == 1:
			return u.bits, l
		case len(bits) > 0 && l != line || l == 0:
			l = -1
		}
		bits, line = append(bits, u.bits...), l
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
type constant bool

// always returns a unit with one answer, of which kind says why.
func always(answer constant, kind string) *unit {
	return &unit{
		kind: kind, hashName: "none", hash: func([]byte) uint64 { return 0 }, probe: bitProbe, line: notBloom,
		asker: answer,
	}
}

func (c constant) ask(_ uint64, t *Trace) bool { t.begin(0, 1); return bool(c) }
func (c constant) rate() (float64, bool) {
	if c {
		return 1, true
	}
	return 0, true
}
