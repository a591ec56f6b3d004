package sstable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/words"
)

const (
	defaultBlockSize = 4 << 10
	minBlockSize     = 512
	writeSize        = 256 << 10 // bytes that are written to the file at once
	keepBuffer       = 4 << 20   // larger buffers are not kept for the next block
)

// Errors of a Writer, besides those of the file.
var (
	ErrOrder = errors.New("versions are not in strictly ascending order")
	ErrSize  = errors.New("key or value too large")
	errKind  = errors.New("kind of version that a table cannot hold")
	ErrEmpty = errors.New("table without versions and range tombstones")
)

// outOfOrder returns the error for a version that does not belong after the one before it.
func outOfOrder(before, k ikey.Key) error {
	return fmt.Errorf("%w: %s@%d after %s@%d", ErrOrder,
		words.Quoted(k.User), k.Trailer.Seq(), words.Quoted(before.User), before.Trailer.Seq())
}

// WriterOptions choose how a table is built.
type WriterOptions struct {
	ID uint64 // random, the table's own: part of every checksum
	// bytes of memory of a cached block with its frame; 0: 4 KiB. A larger entry has its own block
	BlockSize int
	Codec     Codec             // None, S2 or Zstd, used where it saves an eighth of a block
	Filter    bloomblock.Params // the zero value builds no filter
	Seed      bloomblock.Seed   // of the filters, unless their keys crowd with it
	Prefix    PrefixRule        // of a second filter with the same Params; the zero value builds no second filter

	partSize int // bytes of a part of the index; 0: that of SetPartSize
}

// Info describes a written table for the manifest. The keys are copies. Bounds and sequence numbers are those of
// versions and range tombstones together.
type Info struct {
	ID, Size, TailLen uint64
	FilterLen         uint64 // of both filters
	Smallest          []byte // first user key, or the start of the first range tombstone if that is before it
	// last user key, or the end of the last range tombstone if that is after it; nil if that is infinite
	Largest          []byte
	LargestExclusive bool   // Largest is the end of a range tombstone, which does not cover it
	LargestInfinite  bool   // the last range tombstone is infinite, and Largest nil
	Entries, Deletes uint64 // versions, and the point tombstones among them
	RangeDeletes     uint64 // range tombstones, each once for each fragment that it is cut into
	MinSeq, MaxSeq   ikey.Seq
	FilterRate       float64 // false positive rate of all units of the filter; 1 without a filter
	IndexInParts     bool    // the table has version 2
	RangesOverlap    bool    // the table has version 2, since some range tombstones overlap
}

// A Writer writes tables, each from front to back. The order of calls is
//
//	((Add | AddRangeDel)+ Finish Reset)*
//
// An error is final until Reset. A Writer is for one goroutine at a time.
type Writer struct {
	w       io.Writer
	o       WriterOptions
	seal    Seal
	limit   int // of a decoded block, in bytes
	err     error
	block   blockBuilder
	index   indexBuilder
	filter  bloomblock.Builder
	prefix  bloomblock.Builder // of prefixes
	filters filterMemory       // of both filters
	self    selfCheck
	props   Properties
	dels    rangeDelBuilder
	out     []byte // bytes to be written
	written uint64 // bytes written to w
	raw     []byte // the block before compression
	sep     []byte
	last    []byte // the last user key
	lastT   ikey.Trailer
	ended   struct { // the last block, until its separator is known
		is              bool
		stored, decoded int
		last            []byte
	}
}

// NewWriter begins a table. The caller creates, syncs and closes the file. w receives large writes in order.
func NewWriter(w io.Writer, o WriterOptions) *Writer {
	n := new(Writer)
	n.Reset(w, o)
	return n
}

// Reset begins another table, as NewWriter does, in the memory of the one before.
func (w *Writer) Reset(to io.Writer, o WriterOptions) {
	o.BlockSize = min(max(cmp.Or(o.BlockSize, defaultBlockSize), minBlockSize), maxCoded)
	old := *w
	*w = Writer{
		w: to, o: o, seal: NewSeal(o.ID), limit: o.BlockSize - cache.Slack,
		block: old.block, index: old.index, filter: old.filter, prefix: old.prefix,
		out: old.out[:0], raw: old.raw, sep: old.sep, last: old.last[:0], filters: old.filters,
	}
	w.ended.last = old.ended.last
	w.block.reset()
	w.index.reset(cmp.Or(o.partSize, int(testPartSize.Load()), defaultPartSize))
	w.forget()
	for _, b := range [...]*bloomblock.Builder{&w.filter, &w.prefix} {
		b.Seed, b.Scratch = o.Seed, &w.filters
	}
}

