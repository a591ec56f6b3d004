package bloomkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// A forgedTable is a table taken apart, to be changed and put together again with right checksums. What is drawn in sstable/format.go
// and sstable/index.go, and has no exported encoder, is written here a second time: TestATablePutTogetherAgainIsTheSame holds the
// two against each other.
type forgedTable struct {
	id      uint64
	blocks  []forgedBlock
	index   []byte // payload; from blocks and separators if nil
	prefix  []byte
	sample  []byte // payload; nil if there is none
	keys    []byte // filter of keys; nil if there is none
	second  []byte // filter of prefixes; nil if there is none
	dels    []byte // payload; nil if there are none
	props   []byte // payload
	foot    func(words []uint64, sample *uint32)
	tailLen uint64 // of the last join
}

// A forgedBlock is a data block as it is stored, and what the index says of it.
type forgedBlock struct {
	payload []byte
	codec   sstable.Codec
	decoded uint32
	suffix  []byte // of the separator, after the prefix
}

const (
	forgeData, forgeIndex, forgeProps, forgeFilter, forgeDels, forgeSample, forgeSecond = 1, 2, 3, 4, 5, 6, 7 // kinds of blocks

	forgeTrailer, forgeFooter = 5, 80
	forgePrefixes             = 80 // of the properties: words before the bounds, in bytes
)

// forgeSum is the checksum of a part of a table: of id, kind, offset and bytes.
func forgeSum(id uint64, kind byte, offset int, b []byte) uint32 {
	seed := binary.LittleEndian.AppendUint64(nil, id)
	seed = binary.LittleEndian.AppendUint64(append(seed, kind), uint64(offset))
	return crc32.Update(crc32.Checksum(seed, castagnoli), castagnoli, b)
}

// secondAt is where the properties say how long the second filter is, 0 if they do not.
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

// takeApart reads a table that is whole.
func takeApart(file []byte) *forgedTable {
	foot := file[len(file)-forgeFooter:]
	word := func(i int) int { return int(binary.LittleEndian.Uint64(foot[8*i:])) }
	t := &forgedTable{id: uint64(word(0))}
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
	count, prefix := int(binary.LittleEndian.Uint32(index)), int(binary.LittleEndian.Uint32(index[4:]))
	t.prefix = index[8 : 8+prefix]
	fixed := index[8+prefix:]
	seps := fixed[12*count:]
	offset := 0
	for i := range count {
		e := fixed[12*i:]
		stored, suffix := int(binary.LittleEndian.Uint32(e)), int(binary.LittleEndian.Uint32(e[8:]))
		t.blocks = append(t.blocks, forgedBlock{
			payload: bytes.Clone(file[offset : offset+stored]), codec: sstable.Codec(file[offset+stored]),
			decoded: binary.LittleEndian.Uint32(e[4:]), suffix: seps[:suffix],
		})
		seps = seps[suffix:]
		offset += stored + forgeTrailer
	}
	return t
}

// indexPayload is the index of the blocks as they are.
func (t *forgedTable) indexPayload() []byte {
	if t.index != nil {
		return t.index
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

// join puts the table together, with checksums that are right.
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
			binary.LittleEndian.PutUint32(t.props[at+8:], forgeSum(t.id, forgeSecond, len(b), t.second[:min(len(t.second), bloomblock.HeaderSize-4)]))
		}
		b = append(b, t.second...)
		words[2] = uint64(len(b)) - words[1]
	} else {
		words[1] = uint64(len(b))
	}
	words[0], words[3] = t.id, uint64(len(b))
	index := t.indexPayload()
	words[4], words[5], words[6] = uint64(len(index)), uint64(len(t.dels)), uint64(len(t.props))
	seal(forgeIndex, index, sstable.None)
	if len(t.dels) > 0 {
		seal(forgeDels, t.dels, sstable.None)
	}
	seal(forgeProps, t.props, sstable.None)
	if t.foot != nil {
		t.foot(words, &sample)
	}
	at := len(b)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, sum), sample)
	head := b[at:]
	tail := append(binary.LittleEndian.AppendUint32(nil, 1), "bloomsst"...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, tail))
	b = append(b, tail...)
	t.tailLen = uint64(forgeFooter + 2*forgeTrailer + len(index) + len(t.props))
	if len(t.dels) > 0 {
		t.tailLen += uint64(len(t.dels) + forgeTrailer)
	}
	return b
}

var (
	forgeEncoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	forgeDecoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
)

// decode returns the block's entries as they are in memory.
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

// encode stores data by a codec, if that makes it shorter.
func (x *forgedBlock) encode(data []byte, c sstable.Codec) {
	x.payload, x.codec, x.decoded = data, sstable.None, uint32(len(data))
	var b []byte
	switch c {
	case sstable.S2:
		b = s2.Encode(nil, data)
	case sstable.Zstd:
		b = forgeEncoder.EncodeAll(data, nil)
	}
	if b != nil && len(b) < len(data) {
		x.payload, x.codec = b, c
	}
}

