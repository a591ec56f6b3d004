package sstable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

const (
	defaultBlockSize = 4 << 10
	minBlockSize     = 512
	writeSize        = 256 << 10 // bytes that go to the file at once
	keepBuffer       = 4 << 20   // larger buffers are not kept for the next block
)

// What Add may say beside the file's errors.
var (
	ErrOrder = errors.New("versions are not in strictly ascending order")
	ErrSize  = errors.New("key or value too large")
	ErrKind  = errors.New("kind of version that a table cannot hold")
	ErrEmpty = errors.New("table without versions and range deletes")
)

// WriterOptions say how a table is built.
type WriterOptions struct {
	ID        uint64            // random, the table's own: part of every checksum
	BlockSize int               // bytes of memory a cached block takes, its frame included; 0 means 4 KiB. A larger entry has a block of its own
	Codec     Codec             // None, S2 or Zstd, where it saves an eighth of a block
	Filter    bloomblock.Params // the zero value builds no filter
	Seed      bloomblock.Seed   // of the filters, unless its keys crowd under it
	Prefix    PrefixRule        // of a second filter of the same Params, beside the first; the zero value builds none
}

// Info is what the writer of a table has to tell the manifest. The keys are copies. Bounds and sequence numbers are
// those of versions and range deletes together.
type Info struct {
	ID, Size, TailLen    uint64
	FilterOff, FilterLen uint64 // of both filters
	Smallest             []byte // user key, or where the first range delete starts
	Largest              []byte // last user key; where the last range delete ends if that is behind it; nil if it does not end
	LargestExclusive     bool   // nothing is at Largest: it is such an end
	LargestInfinite      bool   // there is no Largest
	Entries, Deletes     uint64 // versions, and the point tombstones among them
	RangeDeletes         uint64 // range tombstones, each once for each fragment that it is cut into
	MinSeq, MaxSeq       ikey.Seq
	Blocks               uint64
	RawKeyBytes          uint64
	RawValueBytes        uint64
	FilterKeys           uint64  // distinct user keys; 0 without a filter
	FilterRate           float64 // false positive rate that all units of the filter keep; 1 without a filter
}

// A Writer writes one table, from front to back. The order of calls is
//
//	(Add | AddRangeDel)+ Finish
//
// An error is final. A Writer is for one goroutine at a time.
type Writer struct {
	w       io.Writer
	o       WriterOptions
	seal    sealer
	limit   int // of a decoded block, in bytes
	err     error
	block   blockBuilder
	index   indexBuilder
	filter  bloomblock.Builder
	prefix  bloomblock.Builder // of prefixes
	self    selfCheck
	props   Properties
	dels    rangeDelBuilder
	out     []byte // not written yet
	written uint64 // bytes that went to w
	raw     []byte // the block before compression
	sep     []byte
	last    []byte // the last user key
	lastT   ikey.Trailer
	ended   struct { // the block that waits for its separator
		is              bool
		stored, decoded int
		last            []byte
	}
}

// NewWriter begins a table. The caller creates, syncs and closes the file; w sees large writes in order.
func NewWriter(w io.Writer, o WriterOptions) *Writer {
	o.BlockSize = min(max(cmp.Or(o.BlockSize, defaultBlockSize), minBlockSize), maxCoded)
	return &Writer{
		w: w, o: o, seal: newSealer(o.ID), limit: o.BlockSize - cache.Slack,
		filter: bloomblock.Builder{Seed: o.Seed}, prefix: bloomblock.Builder{Seed: o.Seed},
	}
}

// Add appends a version, which must be after all before it in the order of package ikey, and copies key and value. A
// nil key is the empty key. The error Is ErrOrder, ErrSize or ErrKind for a version that cannot be added, or else w's.
func (w *Writer) Add(k ikey.Key, value []byte) error {
	if w.err == nil {
		w.err = w.add(k, value)
	}
	return w.err
}

