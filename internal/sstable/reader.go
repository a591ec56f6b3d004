package sstable

import (
	"fmt"
	"io"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/pages"
)

// Stats count the work of lookups. They are plain numbers that the caller owns and adds up.
type Stats struct {
	Blocks      uint64 // data blocks searched
	CacheHits   uint64 // data blocks among them that were in the cache
	Mapped      uint64 // data blocks that were in the mapped file, in the system's memory
	FileReads   uint64 // reads of data blocks from the file
	FileBytes   uint64 // bytes of these reads
	TailLoads   uint64 // indexes, or tops of those in parts, that were not in memory and had to be loaded
	FilterParts uint64 // pages of filters that were asked in the file
	IndexParts  uint64 // parts of indexes that were not in memory, and were searched in place or loaded
	PartLoads   uint64 // parts among them that were loaded into memory
	Present     uint64 // tables that held any version of the key, visible or not: true positives of the filter
}

// read counts a read of n bytes.
func (st *Stats) read(n int) {
	st.FileReads++
	st.FileBytes += uint64(n) //nolint:gosec // a size
}

// A Reader answers lookups in one table. It is safe for concurrent use. The index, the rest of the tail and the two
// filters are loaded by Load or at their first use, and can be dropped and loaded again; each is a value with a mutex
// of its own. Data blocks belong to the cache.
type Reader struct {
	// What a lookup touches comes first, in one line of memory.
	resident
	seq    ikey.Seq // constant: that of meta
	cache  *cache.Cache
	mapped mappable // nil if the file is not one
	parts  *PartPool
	Keys   TableFilter

	tableFile
	domain   *epoch.Domain
	Prefixes TableFilter // of the keys' prefixes by the rule of KnowPrefixes
}

// NewReader makes a reader and reads nothing. Lookups are made inside guards of d, which is also the cache's domain.
// The reader loads its index into parts.
func NewReader(f io.ReaderAt, m Meta, c *cache.Cache, parts *PartPool, d *epoch.Domain) *Reader {
	r := &Reader{
		tableFile: tableFile{file: f, meta: m, seal: NewSeal(m.ID)},
		seq:       m.Seq, cache: c, parts: parts, domain: d,
	}
	r.mapped, _ = f.(mappable)
	r.Keys.of, r.Prefixes.of = &r.tableFile, &r.tableFile
	return r
}

// UseMemory makes the reader take memory for filters from p. It must be called before any other use.
func (r *Reader) UseMemory(p *pages.Pieces) { r.memory = p }

// Open makes a reader of a table without a manifest, with a small cache and a pool of its own, and reads the footer.
func Open(f io.ReaderAt, size int64, name string) (*Reader, error) {
	t := tableFile{file: f, meta: Meta{Name: name}}
	if size < footerSize {
		return nil, t.damaged(0, fmt.Errorf("%w: %d bytes, want at least %d", errShort, size, footerSize))
	}
	b := make([]byte, min(size, extraSize+footerSize))
	if err := t.readAt(b, uint64(size)-uint64(len(b))); err != nil {
		return nil, err
	}
	ft, err := parseFooter(b, uint64(size))
	if err != nil {
		return nil, t.damaged(uint64(size)-footerSize, err)
	}
	d := new(epoch.Domain)
	m := Meta{Name: name, ID: ft.id, Size: uint64(size), TailLen: ft.tailLen, FilterLen: ft.filterLen}
	return NewReader(f, m, cache.New(2<<20, d), NewPartPool(math.MaxInt64), d), nil
}

// Enter begins a guard of the reader's domain, inside which lookups are made.
func (r *Reader) Enter() epoch.Guard { return r.domain.Enter() }

// Close drops the table's blocks from the cache, its index, its range tombstones and its filters. No lookup may
// begin after it. The caller closes the file.
func (r *Reader) Close() {
	r.release()
	for _, k := range [...]*TableFilter{&r.Keys, &r.Prefixes} {
		k.loading.Lock()
		k.publish(nil, noFilter, pages.Piece{})
		k.loading.Unlock()
	}
}

// Load loads the tail, and the filter of keys with the fewest units whose promised rate is at most maxRate, or all
// units if none reach it; with maxRate ≥ 1 no filter. Damage of the tail is an error; damage of the filter is not,
// see TableFilter.State.
func (r *Reader) Load(maxRate float64) error {
	if err := r.LoadTail(); err != nil {
		return err
	}
	return r.Keys.Load(maxRate)
}

// LoadTail loads the tail, unless it is in memory, and the header of the filter of keys. Concurrent calls wait for each
// other. Damage of the filter is no error.
func (r *Reader) LoadTail() error {
	t, err := r.loadTail()
	if err != nil {
		return err
	}
	return r.Keys.know(t.keys())
}

// KnowPrefixes reads the header of the prefix filter. If the table has no prefix filter by that rule, or a damaged one,
// there is no filter to ask, which is no error. It loads the table's tail if that was never loaded.
func (r *Reader) KnowPrefixes(rule PrefixRule) error {
	t, err := r.loadTail()
	if err != nil {
		return err
	}
	return r.Prefixes.know(t.prefixes(rule))
}

