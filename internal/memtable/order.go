package memtable

import (
	"bytes"
	"runtime"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/pages"
)

// An item stands for a user key in the tree. It has no pointers, and five of them are in a cache line.
type item struct {
	high, low uint32 // halves of ikey.HeadAfter the table's prefix
	first     ref    // the version of the key that was added first; or the index of a probe
}

func newItem(head uint64, first ref) item {
	return item{uint32(head >> 32), uint32(head), first} //nolint:gosec // G115: the halves
}

func (it *item) head() uint64 { return uint64(it.high)<<32 | uint64(it.low) }

// A tail holds, in order, the user keys that were each the largest so far when they were added: all keys of a table
// that is filled in order, and a few of any other. It costs a twentieth of the tree, which has the other keys, all of
// them before the tail's last.
type tail struct {
	n      atomic.Int64 // items that readers see; stored by the writer, without the table's lock
	chunks [][]item     // guarded by the table's mu, as the tree is
}

const tailChunk = 128 // items in one chunk: 1.5 KiB

// at returns item i, 0 ≤ i < n.
func (l *tail) at(i int) *item { return &l.chunks[i/tailChunk][i%tailChunk] }

// newTree makes an empty tree.
func (t *Table) newTree() *btree.BTreeG[item] {
	// The comparison is less, written out: the tree calls it a dozen times for each insert.
	return btree.NewWithFreeListG(degree, func(a, b item) bool {
		if a.high != b.high {
			return a.high < b.high
		}
		if a.low != b.low {
			return a.low < b.low
		}
		return t.lessBytes(a, b)
	}, t.nodes)
}

// less orders items by user key. If the heads are equal, which is rare, the bytes are compared out of line.
func (t *Table) less(a, b item) bool {
	if x, y := a.head(), b.head(); x != y {
		return x < y
	}
	return t.lessBytes(a, b)
}

func (t *Table) lessBytes(a, b item) bool {
	return bytes.Compare(t.keyOf(a.first), t.keyOf(b.first)) < 0
}

func (t *Table) keyOf(r ref) []byte {
	if r < firstRef {
		return t.probes[r].key
	}
	return t.arena.version(r).key()
}

// insert adds a new key, which comes after n others, to the order. last reports that it is the largest.
func (t *Table) insert(it item, n uint32, last bool) {
	if last {
		t.push(it)
	} else {
		t.mu.Lock()
		t.tree.ReplaceOrInsert(it)
		t.mu.Unlock()
	}
	t.sample.add(it.first, n)
	if n++; n >= 2*sampleSize && n&(n-1) == 0 {
		t.rehead()
	}
}

// search returns the index of the first of the tail's first n items that is not before it.
func (t *Table) search(it item, n int) int {
	return sort.Search(n, func(i int) bool { return !t.less(*t.tail.at(i), it) })
}

// isLast reports whether a key with this head is after all others of the table. Only the writer calls it.
func (t *Table) isLast(key []byte, head uint64) bool {
	if t.inTail == 0 {
		return true // then there is no key
	}
	last := t.tail.at(t.inTail - 1)
	if head != last.head() {
		return head > last.head()
	}
	return string(key) > string(t.keyOf(last.first))
}

// push appends an item to the tail. Readers see it after publishTail.
func (t *Table) push(it item) {
	n := t.inTail
	if n == len(t.tail.chunks)*tailChunk {
		chunk, _ := t.arena.alloc(tailChunk * itemBytes)
		t.mu.Lock()
		t.tail.chunks = append(t.tail.chunks, pages.As[item](chunk))
		t.mu.Unlock()
	}
	*t.tail.at(n) = it
	t.inTail++
}

// probes let a search key, which is not in the arena, take part in the tree's order: an item cannot point to it, but
// can hold the index of a slot here. A slot is taken for one descent.
type probes [64]struct {
	busy atomic.Bool
	key  []byte // of the search that made it busy
}

