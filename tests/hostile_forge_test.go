package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A forgedTable is a decoded table, to be changed and encoded again with correct checksums. What format.go, index.go
// and parts.go of internal/sstable draw without an exported encoder is written here a second time:
// TestATablePutTogetherAgainIsTheSame checks that both agree.
type forgedTable struct {
	id      uint64
	blocks  []forgedBlock
	index   []byte // payload of the index or the top; nil: made from blocks and separators
	prefix  []byte
	cuts    []int          // number of blocks of each part of the index; nil: the index is one block
	parts   map[int][]byte // payloads of parts that are not made from blocks and separators, by part
	extra   []byte         // what is in front of the footer, without its checksum; nil: what belongs there
	sample  []byte         // payload; nil if absent
	keys    []byte         // filter of keys; nil if absent
	second  []byte         // filter of prefixes; nil if absent
	dels    []byte         // payload; nil if absent
	props   []byte         // payload
	foot    func(words []uint64, sample *uint32)
	tailLen uint64 // result of the last join
}

// A forgedBlock is a data block as stored, with its entry in the index.
type forgedBlock struct {
	payload []byte
	codec   sstable.Codec
	decoded uint32
	suffix  []byte // rest of the separator, after the prefix
}

const (
	// Kinds of blocks.
	forgeData, forgeIndex, forgeProps, forgeFilter, forgeDels, forgeSample, forgeSecond = 1, 2, 3, 4, 5, 6, 7
	forgePart, forgeTop, forgeExtra                                                     = 8, 9, 10

	forgeTrailer, forgeFooter = 5, 80
	forgeExtraSize            = 48
	forgePrefixes             = 80 // offset of the bounds in the properties

	// Offsets in the header of a filter: of its units, and of the checksum of the checksums of its pages.
	forgeUnit, forgeSums = 32, 112
)

// forgeSum returns the checksum of a part of a table: of id, kind, offset and bytes.
func forgeSum(id uint64, kind byte, offset int, b []byte) uint32 {
	seed := binary.LittleEndian.AppendUint64(nil, id)
	seed = binary.LittleEndian.AppendUint64(append(seed, kind), uint64(offset))
	return crc32.Update(crc32.Checksum(seed, castagnoli), castagnoli, b)
}

// secondAt returns the offset of the second filter's length in the properties, or 0 if the table has only one filter.
func secondAt(props []byte) int {
	at := forgePrefixes
	for range 2 {
		if len(props) < at+4 {
			return 0
		}
		at += 4 + int(binary.LittleEndian.Uint32(props[at:]))
	}
	if len(props) < at+20 {
		return 0
	}
	return at + 8
}

// takeApart decodes an undamaged table.
func takeApart(file []byte) *forgedTable {
	foot := file[len(file)-forgeFooter:]
	word := func(i int) int { return int(binary.LittleEndian.Uint64(foot[8*i:])) }
	t := &forgedTable{id: binary.LittleEndian.Uint64(foot)}
	filterOff, filterLen, indexOff, indexLen, delsLen, propsLen := word(1), word(2), word(3), word(4), word(5), word(6)
	at := indexOff
	part := func(n int) []byte {
		at += n + forgeTrailer
		return bytes.Clone(file[at-n-forgeTrailer : at-forgeTrailer])
	}
	index := part(indexLen)
	if delsLen > 0 {
		t.dels = part(delsLen)
	}
	t.props = part(propsLen)
	if n := int(binary.LittleEndian.Uint32(foot[60:])); n > 0 {
		t.sample = bytes.Clone(file[filterOff-n-forgeTrailer:][:n])
	}
	if filterLen > 0 {
		t.keys = bytes.Clone(file[filterOff:indexOff])
		if at := secondAt(t.props); at > 0 {
			n := filterLen - int(binary.LittleEndian.Uint64(t.props[at:]))
			t.keys, t.second = t.keys[:n:n], t.keys[n:]
		}
	}
	if binary.LittleEndian.Uint32(foot[68:]) > 1 {
		t.takeParts(file, index)
	} else {
		t.takeIndex(file, index)
	}
	return t
}

