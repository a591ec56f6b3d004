package bloomblock

import "fmt"

// An Exam is all that a filter block tells of itself: what it says, what its bits say, what they should say, and what it answers.
// As JSON its names, and those of what it consists of, do not change. It is data; nothing here draws.
type Exam struct {
	Kind       string     `json:"kind"`                   // "blocked bloom", "ribbon" (its first unit is one), "none", or "unknown"
	Bytes      int        `json:"bytes"`                  // of the block
	Keys       uint64     `json:"keys"`                   // hashes added, as the header says
	BitsPerKey float64    `json:"bits_per_key"`           // of the units, for each of these keys
	Header     []Field    `json:"header"`                 // in the order of the bytes; empty where there is no header at all
	Promised   float64    `json:"fpr_promised"`           // by the header, for all units; 1 without any
	ByTable    float64    `json:"fpr_by_table"`           // Filter.ExpectedRate: of so many keys, blocks and probes, on average
	FromBits   float64    `json:"fpr_from_bits"`          // exact for these bits and random hashes
	Measured   *Measured  `json:"fpr_measured,omitempty"` // by asking; none without units
	Units      []UnitExam `json:"units"`
	Flags      []Flag     `json:"flags"` // what is off by more than it should be; of the whole filter, and then of each unit
}

// A Field is a field of the header.
type Field struct {
	Offset int    `json:"offset"` // from the start of the block
	Bytes  int    `json:"bytes"`
	Name   string `json:"name"`
	Value  string `json:"value"` // checksums and what is reserved in hexadecimal digits, all else as one reads it
}

// A Measured is a rate found by asking for random hashes.
type Measured struct {
	Probes uint64  `json:"probes"`    // hashes asked for
	Maybe  uint64  `json:"maybe"`     // of which the filter did not deny
	Rate   float64 `json:"fpr"`       // Maybe of Probes
	Err    float64 `json:"fpr_error"` // standard error of Rate, if the rate from the bits is right
	Z      float64 `json:"z"`         // how many of these errors Rate is above the rate from the bits
}

// A Stat is a figure beside what it should be.
type Stat struct {
	Got  float64 `json:"got"`
	Want float64 `json:"want"`
	Err  float64 `json:"error"` // standard deviation that chance gives Got
	Z    float64 `json:"z"`     // (Got - Want) / Err; beyond 10⁶ either way it is 10⁶
}

// A UnitExam is one unit. What only Bloom units have is missing of a Ribbon unit, and the other way round; a unit whose checksum
// is wrong has but what the header says.
type UnitExam struct {
	Kind     string  `json:"kind"`               // "bloom" or "ribbon"
	Probes   int     `json:"probes,omitempty"`   // Bloom
	Columns  int     `json:"columns,omitempty"`  // Ribbon: of its back part
	Overhead int     `json:"overhead,omitempty"` // Ribbon: slots beyond the keys, in percent of them
	Slots    uint64  `json:"slots,omitempty"`    // Ribbon: at which a band may begin
	Segments uint64  `json:"segments,omitempty"` // Ribbon: of 64 slots
	Wide     uint64  `json:"wide,omitempty"`     // Ribbon: segments at the front that have a column more
	Blocks   uint64  `json:"blocks"`             // of 64 bytes
	Offset   uint64  `json:"offset"`             // from the start of the block
	Bytes    uint64  `json:"bytes"`
	PerKey   float64 `json:"bits_per_key"`
	CRC      string  `json:"crc32c"`     // in the header
	CRCFound string  `json:"crc32c_got"` // of its bytes

	Promised float64   `json:"fpr_promised"`
	ByTable  float64   `json:"fpr_by_table"`
	FromBits float64   `json:"fpr_from_bits"`
	Measured *Measured `json:"fpr_measured,omitempty"`

	Min int `json:"set_bits_min"` // of 512 in a block; the emptiest, and the fullest one
	Max int `json:"set_bits_max"`

	// Bloom. What the mean and the deviation of the set bits of a block should be follows from the number of keys, blocks and
	// probes: E[X] = 512·(1-a), Var X = 512·511·b + 512·a - (512·a)², where a bit stays clear with probability a and two
	// with b (Putze, Sanders, Singler 2007, for the number of keys in a block); see theory.
	SetBits *Stat `json:"set_bits,omitempty"`
	Spread  *Stat `json:"set_bits_deviation,omitempty"`
	// NumKeys is the number of keys estimated from the bits, less the estimate's theoretical bias; it should be that in the
	// header.
	NumKeys *Stat `json:"keys,omitempty"`
	// Positions is the chi-square of how often each of the 512 positions is set over all blocks, less its mean, over the variance
	// a-b that it has between positions: 511 degrees of freedom.
	Positions *Stat `json:"positions_chi2,omitempty"`
	// Shares are, for each position, the share of the blocks in which it is set: 1-a of them should have it.
	Shares []float64 `json:"position_shares,omitempty"`
	// Density is the share of a Ribbon unit's bits that are set: 1/2, as they are as good as random.
	Density *Stat `json:"density,omitempty"`
	// Regions are up to 512 stretches of blocks, equally long but for the last: the mean share of set bits in each.
	Regions      []float64 `json:"regions"`
	RegionBlocks uint64    `json:"region_blocks"`
	// Evenness is the chi-square of the regions of a Bloom unit: as many degrees of freedom as regions, less one.
	Evenness *Stat `json:"regions_chi2,omitempty"`
	// Worst is the fullest block of a Bloom unit.
	Worst *WorstBlock `json:"worst_block,omitempty"`
	// Histogram has the blocks of a Bloom unit by their set bits, beside how many there should be.
	Histogram []Bin `json:"histogram,omitempty"`

	Flags []Flag `json:"flags"`
}

