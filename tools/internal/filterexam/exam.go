// Package filterexam finds out everything about filter blocks that programs for people show: it examines their bits and
// compares them with theory, follows a key through them, and compares them with filters built again from the same keys.
package filterexam

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// The layout of a block; see the drawings in bloomblock/format.go.
const (
	blockBytes = 64
	blockBits  = 8 * blockBytes
	wordBytes  = 8
)

// An Exam is everything that can be found out about a filter block: its header, the figures of its bits with what they
// should be, and how it answers. Its names in JSON, and those of its parts, do not change.
type Exam struct {
	Kind       string     `json:"kind"`                   // "blocked bloom", "ribbon" (first unit), "none", "unknown"
	Bytes      int        `json:"bytes"`                  // of the block
	Keys       uint64     `json:"keys"`                   // hashes added, by the header
	BitsPerKey float64    `json:"bits_per_key"`           // of the units, for each of these keys
	Header     []Field    `json:"header"`                 // in the order of the bytes; empty if there is no header
	Promised   float64    `json:"fpr_promised"`           // by the header, for all units; 1 without any
	ByTable    float64    `json:"fpr_by_table"`           // by keys, blocks and probes: the mean over all sets of keys
	FromBits   float64    `json:"fpr_from_bits"`          // exact for these bits and random hashes
	Measured   *Measured  `json:"fpr_measured,omitempty"` // by asking; nil without units
	Parts      uint64     `json:"parts,omitempty"`        // into which units side by side are cut
	Units      []UnitExam `json:"units"`
	Flags      []Flag     `json:"flags"` // figures that are off: of the whole filter, then of each unit
}

// A Field is a field of the header.
type Field struct {
	Offset int    `json:"offset"` // from the start of the block
	Bytes  int    `json:"bytes"`
	Name   string `json:"name"`
	Value  string `json:"value"` // checksums and reserved bytes in hexadecimal
}

// A Measured is a rate measured with random hashes.
type Measured struct {
	Probes uint64  `json:"probes"`    // hashes asked for
	Maybe  uint64  `json:"maybe"`     // hashes that the filter did not deny
	Rate   float64 `json:"fpr"`       // Maybe / Probes
	Err    float64 `json:"fpr_error"` // standard error of Rate, if the rate from the bits is right
	Z      float64 `json:"z"`         // standard errors by which Rate exceeds the rate from the bits
}

// A Stat is a figure with its expected value.
type Stat struct {
	Got  float64 `json:"got"`
	Want float64 `json:"want"`
	Err  float64 `json:"error"` // standard deviation of Got by chance
	Z    float64 `json:"z"`     // (Got - Want) / Err; beyond 10⁶ either way it is 10⁶
}

// A UnitExam describes one unit. Fields that only Bloom units have are missing for a Ribbon unit, and vice versa; for
// a unit with a wrong checksum only the fields of the header are set.
type UnitExam struct {
	Kind     string  `json:"kind"`               // "bloom" or "ribbon"
	Probes   int     `json:"probes,omitempty"`   // Bloom
	Columns  int     `json:"columns,omitempty"`  // Ribbon: of its back part
	Overhead int     `json:"overhead,omitempty"` // Ribbon: slots beyond the number of keys, in percent
	Slots    uint64  `json:"slots,omitempty"`    // Ribbon: at which a band may begin
	Segments uint64  `json:"segments,omitempty"` // Ribbon: of 64 slots
	Wide     uint64  `json:"wide,omitempty"`     // Ribbon: segments at the front with one more column
	Blocks   uint64  `json:"blocks"`             // of 64 bytes
	Offset   uint64  `json:"offset"`             // of its first byte, from the start of the block
	Bytes    uint64  `json:"bytes"`
	PerKey   float64 `json:"bits_per_key"`
	CRC      string  `json:"crc32c"`     // in the header
	CRCFound string  `json:"crc32c_got"` // of its bytes

	Promised float64   `json:"fpr_promised"`
	ByTable  float64   `json:"fpr_by_table"`
	FromBits float64   `json:"fpr_from_bits"`
	Measured *Measured `json:"fpr_measured,omitempty"`

	Min int `json:"set_bits_min"` // of 512 in a block; in the emptiest block, and in the fullest
	Max int `json:"set_bits_max"`

	// Bloom units only. The expected mean and deviation of the set bits of a block follow from the number of keys,
	// blocks and probes: E[X] = 512·(1-a), Var X = 512·511·b + 512·a - (512·a)², where a bit stays clear with
	// probability a and two with b (Putze, Sanders, Singler 2007, for the number of keys in a block); see theory.
	SetBits *Stat `json:"set_bits,omitempty"`
	Spread  *Stat `json:"set_bits_deviation,omitempty"`
	// NumKeys is the number of keys estimated from the bits, less the theoretical bias of the estimate. It should be
	// the number in the header.
	NumKeys *Stat `json:"keys,omitempty"`
	// Positions is the chi-square, with 511 degrees of freedom, of how often each of the 512 positions is set over all
	// blocks; the variance between positions is a-b.
	Positions *Stat `json:"positions_chi2,omitempty"`
	// Shares are, for each position, the share of blocks in which it is set, expected to be 1-a.
	Shares []float64 `json:"position_shares,omitempty"`
	// Density is the share of a Ribbon unit's bits that are set, expected to be 1/2.
	Density *Stat `json:"density,omitempty"`
	// Regions are the mean shares of set bits in up to 512 ranges of blocks, equally long except for the last.
	Regions      []float64 `json:"regions"`
	RegionBlocks uint64    `json:"region_blocks"`
	// Evenness is the chi-square of the regions of a Bloom unit, with one degree of freedom less than regions.
	Evenness *Stat `json:"regions_chi2,omitempty"`
	// Worst is the fullest block of a Bloom unit.
	Worst *WorstBlock `json:"worst_block,omitempty"`
	// Histogram counts the blocks of a Bloom unit by their set bits, with the expected numbers.
	Histogram []Bin `json:"histogram,omitempty"`

	Flags []Flag `json:"flags"`

	chance float64 // standard deviation of FromBits of a Bloom unit; a Ribbon unit was measured when it was built
}

