// Package bloom has sets of key hashes in memory that answer "certainly not here" or "maybe here". They share hashes and the
// places of bits with the filter blocks of package bloomblock: 512-bit blocks, one cache line for each key (Putze, Sanders,
// Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007).
//
// Atomic is the set that a memtable asks before it searches itself.
package bloom

import (
	"math"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
)

const (
	blockWords = 8 // 64 bytes, one cache line
	wordBits   = 64
	blockBits  = blockWords * wordBits
	fieldBits  = 9
	maxProbes  = 7  // as many places as one multiplication gives
	minBits    = 1  // bits per key
	maxBits    = 64 // bits per key: more gains nothing with 7 probes
)

// Atomic is a set that grows while it is read: any number of goroutines may add and ask at once, without locks. Hashes cannot
// be removed. Beyond the number of keys it was made for it stays right, and its false positive rate rises.
type Atomic struct {
	blocks []block
	probes int
}

type block [blockWords]atomic.Uint64

// NewAtomic makes an empty set for the given number of keys, in bitsPerKey bits for each: 10 give about one false positive in
// a hundred. At least one block of 64 bytes is made; bitsPerKey is held within 1..64, and is 10 if it is not a number. It
// panics only as make does, when the memory cannot be had.
func NewAtomic(keys int, bitsPerKey float64) *Atomic {
	if math.IsNaN(bitsPerKey) {
		bitsPerKey = 10
	}
	bitsPerKey = min(max(bitsPerKey, minBits), maxBits)
	n := max(1, int(math.Ceil(float64(max(keys, 0))*bitsPerKey/blockBits)))
	// The fewest probes that are within a twentieth of the best rate, from the table of bloomblock: 2 at 3 bits, 6 at 10.
	probes := min(max(int(math.Round(bitsPerKey*math.Ln2*0.9)), 1), maxProbes)
	return &Atomic{blocks: make([]block, n), probes: probes}
}

// Add adds a hash. Whoever learns, by any synchronization, that Add has returned finds the hash in the set.
func (a *Atomic) Add(h bloomblock.Hash) {
	b := &a.blocks[h.Block(uint64(len(a.blocks)))]
	x, _ := h.Fields()
	for range a.probes {
		w, bit := &b[x/wordBits%blockWords], uint64(1)<<(x%wordBits)
		if w.Load()&bit == 0 { // a read is shared, a write takes the line from the other processors
			w.Or(bit)
		}
		x >>= fieldBits
	}
}

// MayContain reports whether h may have been added. False is certain for every Add that has returned before; true may be
// wrong. It writes nothing and never allocates.
func (a *Atomic) MayContain(h bloomblock.Hash) bool {
	b := &a.blocks[h.Block(uint64(len(a.blocks)))]
	x, _ := h.Fields()
	all := uint64(1)
	for range a.probes {
		all &= b[x/wordBits%blockWords].Load() >> (x % wordBits)
		x >>= fieldBits
	}
	return all != 0
}

// Bytes is the size of the set in memory.
func (a *Atomic) Bytes() int { return len(a.blocks) * blockWords * 8 }