// join encodes the table with correct checksums.
func (t *forgedTable) join() []byte {
	var b []byte
	seal := func(kind byte, payload []byte, c sstable.Codec) {
		at := len(b)
		b = append(append(b, payload...), byte(c))
		b = binary.LittleEndian.AppendUint32(b, forgeSum(t.id, kind, at, b[at:]))
	}
	for _, x := range t.blocks {
		seal(forgeData, x.payload, x.codec)
	}
	for i := range t.cuts {
		seal(forgePart, t.partPayload(i), sstable.None)
	}
	words, sum := make([]uint64, 7), uint32(0)
	sample := uint32(len(t.sample))
	if t.keys != nil {
		n := len(b)
		if t.sample != nil {
			n += len(t.sample) + forgeTrailer
		}
		b = append(b, make([]byte, -n&63)...)
		if t.sample != nil {
			seal(forgeSample, t.sample, sstable.None)
		}
		words[1] = uint64(len(b))
		sum = forgeSum(t.id, forgeFilter, len(b), t.keys[:min(len(t.keys), bloomblock.HeaderSize-4)])
		b = append(b, t.keys...)
		if at := secondAt(t.props); t.second != nil && at > 0 {
			binary.LittleEndian.PutUint32(t.props[at+8:],
				forgeSum(t.id, forgeSecond, len(b), t.second[:min(len(t.second), bloomblock.HeaderSize-4)]))
		}
		b = append(b, t.second...)
		words[2] = uint64(len(b)) - words[1]
	} else {
		words[1] = uint64(len(b))
	}
	indexOff := uint64(len(b))
	words[0], words[3] = t.id, indexOff
	index := t.indexPayload()
	words[4], words[5], words[6] = uint64(len(index)), uint64(len(t.dels)), uint64(len(t.props))
	kind, version := byte(forgeIndex), uint32(1)
	if t.cuts != nil {
		kind, version = forgeTop, 2
	}
	seal(kind, index, sstable.None)
	if len(t.dels) > 0 {
		seal(forgeDels, t.dels, sstable.None)
	}
	seal(forgeProps, t.props, sstable.None)
	if t.foot != nil {
		t.foot(words, &sample)
	}
	at := len(b)
	if t.cuts != nil {
		b = append(b, t.extraPayload()...)
		b = binary.LittleEndian.AppendUint32(b, forgeSum(t.id, forgeExtra, at, b[at:]))
		at = len(b)
	}
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, sum), sample)
	head := b[at:]
	tail := append(binary.LittleEndian.AppendUint32(nil, version), "bloomsst"...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, tail))
	b = append(b, tail...)
	t.tailLen = uint64(len(b)) - indexOff
	return b
}

var (
	forgeEncoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	forgeDecoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
)

// decode returns the block's entries, uncompressed.
func (x *forgedBlock) decode() ([]byte, error) {
	switch x.codec {
	case sstable.S2:
		return s2.Decode(nil, x.payload)
	case sstable.Zstd:
		return forgeDecoder.DecodeAll(x.payload, nil)
	default:
		return bytes.Clone(x.payload), nil
	}
}

// encode stores data with a codec if that makes it shorter, and uncompressed otherwise.
func (x *forgedBlock) encode(data []byte, c sstable.Codec) {
	x.payload, x.codec, x.decoded = data, sstable.None, uint32(len(data))
	var b []byte
	switch c {
	case sstable.S2:
		b = s2.Encode(nil, data)
	case sstable.Zstd:
		b = forgeEncoder.EncodeAll(data, nil)
	case sstable.None:
	}
	if b != nil && len(b) < len(data) {
		x.payload, x.codec = b, c
	}
}