// A WorstBlock is the fullest block of a unit, the first if there are several.
type WorstBlock struct {
	Index  uint64  `json:"index"`
	Offset uint64  `json:"offset"` // from the start of the filter block
	Set    int     `json:"set_bits"`
	Rate   float64 `json:"fpr"`    // (set bits / 512)^probes: for absent keys that fall into it
	Chance float64 `json:"chance"` // upper bound of the probability that one of the unit's blocks is as full
}

// A Bin counts blocks by their set bits.
type Bin struct {
	From   int     `json:"from"`
	To     int     `json:"to"` // inclusive
	Blocks uint64  `json:"blocks"`
	Want   float64 `json:"want"`
}

// Examine examines a whole block. The error is that of Parse; the Exam then has what could be read, and a flag for the
// damage. Examine makes a few passes over the bits, and asks for up to 17 million random hashes for each unit and for
// all of them: more for a lower rate.
func Examine(block []byte) (Exam, error) { return examine(block, bloomblock.MayContainMany) }

// An asker asks filters as bloomblock.MayContainMany does.
type asker func(filters []*bloomblock.Filter, hashes []bloomblock.SeededHash) uint64

// examine implements Examine. Tests pass a function that answers wrongly.
func examine(block []byte, many asker) (Exam, error) {
	e := Exam{
		Kind: "unknown", Bytes: len(block), Promised: 1, ByTable: 1, FromBits: 1,
		Units: []UnitExam{}, Flags: []Flag{}, Header: fields(block),
	}
	h, err := bloomblock.ParseHeader(block)
	if err == nil {
		e.describe(&h, block)
	}
	f, parseErr := bloomblock.Parse(block)
	if parseErr != nil {
		flag := flagged(Damaged, "%v: a store takes every answer for maybe, which costs a read", parseErr)
		e.Flags = append(e.Flags, flag)
		return e, parseErr
	}
	if f.Units() == 0 {
		return e, nil
	}
	units, bits := h.Split(block[bloomblock.HeaderSize:][:h.UnitsSize()]), f.UnitBits()
	for i := range e.Units {
		u := &e.Units[i]
		// A unit alone is a filter too. It does not apply Hash.Next: a random hash is as good as its Next.
		header := bloomblock.Header{Keys: h.Keys, Seed: h.Seed, Units: h.Units[i : i+1]}
		alone, err := header.Filter(units[i : i+1])
		if err != nil {
			return e, err
		}
		u.FromBits = bits[i].Rate
		u.examine(&header, units[i])
		if u.Worst != nil {
			u.Worst.Offset = BlockOffset(&h, i, u.Worst.Index)
		}
		e.ByTable *= u.ByTable
		e.FromBits *= u.FromBits
		u.Measured = ask(u.FromBits, &alone, many)
		u.judge(e.Keys)
	}
	e.Measured = e.Units[0].Measured
	if len(e.Units) > 1 {
		e.Measured = ask(e.FromBits, &f, many)
	}
	e.judge()
	return e, nil
}