// forget forgets the hashes of the filters, and gives their memory back to the system. If it waited for the collector,
// that of several tables would wait.
func (w *Writer) forget() {
	w.filter.Reset()
	w.prefix.Reset()
	for _, b := range w.filters.hashes {
		w.filters.pool.Free(b)
	}
	w.filters.hashes = w.filters.hashes[:0]
}

// A filterMemory is the memory of filters while they are built, outside the collector's heap.
type filterMemory struct {
	pool   *pages.Pool // nil before its first use
	hashes [][]byte    // of Hashes, in use
	rows   []byte      // of Rows, in use, or nil
}

// Hashes implements [bloomblock.Scratch].
func (m *filterMemory) Hashes(n int) []bloomblock.Hash {
	b, _ := m.get(n * 8)
	m.hashes = append(m.hashes, b)
	return pages.As[bloomblock.Hash](b)
}

// Rows implements [bloomblock.Scratch].
func (m *filterMemory) Rows(n int) [][2]uint64 {
	m.Free()
	b, zeroed := m.get(n * 2 * 8)
	if !zeroed {
		clear(b)
	}
	m.rows = b
	return pages.As[[2]uint64](b)
}

// Free implements [bloomblock.Scratch].
func (m *filterMemory) Free() {
	if m.rows != nil {
		m.pool.Free(m.rows)
		m.rows = nil
	}
}

func (m *filterMemory) get(n int) (b []byte, zeroed bool) {
	if m.pool == nil {
		m.pool = pages.NewPool()
	}
	return m.pool.Get(n)
}

// Add appends a version, which must be after all before it in the order of package ikey. It copies key and value. A nil
// key is the empty key. The error matches ErrOrder, ErrSize or errKind, or is w's.
func (w *Writer) Add(k ikey.Key, value []byte) error {
	if w.err == nil {
		w.err = w.add(k, value)
	}
	return w.err
}

func (w *Writer) add(k ikey.Key, value []byte) error {
	if len(k.User) > maxKey || len(value) > maxValue {
		return fmt.Errorf("%w: %d and %d bytes, want at most %d and %d",
			ErrSize, len(k.User), len(value), maxKey, maxValue)
	}
	if kind := k.Trailer.Kind(); kind != ikey.Set && kind != ikey.Delete {
		return fmt.Errorf("%w: %v", errKind, kind)
	}
	p := &w.props
	if p.Entries == 0 {
		p.Smallest = append([]byte{}, k.User...)
	} else if c := ikey.Compare(ikey.Key{User: w.last, Trailer: w.lastT}, k); c >= 0 {
		return outOfOrder(ikey.Key{User: w.last, Trailer: w.lastT}, k)
	}
	s := w.block.with(k, value)
	if s.n > 1 && s.size() > w.limit {
		if err := w.endBlock(); err != nil {
			return err
		}
		s = w.block.with(k, value)
	}
	if w.ended.is {
		w.addSeparator(k.User)
	}
	large := s.n == 1 && len(value) > writeSize
	if large {
		w.block.addLarge(k, value, s)
	} else {
		w.block.add(k, value, s)
	}
	if w.o.Filter != (bloomblock.Params{}) {
		w.filter.Add(bloomblock.HashKey(k.User))
		// A key that begins with a prefix has that prefix, so the keys of one prefix are neighbours.
		if prefix := w.o.Prefix.Of(k.User); prefix != nil && !bytes.HasPrefix(w.last, prefix) {
			w.prefix.Add(bloomblock.HashKey(prefix))
		}
		w.self.add(k.User)
	}
	w.last, w.lastT = append(w.last[:0], k.User...), k.Trailer
	p.see(k.Trailer.Seq(), k.Trailer.Seq())
	p.Entries++
	if k.Trailer.Kind() == ikey.Delete {
		p.Deletes++
	}
	p.RawKeyBytes += uint64(len(k.User))
	p.RawValueBytes += uint64(len(value))
	if large {
		return w.endBlock()
	}
	return nil
}

// AddRangeDel appends a fragment of range tombstones, which must not begin before the one before it, and copies it. It
// may be called before, between and after calls of Add. Older programs cannot read a table whose fragments overlap. The
// error matches ErrOrder or ErrSize, or is w's.
func (w *Writer) AddRangeDel(f rangedel.Fragment) error {
	if w.err == nil {
		if w.err = w.dels.add(&f); w.err == nil {
			w.props.see(f.Seqs[0], f.Seqs[len(f.Seqs)-1])
			w.props.RangeDeletes += uint64(len(f.Seqs))
		}
	}
	return w.err
}