// take returns an item that sorts as key does. If all slots are busy it waits for one.
func (t *Table) take(key []byte) item {
	for {
		for i := range t.probes {
			p := &t.probes[i]
			if !p.busy.Load() && p.busy.CompareAndSwap(false, true) {
				p.key = key
				return newItem(ikey.HeadAfter(t.prefix, key), ref(i))
			}
		}
		runtime.Gosched()
	}
}

func (t *Table) give(it item) {
	p := &t.probes[it.first]
	p.key = nil
	p.busy.Store(false)
}

// findByOrder returns the newest version of key, or 0, without using the index.
func (t *Table) findByOrder(key []byte) ref {
	if !t.frozen.Load() {
		t.mu.RLock()
		defer t.mu.RUnlock()
	}
	pivot := t.take(key)
	defer t.give(pivot)
	it, ok := t.tree.Get(pivot)
	if !ok {
		n := int(t.tail.n.Load())
		i := t.search(pivot, n)
		if i == n || t.less(pivot, *t.tail.at(i)) {
			return 0
		}
		it = *t.tail.at(i)
	}
	return t.arena.newest(it.first)
}

const sampleSize = 64

// A sample holds about every stride-th key of the table. The steps vary, so that they do not match a pattern of the
// keys.
type sample struct {
	keys   []ref
	stride int
	skip   int // keys to leave out before the next one
}

// add adds a key, which comes after n others.
func (s *sample) add(key ref, n uint32) {
	if s.skip > 0 {
		s.skip--
		return
	}
	if len(s.keys) == sampleSize {
		for i := range sampleSize / 2 {
			s.keys[i] = s.keys[2*i]
		}
		s.keys = s.keys[:sampleSize/2]
		s.stride *= 2
	}
	s.stride = max(s.stride, 1)
	s.keys = append(s.keys, key)
	step := uint64(n) * goldenRatio >> 33
	s.skip = int(step % uint64(2*s.stride-1)) //nolint:gosec // G115: 31 bits
}

// sorted returns the sampled keys in order.
func (t *Table) sorted() [][]byte {
	keys := make([][]byte, len(t.sample.keys))
	for i, r := range t.sample.keys {
		keys[i] = t.keyOf(r)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// sharedPrefix returns the common prefix of all sorted keys except the outermost sixteenths, without its last byte:
// keys that count upward soon leave the longest common prefix.
func sharedPrefix(sorted [][]byte) []byte {
	if len(sorted) < 2 {
		return nil
	}
	low, high := sorted[len(sorted)/16], sorted[len(sorted)-1-len(sorted)/16]
	return low[:max(ikey.CommonPrefix(low, high), 1)-1]
}

// distinct returns the number of different heads that the sorted keys have after prefix.
func distinct(prefix []byte, sorted [][]byte) int {
	n, last := 0, uint64(0)
	for _, k := range sorted {
		if h := ikey.HeadAfter(prefix, k); n == 0 || h != last {
			n, last = n+1, h
		}
	}
	return n
}

// rehead takes all heads after another prefix if that distinguishes more keys, in a new tree.
func (t *Table) rehead() {
	keys := t.sorted()
	prefix := sharedPrefix(keys)
	longer := len(prefix) > len(t.prefix) && bytes.HasPrefix(prefix, t.prefix)
	if !longer && distinct(prefix, keys) <= distinct(t.prefix, keys) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.tree
	t.prefix = bytes.Clone(prefix)
	t.tree = t.newTree()
	old.Ascend(func(it item) bool {
		t.tree.ReplaceOrInsert(newItem(t.headOf(it.first), it.first))
		return true
	})
	old.Clear(true)
	for i := range t.inTail {
		it := t.tail.at(i)
		*it = newItem(t.headOf(it.first), it.first)
	}
}

func (t *Table) headOf(r ref) uint64 { return ikey.HeadAfter(t.prefix, t.keyOf(r)) }

// CommonPrefix returns a prefix of most keys of the table, a good first argument of New for the next table. The slice
// is the caller's. Only the writer may call it until the table is frozen.
func (t *Table) CommonPrefix() []byte { return bytes.Clone(sharedPrefix(t.sorted())) }
