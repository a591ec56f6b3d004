package memtable

import "sync/atomic"

// A filter reports which tags may have been added. It is a Bloom filter whose four bits for a tag are in one word, so
// that adding a tag is one atomic operation, and asking for one is one load. An error costs a guard and a search of the
// slots, about 70 ns. In a full index at most 3.4 % of absent keys pass. With the bits anywhere in a cache line 5.8 %
// passed at 6 bits per key, and adding took up to four atomic operations of 8 ns.
type filter []atomic.Uint64

const filterBits = 8 // per key of a full index

func newFilter(keys int) filter { return make(filter, max(1, keys*filterBits/64)) }

// word returns the word of a tag. Words are in the order of tags, so that growing writes a new filter front to back.
func (f filter) word(g tag) *atomic.Uint64 { return &f[uint64(g)*uint64(len(f))>>32] }

// mask returns the bits of a tag in its word.
func (g tag) mask() uint64 {
	h := uint64(g) * goldenRatio
	return 1<<(h>>58) | 1<<(h>>52&63) | 1<<(h>>46&63) | 1<<(h>>40&63)
}

func (f filter) add(g tag) { f.word(g).Or(g.mask()) }

// mayContain returns false only for a tag that was not added.
func (f filter) mayContain(g tag) bool {
	m := g.mask()
	return f.word(g).Load()&m == m
}

func (f filter) bytes() int64 { return int64(len(f)) * 8 }