// resumFilter recomputes the checksums of a changed filter: those of units and pages, and that of the header, which is
// its last field. h is the header before the change.
func resumFilter(b []byte, h bloomblock.Header) {
	if len(b) < bloomblock.HeaderSize {
		return
	}
	end := bloomblock.HeaderSize + h.UnitsSize()
	if uint64(len(b)) >= end {
		units := b[bloomblock.HeaderSize:end]
		for i, unit := range h.Split(units) {
			binary.LittleEndian.PutUint32(b[forgeUnit+24*i+16:], crc32.Checksum(unit, castagnoli))
		}
		if _, size := h.SumsSpan(); size > 0 && uint64(len(b)) == end+size {
			sums := b[end:]
			for page := range slices.Chunk(units, 4096) {
				binary.LittleEndian.PutUint32(sums, crc32.Checksum(page, castagnoli))
				sums = sums[4:]
			}
			binary.LittleEndian.PutUint32(b[forgeSums:], crc32.Checksum(b[end:], castagnoli))
		}
	}
	sealFilter(b)
}

// sealFilter recomputes the checksum of the header of a filter.
func sealFilter(b []byte) {
	const sealed = bloomblock.HeaderSize - 4
	binary.LittleEndian.PutUint32(b[sealed:], crc32.Checksum(b[:sealed], castagnoli))
}

// takeIndex decodes an index of one block, and the data blocks.
func (t *forgedTable) takeIndex(file, index []byte) {
	count, prefix := int(binary.LittleEndian.Uint32(index)), int(binary.LittleEndian.Uint32(index[4:]))
	t.prefix = index[8 : 8+prefix]
	fixed := index[8+prefix:]
	seps := fixed[12*count:]
	for i := range count {
		e := fixed[12*i:]
		stored, suffix := int(binary.LittleEndian.Uint32(e)), int(binary.LittleEndian.Uint32(e[8:]))
		t.takeBlock(file, stored, binary.LittleEndian.Uint32(e[4:]), seps[:suffix])
		seps, file = seps[suffix:], file[stored+forgeTrailer:]
	}
}

// takeParts decodes an index in parts, and the data blocks.
func (t *forgedTable) takeParts(file, top []byte) {
	count, prefix := int(binary.LittleEndian.Uint32(top)), int(binary.LittleEndian.Uint32(top[4:]))
	t.prefix = top[8 : 8+prefix]
	entries := top[8+prefix:]
	part := file
	for i := range count {
		part = part[binary.LittleEndian.Uint64(entries[20*i+8:]):] // behind all data blocks
	}
	for i := range count {
		length := int(binary.LittleEndian.Uint32(entries[20*i:]))
		n, own := int(binary.LittleEndian.Uint32(part)), int(binary.LittleEndian.Uint32(part[4:]))
		fixed := part[8+own:]
		seps := fixed[12*n:]
		before, from := 0, 0
		for j := range n {
			end, to := int(binary.LittleEndian.Uint32(fixed[12*j:])), int(binary.LittleEndian.Uint32(fixed[12*j+8:]))
			sep := append(bytes.Clone(part[8:8+own]), seps[from:to]...)
			stored := end - before - forgeTrailer
			t.takeBlock(file, stored, binary.LittleEndian.Uint32(fixed[12*j+4:]), sep[prefix:])
			file = file[stored+forgeTrailer:]
			before, from = end, to
		}
		t.cuts = append(t.cuts, n)
		part = part[length+forgeTrailer:]
	}
}

// takeBlock decodes the data block at the start of b.
func (t *forgedTable) takeBlock(b []byte, stored int, decoded uint32, suffix []byte) {
	t.blocks = append(t.blocks, forgedBlock{
		payload: bytes.Clone(b[:stored]), codec: sstable.Codec(b[stored]), decoded: decoded, suffix: suffix,
	})
}

