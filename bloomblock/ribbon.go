package bloomblock

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// A Ribbon unit takes three tenths less memory than a Bloom unit of the same rate, and a probe takes some ten
// nanoseconds more: Dillinger, Hübschle-Schneider, Sanders, Walzer, "Fast Succinct Retrieval and Approximate
// Membership using Ribbon", SEA 2022. This is the homogeneous kind, with bands of 128 bits.
//
// It is a matrix of bits, a few columns wide, with a slot for each key and a twentieth more slots. The hash of a key
// determines at which slot its band begins, and which of the 128 slots from there on count. In each column the bits of
// those slots add up to an even number for every key that was added. This is a system of linear equations that always
// has a solution; bits of slots that it leaves free are random. A key that was not added passes a column with
// probability 1/2.
//
// For rates between two powers of two the front part of the matrix has one more column. The matrix is stored in
// segments of 64 slots, one column of a segment after the other, so that a probe reads three adjacent segments.
//
//	             segment 0            segment 1                       segment wide
//	+-----------------------+-----------------------+     +----------------------+----
//	| columns+1 words       | columns+1 words       |  …  | columns words        |  …   rounded up to 64 bytes
//	+-----------------------+-----------------------+     +----------------------+----
//
// A word is 64 bits, little-endian, and bit i of it belongs to slot i of the segment.
const (
	bandSlots    = 128
	segmentSlots = 64
	wordBytes    = 8

	// ribbonMargin is the factor below its rate for which a unit is planned. Planned exactly, one unit in two would
	// exceed its rate by a few parts in a thousand, where keys happen to be dense, and would have to be built again.
	ribbonMargin = 0.997

	maxColumns    = 15  // without the additional one in the front part
	usualOverhead = 5   // percent of the keys; with fewer slots the rates get worse
	maxOverhead   = 100 // percent

	maxRibbonKeys = 1 << 40
)

// BestRibbonRate is the lowest rate of a Ribbon unit.
const BestRibbonRate = 1.0 / (1 << (maxColumns + 1))

// leastRibbonRate is the rate from which on a Ribbon unit has no columns and saves nothing.
const leastRibbonRate = 0.5

// A ribbonShape describes the layout of a unit's matrix in its bytes. It follows from the number of keys, the columns,
// the overhead and the size.
type ribbonShape struct {
	starts   uint64 // slots at which a band may begin, at least 1
	segments uint64
	columns  uint64 // at least 1
	wide     uint64 // segments at the front with one more column
}

// shapeOf returns the shape of a unit with the given number of blocks, and false if there is no such shape.
func shapeOf(keys, blocks uint64, columns, overhead int) (ribbonShape, bool) {
	if keys > maxRibbonKeys || blocks > maxBlocks || columns < 1 || columns > maxColumns ||
		overhead < 1 || overhead > maxOverhead {
		return ribbonShape{}, false
	}
	s := emptyShape(keys, columns, overhead)
	words := blocks * (blockBytes / wordBytes)
	if words < s.segments*s.columns || blocks > blocksOf(s.segments*(s.columns+1)) {
		return ribbonShape{}, false
	}
	s.wide = min(words-s.segments*s.columns, s.segments)
	return s, true
}

// emptyShape returns a shape in which all segments have the same number of columns.
func emptyShape(keys uint64, columns, overhead int) ribbonShape {
	s := ribbonShape{columns: uint64(columns)}            //nolint:gosec // 1..maxColumns
	s.starts = max(1, (keys*uint64(100+overhead)+99)/100) //nolint:gosec // 1..maxOverhead
	// A band that begins inside a segment reaches into the next two.
	s.segments = (s.starts-1)/segmentSlots + bandSlots/segmentSlots + 1
	return s
}

// blocksOf returns the number of 64-byte blocks that hold the given number of words.
func blocksOf(words uint64) uint64 { return (words*wordBytes + blockBytes - 1) / blockBytes }

// at returns the index of the first word of a segment.
func (s *ribbonShape) at(segment uint64) uint64 { return segment*s.columns + min(segment, s.wide) }

