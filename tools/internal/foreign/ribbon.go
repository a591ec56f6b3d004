package foreign

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A ribbonFilter is RocksDB's Standard128 Ribbon filter (util/ribbon_impl.h, util/ribbon_alg.h): blocks of 128 slots,
// each stored column by column, 16 bytes for a column of a block. The blocks from number upper on have one column more
// than those before. A key has a first slot, 128 coefficients for the slots from there on, and a bit for each column.
// It was added if in each column the sum of the slots with a coefficient is that bit.
type ribbonFilter struct {
	data    []byte
	seed    uint64
	blocks  uint64
	columns uint64 // of blocks from number upper on
	upper   uint64
}

// The constants of StandardHasher and StandardRehasherAdapter in RocksDB's util/ribbon_impl.h.
const (
	ribbonSeedFactor  uint64 = 0xc78219a23eeadd03
	ribbonSeedMask    uint64 = 0xf0f0f0f0f0f0f0f0
	ribbonHashFactor  uint64 = 0x6193d459236a3a0d
	ribbonCoeffFactor uint64 = 0xc28f82822b650bed
	ribbonCoeffXor    uint64 = 0xc367844a6e52731d

	ribbonSlots   = 128 // of a block, and coefficients
	ribbonSegment = ribbonSlots / 8
	ribbonMost    = 32 // columns
)

// newRibbon returns the Ribbon filter in data, which may be longer than it uses.
func newRibbon(data []byte, ordinal byte, blocks uint32) *unit {
	if blocks < 2 {
		return always(true, "Ribbon filter of a reserved size")
	}
	segments := uint64(len(data) / ribbonSegment)
	r := &ribbonFilter{data: data, blocks: uint64(blocks)}
	r.columns = (segments + r.blocks - 1) / r.blocks
	r.upper = r.columns*r.blocks - segments
	if r.columns > ribbonMost {
		r.columns, r.upper = ribbonMost, 0
	}
	seed := uint64(ordinal) * ribbonSeedFactor
	seed ^= seed & ribbonSeedMask >> 4
	r.seed = seed & 0xffffffff
	return &unit{
		kind: "Ribbon", hashName: previewName, hash: xxph3, probes: int(r.columns), //nolint:gosec // at most 32
		probe: columnProbe, bits: data, line: notBloom, asker: r,
	}
}

// rate returns one half for each column, weighted by the slots where a key may begin.
func (r *ribbonFilter) rate() (float64, bool) {
	few := float64(r.upper*ribbonSlots) / float64(r.starts())
	rate := math.Ldexp(1, -int(r.columns)) //nolint:gosec // at most 32
	return min(1, few*2*rate+(1-few)*rate), true
}

// starts returns the number of slots where a key may begin.
func (r *ribbonFilter) starts() uint64 { return r.blocks*ribbonSlots - ribbonSlots + 1 }

func (r *ribbonFilter) ask(hash uint64, t *Trace) bool {
	t.begin(hash, 16)
	h := (hash ^ r.seed) * ribbonHashFactor
	slot, _ := bits.Mul64(h, r.starts())
	mixed := h * ribbonCoeffFactor
	low, high := mixed^ribbonCoeffXor|1, mixed
	want := bits.ReverseBytes64(mixed)

	block, shift := slot/ribbonSlots, uint(slot%ribbonSlots)
	columns, segment := r.columns, block*r.columns-min(block, r.upper)
	if block < r.upper {
		columns--
	}
	maybe := true
	for c := range columns {
		a, b := shiftLeft(low, high, shift)
		sum := r.sum(segment+c, a, b)
		if shift > 0 { // the rest of the coefficients is for the next block
			a, b = shiftRight(low, high, ribbonSlots-shift)
			sum ^= r.sum(segment+columns+c, a, b)
		}
		right := sum == int(want>>c&1)
		if t == nil && !right {
			return false
		}
		if t != nil {
			t.Columns = append(t.Columns, right)
		}
		maybe = maybe && right
	}
	return maybe
}

// sum returns the parity of the slots of a segment that have a coefficient.
func (r *ribbonFilter) sum(segment, low, high uint64) int {
	at := segment * ribbonSegment
	if at+ribbonSegment > uint64(len(r.data)) {
		return 0 // only in a damaged filter
	}
	b := r.data[at:]
	return bits.OnesCount64(binary.LittleEndian.Uint64(b)&low^binary.LittleEndian.Uint64(b[8:])&high) & 1
}

// shiftLeft shifts a number of 128 bits by n < 128. A shift by 64 or more is 0, also by a difference below 0.
func shiftLeft(low, high uint64, n uint) (newLow, newHigh uint64) {
	return low << n, high<<n | low>>(64-n) | low<<(n-64)
}

// shiftRight is like shiftLeft.
func shiftRight(low, high uint64, n uint) (newLow, newHigh uint64) {
	return low>>n | high<<(64-n) | high>>(n-64), high >> n
}
