package sstable

import (
	"encoding/binary"
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

	// Constant after NewReader.
	cache  *cache.Cache
	domain *epoch.Domain
	file   io.ReaderAt
	meta   Meta
	seal   sealer

	tail    atomic.Pointer[tail]
	reached atomic.Uint64 // float64 bits: Load has nothing to do for this rate or a higher one

	mu     sync.Mutex        // serializes loading and dropping; held during reads of tail and filter
	header bloomblock.Header // guarded by mu; valid if known
	known  bool              // guarded by mu
	units  [][]byte          // guarded by mu; each an allocation of its own
	damage error             // guarded by mu
}

type tail struct {
	footer footer
	props  Properties
}

// NewReader makes a reader and reads nothing. Lookups are made inside guards of d, which is also the cache's domain.
func NewReader(f io.ReaderAt, m Meta, c *cache.Cache, d *epoch.Domain) *Reader {
	r := &Reader{file: f, meta: m, cache: c, domain: d, seal: newSealer(m.ID)}
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

// Close drops the table's blocks from the cache. No lookup may begin after it; the file is the caller's.
func (r *Reader) Close() { r.DropIndex() }

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

// Load reads the index and so many units of the filter that their promised rate is at most maxRate, or all if it is not
// reached; with maxRate ≥ 1 none. What is loaded stays. Concurrent calls wait for each other. A damaged filter is no
// error, see FilterState; a damaged index is.
func (r *Reader) Load(maxRate float64) error {
	if r.index.Load() != nil && maxRate >= math.Float64frombits(r.reached.Load()) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.loadIndex(); err != nil {
		return err
	}
	if maxRate >= math.Float64frombits(r.reached.Load()) || maxRate >= 1 {
		return nil
	}
	err := r.loadFilter(maxRate)
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		r.damage, err = err, nil
		r.reached.Store(0)
	}
	return err
}

// loadIndex reads the tail if there is no index. The caller holds mu.
func (r *Reader) loadIndex() error {
	if r.index.Load() != nil {
		return nil
	}
	m := &r.meta
	if m.TailLen > maxTail || m.TailLen < footerSize || m.TailLen > m.Size || m.Size > math.MaxInt64 {
		return r.damaged(0, fmt.Errorf("tail of %d bytes in a table of %d", m.TailLen, m.Size))
	}
	start := m.Size - m.TailLen
	b := make([]byte, m.TailLen)
	if err := r.readAt(b, start); err != nil {
		return err
	}
	end := len(b) - footerSize
	f, err := parseFooter(b[end:], m.Size)
	if err != nil {
		return r.damaged(m.Size-footerSize, err)
	}
	if f.id != m.ID || f.tailLen != m.TailLen || f.filterLen != m.FilterLen {
		return r.damaged(m.Size-footerSize, fmt.Errorf("table %016x with a tail of %d and a filter of %d bytes, want %016x, %d and %d",
			f.id, f.tailLen, f.filterLen, m.ID, m.TailLen, m.FilterLen))
	}
	split := f.indexLen + trailerSize
	payload, err := r.openPlain(kindIndex, start, b[:split])
	if err != nil {
		return err
	}
	slack := uint64(0)
	if f.filterLen > 0 {
		slack = filterAlign - 1
	}
	x, err := parseIndex(payload, f.filterOff, slack)
	if err != nil {
		return r.damaged(start, err)
	}
	payload, err = r.openPlain(kindProperties, start+split, b[split:end])
	if err != nil {
		return err
	}
	p, err := parseProperties(payload)
	if err == nil && p.Blocks != uint64(len(x.heads)) {
		err = fmt.Errorf("properties: %d blocks, the index has %d", p.Blocks, x.blocks())
	}
	if err != nil {
		return r.damaged(start+split, err)
	}
	r.tail.Store(&tail{f, p})
	if f.filterLen == 0 {
		r.reached.Store(0)
	}
	r.index.Store(x)
	return nil
}

// openPlain checks a block of the tail.
func (r *Reader) openPlain(k kind, offset uint64, sealed []byte) ([]byte, error) {
	payload, c, err := r.seal.open(k, offset, sealed)
	if err == nil && c != None {
		err = fmt.Errorf("%v in the tail, want %v", c, None)
	}
	if err != nil {
		return nil, r.damaged(offset, err)
	}
	return payload, nil
}