// of returns the number of columns that count for a band that begins in a segment: those of the last segment it may
// reach.
func (s *ribbonShape) of(segment uint64) uint64 {
	if segment+bandSlots/segmentSlots < s.wide {
		return s.columns + 1
	}
	return s.columns
}

// rate returns the rate of the shape if all bits are random.
func (s *ribbonShape) rate() float64 {
	wide := 0.0
	if s.wide > bandSlots/segmentSlots {
		wide = float64(min((s.wide-bandSlots/segmentSlots)*segmentSlots, s.starts)) / float64(s.starts)
	}
	return math.Ldexp(1-wide/2, -int(s.columns)) //nolint:gosec // ≤ maxColumns
}

// widest reports whether no unit of the same keys has more columns.
func (s *ribbonShape) widest() bool { return s.columns == maxColumns && s.wide == s.segments }

// narrower returns the shape of the same keys with the given number of columns, and its size in blocks. The words up to
// a whole block are columns of its front part, as in any unit.
func (s *ribbonShape) narrower(keys uint64, columns, overhead int) (narrow ribbonShape, blocks uint64) {
	blocks = blocksOf(s.segments * uint64(columns)) //nolint:gosec // ≤ maxColumns
	narrow, _ = shapeOf(keys, blocks, columns, overhead)
	return narrow, blocks
}

// includes reports whether a unit of shape s has all columns of one of shape other.
func (s *ribbonShape) includes(other *ribbonShape) bool {
	return s.starts == other.starts && s.segments == other.segments &&
		(s.columns > other.columns || s.columns == other.columns && s.wide >= other.wide)
}

// ribbonColumns returns the number of columns for a rate, and the share of keys that need one more.
func ribbonColumns(rate float64) (columns int, more float64) {
	columns = min(max(int(-math.Log2(rate)), 1), maxColumns)
	return columns, min(max(2-math.Ldexp(rate, columns+1), 0), 1)
}

// ribbonBits returns the bits per key of a unit of many keys.
func ribbonBits(rate float64) float64 {
	columns, more := ribbonColumns(rate)
	return (float64(columns) + more) * (100 + usualOverhead) / 100
}

// planRibbon returns the smallest shape for a rate, and its size in blocks.
func planRibbon(keys uint64, rate float64, overhead int) (s ribbonShape, blocks uint64) {
	columns, more := ribbonColumns(rate)
	s = emptyShape(keys, columns, overhead)
	if more > 0 {
		s.wide = min(uint64(math.Ceil(more*float64(s.starts)/segmentSlots))+bandSlots/segmentSlots, s.segments)
	}
	blocks = blocksOf(s.segments*s.columns + s.wide)
	s.wide = min(blocks*(blockBytes/wordBytes)-s.segments*s.columns, s.segments)
	return s, blocks
}

// A ribbon is a unit in memory.
type ribbon struct {
	ribbonShape
	bits []byte
}

// band returns where the band of a key begins and which of its slots count: bit i of lo is slot i, bit i of hi slot
// 64+i. The first slot always counts. The band is derived from the hash that follows those of the most Bloom units a
// filter may have.
func (h Hash) band(starts uint64) (start, lo, hi uint64) {
	for range MaxUnits {
		h = h.Next()
	}
	lo, hi = h.Fields()
	return h.Block(starts), lo | 1, hi
}

