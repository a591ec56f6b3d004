package foreign

import (
	"bytes"
	"context"
	"math"
)

// An Exam contains what reading data blocks and all filters shows.
type Exam struct {
	BlocksRead int    `json:"blocks_read"`
	Complete   bool   `json:"complete"` // all data blocks were read
	Entries    uint64 `json:"entries"`  // in the blocks that were read
	Keys       uint64 `json:"keys"`     // the same, distinct: what the filter has of each
	Deletes    uint64 `json:"deletes"`  // the same

	// BitsPerKey is the size of the filters on disk for each key that was added: by the number that the table records,
	// else by Keys and the share of the blocks that were read.
	BitsPerKey float64 `json:"bits_per_key"`
	Bits       uint64  `json:"bits"` // of all units
	Fill       float64 `json:"fill"` // share of the bits that are set
	// Formula is the mean of fill^probes, or of one half for each column, over units and lines, weighted by keys.
	Formula float64 `json:"fpr_by_formula"`
	// FromBits is the share of all hashes that the bits do not deny. Where probes depend on each other it is Formula
	// corrected by hashes that are drawn, else it is Formula.
	FromBits float64   `json:"fpr_from_bits"`
	Drawn    uint64    `json:"hashes_drawn"`
	Between  *Measured `json:"between_keys,omitempty"` // absent keys between those of the table
	Why      string    `json:"not_measured,omitempty"` // the reason why Between is absent
}

// Measured is a rate that was measured.
type Measured struct {
	Rate   float64 `json:"rate"`
	Err    float64 `json:"error"` // standard error
	Maybe  uint64  `json:"maybe"`
	Probes uint64  `json:"probes"`
}

func (m *Measured) finish() {
	if m.Probes > 0 {
		m.Rate = float64(m.Maybe) / float64(m.Probes)
		m.Err = math.Sqrt(m.Rate * (1 - m.Rate) / float64(m.Probes))
	}
}

// Limits bound the work of Examine.
type Limits struct {
	Blocks int    // data blocks to read, evenly spread over the table
	Drawn  uint64 // hashes to draw, about
	Absent uint64 // absent keys to ask, about
}

// An examiner is the state of Examine.
type examiner struct {
	t       *Table
	exam    *Exam
	l       Limits
	weights []uint64 // keys of the units
	last    []byte   // what the filter has of the key before
	block   int      // the number of its data block
	part    int      // the number of the unit that was asked last
	unit    *unit    // nil before the first
	absent  []byte
	hashed  uint64 // bytes of absent keys
	pairs   uint64
	each    int // absent keys for each pair of neighbors
	between Measured
}

// Examine reads data blocks and all filters. Between the keys of a data block it asks for absent ones: a key a and its
// neighbor b > a, where a is not the beginning of b, have all keys between them that begin with a, so a followed by one
// byte is absent. The bytes are chosen by the number of the pair. If a block cannot be read, Examine returns the error
// with the figures that need no more blocks.
func (t *Table) Examine(ctx context.Context, l Limits) (*Exam, error) {
	x := &examiner{t: t, exam: &Exam{}, l: l}
	t.file.begin()
	err := x.readBlocks(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && x.exam.Why == "":
		x.exam.Why = "not all data blocks can be read"
	case err == nil && x.exam.Complete:
		t.Entries = max(t.Entries, x.exam.Entries)
		t.Deletes = max(t.Deletes, x.exam.Deletes)
	}
	x.exam.Complete = x.exam.Complete && err == nil
	t.file.begin()
	if failed := x.finish(ctx); err == nil {
		err = failed
	}
	return x.exam, err
}

// readBlocks reads the data blocks that the limits allow.
func (x *examiner) readBlocks(ctx context.Context) error {
	blocks := 0
	err := x.t.layout.dataBlocks(func(dataBlock) error { blocks++; return ctx.Err() })
	step := max(1, (blocks+x.l.Blocks-1)/max(1, x.l.Blocks))
	x.choose(step, blocks)
	if err != nil {
		return err
	}
	x.t.Blocks = uint64(blocks)
	x.exam.Complete = step == 1
	return x.t.layout.dataBlocks(func(d dataBlock) error {
		if d.number%step != 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := x.t.layout.entries(d, func(e *entry) error { return x.entry(d, e) }); err != nil {
			return err
		}
		x.exam.BlocksRead++
		return nil
	})
}

// choose sets the number of absent keys for each pair if one of step blocks is read. A table that does not record its
// entries is taken to have 32 in a block.
func (x *examiner) choose(step, blocks int) {
	entries := x.t.Entries
	if entries == 0 {
		entries = 32 * uint64(blocks) //nolint:gosec // a count
	}
	pairs := max(1, entries/uint64(step)) //nolint:gosec // positive
	x.each = int(min(128, max(1, x.l.Absent/pairs)))
	if x.t.filters != nil {
		x.weights = make([]uint64, x.t.filters.parts())
	}
	switch {
	case x.t.filters == nil:
		x.exam.Why = "no filter that is known"
	case x.t.unordered != "":
		x.exam.Why = x.t.unordered
	case x.t.blind != "":
		x.exam.Why = x.t.blind
	}
}

