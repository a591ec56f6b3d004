package memtable

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/prefetch"
)

// A ref is the position of a version in the arena: the chunk's number, then the offset in it in units of four bytes.
// No chunk has number 0, so that small refs are free for other uses: 0 means no version.
type ref uint32

const (
	unitBytes = 4
	unitBits  = 19                    // of a ref; the rest is the chunk's number
	maxChunk  = unitBytes << unitBits // 2 MiB: as far as a ref reaches, and a huge page
	minChunk  = 4 << 10
	minLent   = 256 << 10 // of a chunk that a pool lends, unless it is the first
	maxStep   = 64 << 10  // of a chunk that a pool has lent
	maxChunks = 1 << (32 - unitBits)
	firstRef  = ref(1) << unitBits
)

// An arena holds the bytes of a table in chunks that never move. It has one writer and any number of readers. What
// would fill more than a quarter of the next chunk gets a chunk of its own, exactly as large as it.
//
// Chunks are in the collector's heap and grow with the whole, from 4 KiB to 2 MiB; or they are lent by a pool, and then
// they have an eighth of the table, 256 KiB to 2 MiB, and the first has half of that, of which only what is used takes
// memory. While one of the others is being filled, the pool prepares the next.
type arena struct {
	chunks atomic.Pointer[[][]byte] // readers load it after the ref that they look up
	base   ikey.Seq                 // of the first version
	based  bool                     // base is set, as it is before readers can find a version
	bytes  atomic.Int64             // taken so far; of a chunk that is lent step by step

	pool  *pages.Pool // nil: the collector's heap
	chunk int         // constant; size of a chunk that the pool lends
	words [][]byte    // lent by pool, in addition to chunks: see zeroedWords

	// the writer's
	free []byte // the rest of the step that is being filled; its capacity reaches to the end of the chunk
	next ref    // where free begins
}

// alloc returns n bytes, aligned to a unit, with any contents, and their ref. It panics if the table has outgrown its
// refs: the owner must freeze the table before MaxBytes.
func (a *arena) alloc(n int) ([]byte, ref) {
	n = (n + unitBytes - 1) &^ (unitBytes - 1)
	if n > len(a.free) {
		step := min(max(int(min(a.bytes.Load(), 4*maxChunk)/4)&^(minChunk-1), minChunk), maxChunk)
		switch {
		case n <= cap(a.free):
		case n > a.chunkSize(step)/4:
			a.bytes.Add(int64(n))
			return a.grow(n)
		default:
			b, r := a.grow(a.chunkSize(step))
			a.free, a.next = b[:0], r
			if a.pool != nil && len(b) >= a.chunk {
				a.pool.Prepare(len(b))
			}
		}
		if a.pool != nil {
			step = min(step, maxStep)
		}
		before := len(a.free)
		a.free = a.free[:min(max(before+step, n), cap(a.free))]
		a.bytes.Add(int64(len(a.free) - before))
	}
	b, r := a.free[:n:n], a.next
	a.free = a.free[n:]
	a.next += ref(n / unitBytes) //nolint:gosec // G115: n is at most maxChunk here
	return b, r
}

// chunkSize returns the size of the next chunk, which is the step in the collector's heap.
func (a *arena) chunkSize(step int) int {
	chunks := a.chunks.Load()
	switch {
	case a.pool == nil:
		return step
	case chunks == nil:
		return a.chunk / 2
	case len(*chunks) > manyChunks:
		return maxChunk
	}
	return a.chunk
}

// manyChunks is the number of chunks of a table that is much larger than expected. It gets the largest chunks from then
// on, since it could run out of numbers for small ones.
const manyChunks = 64

// lentChunk returns the size of the chunks of a table that will have size bytes, or 0 if that is unknown.
func lentChunk(size int64) int {
	if size <= 0 {
		return maxChunk
	}
	return int(min(max(size/8&^(minChunk-1), minLent), maxChunk))
}

// inArena is the largest size in bytes of an array of the index that is in a chunk, next to the versions.
const inArena = 2 << 10

// inHeap reports whether zeroedWords returns an array of size bytes from the collector's heap. An index that grows
// leaves arrays of medium size to the collector; the others stay until the table is released.
func (a *arena) inHeap(size int) bool { return a.pool == nil || size > inArena && size < maxChunk/8 }