// mayContain reports whether all columns add up to even numbers. Four columns are added before the first branch, which
// fifteen of sixteen absent keys take.
func (r *ribbon) mayContain(h Hash) bool {
	start, lo, hi := h.band(r.starts)
	segment, shift := start/segmentSlots, start%segmentSlots
	// The band, aligned to the words of three segments.
	m0, m1, m2 := lo<<shift, hi<<shift|lo>>1>>(63-shift), hi>>1>>(63-shift)
	n := r.of(segment) * wordBytes
	w0 := r.bits[r.at(segment)*wordBytes:][:n]
	w1 := r.bits[r.at(segment+1)*wordBytes:][:n]
	w2 := r.bits[r.at(segment+2)*wordBytes:][:n]
	odd := 0
	for len(w0) >= 4*wordBytes && len(w1) >= 4*wordBytes && len(w2) >= 4*wordBytes {
		odd |= parity(m0, m1, m2, w0, w1, w2) |
			parity(m0, m1, m2, w0[wordBytes:], w1[wordBytes:], w2[wordBytes:]) |
			parity(m0, m1, m2, w0[2*wordBytes:], w1[2*wordBytes:], w2[2*wordBytes:]) |
			parity(m0, m1, m2, w0[3*wordBytes:], w1[3*wordBytes:], w2[3*wordBytes:])
		if odd&1 != 0 {
			return false
		}
		w0, w1, w2 = w0[4*wordBytes:], w1[4*wordBytes:], w2[4*wordBytes:]
	}
	for len(w0) >= wordBytes && len(w1) >= wordBytes && len(w2) >= wordBytes {
		odd |= parity(m0, m1, m2, w0, w1, w2)
		w0, w1, w2 = w0[wordBytes:], w1[wordBytes:], w2[wordBytes:]
	}
	return odd&1 == 0
}

// parity returns, in its lowest bit, whether the masked words have an odd number of set bits.
func parity(m0, m1, m2 uint64, w0, w1, w2 []byte) int {
	return bits.OnesCount64(m0&binary.LittleEndian.Uint64(w0) ^
		m1&binary.LittleEndian.Uint64(w1) ^ m2&binary.LittleEndian.Uint64(w2))
}

// word returns one word of a segment.
func (r *ribbon) word(segment, column uint64) uint64 {
	return binary.LittleEndian.Uint64(r.bits[(r.at(segment)+column)*wordBytes:])
}

// passes returns the exact probability that a random hash whose band begins at slot start passes: 2 to the power of
// minus the rank of its columns. Since the bit of the first slot always counts, it is 0 if columns add up to that bit
// alone.
func (r *ribbon) passes(start uint64) float64 {
	segment, shift := start/segmentSlots, start%segmentSlots
	var basis [maxColumns + 1][2]uint64 // including bit 0, which cannot be a pivot
	rank := 0
	for c := range r.of(segment) {
		w0, w1, w2 := r.word(segment, c), r.word(segment+1, c), r.word(segment+2, c)
		v := [2]uint64{w0>>shift | w1<<1<<(63-shift), w1>>shift | w2<<1<<(63-shift)}
		for _, b := range basis[:rank] {
			// The lowest bit of b except bit 0 is its pivot.
			if lo := b[0] &^ 1; lo != 0 {
				if v[0]&lo&-lo != 0 {
					v[0], v[1] = v[0]^b[0], v[1]^b[1]
				}
			} else if v[1]&b[1]&-b[1] != 0 {
				v[0], v[1] = v[0]^b[0], v[1]^b[1]
			}
		}
		switch {
		case v[0]&^1 != 0 || v[1] != 0:
			basis[rank] = v
			rank++
		case v[0] == 1:
			return 0
		}
	}
	return math.Ldexp(1, -rank)
}

// measuredSlots is about the number of slots at which the rate of a unit is measured, to about half a percent: nearly
// all slots of segments with equally many columns have the same rate.
const measuredSlots = 256

// sampledRate returns the rate of the unit from measuredSlots of its slots, or all if they are fewer.
func (r *ribbon) sampledRate() float64 {
	return r.measure(r.starts/measuredSlots | 1)
}

// measure returns the mean of passes over every step-th start.
func (r *ribbon) measure(step uint64) float64 {
	sum, n := 0.0, 0.0
	for start := uint64(0); start < r.starts; start += step {
		sum += r.passes(start)
		n++
	}
	return sum / n
}

// A row is an equation: the slots of a band that count, from the first one that does. The zero row is no equation.
type row = [2]uint64

// Scratch lends memory that is not in the collector's heap: the heap grows to twice of what it holds, a hash takes
// eight bytes until its filter is written, and a Ribbon unit 17 bytes a key while it is built.
type Scratch interface {
	// Hashes returns memory for n hashes, with any contents. It is used until Reset.
	Hashes(n int) []Hash
	// Rows returns n zeroed rows. They are used until the next call of Rows or Free.
	Rows(n int) [][2]uint64
	Free()
}