// addSeparator adds the last block to the index. next is the first user key of the next block, or nil. If the block
// ends with that key, the key is the separator.
func (w *Writer) addSeparator(next []byte) {
	w.sep = appendSeparator(w.sep[:0], w.ended.last, next)
	w.index.add(w.sep, w.ended.stored, w.ended.decoded)
	w.ended.is = false
}

// endBlock writes the pending block, if there is one.
func (w *Writer) endBlock() error {
	if w.block.n == 0 {
		return nil
	}
	w.props.Blocks++
	w.ended.is = true
	w.ended.last = append(w.ended.last[:0], w.last...)
	if w.block.large != nil {
		return w.endLarge()
	}
	w.raw = w.block.append(w.raw[:0])
	w.block.reset()
	offset := w.offset()
	start := len(w.out)
	var c Codec
	w.out, c = compress(w.out, w.raw, w.o.Codec)
	w.ended.stored, w.ended.decoded = len(w.out)-start, len(w.raw)
	w.out = w.seal.appendTrailer(w.out, start, KindData, offset, c)
	if cap(w.raw) > keepBuffer {
		w.raw, w.block.values = nil, nil
	}
	if len(w.out) >= writeSize {
		return w.flush()
	}
	return nil
}

// endLarge writes the pending block of one large entry. It copies the value only to compress it, into memory that goes
// back to the system at once.
func (w *Writer) endLarge() error {
	if err := w.flush(); err != nil {
		return err
	}
	b, c, offset := &w.block, None, w.offset()
	size := b.size()
	w.out = b.appendHead(w.out)
	head, value := w.out, b.large
	if w.o.Codec != None && size <= maxCoded {
		pool := pages.NewPool()
		room := maxCompressed(size)
		raw, _ := pool.Get(size)
		coded, _ := pool.Get(room)
		defer pool.Free(raw)
		defer pool.Free(coded)
		if coded, c = compress(coded[:0:room], b.append(raw[:0:size]), w.o.Codec); c != None {
			head, value = nil, coded
		}
	}
	w.ended.stored, w.ended.decoded = len(head)+len(value), size
	sum := crc32.Update(w.seal.sum(KindData, offset, head), castagnoli, value)
	if err := w.write(head); err != nil {
		return err
	}
	if err := w.write(value); err != nil {
		return err
	}
	b.reset()
	w.out = append(w.out[:0], byte(c))
	w.out = binary.LittleEndian.AppendUint32(w.out, crc32.Update(sum, castagnoli, w.out))
	return nil
}

func (w *Writer) offset() uint64 { return w.written + uint64(len(w.out)) }

// flush writes the buffered bytes to the file.
func (w *Writer) flush() error {
	err := w.write(w.out)
	w.out = w.out[:0]
	if cap(w.out) > keepBuffer {
		w.out = nil
	}
	return err
}

// write writes to the file.
func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	w.written += uint64(len(b))
	return err
}

// Size estimates the size of the table if it were finished now, without its filter, in bytes.
func (w *Writer) Size() uint64 {
	return w.offset() + uint64(w.index.size()+len(w.dels.encoded)) + w.Raw() //nolint:gosec // a size
}

// Raw returns the part of Size that the current block has, which is not compressed yet, in bytes.
func (w *Writer) Raw() uint64 {
	if w.block.n == 0 {
		return 0
	}
	return uint64(w.block.size()) //nolint:gosec // a size
}

// Finish writes the rest of the table and returns its description. It does not sync. The error is ErrEmpty for a table
// without versions and range tombstones, and matches ErrSize if filters or tail are larger than a table may have.
func (w *Writer) Finish() (Info, error) {
	if w.err != nil {
		return Info{}, w.err
	}
	info, err := w.finish()
	w.err = cmp.Or(err, errors.New("table is finished"))
	w.forget()
	return info, err
}