// loadFilter loads further units until the promised rate is at most maxRate. The caller holds mu; the index is loaded.
func (r *Reader) loadFilter(maxRate float64) error {
	f := &r.tail.Load().footer
	if !r.known {
		if f.filterLen < bloomblock.HeaderSize {
			return r.damaged(f.filterOff, fmt.Errorf("filter of %d bytes, want at least %d", f.filterLen, bloomblock.HeaderSize))
		}
		b := make([]byte, bloomblock.HeaderSize)
		if err := r.readAt(b, f.filterOff); err != nil {
			return err
		}
		if got := r.seal.filterSum(f.filterOff, b); got != f.filterSum {
			return r.damaged(f.filterOff, fmt.Errorf("filter header: %w: got %08x, want %08x", errChecksum, got, f.filterSum))
		}
		h, err := bloomblock.ParseHeader(b)
		if err == nil && h.BlockSize() != f.filterLen {
			err = fmt.Errorf("filter of %d bytes, want %d", f.filterLen, h.BlockSize())
		}
		if err != nil {
			return r.damaged(f.filterOff, err)
		}
		r.header, r.known = h, true
	}
	h := &r.header
	units := r.units
	for i := len(units); i < h.UnitsFor(maxRate); i++ {
		u := h.Units[i]
		if u.Bytes() > math.MaxInt/2 { // where int has 32 bits
			return fmt.Errorf("%s: %w: filter unit of %d bytes", r.meta.Name, ErrSize, u.Bytes())
		}
		b := make([]byte, u.Bytes()) // below the size of the file
		if err := r.readAt(b, f.filterOff+u.Offset); err != nil {
			return err
		}
		units = append(units[:i:i], b)
	}
	return r.publish(units)
}

// publish makes units the filter. The caller holds mu.
func (r *Reader) publish(units [][]byte) error {
	h := &r.header
	f, err := h.Filter(units)
	if err != nil {
		return r.damaged(r.tail.Load().footer.filterOff, err)
	}
	r.units = units
	if len(units) == 0 {
		r.filter.Store(nil)
	} else {
		r.filter.Store(&f)
	}
	reached := 0.0
	if len(units) < len(h.Units) {
		reached = h.Rate(len(units))
	}
	r.reached.Store(math.Float64bits(reached))
	return nil
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

// FilterBytes is the memory the filter takes now.
func (r *Reader) FilterBytes() int64 {
	if f := r.filter.Load(); f != nil {
		return int64(f.Bytes())
	}
	return 0
}

// Filter is the filter as far as it is loaded, or nil: then every answer is maybe. It stays valid for ever.
func (r *Reader) Filter() *bloomblock.Filter { return r.filter.Load() }

// FilterState describes a table's filter as far as Load has seen it.
type FilterState struct {
	Units    int     // in memory
	AllUnits int     // in the file; 0 if there is no filter or its header was not read yet
	Bytes    int64   // in memory
	Rate     float64 // promised by the units in memory; 1 without
	Damage   error   // why the filter is not used: Is corrupt.Err or bloomblock.ErrUnknownKind
}

// FilterState returns the state of the filter.
func (r *Reader) FilterState() FilterState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := FilterState{Units: len(r.units), Bytes: r.FilterBytes(), Rate: 1, Damage: r.damage}
	if r.known {
		s.AllUnits, s.Rate = len(r.header.Units), r.header.Rate(len(r.units))
	}
	return s
}

// DropFilterUnits keeps at most the first keep units of the filter. A later Load may load the others again.
func (r *Reader) DropFilterUnits(keep int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.units) <= keep {
		return nil
	}
	return r.publish(append([][]byte(nil), r.units[:max(keep, 0)]...))
}

// Trim drops the units of the filter that a promised rate of maxRate does not need, as after a move to a deeper level.
func (r *Reader) Trim(maxRate float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known || len(r.units) <= r.header.UnitsFor(maxRate) {
		return nil
	}
	return r.publish(append([][]byte(nil), r.units[:r.header.UnitsFor(maxRate)]...))
}

