package tests

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/metrics"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A forgedStream is a decoded export, to be changed and encoded again with correct checksums.
type forgedStream struct {
	header *stream.Header
	raw    []byte   // the header in bytes; nil: made of header
	tables [][]byte // files, in the order of header.Tables
}

// streamOf returns the export of a store of these files, or nil if its manifest or a table's tail is damaged.
func streamOf(files map[string][]byte) *forgedStream {
	mem := vfstest.NewMem()
	if err := writeFiles(mem, "db", files); err != nil {
		panic(err) // a failure of the test itself
	}
	s, err := manifest.Load(mem, "db")
	if err != nil {
		return nil
	}
	f := &forgedStream{}
	var ids []stream.ID
	for _, t := range s.Version.Tables() {
		b := files[filename.Base(filename.Table, t.Number)]
		sum, err := stream.Fingerprint(bytes.NewReader(b), "", t)
		if err != nil {
			return nil
		}
		f.tables, ids = append(f.tables, b), append(ids, stream.ID{ID: t.ID, Size: t.Size, Sum: sum})
	}
	f.header = stream.NewHeader(s, ids, nil)
	return f
}

// bytes encodes the stream: as package stream does, or, for a header in bytes, as its format says.
func (f *forgedStream) bytes(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if f.raw == nil {
		if w, err := stream.NewWriter(f.header); err == nil {
			_, _ = w.Write(&b, func(i int) (io.ReaderAt, string, error) { // an error cuts the stream off
				return bytes.NewReader(f.tables[i%max(1, len(f.tables))]), "", nil
			})
		}
		return b.Bytes()
	}
	const frame = 256 << 10
	parts := append(append([][]byte{f.raw}, f.tables...), []byte("bloomend"))
	size := 44
	for _, p := range parts {
		size += len(p) + (len(p)+frame-1)/frame*4
	}
	id := uint64(bloomblock.HashKey(f.raw))
	head := binary.LittleEndian.AppendUint64([]byte("bloomexp"), 1)
	head = binary.LittleEndian.AppendUint64(head, id)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(f.raw)))
	head = binary.LittleEndian.AppendUint64(head, uint64(size))
	b.Write(binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli)))
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), frame)
			at := binary.LittleEndian.AppendUint64(nil, id)
			at = binary.LittleEndian.AppendUint64(at, uint64(b.Len()))
			sum := crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, p[:n])
			b.Write(p[:n])
			b.Write(binary.LittleEndian.AppendUint32(nil, sum))
			p = p[n:]
		}
	}
	return b.Bytes()
}

// headerBytes returns the header in bytes.
func (f *forgedStream) headerBytes() []byte {
	w, err := stream.NewWriter(f.header)
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	_, _ = w.Write(&b, func(int) (io.ReaderAt, string, error) { return nil, "", io.EOF }) // behind the header
	n := int(binary.LittleEndian.Uint64(b.Bytes()[24:]))
	if n > 256<<10 {
		return nil
	}
	return bytes.Clone(b.Bytes()[44:][:n])
}

// stream changes a stream at random.
func (v *vandal) stream(f *forgedStream) {
	r := v.rng
	h := f.header
	switch n := len(h.Tables); {
	case r.IntN(4) == 0:
		if raw := f.headerBytes(); len(raw) > 0 {
			f.raw = v.bytes(raw)
			v.note("header, bytes")
		}
	case r.IntN(4) == 0 && n > 1:
		i, j := r.IntN(n), r.IntN(n)
		f.tables[i], f.tables[j] = f.tables[j], f.tables[i]
		v.note("files of tables %d and %d swapped", i, j)
	case r.IntN(4) == 0 && n > 0:
		i := r.IntN(n)
		h.Tables[i].Travels = false
		v.note("table %d does not travel", i)
	case r.IntN(2) == 0 && n > 0:
		i := r.IntN(n)
		v.leaf(reflect.ValueOf(&h.Tables[i]).Elem(), fmt.Sprintf("table %d:", i))
	default:
		v.leaf(reflect.ValueOf(&h.State).Elem(), "state:")
	}
}

