// Package memtable keeps the newest versions of a store in memory: in order, and by hash.
//
// The bytes lie in an arena. A B-tree over small items without pointers (the collector has nothing to walk) holds one
// item for each user key and serves order alone, beside a flat list of the keys that came in order; the versions of a
// key are chained in the arena, newest first. A hash index serves lookups, so that a Get takes no lock, and overwriting
// a key never touches the tree. In front of the index an atomic Bloom filter answers for the absent. Range tombstones
// are kept apart from the versions, in a tree that readers may take away as it is.
//
// The first eight bytes of real keys are often all equal, so an item's inline head is taken after a prefix that most
// keys share (ikey.HeadAfter). The table finds that prefix itself, from a sample of its keys, when it has grown to
// twice its size; a good guess at the start saves it the work.
package memtable

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/google/btree"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// MaxBytes is how large a table may become by Bytes, at any sizes of keys and values. Its owner freezes it long before.
const MaxBytes int64 = maxChunks * maxChunk / 4

// A Table is a memtable. It has one writer at a time and any number of readers.
type Table struct {
	arena  arena
	index  atomic.Pointer[index]
	frozen atomic.Bool

	counts   atomic.Uint64 // versions << 32 | user keys: neither can reach 2³², which is the number of refs
	orderMem atomic.Int64  // of newest and the tail; the tree's nodes follow from their keys

	probes probes
	ranges ranges

	// the writer's
	size           int64 // see New
	sample         sample
	minSeq, maxSeq ikey.Seq

	// guarded by mu until the table is frozen; the writer alone changes them, and reads them without it
	mu     sync.RWMutex
	tree   *btree.BTreeG[item]
	tail   tail
	prefix []byte
	newest [][]atomic.Uint32 // by id: the ref of the key's newest version. The words themselves need no lock
}

const (
	degree      = 64  // of the tree: 5 % faster than 32, 20 % than 16
	newestChunk = 512 // ids in one part of newest

	// What the tree costs for each key. Nodes have room for 64 items of 16 bytes; in a random order they are two thirds
	// full, in ascending order half full.
	treeBytesPerKey = 32
	itemBytes       = 16
)

// New makes an empty table. Heads are taken after prefix, which should be what CommonPrefix of the last table said; nil
// is fine, and a wrong one costs time and nothing else. The hash index starts with room for so many keys; 0 starts
// small. size is where the owner will stop filling the table, by Bytes, or 0 if that is not known: an index that is too
// small grows at once to what so many bytes will need. The prefix is copied.
func New(prefix []byte, keys int, size int64) *Table {
	t := &Table{prefix: bytes.Clone(prefix), size: size}
	t.tree = t.newTree()
	t.index.Store(newIndex(keys))
	return t
}

// Prepare has the processor fetch what an Add of a key with this hash will wait for. It is worth it for several keys
// one after the other, before the first is added: their cache misses overlap.
func (t *Table) Prepare(h bloomblock.Hash) {
	x, g := t.index.Load(), tagOf(h)
	x.filter.MayContain(g.spread())
	x.touch(g)
}

// Add puts a version into the table; key and value are copied. One Add runs at a time, beside any number of readers,
// who do not find the version before Add returns, or find it whole. Sequence numbers normally rise from one Add to the
// next; a version that comes late takes its place among those of its key, one with the sequence and kind of another
// replaces it. h is a hash of the key, the same in all calls for it: a bloomblock.HashKey, mixed with a seed where
// others choose the keys. Hashes that crowd or are equal cost a search of the tree. Keys have at most 64 KiB, values at
// most 256 MiB.
func (t *Table) Add(key []byte, h bloomblock.Hash, seq ikey.Seq, kind ikey.Kind, value []byte) {
	counts := t.begin(seq)
	trailer, g := ikey.MakeTrailer(seq, kind), tagOf(h)
	head := ikey.HeadAfter(t.prefix, key)
	x, last := t.index.Load(), t.isLast(key, head)
	if !last { // else it is new
		if found, slot := t.find(x, key, g); found != 0 {
			id := t.arena.version(found).id()
			r := t.link(found, trailer, id, key, value)
			t.newest[id/newestChunk][id%newestChunk].Store(uint32(r))
			if slot != noSlot {
				x.slots[slot].Store(uint64(g)<<slotRefBits | uint64(r))
			}
			t.counts.Store(counts + 1<<32)
			return
		}
	}
	x.touch(g)
	id := uint32(counts) //nolint:gosec // G115: the lower half
	r := t.arena.put(trailer, 0, id, key, value)
	t.insert(item{head: head, first: r, id: id}, last)
	if int64(id) >= int64(x.limit()) {
		x = x.grown(t.expected(int(id)+1), t.newestOf)
		x.put(g, r)
		t.index.Store(x)
	} else {
		x.put(g, r)
	}
	t.counts.Store(counts + 1<<32 + 1)
}

// expected is how many keys the table will have, judged by the n that it has.
func (t *Table) expected(n int) int {
	if n < 1000 || t.size == 0 {
		return 0
	}
	return int(float64(n) * float64(t.size) / float64(t.Bytes()))
}