// zeroedWords returns n words.
func (a *arena) zeroedWords(n int) []atomic.Uint64 {
	size := n * bytesPerSlot
	if a.inHeap(size) {
		return make([]atomic.Uint64, n)
	}
	if size <= inArena {
		b, r := a.alloc(size + unitBytes)
		b = b[r%2*unitBytes:][:size] // aligned to eight bytes
		clear(b)
		return pages.As[atomic.Uint64](b)
	}
	b, zeroed := a.pool.Get(size)
	if !zeroed {
		clear(b)
	}
	a.words = append(a.words, b)
	a.bytes.Add(int64(size))
	return pages.As[atomic.Uint64](b)
}

// prepareWords makes memory for a coming zeroedWords ready in the background.
func (a *arena) prepareWords(n int) {
	if size := n * bytesPerSlot; !a.inHeap(size) && size > inArena {
		a.pool.Prepare(size)
	}
}

// release gives everything back to the pool, if there is one. Nobody may use the arena any more; version panics.
func (a *arena) release() {
	chunks := a.chunks.Swap(nil)
	if a.pool == nil {
		return
	}
	if chunks != nil {
		for _, c := range (*chunks)[1:] {
			if len(c) > maxChunk {
				a.pool.Free(c) // of one version: no other table needs just as much
			} else {
				a.pool.Put(c, false)
			}
		}
	}
	for _, b := range a.words {
		clear(b) // here, and not when a new table needs them, for which a writer waits
		a.pool.Put(b, true)
	}
	a.words = nil
}

// grow adds a chunk of size bytes.
func (a *arena) grow(size int) ([]byte, ref) {
	var chunks [][]byte
	if p := a.chunks.Load(); p != nil {
		chunks = *p
	} else {
		chunks = make([][]byte, 1, 16)
	}
	number := len(chunks)
	if number == maxChunks {
		panic("memtable: table is larger than MaxBytes")
	}
	var chunk []byte
	if a.pool != nil {
		chunk, _ = a.pool.Get(size)
	} else {
		chunk = make([]byte, size)
	}
	chunks = append(chunks, chunk) // after the length that readers know
	a.chunks.Store(&chunks)
	return chunk, ref(number) << unitBits //nolint:gosec // G115: number is below maxChunks
}

// version returns the version at r, which alloc returned.
func (a *arena) version(r ref) version {
	return version((*a.chunks.Load())[r>>unitBits][(r&(firstRef-1))*unitBytes:])
}

// A version is one entry in the arena, with all that follows it there. It is there until the table is released, and
// once readers can find it only the link of a key's first version changes.
//
//	0       4       8      12     (4)     (8)       (8)
//	+-------+-------+------+-------+---------+---------+-----+-------+
//	| stamp | shape | link | older | trailer | lengths | key | value |
//	+-------+-------+------+-------+---------+---------+-----+-------+
//
// All numbers are little-endian. The version of a key that was added first stands for it in the order; its link is the
// ref of the key's newest version. The link of the others is the ref of that first one, and they have older, the ref of
// the next older version, or 0. shape has a bit for each part in parentheses that is there, and the lengths of key and
// value, in 10 and 19 bits, unless they are in lengths. stamp is the sequence number less that of the table's first
// version, and in its lower two bits the kind, unless there is a trailer, since one of them does not fit.
type version []byte

const (
	versionHeader = 12
	hasOlder      = 1 << 0
	hasLengths    = 1 << 1
	hasTrailer    = 1 << 2
	keyShift      = 3
	valueShift    = 13
	kindBits      = 2 // of a stamp
)

// ahead is the number of bytes before the end of the last version and the memory that put prefetches.
const ahead = 1 << 10

func (v version) shape() uint32 { return binary.LittleEndian.Uint32(v[4:]) }

// trailer returns the trailer of a version.
func (a *arena) trailer(v version) ikey.Trailer {
	if s := v.shape(); s&hasTrailer != 0 {
		return ikey.Trailer(binary.LittleEndian.Uint64(v[versionHeader+4*(s&hasOlder):]))
	}
	stamp := binary.LittleEndian.Uint32(v)
	return ikey.MakeTrailer(a.base+ikey.Seq(stamp>>kindBits), ikey.Kind(stamp&(1<<kindBits-1)))
}

// stamp returns the stamp of a trailer, and whether it fits.
func (a *arena) stamp(t ikey.Trailer) (stamp uint32, ok bool) {
	after := t.Seq() - a.base
	ok = after < 1<<(32-kindBits) && t.Kind() < 1<<kindBits
	return uint32(after)<<kindBits | uint32(t.Kind()), ok //nolint:gosec // G115: it is not used unless ok
}

