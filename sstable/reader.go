package sstable

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Meta is what the manifest knows of a table.
type Meta struct {
	Name      string // for errors; a path is cut to its base
	ID        uint64
	Size      uint64 // of the file
	TailLen   uint64 // from the index to the end
	FilterLen uint64

	// Seq, if not 0, is the sequence number of every version and every range delete of the table, whatever the file says: that
	// of a table which was written outside of the store. Such a table holds one version of each key.
	Seq ikey.Seq

	// Check, if not nil, compares what the file says of itself with what else the manifest knows. It is called when the tail was
	// read; an error is damage.
	Check func(Info) error
}

// Stats count what lookups cost. They are plain numbers on the caller's stack, to be added up by the caller.
type Stats struct {
	Blocks    uint64 // data blocks searched
	CacheHits uint64 // of which in memory
	FileReads uint64 // reads of data blocks from the file
	FileBytes uint64 // and their bytes
	TailLoads uint64 // indexes that had to be loaded first
	Present   uint64 // tables that held some version of the key, however new: a true positive of the filter
}

// A Reader answers lookups in one table. It is safe for concurrent use. It owns the table's filter and index, which are
// loaded by Load or by the first use, and can be dropped and loaded again; the data blocks belong to the cache.
type Reader struct {
	// Touched by every lookup.
	filter atomic.Pointer[bloomblock.Filter] // nil: maybe
	index  atomic.Pointer[index]             // nil: not loaded
	seq    ikey.Seq                          // constant: that of meta

	// Constant after NewReader.
	cache  *cache.Cache
	domain *epoch.Domain
	file   io.ReaderAt
	meta   Meta
	seal   sealer

	prefix  prefixFilter
	tail    atomic.Pointer[tail]
	reached atomic.Uint64 // float64 bits: Load has nothing to do for this rate or a higher one

	mu     sync.Mutex        // serializes loading and dropping; held during reads of tail and filter
	header bloomblock.Header // guarded by mu; valid if known
	known  bool              // guarded by mu
	units  [][]byte          // guarded by mu; each an allocation of its own
	damage error             // guarded by mu
}

// NewReader makes a reader and reads nothing. Lookups are made inside guards of d, which is also the cache's domain.
func NewReader(f io.ReaderAt, m Meta, c *cache.Cache, d *epoch.Domain) *Reader {
	r := &Reader{file: f, meta: m, seq: m.Seq, cache: c, domain: d, seal: newSealer(m.ID)}
	r.reached.Store(math.Float64bits(math.Inf(1)))
	return r
}

// Open makes a reader of a table whose manifest is not at hand, with a small cache of its own, and reads the footer.
func Open(f io.ReaderAt, size int64, name string) (*Reader, error) {
	r := &Reader{meta: Meta{Name: name}}
	if size < footerSize {
		return nil, r.damaged(0, fmt.Errorf("%w: %d bytes, want at least %d", errShort, size, footerSize))
	}
	b := make([]byte, footerSize)
	r.file = f
	if err := r.readAt(b, uint64(size)-footerSize); err != nil {
		return nil, err
	}
	ft, err := parseFooter(b, uint64(size))
	if err != nil {
		return nil, r.damaged(uint64(size)-footerSize, err)
	}
	d := new(epoch.Domain)
	m := Meta{Name: name, ID: ft.id, Size: uint64(size), TailLen: ft.tailLen, FilterLen: ft.filterLen}
	return NewReader(f, m, cache.New(2<<20, d), d), nil
}

// Close drops the table's blocks from the cache, its index, its range deletes and its prefix filter. No lookup may begin after it; the file is
// the caller's.
func (r *Reader) Close() {
	r.DropIndex()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropPrefixes(1)
	if t := r.tail.Load(); t != nil {
		k := *t
		k.dels, k.bytes = nil, 0
		r.tail.Store(&k)
	}
}

// damaged gives a reason its address, unless the reason is that the format is of the future.
func (r *Reader) damaged(offset uint64, reason error) error {
	if errors.Is(reason, ErrVersion) || errors.Is(reason, bloomblock.ErrUnknownKind) {
		return fmt.Errorf("%s: offset %d: %w", r.meta.Name, offset, reason)
	}
	return corrupt.At(r.meta.Name, int64(offset), reason) //nolint:gosec // an offset in a file
}

// readAt fills b. A file that is too short is damage; other errors of the file stay what they are.
func (r *Reader) readAt(b []byte, offset uint64) error {
	n, err := r.file.ReadAt(b, int64(offset)) //nolint:gosec // an offset in a file
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return r.damaged(offset, fmt.Errorf("%w: %d bytes, want %d", errShort, n, len(b)))
	default:
		return fmt.Errorf("%s: offset %d: %w", r.meta.Name, offset, err)
	}
}

// Loaded reports whether the index is in memory.
func (r *Reader) Loaded() bool { return r.index.Load() != nil }

// Meta returns what the reader was made with.
func (r *Reader) Meta() Meta { return r.meta }

// IndexBytes is the memory the index takes now.
func (r *Reader) IndexBytes() int64 {
	if x := r.index.Load(); x != nil {
		return x.bytes()
	}
	return 0
}

// ApproximateOffset is how many bytes of data blocks lie before the one that key is in, or would be in. It loads the index
// if need be.
func (r *Reader) ApproximateOffset(key []byte) (uint64, error) {
	x, err := r.touchIndex(new(Stats))
	if err != nil {
		return 0, err
	}
	if i := x.find(key); i < x.blocks() {
		return x.handles[i].offset, nil
	}
	return x.end, nil
}

// ShareBefore is which share of the data lies in front of key, 0 to 1, by the blocks' bytes in the file: of the block that key is in,
// or would be in, a half. It loads the index if need be.
func (r *Reader) ShareBefore(key []byte) (float64, error) {
	x, err := r.touchIndex(new(Stats))
	if err != nil {
		return 0, err
	}
	i := x.find(key)
	if i >= x.blocks() {
		return 1, nil
	}
	end := x.end
	if i+1 < x.blocks() {
		end = x.handles[i+1].offset
	}
	return float64(x.handles[i].offset+end) / 2 / float64(x.end), nil
}

// Properties returns what the table says of itself, loading its index if need be.
func (r *Reader) Properties() (Properties, error) {
	if t := r.tail.Load(); t != nil {
		return t.props, nil
	}
	if err := r.Load(1); err != nil {
		return Properties{}, err
	}
	return r.tail.Load().props, nil
}