// A WorstBlock is the fullest block of a unit, the first one of several.
type WorstBlock struct {
	Index  uint64  `json:"index"`
	Offset uint64  `json:"offset"` // from the start of the filter block
	Set    int     `json:"set_bits"`
	Rate   float64 `json:"fpr"`    // (set bits / 512)^probes: of absent keys that fall into it
	Chance float64 `json:"chance"` // that so full a block is among so many, at most
}

// A Bin counts blocks by their set bits.
type Bin struct {
	From   int     `json:"from"`
	To     int     `json:"to"` // inclusive
	Blocks uint64  `json:"blocks"`
	Want   float64 `json:"want"`
}

// Examine looks at a whole block. The error is that of Parse; the Exam is then as far as it could be read, with a flag that says so.
// It goes over the bits a few times, and asks for up to 17 million random hashes for each unit and for all of them: the lower the
// rate, the more.
func Examine(block []byte) (Exam, error) { return examine(block, nil) }

// examine is Examine with who answers for a filter: for tests, of filters that answer wrongly; nil is MayContain.
func examine(block []byte, answer func(f *Filter, h Hash) bool) (Exam, error) {
	e := Exam{Kind: "unknown", Bytes: len(block), Promised: 1, ByTable: 1, FromBits: 1, Units: []UnitExam{}, Flags: []Flag{}, Header: fields(block)}
	h, err := ParseHeader(block)
	if err == nil {
		e.describe(&h, block)
	}
	f, parseErr := Parse(block)
	if parseErr != nil {
		e.Flags = append(e.Flags, flagged(Damaged, "%v: a store takes every answer for a maybe, which costs a read", parseErr))
		return e, parseErr
	}
	if f.Units() == 0 {
		return e, nil
	}
	if answer == nil {
		answer = (*Filter).MayContain
	}
	e.ByTable = f.ExpectedRate()
	for i := range e.Units {
		u := &e.Units[i]
		alone := f.unit(i)
		u.ByTable = alone.ExpectedRate()
		u.examine(alone, block[u.Offset:][:u.Bytes])
		e.FromBits *= u.FromBits
		u.Measured = ask(u.FromBits, func(h Hash) bool { return answer(alone, h) })
		u.judge(e.Keys)
	}
	e.Measured = e.Units[0].Measured
	if len(e.Units) > 1 {
		e.Measured = ask(e.FromBits, func(h Hash) bool { return answer(&f, h) })
	}
	e.judge()
	return e, nil
}

// describe copies what the header says.
func (e *Exam) describe(h *Header, block []byte) {
	e.Kind, e.Keys, e.Promised = "none", h.Keys, h.Rate(len(h.Units))
	e.BitsPerKey = perKey(h.BlockSize()-HeaderSize, h.Keys)
	for i, u := range h.Units {
		x := UnitExam{
			Kind: "bloom", Probes: u.Probes, Columns: u.Columns, Overhead: u.Overhead, Blocks: u.Blocks, Offset: u.Offset, Bytes: u.Bytes(),
			PerKey: perKey(u.Bytes(), h.Keys), CRC: fmt.Sprintf("%08x", u.CRC), Promised: u.Rate, ByTable: 1, FromBits: 1, Regions: []float64{}, Flags: []Flag{},
		}
		if i == 0 {
			e.Kind = "blocked bloom"
		}
		if u.Columns > 0 {
			e.Kind, x.Kind = "ribbon", "ribbon"
		}
		if size := uint64(len(block)); u.Offset <= size && u.Bytes() <= size-u.Offset {
			x.CRCFound = fmt.Sprintf("%08x", checksum(block[u.Offset:][:u.Bytes()]))
		}
		e.Units = append(e.Units, x)
	}
}

func perKey(bytes, keys uint64) float64 { return 8 * float64(bytes) / float64(max(keys, 1)) }

// unit is the filter of unit i alone. A random hash is as good as its Next, so that it may be asked for the same ones.
func (f *Filter) unit(i int) *Filter {
	if f.ribbon != nil {
		if i == 0 {
			return &Filter{ribbon: f.ribbon, keys: f.keys, seed: f.seed}
		}
		i--
	}
	return &Filter{n: 1, units: [MaxUnits]unit{f.units[i]}, keys: f.keys, seed: f.seed}
}