// older returns the next older version of the same key, or 0.
func (v version) older() ref {
	if v.shape()&hasOlder == 0 {
		return 0
	}
	return ref(binary.LittleEndian.Uint32(v[versionHeader:]))
}

// link is set while readers may load it.
func (v version) link() *uint32 { return &pages.As[uint32](v[8:versionHeader])[0] }

// lengths returns where the key begins, and the lengths of key and value.
func (v version) lengths() (begin, key, value uint) {
	s := v.shape()
	begin = versionHeader + uint(s&hasOlder)*4 + uint(s&hasTrailer)*2
	if s&hasLengths == 0 {
		return begin, uint(s >> keyShift & (1<<(valueShift-keyShift) - 1)), uint(s >> valueShift)
	}
	return begin + 8, uint(binary.LittleEndian.Uint32(v[begin:])), uint(binary.LittleEndian.Uint32(v[begin+4:]))
}

func (v version) key() []byte {
	begin, n, _ := v.lengths()
	return v[begin : begin+n : begin+n]
}

func (v version) value() []byte {
	begin, n, m := v.lengths()
	begin += n
	return v[begin : begin+m : begin+m]
}

// first returns the first version of the key of the version at r.
func (a *arena) first(r ref) ref {
	if v := a.version(r); v.shape()&hasOlder != 0 {
		return ref(*v.link())
	}
	return r
}

// newest returns the newest version of a key by its first one.
func (a *arena) newest(first ref) ref { return ref(atomic.LoadUint32(a.version(first).link())) }

// put copies a version into the arena. first is the first version of its key, and older the next older one or 0; if
// first is 0, this is the first.
func (a *arena) put(t ikey.Trailer, first, older ref, key, value []byte) ref {
	if !a.based {
		a.based, a.base = true, t.Seq()
	}
	header, shape := versionHeader, uint32(0)
	if first != 0 {
		header, shape = header+4, hasOlder
	}
	stamp, ok := a.stamp(t)
	if !ok {
		header, shape = header+8, shape|hasTrailer
	}
	if len(key) < 1<<(valueShift-keyShift) && len(value) < 1<<(32-valueShift) {
		shape |= uint32(len(key))<<keyShift | uint32(len(value))<<valueShift //nolint:gosec // G115: they fit
	} else {
		header, shape = header+8, shape|hasLengths
	}
	b, r := a.alloc(header + len(key) + len(value))
	if n := len(b) + ahead; n <= cap(a.free) {
		prefetch.Bytes(a.free[ahead:n]) // or the next atomic operation waits until the lines of b have come
	}
	binary.LittleEndian.PutUint32(b, stamp)
	binary.LittleEndian.PutUint32(b[4:], shape)
	link, at := r, versionHeader
	if first != 0 {
		link, at = first, at+4
		binary.LittleEndian.PutUint32(b[versionHeader:], uint32(older))
	}
	*version(b).link() = uint32(link)
	if !ok {
		binary.LittleEndian.PutUint64(b[at:], uint64(t))
	}
	if shape&hasLengths != 0 { // of at most 64 KiB and 256 MiB
		binary.LittleEndian.PutUint32(b[header-8:], uint32(len(key)))   //nolint:gosec // G115
		binary.LittleEndian.PutUint32(b[header-4:], uint32(len(value))) //nolint:gosec // G115
	}
	copy(b[header:], key)
	copy(b[header+len(key):], value)
	return r
}

// A Memory lends memory to tables, one after another: what a table gives back at its end, the next one takes. It is
// safe for concurrent use.
type Memory struct {
	*pages.Pool
	nodes atomic.Pointer[btree.FreeListG[item]]
}

// maxIdleNodes bounds the nodes that wait for the next table: those of 700,000 keys in random order, 12 MB.
const maxIdleNodes = 8192

// NewMemory returns a Memory that has nothing yet.
func NewMemory() *Memory { return newMemory(pages.NewPool(), maxIdleNodes) }

func newMemory(pool *pages.Pool, maxIdle int) *Memory {
	m := &Memory{Pool: pool}
	m.nodes.Store(btree.NewFreeListG[item](maxIdle))
	return m
}

// Drop drops what no table uses. Later tables are not expected.
func (m *Memory) Drop() {
	m.Trim(0)
	m.nodes.Store(btree.NewFreeListG[item](0))
}