// entry counts an entry, and asks for absent keys before it.
func (x *examiner) entry(d dataBlock, e *entry) error {
	x.exam.Entries++
	if e.deleted {
		x.exam.Deletes++
	}
	if e.filter == nil || bytes.Equal(e.filter, x.last) && x.exam.Keys > 0 {
		return nil
	}
	x.exam.Keys++
	if x.t.filters != nil && x.t.blind == "" {
		if part, asked := x.t.filters.find(d, e.key); asked {
			x.weights[part]++
		}
		if x.exam.Keys > 1 && x.block == d.number && x.exam.Why == "" {
			if bytes.Compare(x.last, e.filter) > 0 {
				x.exam.Why = "the keys are not in the order of their bytes"
			} else if err := x.askBetween(d, e.filter); err != nil {
				return err
			}
		}
	}
	x.last, x.block = append(x.last[:0], e.filter...), d.number
	return nil
}

// askBetween asks for absent keys between the key before and b. It asks for no more after hashing 1 KiB for each one
// that it should ask, which bounds the work for a table that does not record how many keys it has, or lies.
func (x *examiner) askBetween(d dataBlock, b []byte) error {
	a := x.last
	if bytes.HasPrefix(b, a) || x.hashed >= x.l.Absent<<10 {
		return nil
	}
	x.pairs++
	for i := range x.each {
		c := byte(x.pairs*151 + uint64(256*i/x.each)) //nolint:gosec // modulo 256
		x.absent = append(append(x.absent[:0], a...), c)
		part, asked := x.t.filters.find(d, x.absent)
		if !asked {
			return nil
		}
		if x.unit == nil || x.part != part {
			u, _, err := x.t.filters.unit(part)
			if err != nil {
				return err
			}
			x.unit, x.part = u, part
		}
		x.hashed += uint64(len(x.absent))
		x.between.Probes++
		if x.unit.ask(x.unit.hash(x.absent), nil) {
			x.between.Maybe++
		}
	}
	return nil
}

// finish computes the figures of the filters.
func (x *examiner) finish(ctx context.Context) error {
	set := x.t.filters
	if set == nil {
		return nil
	}
	var weights uint64
	for _, w := range x.weights {
		weights += w
	}
	var allBits, setBits uint64
	var sum, formula, fromBits float64
	for part := range set.parts() {
		if err := ctx.Err(); err != nil {
			return err
		}
		u, _, err := set.unit(part)
		if err != nil {
			return err
		}
		allBits += 8 * uint64(len(u.bits))
		setBits += countSet(u.bits)
		w := float64(x.weights[part])
		if weights == 0 { // The keys are not known.
			w = 1
		}
		if w == 0 {
			continue
		}
		rate, exact := u.rate()
		sum += w
		formula += w * rate
		if !exact {
			share := w / max(float64(weights), float64(set.parts()))
			rate = x.draw(u, max(minDrawn, uint64(float64(x.l.Drawn)*share)))
		}
		fromBits += w * rate
	}
	if sum > 0 {
		x.exam.Formula, x.exam.FromBits = formula/sum, fromBits/sum
	}
	if allBits > 0 {
		x.exam.Fill = float64(setBits) / float64(allBits)
	}
	x.exam.Bits, x.exam.BitsPerKey = allBits, x.bitsPerKey()
	if x.exam.Why == "" && x.between.Probes == 0 {
		x.exam.Why = "no absent key is known between two keys of a block"
	}
	if x.exam.Why == "" {
		x.between.finish()
		x.exam.Between = &x.between
	}
	return nil
}

// minDrawn is the minimum number of hashes that are drawn for a unit.
const minDrawn = 64

// draw returns the share of n evenly distributed hashes that the unit does not deny. The hashes are those of SplitMix64
// (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), always the same.
func (x *examiner) draw(u *unit, n uint64) float64 {
	maybe := 0
	state := x.exam.Drawn * 0x9e3779b97f4a7c15
	for range n {
		state += 0x9e3779b97f4a7c15
		h := (state ^ state>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		if u.ask(h^h>>31, nil) {
			maybe++
		}
	}
	x.exam.Drawn += n
	return float64(maybe) / float64(n)
}

func (x *examiner) bitsPerKey() float64 {
	keys := float64(x.t.Filter.Recorded)
	if keys == 0 && x.exam.BlocksRead > 0 && x.t.blind == "" {
		keys = float64(x.exam.Keys) * float64(x.t.Blocks) / float64(x.exam.BlocksRead)
	}
	if keys == 0 {
		return 0
	}
	return 8 * float64(x.t.Filter.Bytes) / keys
}
