// Package memtable keeps the newest versions of a store in memory, in order and by hash.
//
// The bytes are in an arena. A B-tree has one item for each user key and serves order alone; its items are small and
// have no pointers, so the garbage collector does not scan them. Keys that were added in ascending order are in a flat
// list, the tail, instead. The versions of a key are chained in the arena, newest first; the one that was added first
// leads to the newest. A hash index serves lookups, so that a Get takes no lock and overwriting a key does not touch
// the tree. An atomic Bloom filter in front of the index answers for most absent keys. Range tombstones are kept apart
// from the versions, in an immutable tree that readers may keep.
//
// The first eight bytes of real keys are often all equal, so an item's inline head is taken after a prefix that most
// keys share (ikey.HeadAfter). The table finds that prefix itself, from a sample of its keys, whenever it has doubled
// in size. A good guess at the start saves that work.
//
// Package memtable at the top of the module is a small face of this one for programs outside.
package memtable

import (
	"bytes"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/google/btree"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// MaxBytes is the size by Bytes that any table may reach, whatever the sizes of its keys and values. The owner freezes
// a table long before.
const MaxBytes int64 = maxChunks * maxChunk / 4

// A Table is a memtable. It has one writer at a time and any number of readers.
type Table struct {
	arena  arena
	index  atomic.Pointer[index]
	frozen atomic.Bool

	refs   atomic.Int64  // see Hold
	counts atomic.Uint64 // versions << 32 | user keys: neither can reach 2³², which is the number of refs

	probes probes
	ranges ranges

	// Used by the writer alone.
	size     int64  // see New
	expected int    // keys that the table will have; 0 until there are enough to tell
	added    uint64 // what counts will be after publish
	inTail   int    // items in the tail, of which tail.n are published
	sample   sample

	// guarded by mu until the table is frozen; only the writer changes them, and it reads them without mu
	mu     sync.RWMutex
	nodes  *btree.FreeListG[item]
	tree   *btree.BTreeG[item]
	tail   tail
	prefix []byte

	flushed atomic.Uint64 // see Flushed
}

const (
	degree = 64 // of the tree: 5 % faster than 32, 20 % than 16

	// The tree's memory for each key. Nodes hold up to 127 items of 12 bytes: 500,000 keys take 18.2 bytes each in
	// random order, 13.5 in descending order, 17.4 in a hundred ascending rows. Ascending ones are in the tail.
	treeBytesPerKey = 19
	itemBytes       = 12
)

// New returns an empty table in the collector's heap. Heads are taken after prefix, which should be the CommonPrefix of
// the last table; it may be nil, and a wrong one only costs time. The prefix is copied. The hash index starts with
// capacity for the given number of keys, and a few more; 0 starts small. size is the size by Bytes at which the owner
// will freeze the table, or 0 if that is unknown: an index that is too small then grows at once to the capacity that a
// table of that size will need.
func New(prefix []byte, keys int, size int64) *Table {
	return NewIn(newMemory(nil, 0), prefix, keys, size)
}

// leastPerKey is the least memory that a key of four bytes takes without a value, its part of a full index included.
const leastPerKey = versionHeader + 4 + itemBytes + 4*bytesPerSlot/maxLoadOf4 + filterBits/8

// NewIn is like New, but m lends the memory of versions and of most slots of the index, outside the collector's heap,
// and the nodes of the tree, until Release. The filter and the range tombstones are always in the heap.
func NewIn(m *Memory, prefix []byte, keys int, size int64) *Table {
	if size > 0 { // the last table may have been larger, by one batch
		keys = int(min(int64(keys), size/leastPerKey))
	}
	t := &Table{
		arena: arena{pool: m.Pool, chunk: lentChunk(size)},
		nodes: m.nodes.Load(), prefix: bytes.Clone(prefix), size: size,
	}
	t.tree = t.newTree()
	t.index.Store(newIndex(keys+keys/16, &t.arena))
	return t
}

// Hold adds a reference to the table, for Release.
func (t *Table) Hold() { t.refs.Add(1) }

// Release drops a reference. The last one, or the first call for a table without references, gives the memory of the
// versions and of the index back to the pool, and Release returns true. From then on only MayContain, RangeDels and
// the methods that return figures may be called, and what others returned must not be used.
func (t *Table) Release() (last bool) {
	if t.refs.Add(-1) > 0 {
		return false
	}
	t.arena.release()
	t.tree.Clear(true)
	return true
}

// prefetch makes the processor fetch the memory that an Add of a key with this hash will need. Call it for several keys
// before the first is added, so that their cache misses overlap.
func (t *Table) prefetch(h bloomblock.Hash) {
	x, g := t.index.Load(), tagOf(h)
	x.filter.mayContain(g)
	x.touch(g)
}

// Add adds a version to the table; key and value are copied. One Add runs at a time, concurrently with any number of
// readers, which see the whole version once Add has returned, and before that the whole version or nothing. Sequence
// numbers must rise from one Add of a key to the next. h is a hash of the key, the same in all calls for it: a
// bloomblock.HashKey, mixed with a seed if others choose the keys. Hashes that crowd or are equal cost a search of the
// tree. Keys have at most 64 KiB, values at most 256 MiB.
func (t *Table) Add(key []byte, h bloomblock.Hash, seq ikey.Seq, kind ikey.Kind, value []byte) {
	t.add(key, h, seq, kind, value)
	t.publish()
}

// publish lets readers see what was added. An atomic store takes 8 ns, so AddOps publishes its operations together.
func (t *Table) publish() {
	t.publishTail()
	t.counts.Store(t.added)
}

func (t *Table) publishTail() {
	if n := int64(t.inTail); t.tail.n.Load() != n {
		t.tail.n.Store(n)
	}
}

// add does what Add does; publish must follow.
func (t *Table) add(key []byte, h bloomblock.Hash, seq ikey.Seq, kind ikey.Kind, value []byte) {
	t.begin()
	trailer, g := ikey.MakeTrailer(seq, kind), tagOf(h)
	head := ikey.HeadAfter(t.prefix, key)
	x, last := t.index.Load(), t.isLast(key, head)
	if !last { // else it is new
		t.publishTail() // the search may need it
		if found, slot := t.find(x, key, g); found != 0 {
			first := t.arena.first(found)
			r := t.arena.put(trailer, first, found, key, value)
			atomic.StoreUint32(t.arena.version(first).link(), uint32(r))
			if slot != noSlot {
				x.slots[slot].Store(uint64(g)<<slotRefBits | uint64(r))
			}
			t.added += 1 << 32
			return
		}
	}
	x.touch(g)
	n := uint32(t.added) //nolint:gosec // G115: the lower half
	r := t.arena.put(trailer, 0, 0, key, value)
	t.insert(newItem(head, r), n, last)
	if int64(n) >= int64(x.limit()) {
		x = t.grow(x, int(n)+1)
		x.put(g, r)
		t.index.Store(x)
	} else {
		x.put(g, r)
	}
	t.added += 1<<32 + 1
}

// growFrom is the number of keys from which an index grows to the number that the table will have.
const growFrom = 10_000

// grow returns a copy of x that has room for more keys. n is the number that the table has. The index of a table that
// will be large grows by steps at first, while its last memory is made ready: a put that took new memory instead, and
// spread a thousand keys over it, would wait for the system a thousand times.
func (t *Table) grow(x *index, n int) *index {
	if t.expected == 0 && 2*n >= growFrom && t.size > 0 {
		// The first keys take an eighth more memory each than all will, and a table that is full must not grow.
		t.expected = int(1.125 * float64(n) * float64(t.size) / float64(t.Bytes()))
		if n < growFrom {
			t.arena.prepareWords(slotsFor(t.expected))
			return x.grown(0, &t.arena, t.newestOf)
		}
	}
	return x.grown(t.expected, &t.arena, t.newestOf)
}

// newestOf returns the newest version of the key of any of its versions.
func (t *Table) newestOf(r ref) ref { return t.arena.newest(t.arena.first(r)) }

// An Op is one operation of a batch.
type Op struct {
	Seq        ikey.Seq
	Kind       ikey.Kind
	Key, Value []byte          // of a range delete, its start and its end
	Hash       bloomblock.Hash // of Key: see Add
}

// AddOps adds operations in order, as Add does, and range tombstones. It prefetches the memory that all of them need
// before it adds the first, so that their cache misses overlap.
//
// The operations are of a record that begins with the sequence number first. Readers see a record as a whole, at the
// number of its last operation, so of its range tombstones over a key only the newest is kept.
func (t *Table) AddOps(first ikey.Seq, ops []Op) {
	if len(ops) > 1 {
		for i := range ops {
			t.prefetch(ops[i].Hash)
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.Kind == ikey.RangeDelete {
			t.addRange(first, o.Key, o.Value, o.Seq)
		} else {
			t.add(o.Key, o.Hash, o.Seq, o.Kind, o.Value)
		}
	}
	t.publish()
}

// addRange adds a range tombstone, which deletes the versions in [start, end) with a smaller sequence number, here and
// in older tables; publish must follow. A nil end is infinite; any other is greater than start. Both are copied. The
// tombstone is newer than those before it, is of a record that begins at first, and counts as a version in Len and
// Bytes.
//
// It costs O(log n) for n range tombstones that are disjoint, equal, nested, of one record, or all begin at one key. If
// many wide ones overlap at random, each also copies lists of sequence numbers.
func (t *Table) addRange(first ikey.Seq, start, end []byte, seq ikey.Seq) {
	t.begin()
	t.ranges.record = first
	t.ranges.add(start, end, seq)
	t.added += 1 << 32
}

// begin checks that a version may be added.
func (t *Table) begin() {
	if t.frozen.Load() {
		panic("memtable: Add after Freeze")
	}
}

// find returns the newest version of key and its slot, or 0. The slot is noSlot for a key that overflowed.
func (t *Table) find(x *index, key []byte, g tag) (ref, uint) {
	if !x.filter.mayContain(g) {
		return 0, 0
	}
	i, equal := x.home(g), 0
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
		i = x.after(i)
	}
	if !x.overflowed.Load() {
		return 0, 0
	}
	return t.findByOrder(key), noSlot
}

// noSlot stands for the slot of a key that overflowed.
const noSlot = ^uint(0)

// MayContain reports whether the table may have a version of a key with this hash: see Add. False is certain. It takes
// no lock, and uses only memory of the collector's heap.
func (t *Table) MayContain(h bloomblock.Hash) bool {
	// The count answers in a store that is only read: its filter may be large and not in the cache.
	return t.counts.Load() != 0 && t.index.Load().filter.mayContain(tagOf(h))
}

// Get returns the newest version of key that a reader at seq sees, with its sequence number and kind. It does not apply
// range tombstones, which may have deleted the version: see RangeDels. The value is part of the arena: it never changes
// and stays valid until the table is released; it must not be written to. Get allocates nothing. It takes no lock
// unless keys have overflowed the index near this one. It walks one by one past the versions that are newer than seq.
func (t *Table) Get(key []byte, h bloomblock.Hash, seq ikey.Seq) (value []byte, trailer ikey.Trailer, found bool) {
	if t.counts.Load() == 0 { // as in a store that is only read: its filter may be large and not in the cache
		return nil, 0, false
	}
	r, _ := t.find(t.index.Load(), key, tagOf(h))
	for r != 0 {
		v := t.arena.version(r)
		if tr := t.arena.trailer(v); tr.Seq() <= seq {
			return v.value(), tr, true
		}
		r = v.older()
	}
	return nil, 0, false
}

// Freeze ends the adding: Add panics from now on, and cursors need no lock. It may be called again.
func (t *Table) Freeze() {
	t.mu.Lock() // wait for the cursors that hold the lock
	t.frozen.Store(true)
	t.mu.Unlock()
}

// RangeDels returns the range tombstones that are in the table now, nil if there are no tombstones. It is safe for
// concurrent use, takes no lock, and includes every tombstone whose AddOps has returned.
func (t *Table) RangeDels() *RangeDels { return t.ranges.published.Load() }

// Bytes returns the memory that the table takes: the arena's chunks, the index with its filter, the range tombstones,
// and an estimate for the tree. It never falls, and is safe for concurrent use.
func (t *Table) Bytes() int64 {
	return int64(unsafe.Sizeof(*t)) + t.arena.bytes.Load() + t.index.Load().bytes(&t.arena) +
		(int64(t.Keys())-t.tail.n.Load())*treeBytesPerKey + t.ranges.bytes.Load()
}

// Len returns the number of versions, range tombstones included. It is safe for concurrent use.
func (t *Table) Len() int { return int(t.counts.Load() >> 32) }

// Keys returns the number of user keys, deleted ones included: a good second argument of New for the next table. It is
// safe for concurrent use.
func (t *Table) Keys() int { return int(uint32(t.counts.Load())) } //nolint:gosec // G115: the lower half

// Size returns the size by Bytes at which the owner will freeze the table, or 0: see New.
func (t *Table) Size() int64 { return t.size }