// counters sets a counter to a value at one of its limits.
func (v *vandal) counters(f *forgedStream) {
	edges := []uint64{
		0, 1, manifest.MaxFile, uint64(manifest.MaxWrite), uint64(manifest.MaxSeq), 1<<56 - 1, 1 << 56, math.MaxUint64,
	}
	n := edges[v.rng.IntN(len(edges))] + uint64(v.rng.IntN(3)) - 1
	s := reflect.ValueOf(&f.header.State).Elem()
	at := []reflect.Value{s.FieldByName("NextFile"), s.FieldByName("LastSeq"), s.FieldByName("Mark").FieldByName("Seq")}
	for i := range f.header.Tables {
		t := reflect.ValueOf(f.header.Tables[i].Table).Elem()
		at = append(at, t.FieldByName("MinSeq"), t.FieldByName("MaxSeq"), t.FieldByName("Number"))
	}
	i := v.rng.IntN(len(at))
	at[i].SetUint(n)
	v.note("counter %d: %d", i, n)
}

// hostileStreamSeeded builds a stream and a backup of a seed and uses them.
func hostileStreamSeeded(t *testing.T, seed uint64) (string, hostileResult) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	kind := hostileKinds[rng.IntN(len(hostileKinds))]
	v := &vandal{rng: rng, s: kind.store(t)}
	for range rng.IntN(3) {
		v.change()
	}
	f := streamOf(v.s.join())
	if f == nil {
		f = streamOf(kind.store(t).join())
	}
	if rng.IntN(4) == 0 {
		v.counters(f)
	}
	for range rng.IntN(3) {
		v.stream(f)
	}
	b := f.bytes(t)
	if rng.IntN(16) == 0 {
		b = v.bytes(b)
		v.note("bytes of the stream, checksums unchanged")
	}
	did := fmt.Sprintf("stream of %v: %q", kind, v.did)
	watched.begin(did)
	mem := vfstest.NewMem()
	c := &hostileCase{
		kind: kind, fs: &countedFS{FS: mem}, dir: "new", rng: rand.New(rand.NewPCG(seed, 1)), size: uint64(len(b)),
		most: 1100*len(b) + 64, alloc: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}, named: []string{"stream"},
	}
	c.imports(b)
	if f.raw == nil {
		c.restores(f)
	}
	if n := c.fs.open.Load(); n != 0 {
		c.bad("%d files stay open", n)
	}
	return did, c.hostileResult
}

// imports makes a new store of a stream, replaces a store by it, and uses both.
func (c *hostileCase) imports(b []byte) {
	ctx := context.Background()
	opts := c.kind.options(c.fs)
	taken := false
	c.do("Import", 2, func() {
		err := bloomkv.Import(ctx, bytes.NewReader(b), c.dir, bloomkv.NewStoreOptions{FS: c.fs})
		taken = !c.refused(err)
	})
	if !taken {
		if names, err := c.fs.List(c.dir); !errors.Is(err, fs.ErrNotExist) {
			c.bad("a refused stream leaves %q, %w", names, err)
		}
	}
	c.do("DB.Import", 8, func() {
		own, err := bloomkv.Open("own", c.kind.options(c.fs))
		if err == nil {
			err = errors.Join(own.Put([]byte("mine"), nil), own.Flush(ctx))
		}
		if err != nil {
			c.bad("%w", err)
			return
		}
		live := own.Import(ctx, bytes.NewReader(b), bloomkv.ImportOptions{Replace: true})
		if got := !c.refused(live); got != taken && !c.full {
			c.bad("an open store takes it: %v, %w; a new one: %v", got, live, taken)
		}
		if live != nil {
			if ok, err := own.Has([]byte("mine")); !ok || err != nil {
				c.bad("after a refused stream the store has lost its own: %v", err)
			}
		}
		put := own.Put([]byte("later"), nil)
		_ = own.Close() // perhaps of damage
		if put != nil {
			return
		}
		if own, err = bloomkv.Open("own", c.kind.options(c.fs)); err != nil {
			c.bad("after a write: %w", err)
			return
		}
		if ok, err := own.Has([]byte("later")); !ok && err == nil {
			c.bad("a write is lost")
		}
		_ = own.Close() // as before
	})
	if !taken {
		return
	}
	c.do("Check", 1, func() {
		_, err := bloomkv.Check(ctx, c.dir, bloomkv.CheckOptions{FS: c.fs})
		c.sound = !c.refused(err)
	})
	c.do("Open", 1, func() {
		db, err := bloomkv.Open(c.dir, opts)
		if c.refused(err) {
			return
		}
		c.again(db)
		c.use(db, false)
		c.refused(db.Close())
		_ = db.Close() // after a violation too
	})
}

