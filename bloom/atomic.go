// Package bloom has sets of key hashes in memory that answer "certainly not here" or "maybe here". They use the hashes
// and bit positions of the filter blocks of package bloomblock: 512-bit blocks, one cache line for each key (Putze,
// Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007).
//
// A memtable asks an Atomic before it searches itself.
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
	maxProbes  = 7  // the number of fields of one multiplication
	minBits    = 1  // bits per key
	maxBits    = 64 // bits per key: more are of no use with 7 probes
)

// Atomic is a set that grows while it is read: any number of goroutines may add and ask at once, without locks. Hashes
// cannot be removed. Beyond the number of keys it was made for it stays correct, and its false positive rate rises.
type Atomic struct {
	blocks []block
	probes int
}

type block [blockWords]atomic.Uint64

// NewAtomic returns an empty set for the given number of keys, with bitsPerKey bits for each: 10 give about one false
// positive in a hundred. It has at least one block of 64 bytes; bitsPerKey is clamped to 1..64, and NaN counts as 10.
// It panics only if make does, when the memory cannot be allocated.
func NewAtomic(keys int, bitsPerKey float64) *Atomic {
	if math.IsNaN(bitsPerKey) {
		bitsPerKey = 10
	}
	bitsPerKey = min(max(bitsPerKey, minBits), maxBits)
	n := max(1, int(math.Ceil(float64(max(keys, 0))*bitsPerKey/blockBits)))
	// The fewest probes within a twentieth of the best rate, by the table of bloomblock: 2 at 3 bits, 6 at 10.
	probes := min(max(int(math.Round(bitsPerKey*math.Ln2*0.9)), 1), maxProbes)
	return &Atomic{blocks: make([]block, n), probes: probes}
}

// Add adds a hash. A goroutine that knows, by any synchronization, that Add has returned finds the hash in the set.
func (a *Atomic) Add(h bloomblock.Hash) {
	b := &a.blocks[h.Block(uint64(len(a.blocks)))]
	x, _ := h.Fields()
	for range a.probes {
		w, bit := &b[x/wordBits%blockWords], uint64(1)<<(x%wordBits)
		if w.Load()&bit == 0 { // a read is shared, a write takes the line from other processors
			w.Or(bit)
		}
		x >>= fieldBits
	}
}

// MayContain reports whether h may have been added. False is certain for every Add that has returned before; true may
// be wrong. It writes nothing and never allocates.
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

// Bytes returns the size of the set in memory.
func (a *Atomic) Bytes() int { return len(a.blocks) * blockWords * 8 }