// AddRange puts a range tombstone into the table: it deletes what has a smaller sequence number in [start, end), here
// and in older tables. A nil end is infinite; any other is greater than start. Both are copied. AddRange is to readers
// and to other writes as Add is, and like a version it counts in Len, Seqs and Bytes.
//
// It costs O(log n) for n range tombstones that are disjoint, equal, nested, or all begin at one key. Where many wide
// ones overlap at random, each copies lists of sequence numbers too.
func (t *Table) AddRange(start, end []byte, seq ikey.Seq) {
	counts := t.begin(seq)
	t.ranges.add(start, end, seq, t.arena.clone)
	t.counts.Store(counts + 1<<32)
}

// begin checks that a version may be added, and takes note of its sequence number.
func (t *Table) begin(seq ikey.Seq) (counts uint64) {
	if t.frozen.Load() {
		panic("memtable: Add after Freeze")
	}
	if counts = t.counts.Load(); counts == 0 {
		t.minSeq, t.maxSeq = seq, seq
	}
	t.minSeq, t.maxSeq = min(t.minSeq, seq), max(t.maxSeq, seq)
	return counts
}

// find returns the newest version of key and its slot, which is noSlot for a key that overflowed, or 0.
func (t *Table) find(x *index, key []byte, g tag) (ref, uint) {
	if !x.filter.MayContain(g.spread()) {
		return 0, 0
	}
	mask, equal := uint(len(x.slots)-1), 0
	i := uint(g>>x.shift) & mask
	for range maxProbes {
		s := x.slots[i].Load()
		if s == 0 {
			return 0, 0
		}
		if tag(s>>slotRefBits) == g {
			r := ref(s & (1<<slotRefBits - 1))
			if bytes.Equal(t.arena.version(r).key(), key) {
				return r, i
			}
			if equal++; equal == maxEqual {
				break
			}
		}
		i = (i + 1) & mask
	}
	if !x.overflowed.Load() {
		return 0, 0
	}
	return t.findByOrder(key), noSlot
}

// noSlot is the slot of a key that has none.
const noSlot = ^uint(0)

// link puts a version into the chain that begins at newest, and returns where the chain begins now. Versions do not
// change, so the newer ones, if there are any, are written again above a late one; who reads the old chain goes on.
func (t *Table) link(newest ref, trailer ikey.Trailer, id uint32, key, value []byte) ref {
	var newer []version
	older := newest
	for older != 0 {
		v := t.arena.version(older)
		if v.trailer() < trailer {
			break
		}
		if v.trailer() > trailer {
			newer = append(newer, v)
		}
		older = v.older()
	}
	r := t.arena.put(trailer, older, id, key, value)
	for _, n := range slices.Backward(newer) {
		r = t.arena.put(n.trailer(), r, id, key, n.value())
	}
	return r
}

// Get returns the newest version of key that a reader at seq sees, and its sequence number and kind. It knows nothing
// of range tombstones, which may have deleted the version: see RangeDels. The value is a part of the arena: it never
// changes and stays valid for as long as it is referred to; it must not be written to. Get allocates nothing, and takes
// no lock unless the index has overflowed where the key would be. It walks past the versions that are newer than seq,
// one by one.
func (t *Table) Get(key []byte, h bloomblock.Hash, seq ikey.Seq) (value []byte, trailer ikey.Trailer, found bool) {
	if t.counts.Load() == 0 { // the table of a store that is only read: its filter may be large, and in no cache
		return nil, 0, false
	}
	r, _ := t.find(t.index.Load(), key, tagOf(h))
	for r != 0 {
		v := t.arena.version(r)
		if tr := v.trailer(); tr.Seq() <= seq {
			return v.value(), tr, true
		}
		r = v.older()
	}
	return nil, 0, false
}

// Freeze says that no Add will come: from here on cursors need no lock. It may be called again.
func (t *Table) Freeze() {
	t.mu.Lock() // cursors that are inside with the lock see the table as it stays
	t.frozen.Store(true)
	t.mu.Unlock()
}

// RangeDels is the range tombstones that are in the table now, nil if there are none. It is safe for concurrent use,
// takes no lock, and finds every tombstone whose AddRange has returned.
func (t *Table) RangeDels() *RangeDels { return t.ranges.published.Load() }

// Bytes is the memory that the table takes: the arena's chunks, the index with its filter, the range tombstones, and an
// estimate for the tree.
// It never falls, and is safe for concurrent use.
func (t *Table) Bytes() int64 {
	return int64(unsafe.Sizeof(*t)) + t.arena.bytes.Load() + t.index.Load().bytes() + t.orderMem.Load() +
		(int64(t.Keys())-t.tail.n.Load())*treeBytesPerKey + t.ranges.bytes.Load()
}

// Len is the number of versions, range tombstones included. It is safe for concurrent use.
func (t *Table) Len() int { return int(t.counts.Load() >> 32) }

// Keys is the number of user keys, deleted ones included: a good second argument of New for the next table. It is safe
// for concurrent use.
func (t *Table) Keys() int { return int(uint32(t.counts.Load())) } //nolint:gosec // G115: the lower half

// Seqs returns the smallest and the largest sequence number; both are 0 in an empty table. It is for the writer, and
// for anyone once the table is frozen.
func (t *Table) Seqs() (smallest, largest ikey.Seq) { return t.minSeq, t.maxSeq }
