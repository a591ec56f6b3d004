package memtable

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// An index finds the newest version of a key by the key's hash. It has one writer and any number of readers, which take
// no lock: a slot is one atomic word, and nothing is ever removed.
//
// It uses open addressing with linear probing. The leading bits of a key's tag give its first slot, so that the slots
// are in the order of the tags, except for collisions, and growing reads and writes both arrays front to back.
//
// Keys with crowded or equal tags do not make probing slow: a search ends after maxProbes slots, or after maxEqual keys
// with the same tag. A key that finds no slot within these limits overflows, and is found by order instead.
type index struct {
	filter filter          // denies most absent keys from a tenth of the memory; always in the collector's heap
	slots  []atomic.Uint64 // tag << 32 | ref; 0 is empty. At most three quarters are full

	overflowed atomic.Bool // over is not empty
	overBytes  atomic.Int64
	over       []uint64 // slots of keys that overflowed; a ref may be that of an older version. Only the writer uses it
}

const (
	minSlots     = 64
	maxLoadOf4   = 3
	slotRefBits  = 32
	goldenRatio  = 0x9e3779b97f4a7c15
	bytesPerSlot = 8

	// With random hashes one key in a million overflows when the index is full, and its lookups take twice as long.
	maxProbes = 128
	maxEqual  = 4
)

// A tag is the upper half of a hash, which the index keeps. The filter is made of tags too, since growing rebuilds it
// from the slots alone. At a million keys, 32 bits add 0.02 % to the filter's errors. An error costs a look at a slot
// and never a read.
type tag uint32

func tagOf(h bloomblock.Hash) tag { return tag(h >> 32) }

// newIndex makes an index for at least the given number of keys, with slots from an arena.
func newIndex(keys int, a *arena) *index {
	n := slotsFor(keys)
	return &index{filter: newFilter(limit(n)), slots: a.zeroedWords(n)}
}

// slotsFor returns the number of slots of an index for at least the given number of keys: a power of two, or one to
// seven eighths more, so that tables of about the same number of keys have indexes of the same size.
func slotsFor(keys int) int {
	n := minSlots
	for limit(2*n) < keys && n < 1<<29 {
		n *= 2
	}
	step := n / 8
	for limit(n) < keys && n < 1<<30 {
		n += step
	}
	return n
}

func limit(slots int) int { return slots / 4 * maxLoadOf4 }

// limit returns the number of keys that the index may hold.
func (x *index) limit() int { return limit(len(x.slots)) }

// bytes returns the memory of the index in the collector's heap; its arena counts the other.
func (x *index) bytes(a *arena) int64 {
	n := x.filter.bytes() + x.overBytes.Load()
	if size := len(x.slots) * bytesPerSlot; a.inHeap(size) {
		n += int64(size)
	}
	return n
}

// touch makes the processor fetch the first slot of a tag that will soon be put there, while it waits for other memory:
// an insert has cache misses for the filter, the slot and the arena, and the lock that follows waits for all of them at
// once.
func (x *index) touch(g tag) { x.slots[x.home(g)].Load() }

// home returns the first slot of a tag.
func (x *index) home(g tag) uint { return uint(uint64(g) * uint64(len(x.slots)) >> 32) }

// after returns the slot that follows.
func (x *index) after(slot uint) uint {
	if slot++; slot < uint(len(x.slots)) {
		return slot
	}
	return 0
}

// put adds a key that is not in the index.
func (x *index) put(g tag, r ref) {
	x.filter.add(g)
	slot := uint64(g)<<slotRefBits | uint64(r)
	i, equal := x.home(g), 0
	for range maxProbes {
		s := x.slots[i].Load()
		if s == 0 {
			x.slots[i].Store(slot)
			return
		}
		if tag(s>>slotRefBits) == g {
			if equal++; equal == maxEqual {
				break
			}
		}
		i = x.after(i)
	}
	x.over = append(x.over, slot)
	x.overBytes.Store(int64(cap(x.over)) * bytesPerSlot)
	x.overflowed.Store(true)
}

// grown returns a copy of x with capacity for the given number of keys, and at least twice that of x. Readers may
// continue with x: it has all keys that were added before they loaded it. newest returns the newest version of the key
// of an older one.
func (x *index) grown(keys int, a *arena, newest func(ref) ref) *index {
	y := newIndex(max(keys, 2*x.limit()), a)
	for i := range x.slots {
		if s := x.slots[i].Load(); s != 0 {
			y.put(tag(s>>slotRefBits), ref(s&(1<<slotRefBits-1)))
		}
	}
	for _, s := range x.over {
		y.put(tag(s>>slotRefBits), newest(ref(s&(1<<slotRefBits-1))))
	}
	return y
}

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