// DropIndex lets go of the index and of the table's cached blocks. The next lookup loads it again.
func (r *Reader) DropIndex() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.index.Swap(nil); x != nil {
		r.cache.Drop(x.slots)
	}
}

// MayContain asks the filter. False is certain: the table has no version of the key. If probed is false there was no filter
// to ask: none was built, none is loaded, or it is damaged. It does no I/O.
func (r *Reader) MayContain(h bloomblock.Hash) (maybe, probed bool) {
	f := r.filter.Load()
	if f == nil {
		return true, false
	}
	return f.MayContain(h), true
}

// Get finds the newest version of key that a reader at seq may see; it does not ask the filter. The caller is inside a guard
// of the domain, and value is valid until it leaves. A lookup whose block is cached allocates nothing.
func (r *Reader) Get(key []byte, seq ikey.Seq, st *Stats) (value []byte, t ikey.Trailer, ok bool, err error) {
	x := r.index.Load()
	if x == nil {
		if x, err = r.touchIndex(st); err != nil {
			return nil, 0, false, err
		}
	}
	place := ikey.Search(nil, seq).Trailer
	some := uint64(0) // 1 if a version was seen, though too new
	for i := x.find(key); i < len(x.slots); i++ {
		st.Blocks++
		c := r.cache.Get(&x.slots[i])
		if c == nil {
			if c, err = r.loadBlock(x, i, st); err != nil {
				return nil, 0, false, err
			}
		} else {
			st.CacheHits++
		}
		b := makeBlock(c.Meta, c.Bytes())
		e, v := b.get(key, place)
		if v == found {
			st.Present++
			return e.value, e.trailer, true, nil
		}
		if v != absent {
			some = 1
		}
		if v != further { // else older versions may begin the next block
			break
		}
	}
	st.Present += some
	return nil, 0, false, nil
}

// touchIndex loads the index for a lookup.
func (r *Reader) touchIndex(st *Stats) (*index, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.index.Load() == nil {
		st.TailLoads++
	}
	err := r.loadIndex()
	return r.index.Load(), err
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

// loadBlock reads data block i into the cache. The caller is inside a guard.
func (r *Reader) loadBlock(x *index, i int, st *Stats) (*cache.Block, error) {
	offset, stored, decoded := x.extent(i)
	st.FileReads++
	st.FileBytes += uint64(stored + trailerSize) //nolint:gosec // a size
	c := r.cache.Alloc(decoded)
	var err error
	if stored == decoded {
		c.Resize(stored + trailerSize)
		if err = r.readAt(c.Bytes(), offset); err == nil {
			_, err = r.openBlock(c.Bytes(), nil, offset)
		}
		c.Resize(decoded)
	} else {
		s, _ := scratches.Get().(*scratch) // the pool has no others
		b := s.bytes(stored + trailerSize)
		if err = r.readAt(b, offset); err == nil {
			_, err = r.openBlock(b, c.Bytes(), offset)
		}
		scratches.Put(s)
	}
	if err != nil {
		r.cache.Free(c)
		return nil, err
	}
	c.Meta = binary.LittleEndian.Uint64(c.Bytes())
	return r.cache.Insert(&x.slots[i], c), nil
}

// openBlock checks a data block that was read with its trailer and returns it decoded: in place if it is not compressed, for
// which the caller passes a nil dst, else in dst, which is as long as it must become.
func (r *Reader) openBlock(sealed, dst []byte, offset uint64) ([]byte, error) {
	payload, c, err := r.seal.open(kindData, offset, sealed)
	if err != nil {
		return nil, r.damaged(offset, err)
	}
	if dst == nil {
		if c != None {
			return nil, r.damaged(offset, fmt.Errorf("%v in a block of full length", c))
		}
		dst = payload
	} else if err := decompress(dst, payload, c); err != nil {
		return nil, r.damaged(offset, err)
	}
	if err := checkBlock(dst); err != nil {
		return nil, r.damaged(offset, err)
	}
	return dst, nil
}

// A scratch holds a compressed block while it is decoded.
type scratch struct{ b []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) bytes(n int) []byte {
	if n > keepBuffer {
		return make([]byte, n)
	}
	if cap(s.b) < n {
		s.b = make([]byte, n+n/4)
	}
	return s.b[:n]
}