// describe copies the fields of the header.
func (e *Exam) describe(h *bloomblock.Header, block []byte) {
	e.Kind, e.Keys, e.Promised = "none", h.Keys, h.Rate(len(h.Units))
	e.BitsPerKey = perKey(h.UnitsSize(), h.Keys)
	e.Parts = h.Parts()
	var found [][]byte
	if size := h.UnitsSize(); uint64(len(block)-bloomblock.HeaderSize) >= size { //nolint:gosec // a header was parsed
		found = h.Split(block[bloomblock.HeaderSize:][:size])
	}
	for i, u := range h.Units {
		x := UnitExam{
			Kind: "bloom", Probes: u.Probes, Columns: u.Columns, Overhead: u.Overhead,
			Blocks: u.Blocks, Offset: u.Offset, Bytes: u.Bytes(), PerKey: perKey(u.Bytes(), h.Keys),
			CRC: fmt.Sprintf("%08x", u.CRC), Promised: u.Rate, ByTable: 1, FromBits: 1,
			Regions: []float64{}, Flags: []Flag{},
		}
		if i == 0 {
			e.Kind = "blocked bloom"
		}
		if u.Columns > 0 {
			e.Kind, x.Kind = "ribbon", "ribbon"
		}
		switch size := uint64(len(block)); {
		case found != nil:
			x.CRCFound = fmt.Sprintf("%08x", checksum(found[i]))
		case e.Parts == 0 && u.Offset <= size && u.Bytes() <= size-u.Offset:
			x.CRCFound = fmt.Sprintf("%08x", checksum(block[u.Offset:][:u.Bytes()]))
		}
		e.Units = append(e.Units, x)
	}
}

func perKey(bytes, keys uint64) float64 { return 8 * float64(bytes) / float64(max(keys, 1)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// BlockOffset returns the offset in a filter block of 64 bytes of a unit: of a block, if it is a Bloom unit.
func BlockOffset(h *bloomblock.Header, unit int, block uint64) uint64 {
	u, parts := &h.Units[unit], h.Parts()
	if parts == 0 {
		return u.Offset + block*blockBytes
	}
	n, all := u.Blocks/parts, uint64(0) // blocks in a part, of this unit and of all
	for i := range h.Units {
		all += h.Units[i].Blocks / parts
	}
	return u.Offset + (block/n*all+block%n)*blockBytes
}

// Bytes of a header that say which fields it has, by the drawing in bloomblock/format.go.
const (
	offVersion = 8
	offKind    = 9
	offUnits   = 11

	kindRibbon   = 2
	versionPages = 3 // the first with the fields from parts on
)

// fields returns the fields of the header at the start of block, without checking them, as many as are complete.
func fields(block []byte) []Field {
	list, offset := []Field{}, 0
	add := func(n int, name string, value func(b []byte) string) {
		if offset+n <= len(block) {
			list = append(list, Field{offset, n, name, value(block[offset:][:n])})
		}
		offset += n
	}
	number := func(b []byte) string { return strconv.Itoa(int(b[0])) }
	long := func(b []byte) string { return strconv.FormatUint(binary.LittleEndian.Uint64(b), 10) }
	crc := func(b []byte) string { return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(b)) }
	digits := hex.EncodeToString
	digits64 := func(b []byte) string { return fmt.Sprintf("%016x", binary.LittleEndian.Uint64(b)) }
	rate := func(b []byte) string {
		return strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)), 'g', -1, 64)
	}
	add(8, "magic", func(b []byte) string { return strconv.QuoteToASCII(string(b)) })
	add(1, "version", number)
	add(1, "kind", number)
	add(1, "hash", number)
	add(1, "units", number)
	add(1, "line", number)
	add(3, "reserved", digits)
	add(8, "keys", long)
	add(8, "seed", digits64)
	for i := range bloomblock.MaxUnits {
		name := fmt.Sprintf("unit %d ", i)
		if len(block) > offUnits && i >= int(block[offUnits]) {
			add(24, name+"absent", digits)
			continue
		}
		what := "probes"
		if i == 0 && len(block) > offKind && block[offKind] == kindRibbon {
			what = "columns"
		}
		add(8, name+"blocks", long)
		add(8, name+"rate", rate)
		add(4, name+"checksum", crc)
		add(1, name+what, number)
		add(1, name+"overhead", number)
		add(2, name+"reserved", digits)
	}
	if len(block) > offVersion && block[offVersion] == versionPages {
		add(8, "parts", long)
		add(4, "checksum of sums", crc)
		add(1, "page", number)
		add(7, "reserved", digits)
	} else {
		add(20, "reserved", digits)
	}
	add(4, "checksum", crc)
	return list
}