func (w *Writer) finish() (Info, error) {
	p := &w.props
	if p.Entries == 0 && p.RangeDeletes == 0 {
		return Info{}, ErrEmpty
	}
	if p.Entries > 0 {
		if err := w.endBlock(); err != nil {
			return Info{}, err
		}
		w.addSeparator(nil)
		p.Largest = slices.Clone(w.last)
	}
	f, rate := footer{id: w.o.ID, version: 1}, 1.0
	if w.index.inParts() {
		f.version, f.flags = version, flagParts
		w.index.eachPart(func(payload []byte) {
			w.addPlain(KindPart, func(dst []byte) []byte { return append(dst, payload...) })
		})
	}
	if w.dels.overlaps {
		f.version, f.flags = version, f.flags|flagOverlap
	}
	f.filterOff = w.offset()
	if w.o.Filter != (bloomblock.Params{}) { // the filter of a table without versions denies all keys
		w.addSample(&f)
		if err := w.flush(); err != nil {
			return Info{}, err
		}
		p.FilterKeys = uint64(w.filter.Len()) //nolint:gosec // a length
		w.out = w.filter.AppendBlock(w.out, w.o.Filter)
		h, err := bloomblock.ParseHeader(w.out)
		if err != nil {
			return Info{}, err
		}
		rate = h.Rate(len(h.Units))
		w.self.check(w.out, func(key []byte) []byte { return key })
		f.filterSum = w.seal.filterSum(KindFilter, f.filterOff, w.out)
		if w.o.Prefix != (PrefixRule{}) {
			w.addPrefixes()
		}
		f.filterLen = uint64(len(w.out))
	}
	f.indexOff = w.offset()
	if f.inParts() {
		f.indexLen = w.addPlain(KindTop, w.index.appendTop)
	} else {
		f.indexLen = w.addPlain(KindIndex, w.index.part.appendIndex)
	}
	if p.RangeDeletes > 0 {
		f.rangeDelLen = w.addPlain(KindRangeDels, w.dels.append)
	}
	p.BlockSize = uint64(w.o.BlockSize) //nolint:gosec // a size
	f.propsLen = w.addPlain(KindProperties, p.append)
	w.out = f.append(w.out, w.offset())
	size := w.offset()
	if tail := size - f.indexOff; tail > maxTail {
		return Info{}, fmt.Errorf("%w: index and range deletes of %d bytes, want at most %d", ErrSize, tail, maxTail)
	}
	if f.filterLen > maxFilter {
		return Info{}, fmt.Errorf("%w: filters of %d bytes, want at most %d", ErrSize, f.filterLen, maxFilter)
	}
	if err := w.flush(); err != nil {
		return Info{}, err
	}
	info := p.info(&f, size)
	info.FilterRate = rate
	if w.dels.n > 0 {
		info.widen(w.dels.first, w.dels.end)
	}
	return info, nil
}

// info returns the table's description for the manifest, without its range tombstones and its filter's rate.
func (p *Properties) info(f *footer, size uint64) Info {
	return Info{
		ID: f.id, Size: size, TailLen: size - f.indexOff, FilterLen: f.filterLen,
		Smallest: p.Smallest, Largest: p.Largest, Entries: p.Entries, Deletes: p.Deletes, RangeDeletes: p.RangeDeletes,
		MinSeq: p.MinSeq, MaxSeq: p.MaxSeq,
		IndexInParts: f.inParts(), RangesOverlap: f.overlaps(),
	}
}

// addSample writes the sample of the filter's hashes, if there are hashes, and before it the padding that aligns the
// filter.
func (w *Writer) addSample(f *footer) {
	w.raw = w.raw[:0]
	if w.filter.Len() > 0 {
		w.raw = w.filter.AppendSample(w.raw)
		f.sampleLen = uint32(len(w.raw)) //nolint:gosec // at most maxSample
		f.filterOff += uint64(len(w.raw)) + trailerSize
	}
	pad := -f.filterOff % filterAlign
	w.out = append(w.out, make([]byte, pad)...)
	f.filterOff += pad
	if f.sampleLen > 0 {
		w.addPlain(KindSample, func(dst []byte) []byte { return append(dst, w.raw...) })
	}
}

// addPrefixes writes the filter of prefixes.
func (w *Writer) addPrefixes() {
	offset, start := w.offset(), len(w.out)
	w.out = w.prefix.AppendBlock(w.out, w.o.Filter)
	block := w.out[start:]
	w.self.check(block, w.o.Prefix.Of)
	w.props.Prefixes = PrefixProperties{
		Rule: w.o.Prefix.String(), Keys: uint64(w.prefix.Len()), Bytes: uint64(len(block)), //nolint:gosec // lengths
		Sum: w.seal.filterSum(KindPrefixes, offset, block),
	}
}

// addPlain writes a block without compression and returns the length of its payload.
func (w *Writer) addPlain(k Kind, payload func(dst []byte) []byte) uint64 {
	offset, start := w.offset(), len(w.out)
	w.out = payload(w.out)
	n := uint64(len(w.out[start:]))
	w.out = w.seal.appendTrailer(w.out, start, k, offset, None)
	return n
}
