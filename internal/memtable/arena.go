package memtable

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A ref is the position of a version in the arena: the chunk's number, then the offset in it in units of eight bytes.
// No chunk has number 0, so that small refs are free for other uses: 0 means no version.
type ref uint32

const (
	unitBytes = 8
	unitBits  = 17                    // of a ref; the rest is the chunk's number
	maxChunk  = unitBytes << unitBits // 1 MiB: as far as a ref reaches
	minChunk  = 4 << 10
	maxChunks = 1 << (32 - unitBits)
	firstRef  = ref(1) << unitBits
)

// An arena holds the bytes of a table in chunks that never move, so that readers may keep slices of them. It has one
// writer and any number of readers. Chunks grow with the whole, from 4 KiB to 1 MiB; what would fill more than a
// quarter of the next chunk gets one of its own, exactly as large as it.
type arena struct {
	chunks atomic.Pointer[[][]byte] // readers load it after the ref that they look up
	bytes  atomic.Int64             // allocated

	// the writer's
	free []byte // the rest of the chunk that is being filled
	next ref    // where free begins
}

// alloc returns n bytes, zeroed and aligned, and their ref. It panics if the table has outgrown its refs: the owner
// must freeze the table before MaxBytes.
func (a *arena) alloc(n int) ([]byte, ref) {
	n = (n + unitBytes - 1) &^ (unitBytes - 1)
	if n > len(a.free) {
		size := min(max(int(min(a.bytes.Load(), 4*maxChunk)/4)&^(minChunk-1), minChunk), maxChunk)
		if n > size/4 {
			return a.grow(n)
		}
		a.free, a.next = a.grow(size)
	}
	b, r := a.free[:n:n], a.next
	a.free = a.free[n:]
	a.next += ref(n / unitBytes) //nolint:gosec // G115: n is at most maxChunk here
	return b, r
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
	chunk := make([]byte, size)
	chunks = append(chunks, chunk) // after the length that readers know
	a.chunks.Store(&chunks)
	a.bytes.Add(int64(size))
	return chunk, ref(number) << unitBits //nolint:gosec // G115: number is below maxChunks
}

// clone copies bytes, at most a whole chunk of them, into the arena.
func (a *arena) clone(b []byte) []byte {
	c, _ := a.alloc(len(b))
	return c[:copy(c, b):len(b)]
}

// version returns the version at r, which alloc returned.
func (a *arena) version(r ref) version {
	return version((*a.chunks.Load())[r>>unitBits][(r&(firstRef-1))*unitBytes:])
}

// A version is one entry in the arena, with all that follows it there. It does not change once readers can find it.
//
//	0           8         12        16            20              24
//	+-----------+---------+---------+-------------+---------------+-----+-------+
//	| trailer   | older   | id      | key length  | value length  | key | value |
//	+-----------+---------+---------+-------------+---------------+-----+-------+
//
// All numbers are little-endian. older is the ref of the next older version of the same key, or 0. id numbers the user
// keys of the table from 0 in the order of their arrival.
type version []byte

const versionHeader = 24

func (v version) trailer() ikey.Trailer { return ikey.Trailer(binary.LittleEndian.Uint64(v)) }
func (v version) older() ref            { return ref(binary.LittleEndian.Uint32(v[8:])) }
func (v version) id() uint32            { return binary.LittleEndian.Uint32(v[12:]) }

func (v version) key() []byte {
	n := versionHeader + uint(binary.LittleEndian.Uint32(v[16:]))
	return v[versionHeader:n:n]
}

func (v version) value() []byte {
	begin := versionHeader + uint(binary.LittleEndian.Uint32(v[16:]))
	end := begin + uint(binary.LittleEndian.Uint32(v[20:]))
	return v[begin:end:end]
}

// put copies a version into the arena.
func (a *arena) put(t ikey.Trailer, older ref, id uint32, key, value []byte) ref {
	b, r := a.alloc(versionHeader + len(key) + len(value))
	binary.LittleEndian.PutUint64(b, uint64(t))
	binary.LittleEndian.PutUint32(b[8:], uint32(older))
	binary.LittleEndian.PutUint32(b[12:], id)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(key)))   //nolint:gosec // G115: keys have at most 64 KiB
	binary.LittleEndian.PutUint32(b[20:], uint32(len(value))) //nolint:gosec // G115: values have at most 256 MiB
	copy(b[versionHeader:], key)
	copy(b[versionHeader+len(key):], value)
	return r
}
