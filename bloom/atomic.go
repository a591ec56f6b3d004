package bloom

import (
	"math"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// An Atomic is a Blocked set to which any number of goroutines may add while others ask, without locks. All bits of a
// key are in one cache line. Snapshot returns a Filter, which can be counted, compared and sent.
type Atomic struct {
	blocks    []atomicBlock
	low, high int // probes by the first and by the second word of Hash.Fields
	options   Options
}

type atomicBlock [blockWords]atomic.Uint64

const (
	minBits = 1  // bits per key
	maxBits = 64 // bits per key: more are of no use with 7 probes
)

// NewAtomic returns an empty set. Its errors are those of New; since it has one unit, the lowest rate is 5.4e-6.
func NewAtomic(o Options) (*Atomic, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if o.Layout != LayoutBlocked {
		return nil, layoutError("Atomic", o.Layout)
	}
	p, err := bloomblock.ParamsSplit(1, o.Rate)
	if err != nil {
		return nil, err
	}
	u := p.Units()[0]
	blocks, err := o.blocksOf(unitSize{float64(o.Keys) * u.BitsPerKey, blockWords, u.Probes}, 0)
	if err != nil {
		return nil, err
	}
	return newAtomic(blocks, u.Probes, o), nil
}

// NewAtomicBits returns an empty set for the given number of keys, with bitsPerKey bits for each: 10 give about one
// false positive in a hundred. Its Seed is 0, for hashes that nobody chose on purpose, which saves mixing them. It has
// at least one block of 64 bytes. It has no error to return: keys below 0 count as 0, bitsPerKey is clamped to 1..64,
// and NaN counts as 10. It panics only if make does, when the memory cannot be allocated.
func NewAtomicBits(keys int, bitsPerKey float64) *Atomic {
	if math.IsNaN(bitsPerKey) {
		bitsPerKey = 10
	}
	keys, bitsPerKey = max(keys, 0), min(max(bitsPerKey, minBits), maxBits)
	blocks := max(1, int(math.Ceil(float64(keys)*bitsPerKey/blockBits)))
	// The fewest probes within a twentieth of the best rate, by the table of bloomblock: 2 at 3 bits, 6 at 10.
	probes := min(max(int(math.Round(bitsPerKey*math.Ln2*0.9)), 1), wordFields)
	return newAtomic(blocks, probes, Options{Keys: keys})
}

func newAtomic(blocks, probes int, o Options) *Atomic {
	low := min(probes, wordFields)
	return &Atomic{blocks: make([]atomicBlock, blocks), low: low, high: probes - low, options: o}
}

// Add adds a key. A goroutine that knows, by any synchronization, that Add has returned finds the key in the set.
func (a *Atomic) Add(key []byte) { a.AddHash(bloomblock.HashKey(key)) }

// AddHash adds a key by its hash: see Add. It does not use what Or returns, as set does: that takes a tenth longer.
func (a *Atomic) AddHash(h bloomblock.Hash) {
	if len(a.blocks) == 0 {
		return
	}
	b, h := a.locate(h)
	x, _ := h.Fields()
	for range a.low {
		w, bit := &b[x/wordBits%blockWords], uint64(1)<<(x%wordBits)
		if w.Load()&bit == 0 { // a read is shared, a write takes the line from other processors
			w.Or(bit)
		}
		x >>= fieldBits
	}
	if a.high > 0 {
		_, y := h.Fields()
		b.set(y, a.high)
	}
}

// set sets the bits at the low n fields of x. It reports whether this call set one of them.
func (b *atomicBlock) set(x uint64, n int) bool {
	set := uint64(0)
	for range n {
		w, bit := &b[x/wordBits%blockWords], uint64(1)<<(x%wordBits)
		if w.Load()&bit == 0 {
			set |= bit &^ w.Or(bit) // Or returns the word before: only one of several calls sees the bit clear
		}
		x >>= fieldBits
	}
	return set != 0
}

// AddIfAbsent adds a key and reports whether this call set at least one of its bits.
//
// True is certain: no call with this key had returned when this one began. If one goroutine adds, or if calls with the
// same key do not overlap, then the first of them returns true, unless the key is a false positive, and all others
// return false. If calls with the same key overlap, at least one returns true, again unless the key is a false
// positive, but more than one may: each of them may set one of the bits. A caller that must have exactly one winner
// needs a lock or a map for the keys for which AddIfAbsent returned true.
func (a *Atomic) AddIfAbsent(key []byte) bool { return a.AddHashIfAbsent(bloomblock.HashKey(key)) }

// AddHashIfAbsent adds a key by its hash: see AddIfAbsent.
func (a *Atomic) AddHashIfAbsent(h bloomblock.Hash) bool {
	if len(a.blocks) == 0 {
		return false
	}
	b, h := a.locate(h)
	x, y := h.Fields()
	low, high := b.set(x, a.low), b.set(y, a.high)
	return low || high
}

// MayContain reports whether a key may be in the set. False is certain for every Add that has returned before; true
// may be wrong. It writes nothing and never allocates.
func (a *Atomic) MayContain(key []byte) bool { return a.MayContainHash(bloomblock.HashKey(key)) }

// MayContainHash asks for a key by its hash: see MayContain.
func (a *Atomic) MayContainHash(h bloomblock.Hash) bool {
	if len(a.blocks) == 0 {
		return true
	}
	b, h := a.locate(h)
	x, _ := h.Fields()
	all := uint64(1)
	for range a.low {
		all &= b[x/wordBits%blockWords].Load() >> (x % wordBits)
		x >>= fieldBits
	}
	if a.high > 0 {
		_, y := h.Fields()
		for range a.high {
			all &= b[y/wordBits%blockWords].Load() >> (y % wordBits)
			y >>= fieldBits
		}
	}
	return all != 0
}

// locate returns the block of a hash, and the mixed hash. There must be a block.
func (a *Atomic) locate(h bloomblock.Hash) (*atomicBlock, bloomblock.Hash) {
	if a.options.Seed != 0 { // Seed 0 would mix nothing
		h = a.options.Seed.Mix(h)
	}
	return &a.blocks[h.Block(uint64(len(a.blocks)))], h
}

// Bytes returns the size of the set in memory.
func (a *Atomic) Bytes() int { return len(a.blocks) * blockWords * 8 }

// Snapshot returns a copy. It contains all keys whose Add has returned before, and possibly parts of others.
func (a *Atomic) Snapshot() *Filter {
	if len(a.blocks) == 0 {
		return new(Filter)
	}
	words := make([]uint64, 0, len(a.blocks)*blockWords)
	for i := range a.blocks {
		for j := range a.blocks[i] {
			words = append(words, a.blocks[i][j].Load())
		}
	}
	f := &Filter{options: a.options, units: []unit{newUnit(words, a.low+a.high)}}
	if f.options.Rate == 0 { // NewAtomicBits has no time for it
		f.options.Rate = max(f.RateAt(max(f.options.Keys, 1)), bloomblock.BestRate)
	}
	f.recount()
	return f
}