// CopyFilter returns the units of the filter of keys that a promised rate of maxRate needs. It reads them from the
// file, and does not keep them. It loads the table's tail if that was never loaded.
func (r *Reader) CopyFilter(maxRate float64) (FilterCopy, error) {
	t, err := r.loadTail()
	if err != nil || t.footer.filterLen == 0 || maxRate >= 1 {
		return FilterCopy{}, err
	}
	at := t.keys()
	h, _, damage := r.readFilterHeader(at)
	c := FilterCopy{Read: bloomblock.HeaderSize}
	if damage == nil {
		var read uint64
		c.Units, read, damage = r.soundUnits(at, &h, h.UnitsFor(maxRate))
		c.Read += read
	}
	if damage != nil && !IsFilterDamage(damage) {
		return FilterCopy{Read: c.Read}, damage // of the file
	}
	if c.Damage = damage; len(c.Units) > 0 {
		h.Units = h.Units[:len(c.Units):len(c.Units)]
		c.Header = h
	}
	return c, nil
}

// LoadParts reads and checks all parts of the index, and keeps in memory those that fit there.
func (r *Reader) LoadParts() error {
	t, err := r.load(new(Stats))
	if err != nil {
		return err
	}
	for p := range t.parts {
		x, err := r.loadPart(t, p, nil)
		if err != nil {
			return err
		}
		if r.parts.hasRoom(x.bytes()) {
			r.parts.put(r, &t.loaded[p], x)
		}
	}
	return nil
}

// loadTail returns the tail, and loads it with the index if it was never loaded.
func (r *Reader) loadTail() (*tail, error) {
	if _, err := r.load(new(Stats)); err != nil {
		return nil, err
	}
	return r.tail.Load(), nil
}

// Meta returns the Meta that the reader was made with.
func (r *Reader) Meta() Meta { return r.meta }

// Properties returns the table's properties. It loads the tail if need be.
func (r *Reader) Properties() (Properties, error) {
	t, err := r.loadTail()
	if err != nil {
		return Properties{}, err
	}
	return t.props, nil
}

// Info returns the table's description as its Writer did. It loads the tail if need be, and reads the filter's header.
func (r *Reader) Info() (Info, error) {
	t, err := r.loadTail()
	if err != nil {
		return Info{}, err
	}
	i := t.info(r.meta.Size)
	i.FilterRate = 1
	if t.footer.filterLen > 0 {
		h, _, err := r.readFilterHeader(t.keys())
		if err != nil {
			return Info{}, err
		}
		i.FilterRate = h.Rate(len(h.Units))
	}
	return i, nil
}

// Sample reads the sample of the hashes of the table's keys from the file, and loads the tail before if need be. The
// sample is not kept, as lookups do not use it. It is nil if the table has no filter or no versions, or was written
// before there were samples. Damage is an error matching corrupt.Err; for a sample of a later version the error matches
// bloomblock.ErrUnknownKind.
func (r *Reader) Sample() (*bloomblock.Sample, error) {
	t, err := r.loadTail()
	if err != nil {
		return nil, err
	}
	return r.readSample(&t.footer)
}

func (f *tableFile) readSample(ft *footer) (*bloomblock.Sample, error) {
	if ft.sampleLen == 0 {
		return nil, nil
	}
	b := make([]byte, ft.sampleLen+trailerSize)
	if err := f.readAt(b, ft.sampleOff()); err != nil {
		return nil, err
	}
	payload, err := f.openPlain(KindSample, ft.sampleOff(), b)
	if err != nil {
		return nil, err
	}
	s, err := bloomblock.ParseSample(payload)
	if err != nil {
		return nil, f.damaged(ft.sampleOff(), err)
	}
	return &s, nil
}

// ApproximateOffset returns the number of bytes of data blocks before the block that key is in, or would be in. It
// loads what it needs of the index.
func (r *Reader) ApproximateOffset(key []byte) (uint64, error) {
	start, _, _, err := r.extentOf(key)
	return start, err
}

// ShareBefore returns the share of the data in front of key, 0 to 1, by the blocks' bytes in the file. The block that
// key is in, or would be in, counts half. It loads what it needs of the index.
func (r *Reader) ShareBefore(key []byte) (float64, error) {
	start, end, all, err := r.extentOf(key)
	if err != nil || start == all {
		return 1, err
	}
	return float64(start+end) / 2 / float64(all), nil
}

// extentOf returns where the block begins and ends that key is in, or would be in, and where all blocks end. Behind the
// last block all three are the same.
func (r *Reader) extentOf(key []byte) (start, end, all uint64, err error) {
	t, err := r.load(new(Stats))
	if err != nil {
		return 0, 0, 0, err
	}
	p := t.find(key)
	if p == len(t.parts) {
		return t.end, t.end, t.end, nil
	}
	x, err := r.part(t, p, new(Stats))
	if err != nil {
		return 0, 0, 0, err
	}
	start, stored, _ := x.extent(x.find(key))
	return start, start + uint64(stored) + trailerSize, t.end, nil //nolint:gosec // a size
}