// indexPayload returns the index of the current blocks, or its top.
func (t *forgedTable) indexPayload() []byte {
	if t.index != nil {
		return t.index
	}
	if t.cuts != nil {
		return t.topPayload()
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(t.blocks)))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t.prefix))), t.prefix...)
	for _, x := range t.blocks {
		for _, v := range [...]uint32{uint32(len(x.payload)), x.decoded, uint32(len(x.suffix))} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, x := range t.blocks {
		b = append(b, x.suffix...)
	}
	return b
}

// blocksOf returns the blocks of part i, as many of them as there are.
func (t *forgedTable) blocksOf(i int) []forgedBlock {
	rest := t.blocks
	for _, n := range t.cuts[:i] {
		rest = rest[min(n, len(rest)):]
	}
	return rest[:min(t.cuts[i], len(rest))]
}

// partPayload returns part i of the index.
func (t *forgedTable) partPayload(i int) []byte {
	if b, ok := t.parts[i]; ok {
		return b
	}
	blocks := t.blocksOf(i)
	common := 0
	for j, x := range blocks {
		if j == 0 {
			common = len(x.suffix)
		}
		common = min(common, ikey.CommonPrefix(blocks[0].suffix, x.suffix))
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(blocks)))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t.prefix)+common)), t.prefix...)
	if len(blocks) > 0 {
		b = append(b, blocks[0].suffix[:common]...)
	}
	data, sep := 0, 0
	for _, x := range blocks {
		data += len(x.payload) + forgeTrailer
		sep += len(x.suffix) - common
		for _, v := range [...]uint32{uint32(data), x.decoded, uint32(sep)} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, x := range blocks {
		b = append(b, x.suffix[common:]...)
	}
	return b
}

// setPart replaces the payload of part i of the index.
func (t *forgedTable) setPart(i int, payload []byte) {
	if t.parts == nil {
		t.parts = map[int][]byte{}
	}
	t.parts[i] = payload
}

// topPayload returns the top of the current parts.
func (t *forgedTable) topPayload() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(t.cuts)))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t.prefix))), t.prefix...)
	var seps []byte
	for i := range t.cuts {
		data, last := 0, []byte(nil)
		blocks := t.blocksOf(i)
		for _, x := range blocks {
			data, last = data+len(x.payload)+forgeTrailer, x.suffix
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.partPayload(i))))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(blocks)))
		b = binary.LittleEndian.AppendUint64(b, uint64(data))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(last)))
		seps = append(seps, last...)
	}
	return append(b, seps...)
}

// extraPayload returns what is in front of the footer.
func (t *forgedTable) extraPayload() []byte {
	if t.extra != nil {
		return t.extra
	}
	b := make([]byte, forgeExtraSize-4)
	b[0] = 1 // the index is in parts
	return b
}

// A forgedStore contains the files of a store, to be changed and written with correct checksums. It uses the packages'
// own encoders, so that a new field of an edit or of a filter is also changed.
type forgedStore struct {
	files    map[string][]byte // unchanged, except for the files below
	tables   map[uint64]*forgedTable
	manifest uint64
	edits    [][]byte // payloads
	current  []byte   // nil: it names the manifest above
	logs     map[uint64][][]byte
}

// openForged reads and decodes the store in a directory.
func openForged(fsys vfs.FS, dir string) (*forgedStore, error) {
	s := &forgedStore{files: map[string][]byte{}, tables: map[uint64]*forgedTable{}, logs: map[uint64][][]byte{}}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		b, err := vfs.ReadFile(fsys, dir+"/"+name, 64<<20)
		if err != nil {
			return nil, err
		}
		s.files[name] = b
		kind, number := filename.Parse(name)
		records := [][]byte{}
		replay := func() error {
			_, err := wal.Replay(forgedSource(b), name, number, func(payload []byte, _ int64) error {
				records = append(records, bytes.Clone(payload))
				return nil
			})
			return err
		}
		switch kind { //nolint:exhaustive // the other files have no contents to decode
		case filename.Table:
			s.tables[number] = takeApart(b)
		case filename.Manifest:
			err = replay()
			s.manifest, s.edits = number, records
		case filename.Log:
			err = replay()
			s.logs[number] = records
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// forgedSource implements wal.Source on bytes.
type forgedSource []byte

func (f forgedSource) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f).ReadAt(p, off)
}