// A solver computes the bits of a unit. It keeps its own memory for the next one, and gives that of scratch back.
type solver struct {
	rows    []row
	scratch Scratch
}

// manyRows is the number of equations from which on scratch holds them.
const manyRows = 64 << 10

// maxStepsPerKey bounds the elimination steps that a Builder spends on a Ribbon unit, over all its attempts. Random
// hashes take five steps a key for a thousand keys, seven for 100,000 and nine for ten million; hashes chosen to
// depend on each other may take as many as there are keys.
const maxStepsPerKey = 64

// eliminate brings the equations of a table's hashes into echelon form, for substitute. r has the shape of the unit;
// the equations are valid for all shapes with the same number of starts. eliminate spends at most the given number of
// steps and returns the number left. If that is negative it has given up.
func (s *solver) eliminate(r *ribbon, chunks [][]Hash, seed Seed, steps int) (left int) {
	s.begin(r)
	for _, hashes := range chunks {
		for _, h := range hashes {
			if steps -= s.add(seed.Mix(h).band(r.starts)); steps < 0 {
				return steps
			}
		}
	}
	return steps
}

// begin allocates the equations of r.
func (s *solver) begin(r *ribbon) {
	n := int(r.starts) + bandSlots - 1 //nolint:gosec // as many as hashes in memory, or maxRebuildSlots, and a few
	if s.scratch != nil && n >= manyRows {
		s.rows = s.scratch.Rows(n)
		return
	}
	s.rows = slices.Grow(s.rows[:0], n)[:n]
	clear(s.rows)
}

// end gives memory of scratch back.
func (s *solver) end() {
	if len(s.rows) >= manyRows && s.scratch != nil {
		s.scratch.Free()
		s.rows = nil
	}
}

// add eliminates an equation by those with the same start, until it has a start that no other has, or is redundant. It
// returns the number of equations that it met. Each starts after the one before, so there are at most bandSlots more
// than rows, and far fewer unless hashes were chosen to depend on each other.
func (s *solver) add(at, lo, hi uint64) (steps int) {
	for {
		steps++
		r := &s.rows[at]
		if r[0] == 0 {
			*r = row{lo, hi}
			return steps
		}
		lo ^= r[0]
		hi ^= r[1]
		if lo == 0 {
			if hi == 0 {
				return steps
			}
			lo, hi, at = hi, 0, at+64
		}
		skip := bits.TrailingZeros64(lo)
		lo, hi, at = lo>>skip|hi<<1<<(63-skip), hi>>skip, at+uint64(skip) //nolint:gosec // < 64
	}
}

// substitute solves the equations from the last slot back to the first, for all columns at once. The slots that follow
// in a column are the column's window, with the next slot in the lowest bit.
func (s *solver) substitute(r *ribbon) {
	var window [maxColumns + 1]row
	for slot := r.segments * segmentSlots; slot > 0; {
		slot--
		segment := slot / segmentSlots
		columns := r.columns
		if segment < r.wide {
			columns++
		}
		var eq row
		if slot < uint64(len(s.rows)) {
			eq = s.rows[slot]
		}
		if eq[0] == 0 {
			free := uint64(Hash(slot + 1).Next().Next())
			for c := range window[:columns] {
				w := &window[c]
				w[0], w[1] = w[0]<<1|free&1, w[1]<<1|w[0]>>63
				free >>= 1
			}
		} else {
			lo, hi := eq[0]>>1|eq[1]<<63, eq[1]>>1
			for c := range window[:columns] {
				w := &window[c]
				bit := uint64(bits.OnesCount64(lo&w[0]^hi&w[1])) & 1 //nolint:gosec // a count
				w[0], w[1] = w[0]<<1|bit, w[1]<<1|w[0]>>63
			}
		}
		if slot%segmentSlots == 0 {
			words := r.bits[r.at(segment)*wordBytes:]
			for c := range window[:columns] {
				binary.LittleEndian.PutUint64(words[c*wordBytes:], window[c][0])
			}
		}
	}
}
