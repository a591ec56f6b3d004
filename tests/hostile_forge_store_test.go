package tests

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

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

func (*forgedSink) Sync() error            { return nil }
func (*forgedSink) Close() error           { return nil }
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