func (f forgedSource) Size() (int64, error) { return int64(len(f)), nil }

// forgedSink implements wal.Sink on bytes.
type forgedSink struct{ bytes.Buffer }

func (*forgedSink) Sync() error { return nil }

func (*forgedSink) Close() error { return nil }

func (s *forgedSink) Size() (int64, error) { return int64(s.Len()), nil }

// forgeLog returns the bytes of a log with these records. If synced is true, each record promises that those before it
// are durable.
func forgeLog(number uint64, records [][]byte, synced bool) []byte {
	sink := &forgedSink{}
	w, err := wal.NewWriter(sink, number, 1)
	for _, r := range records {
		if err == nil {
			err = w.Append(append(make([]byte, wal.HeaderSize), r...))
		}
		if err == nil && synced {
			err = w.Sync()
		}
	}
	if err != nil {
		panic(err) // broken logic: memory does not fail
	}
	return sink.Bytes()
}

// clone returns a copy of s that shares no bytes that join or a change writes to.
func (s *forgedStore) clone() *forgedStore {
	c := *s
	c.files, c.tables, c.logs = map[string][]byte{}, map[uint64]*forgedTable{}, map[uint64][][]byte{}
	maps.Copy(c.files, s.files)
	for n, t := range s.tables {
		k := *t
		k.props, k.dels, k.sample = bytes.Clone(t.props), bytes.Clone(t.dels), bytes.Clone(t.sample)
		k.keys, k.second = bytes.Clone(t.keys), bytes.Clone(t.second)
		k.blocks, k.cuts = slices.Clone(t.blocks), slices.Clone(t.cuts)
		c.tables[n] = &k
	}
	for n, l := range s.logs {
		c.logs[n] = slices.Clone(l)
	}
	c.edits = slices.Clone(s.edits)
	return &c
}

// edit calls change with every edit of the manifest, and writes the result back.
func (s *forgedStore) edit(change func(e *manifest.Edit)) {
	for i, b := range s.edits {
		if e, err := manifest.ParseEdit(b); err == nil {
			change(e)
			s.edits[i] = manifest.AppendEdit(nil, e)
		}
	}
}

// change changes a table, and adjusts its size and lengths in the manifest.
func (s *forgedStore) change(number uint64, change func(t *forgedTable)) {
	t := s.tables[number]
	before := *t
	file := t.join()
	oldSize, oldTail, oldFilter := uint64(len(file)), t.tailLen, uint64(len(t.keys)+len(t.second))
	change(t)
	file = t.join()
	s.files[filename.Base(filename.Table, number)] = file
	s.edit(func(e *manifest.Edit) {
		for _, a := range e.Added {
			if a.Table.Number == number && a.Table.Size == oldSize && a.Table.ID == before.id {
				a.Table.ID, a.Table.Size = t.id, uint64(len(file))
				if a.Table.TailLen == oldTail {
					a.Table.TailLen = t.tailLen
				}
				if a.Table.FilterLen == oldFilter {
					a.Table.FilterLen = uint64(len(t.keys) + len(t.second))
				}
			}
		}
	})
}