func (w *Writer) add(k ikey.Key, value []byte) error {
	if len(k.User) > MaxKey || len(value) > MaxValue {
		return fmt.Errorf("%w: %d and %d bytes, want at most %d and %d", ErrSize, len(k.User), len(value), MaxKey, MaxValue)
	}
	if kind := k.Trailer.Kind(); kind != ikey.Set && kind != ikey.Delete {
		return fmt.Errorf("%w: %v", ErrKind, kind)
	}
	p := &w.props
	if p.Entries == 0 {
		p.Smallest = append([]byte{}, k.User...)
	} else if c := ikey.Compare(ikey.Key{User: w.last, Trailer: w.lastT}, k); c >= 0 {
		return fmt.Errorf("%w: %q@%d after %q@%d", ErrOrder, k.User, k.Trailer.Seq(), w.last, w.lastT.Seq())
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
	w.block.add(k, value, s)
	if w.o.Filter != (bloomblock.Params{}) {
		w.filter.Add(bloomblock.HashKey(k.User))
		// A key that begins with a prefix has it, so that the keys of one prefix come one after the other.
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
	return nil
}

// AddRangeDel appends a fragment of range deletes, which must begin where the one before it ended or behind, and copies
// it. It does not matter how many versions were added before. The error Is ErrOrder or ErrSize, or else is w's.
func (w *Writer) AddRangeDel(f rangedel.Fragment) error {
	if w.err == nil {
		if w.err = w.dels.add(&f); w.err == nil {
			w.props.see(f.Seqs[0], f.Seqs[len(f.Seqs)-1])
			w.props.RangeDeletes += uint64(len(f.Seqs))
		}
	}
	return w.err
}

// addSeparator gives the block that ended its place in the index; next is the first user key of the next one, or nil.
// Equal keys on both sides make that key the separator.
func (w *Writer) addSeparator(next []byte) {
	w.sep = appendSeparator(w.sep[:0], w.ended.last, next)
	w.index.add(w.sep, w.ended.stored, w.ended.decoded)
	w.ended.is = false
}

// endBlock writes the pending block.
func (w *Writer) endBlock() error {
	w.raw = w.block.append(w.raw[:0])
	w.block.reset()
	offset := w.offset()
	start := len(w.out)
	var c Codec
	w.out, c = compress(w.out, w.raw, w.o.Codec)
	w.ended.is, w.ended.stored, w.ended.decoded = true, len(w.out)-start, len(w.raw)
	w.ended.last = append(w.ended.last[:0], w.last...)
	w.out = w.seal.appendTrailer(w.out, start, kindData, offset, c)
	w.props.Blocks++
	if cap(w.raw) > keepBuffer {
		w.raw, w.block.values = nil, nil
	}
	if len(w.out) >= writeSize {
		return w.flush()
	}
	return nil
}

func (w *Writer) offset() uint64 { return w.written + uint64(len(w.out)) }

// flush hands what is buffered to the file.
func (w *Writer) flush() error {
	n, err := w.w.Write(w.out)
	if err == nil && n != len(w.out) {
		err = io.ErrShortWrite
	}
	w.written += uint64(len(w.out))
	w.out = w.out[:0]
	if cap(w.out) > keepBuffer {
		w.out = nil
	}
	return err
}

// Size is how many bytes the table would have if it were finished now, without its filter, to within a few.
func (w *Writer) Size() uint64 {
	n := w.offset() + uint64(w.index.size()+len(w.dels.encoded)) //nolint:gosec // a size
	if w.block.n > 0 {
		n += uint64(w.block.size()) //nolint:gosec // a size
	}
	return n
}

// Finish writes what is left and says what the table is. It does not sync. A table without versions and
// range deletes is ErrEmpty.
func (w *Writer) Finish() (Info, error) {
	if w.err != nil {
		return Info{}, w.err
	}
	info, err := w.finish()
	w.err = cmp.Or(err, errors.New("table is finished"))
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
	f, rate := footer{id: w.o.ID, filterOff: w.offset()}, 1.0
	if w.o.Filter != (bloomblock.Params{}) { // a table without versions has a filter that always says no
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
		f.filterSum = w.seal.filterSum(kindFilter, f.filterOff, w.out)
		if w.o.Prefix != (PrefixRule{}) {
			w.addPrefixes()
		}
		f.filterLen = uint64(len(w.out))
	}
	f.indexOff = w.offset()
	f.indexLen = w.addPlain(kindIndex, w.index.append)
	if p.RangeDeletes > 0 {
		f.rangeDelLen = w.addPlain(kindRangeDels, w.dels.append)
	}
	p.BlockSize = uint64(w.o.BlockSize) //nolint:gosec // a size
	f.propsLen = w.addPlain(kindProperties, p.append)
	w.out = f.append(w.out)
	size := w.offset()
	if tail := size - f.indexOff; tail > maxTail {
		return Info{}, fmt.Errorf("%w: index and range deletes of %d bytes, want at most %d", ErrSize, tail, maxTail)
	}
	if err := w.flush(); err != nil {
		return Info{}, err
	}
	info := p.info(&f, size)
	info.FilterRate = rate
	if w.dels.n > 0 {
		info.widen(w.dels.first, w.dels.last)
	}
	return info, nil
}

// info returns the table's description for the manifest, without its range deletes and its filter's rate.
func (p *Properties) info(f *footer, size uint64) Info {
	return Info{
		ID: f.id, Size: size, TailLen: size - f.indexOff, FilterOff: f.filterOff, FilterLen: f.filterLen,
		Smallest: p.Smallest, Largest: p.Largest, Entries: p.Entries, Deletes: p.Deletes, RangeDeletes: p.RangeDeletes,
		MinSeq: p.MinSeq, MaxSeq: p.MaxSeq, Blocks: p.Blocks,
		RawKeyBytes: p.RawKeyBytes, RawValueBytes: p.RawValueBytes, FilterKeys: p.FilterKeys,
	}
}

// addSample writes the sample of the filter's hashes, unless there are none, and before it what makes the filter begin
// where it must.
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
		w.addPlain(kindSample, func(dst []byte) []byte { return append(dst, w.raw...) })
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
		Sum: w.seal.filterSum(kindPrefixes, offset, block),
	}
}

// addPlain writes a block that is not compressed and says how long its payload is.
func (w *Writer) addPlain(k kind, payload func(dst []byte) []byte) uint64 {
	offset, start := w.offset(), len(w.out)
	w.out = payload(w.out)
	n := uint64(len(w.out[start:]))
	w.out = w.seal.appendTrailer(w.out, start, k, offset, None)
	return n
}