// resumFilter makes the checksums of a filter right again after its bytes were changed: those of the units whose bytes were, and
// that of the header, which ends in it. h is what the header said before.
func resumFilter(b []byte, h bloomblock.Header) {
	if len(b) < bloomblock.HeaderSize {
		return
	}
	for _, u := range h.Units {
		if u.Offset+u.Bytes() > uint64(len(b)) {
			continue
		}
		old := binary.LittleEndian.AppendUint32(nil, u.CRC)
		if at := bytes.Index(b[:bloomblock.HeaderSize-4], old); at >= 0 {
			binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[u.Offset:u.Offset+u.Bytes()], castagnoli))
		}
	}
	binary.LittleEndian.PutUint32(b[bloomblock.HeaderSize-4:], crc32.Checksum(b[:bloomblock.HeaderSize-4], castagnoli))
}

// A forgedStore is the files of a store, to be changed and written with right checksums. Its parts are made by the packages' own
// encoders, so that a new field of an edit or of a filter is changed as the old ones are.
type forgedStore struct {
	files    map[string][]byte // as they are, but for those below
	tables   map[uint64]*forgedTable
	manifest uint64
	edits    [][]byte // payloads
	current  []byte   // nil: as the manifest's number has it
	logs     map[uint64][][]byte
}

// openForged takes the store in a directory apart.
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
		switch kind {
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

// forgedSource is bytes as a wal.Source.
type forgedSource []byte

func (f forgedSource) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f).ReadAt(p, off)
}
func (f forgedSource) Size() (int64, error) { return int64(len(f)), nil }

// forgedSink is bytes as a wal.Sink.
type forgedSink struct{ bytes.Buffer }

func (*forgedSink) Sync() error            { return nil }
func (*forgedSink) Close() error           { return nil }
func (s *forgedSink) Size() (int64, error) { return int64(s.Len()), nil }

// forgeLog is the bytes of a log of these records. Synced makes each record promise that those before it are durable.
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

// clone is a copy of s that shares no bytes that join or a change writes to.
func (s *forgedStore) clone() *forgedStore {
	c := *s
	c.files, c.tables, c.logs = map[string][]byte{}, map[uint64]*forgedTable{}, map[uint64][][]byte{}
	for name, b := range s.files {
		c.files[name] = b
	}
	for n, t := range s.tables {
		k := *t
		k.props, k.dels, k.sample = bytes.Clone(t.props), bytes.Clone(t.dels), bytes.Clone(t.sample)
		k.keys, k.second = bytes.Clone(t.keys), bytes.Clone(t.second)
		k.blocks = slices.Clone(t.blocks)
		c.tables[n] = &k
	}
	for n, l := range s.logs {
		c.logs[n] = slices.Clone(l)
	}
	c.edits = slices.Clone(s.edits)
	return &c
}

// edit changes every edit of the manifest.
func (s *forgedStore) edit(change func(e *manifest.Edit)) {
	for i, b := range s.edits {
		if e, err := manifest.ParseEdit(b); err == nil {
			change(e)
			s.edits[i] = manifest.AppendEdit(nil, e)
		}
	}
}

// change changes a table, and what the manifest says of its file.
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

// agree makes the manifest say of a table what its properties and range deletes say, if these can be read.
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
	dels := r.RangeDels()
	s.edit(func(e *manifest.Edit) {
		for _, a := range e.Added {
			t := a.Table
			if t.Number != number {
				continue
			}
			t.Entries, t.Deletes, t.RangeDeletes, t.Smallest, t.Largest = p.Entries, p.Deletes, p.RangeDeletes, p.Smallest, p.Largest
			if t.Flags&manifest.SeqOverridden == 0 {
				t.MinSeq, t.MaxSeq = p.MinSeq, p.MaxSeq
			}
			t.Flags &^= manifest.LargestExclusive | manifest.LargestInfinite
			if len(dels) == 0 {
				continue
			}
			if start := dels[0].Start; t.Entries == 0 || bytes.Compare(start, t.Smallest) < 0 {
				t.Smallest = start
			}
			switch end := dels[len(dels)-1].End; {
			case end == nil:
				t.Largest, t.Flags = nil, t.Flags|manifest.LargestInfinite
			case t.Entries == 0 || bytes.Compare(end, t.Largest) > 0:
				t.Largest, t.Flags = end, t.Flags|manifest.LargestExclusive
			}
		}
	})
}

// join returns the files of the store.
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

// writeFiles makes a directory of these files.
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
	for _, kind := range hostileKinds {
		s := kind.store(t)
		for n, x := range s.tables {
			name := filename.Base(filename.Table, n)
			if got := x.join(); !bytes.Equal(got, s.files[name]) {
				t.Errorf("%v: %s is another table when it is put together again: the drawings in sstable have changed", kind, name)
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
				t.Errorf("%v: table %d: no change changes the manifest", kind, n)
			}
		}
		if r := hostileRun(kind, s.join(), false, false, 1); r.err != nil || r.damage {
			t.Errorf("%v: put together again: %v, damage %v", kind, r.err, r.damage)
		}
	}
}