// agree makes the manifest agree with the properties and range deletes of a table, if they can be read.
func (s *forgedStore) agree(number uint64) {
	name := filename.Base(filename.Table, number)
	r, err := sstable.Open(bytes.NewReader(s.files[name]), int64(len(s.files[name])), name)
	if err != nil {
		return
	}
	p, err := r.Properties()
	if err != nil {
		return
	}
	dels := r.RangeDels().List()
	s.edit(func(e *manifest.Edit) {
		for _, a := range e.Added {
			t := a.Table
			if t.Number != number {
				continue
			}
			t.Entries, t.Deletes, t.RangeDeletes, t.Smallest, t.Largest = p.Entries, p.Deletes, p.RangeDeletes,
				p.Smallest, p.Largest
			if t.Flags&manifest.SeqOverridden == 0 {
				t.MinSeq, t.MaxSeq = p.MinSeq, p.MaxSeq
			}
			t.Flags &^= manifest.LargestExclusive | manifest.LargestInfinite | manifest.IndexInParts |
				manifest.RangesOverlap
			if s.tables[number].cuts != nil {
				t.Flags |= manifest.IndexInParts
			}
			if len(dels) == 0 {
				continue
			}
			if dels.Overlaps() {
				t.Flags |= manifest.RangesOverlap
			}
			start, end := dels.Bounds()
			if t.Entries == 0 || bytes.Compare(start, t.Smallest) < 0 {
				t.Smallest = start
			}
			switch {
			case end == nil:
				t.Largest, t.Flags = nil, t.Flags|manifest.LargestInfinite
			case t.Entries == 0 || bytes.Compare(end, t.Largest) > 0:
				t.Largest, t.Flags = end, t.Flags|manifest.LargestExclusive
			}
		}
	})
}

// join encodes the files of the store.
func (s *forgedStore) join() map[string][]byte {
	for n, records := range s.logs {
		s.files[filename.Base(filename.Log, n)] = forgeLog(n, records, false)
	}
	name := filename.Base(filename.Manifest, s.manifest)
	s.files[name] = forgeLog(s.manifest, s.edits, true)
	if s.current == nil {
		s.current = fmt.Appendf(nil, "%s %08x\n", name, crc32.Checksum([]byte(name), castagnoli))
	}
	s.files[filename.CurrentName] = s.current
	return s.files
}

// writeFiles creates a directory with these files.
func writeFiles(fsys vfs.FS, dir string, files map[string][]byte) error {
	if err := fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for name, b := range files {
		f, err := fsys.Create(dir + "/" + name)
		if err != nil {
			return err
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func TestATablePutTogetherAgainIsTheSame(t *testing.T) {
	testkit.Long(t)
	for _, kind := range hostileKinds {
		s := kind.store(t)
		inParts, pages := false, false
		for n, x := range s.tables {
			inParts = inParts || len(x.cuts) > 2
			h, err := bloomblock.ParseHeader(x.keys)
			_, size := h.SumsSpan()
			pages = pages || err == nil && size > 0 && (kind.filter == bloomkv.FilterRibbon || h.Parts() > 1)
			name := filename.Base(filename.Table, n)
			if got := x.join(); !bytes.Equal(got, s.files[name]) {
				t.Errorf("%v: %s differs after takeApart and join: the format in sstable has changed", kind, name)
			}
		}
		for _, name := range []string{filename.Base(filename.Manifest, s.manifest), filename.CurrentName} {
			want := s.files[name]
			if got := s.clone().join()[name]; len(got) != len(want) {
				t.Errorf("%v: %s: %d bytes, want %d", kind, name, len(got), len(want))
			}
		}
		for n := range s.tables {
			before := bytes.Join(s.edits, nil)
			s.change(n, func(*forgedTable) {})
			if !bytes.Equal(bytes.Join(s.edits, nil), before) {
				t.Errorf("%v: table %d: a change of nothing changes the manifest", kind, n)
			}
		}
		r := hostileRun(kind, s.join(), false, false, 1)
		if r.err != nil || r.damage {
			t.Errorf("%v: after openForged and join: %v, damage %v", kind, r.err, r.damage)
		}
		if short := kind.short > 0; inParts != kind.parts || pages != short || short && !r.pages {
			t.Errorf("%v: an index in parts %v, a filter of several pages %v, asked there %v",
				kind, inParts, pages, r.pages)
		}
	}
}