// again exports a store that was imported, and imports that: nothing that a stream brings may keep a store from
// travelling.
func (c *hostileCase) again(db *bloomkv.DB) {
	var b bytes.Buffer
	x, err := db.Export(context.Background(), bloomkv.ExportOptions{})
	if c.refused(err) {
		return
	}
	_, err = x.WriteTo(&b)
	_ = x.Close() // the first one returns nil
	if c.refused(err) {
		return
	}
	err = bloomkv.Import(context.Background(), &b, "again", bloomkv.NewStoreOptions{FS: c.fs})
	if err != nil {
		c.bad("an export cannot be imported: %w", err)
	}
}

// restores stores the tables of a stream as a backup, and uses that. The stream was imported before.
func (c *hostileCase) restores(f *forgedStream) {
	ctx := context.Background()
	var target *backup.Dir
	var verified error
	c.size = 0
	for _, b := range f.tables { // also those that do not travel in the stream, and holes, which are written here
		c.size += uint64(len(b))
	}
	c.do("Verify", 4, func() {
		var err error
		if target, err = backup.OpenDir(c.fs, "target"); err != nil {
			c.bad("%w", err)
			return
		}
		for i := range f.header.Tables {
			t := &f.header.Tables[i]
			t.Travels = false
			b := binary.LittleEndian.AppendUint32(bytes.Clone(f.tables[i]), crc32.Checksum(f.tables[i], castagnoli))
			id := t.Identity()
			name := fmt.Sprintf("tables/%016x-%x-%016x", id.ID, id.Size, id.Sum)
			if err := target.Put(ctx, name, bytes.NewReader(b)); err != nil {
				c.bad("%w", err)
			}
		}
		w, err := stream.NewWriter(f.header)
		if err != nil {
			return
		}
		var b bytes.Buffer
		_, _ = w.Write(&b, nil) // memory
		if err := target.Put(ctx, "generations/00000001", &b); err != nil {
			c.bad("%w", err)
		}
		verified = backup.Verify(ctx, target, nil)
		if c.sound && verified != nil {
			c.bad("an import is sound: %w", verified)
		}
	})
	c.do("Restore", 4, func() {
		err := backup.Restore(ctx, target, 1, "restored", bloomkv.NewStoreOptions{FS: c.fs})
		if err != nil {
			if verified == nil && !errors.Is(err, fs.ErrNotExist) {
				c.bad("what Verify accepts is refused: %w", err)
			}
			return
		}
		_, err = bloomkv.Check(ctx, "restored", bloomkv.CheckOptions{FS: c.fs})
		db, openErr := bloomkv.Open("restored", c.kind.options(c.fs))
		if openErr == nil {
			_, readErr := storetest.Contents(db)
			openErr = errors.Join(readErr, db.Close())
		}
		if err == nil && openErr != nil {
			c.bad("Check found no damage: %w", openErr)
		}
	})
	c.do("Prune", 4, func() {
		_ = backup.Prune(ctx, target, 1) // perhaps of damage
		if err := target.Close(); err != nil {
			c.bad("%w", err)
		}
	})
}
