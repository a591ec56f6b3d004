package tests

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A damageStore is a small store with files of all kinds, to be damaged.
type damageStore struct {
	fs     *vfstest.Mem
	files  []string            // all but LOCK
	want   map[string]string   // its contents
	states []map[string]string // contents after each trailing unsynced write; nil if it was closed
	little *bloomkv.Resources  // if not nil, memory without any for filters, which are asked in their files
}

func (d *damageStore) options(fsys vfs.FS) *bloomkv.Options {
	o := storetest.Tiny(fsys)
	o.BlockSize = 256
	if d.little != nil {
		o.MemoryBudget, o.Resources = 0, d.little
	}
	return o
}

// newDamageStore makes tables on several levels. Unless closed, it also leaves two logs: the younger promises that the
// older is durable, and ends with unsynced writes.
func newDamageStore(t *testing.T, closed bool) *damageStore {
	t.Helper()
	d := &damageStore{fs: vfstest.NewMem(), want: map[string]string{}}
	var hold atomic.Bool
	release := make(chan struct{})
	defer close(release)
	db := storetest.Open(t, "db", d.options(vfstest.NewHook(d.fs, func(op vfstest.Op) error {
		if hold.Load() && op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") {
			<-release
		}
		return nil
	})))
	put := func(i, size int, how bloomkv.Durability) {
		t.Helper()
		w := modelWrite{
			{key: fmt.Sprintf("key%03d", i), value: strings.Repeat(fmt.Sprint(i, "."), size)},
			{key: fmt.Sprintf("key%03d", i-7), del: true},
		}
		must(t, db.ApplyWith(w.batch(), how))
		w.apply(d.want)
	}
	for i := range 200 {
		put(i*37%211, 5, bloomkv.DurabilityNoSync)
		if i%50 == 20 {
			must(t, db.Flush(t.Context()))
		}
		if i == 120 {
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		}
	}
	must(t, db.Flush(t.Context()))
	left := d.fs
	if closed {
		must(t, db.Close())
	} else {
		storetest.Settle(t, db)
		for len(logsIn(t, d.fs)) > 0 { // until the flushed logs are removed
			time.Sleep(time.Millisecond)
		}
		hold.Store(true)
		for i := range 20 {
			put(300+i, 5, bloomkv.DurabilitySync)
		}
		flushed := make(chan struct{})
		go func() {
			defer close(flushed)
			_ = db.Flush(context.Background()) // returns after the store has been left
		}()
		testkit.Soon(t, "the memtable and its log are frozen", func() bool { return !db.Metrics().Settled })
		for i := range 5 {
			put(320+i, 3, bloomkv.DurabilitySync)
		}
		d.states = []map[string]string{maps.Clone(d.want)}
		for i := range 5 {
			put(340+i, 3, bloomkv.DurabilityNoSync)
			d.states = append(d.states, maps.Clone(d.want))
		}
		left = d.fs.Kill()
		go func() { <-release; <-flushed; _ = db.Close() }()
	}
	d.fs = left
	names, err := d.fs.List("db")
	must(t, err)
	d.files = slices.DeleteFunc(names, func(n string) bool { return n == filename.LockName })
	return d
}

// An outcome is the result of reading a damaged store.
type outcome struct {
	err   error             // of Open, Get or Scan
	got   map[string]string // if there is no error
	check error             // of Check
	left  error             // names the files still open afterwards
}

var errWrongAnswer = errors.New("wrong answers of Get")

// read opens a store and reads all of it in every way. A lookup may differ from the scan only by failing.
func (d *damageStore) read(on vfs.FS) (o outcome) {
	fsys := storetest.TrackOpen(on)
	defer func() { o.left = fsys.Left() }()
	_, o.check = bloomkv.Check(context.Background(), "db", bloomkv.CheckOptions{FS: fsys})
	db, err := bloomkv.Open("db", d.options(fsys))
	if err != nil {
		o.err = err
		return o
	}
	var errs []error
	wrong := 0
	if o.got, err = storetest.Contents(db); err != nil {
		errs = append(errs, err)
	}
	for k, v := range d.want {
		got, err := db.Get([]byte(k))
		switch {
		case err != nil && !errors.Is(err, bloomkv.ErrNotFound):
			errs = append(errs, err)
		case d.states != nil || err == nil && string(got) == v:
		default:
			wrong++
		}
		if _, err := db.Get([]byte(k + "x")); !errors.Is(err, bloomkv.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = append(errs, db.Compact(context.Background(), bloomkv.CompactOptions{}))
	}
	_ = db.Close() // it may have met the damage too
	if wrong > 0 {
		errs = append(errs, fmt.Errorf("%d %w", wrong, errWrongAnswer))
	}
	o.err = errors.Join(errs...)
	return o
}

// judge returns an error unless the outcome is the same data, or an error that names the file and the offset. In a
// store that was closed, all damage must be found.
func (d *damageStore) judge(o outcome, file string, mayEndEarly bool) error {
	if o.left != nil {
		return o.left
	}
	for what, err := range map[string]error{"reading": o.err, "check": o.check} {
		var damage *bloomkv.CorruptionError
		switch {
		case err == nil:
		case errors.Is(err, errWrongAnswer):
			return err
		case errors.Is(err, bloomkv.ErrUnsupportedVersion):
		case !errors.Is(err, bloomkv.ErrCorruption):
			return fmt.Errorf("%s: %w, which is not damage", what, err)
		case !errors.As(err, &damage) || damage.File == "" || !strings.Contains(err.Error(), "offset"):
			return fmt.Errorf("%s: %w, which names no file and offset", what, err)
		}
	}
	switch {
	case o.err != nil:
		return nil //nolint:nilerr // the error is the expected damage
	case storetest.Diff(o.got, d.want) == "":
		if o.check == nil && d.states == nil {
			return errors.New("check found nothing")
		}
		return nil
	case mayEndEarly && slices.ContainsFunc(d.states, func(s map[string]string) bool { return maps.Equal(s, o.got) }):
		return nil
	}
	return fmt.Errorf("%s: wrong contents, no error: %s", file, storetest.Diff(o.got, d.want))
}

// written returns a log without the reserved zeros at its end.
func written(b []byte) []byte { return bytes.TrimRight(b, "\x00") }

// damaged returns a copy of the store with one file changed; a nil result of change removes the file.
func (d *damageStore) damaged(t *testing.T, file string, change func(b []byte) []byte) *vfstest.Mem {
	t.Helper()
	fsys := d.fs.Kill()
	storetest.Rewrite(t, fsys, filepath.Join("db", file), change)
	return fsys
}

// TestEveryDamagedByteIsFoundOrDoesNotMatter flips bytes of every file of a store, and, with filters that are asked in
// their files, of every table. All three stores read data blocks in the same way: in two of them it flips a part of
// their bytes.
func TestEveryDamagedByteIsFoundOrDoesNotMatter(t *testing.T) {
	testkit.Long(t)
	for shift, tt := range []struct {
		name           string
		closed, little bool
	}{{"closed", true, false}, {"with logs", false, false}, {"closed, little memory", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDamageStore(t, tt.closed)
			if tt.little {
				d.little = littleMemory(t, 0)
				d.files = slices.DeleteFunc(d.files, func(name string) bool { return filepath.Ext(name) != ".sst" })
			}
			if o := d.read(d.fs.Kill()); o.err != nil || o.check != nil || storetest.Diff(o.got, d.want) != "" {
				t.Fatalf("undamaged: %v, %v, %s", o.err, o.check, storetest.Diff(o.got, d.want))
			}
			type place struct {
				file string
				at   int
			}
			var places []place
			blocks := map[string]uint64{} // the bytes of data blocks, which begin a table
			if !tt.closed || tt.little {
				for _, table := range storetest.Recorded(t, d.fs, "db").Version.Tables() {
					blocks[filename.Base(filename.Table, table.Number)] = table.Size - table.TailLen - table.FilterLen
				}
			}
			for _, file := range d.files {
				b, err := vfs.ReadFile(d.fs, filepath.Join("db", file), 1<<20)
				must(t, err)
				end := len(b)
				if strings.HasSuffix(file, ".log") {
					end = len(written(b))
				}
				for at := range b {
					stride := storetest.Stride()
					if at < int(blocks[file]) {
						stride = max(stride, 7)
					}
					switch {
					case at <= 64 || at >= len(b)-10 || (at+shift)%stride == 0 && at < end:
					case at >= end-100 && at < end+100 || at%(20<<10) == 0: // a sample of the reserved zeros
					default:
						continue
					}
					places = append(places, place{file, at})
				}
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			var noticed atomic.Int64
			for range 2 {
				wg.Go(func() {
					for !t.Failed() {
						i := int(next.Add(1) - 1)
						if i >= len(places) {
							return
						}
						p := places[i]
						o := d.read(d.damaged(t, p.file, func(b []byte) []byte { b[p.at] ^= 1 << (i % 8); return b }))
						if err := d.judge(o, p.file, strings.HasSuffix(p.file, ".log")); err != nil {
							t.Errorf("%s, bit %d of byte %d: %v", p.file, i%8, p.at, err)
						}
						if o.err != nil {
							noticed.Add(1)
						}
						storetest.Progress.Add(1)
					}
				})
			}
			wg.Wait()
			t.Logf("%d bytes of %d files, %d detected while reading", len(places), len(d.files), noticed.Load())
		})
	}
}

// TestEveryLostPartIsFoundOrWasNeverPromised truncates, empties, removes and exchanges files.
func TestEveryLostPartIsFoundOrWasNeverPromised(t *testing.T) {
	for _, closed := range []bool{true, false} {
		d := newDamageStore(t, closed)
		sizes := map[string]int{}
		for _, file := range d.files {
			b, err := vfs.ReadFile(d.fs, filepath.Join("db", file), 1<<20)
			must(t, err)
			if sizes[file] = len(b); strings.HasSuffix(file, ".log") {
				if sizes[file] = len(written(b)); sizes[file] == len(b) {
					t.Fatalf("%s has no reserved space", file)
				}
			}
		}
		logs := slices.DeleteFunc(slices.Clone(d.files), func(f string) bool { return !strings.HasSuffix(f, ".log") })
		isLast := func(file string) bool { return len(logs) > 0 && file == logs[len(logs)-1] }
		ask := func(file, how string, fsys vfs.FS, harmless bool) {
			t.Helper()
			o := d.read(fsys)
			err := d.judge(o, file, true)
			switch {
			case harmless || isLast(file): // a crash may have truncated the last log (I9)
				if o.err != nil && !errors.Is(o.err, bloomkv.ErrCorruption) {
					t.Errorf("closed %v, %s %s: %v", closed, file, how, o.err)
				}
			case err != nil:
				t.Errorf("closed %v, %s %s: %v", closed, file, how, err)
			case closed && o.err == nil && o.check == nil:
				t.Errorf("closed %v, %s %s: not detected", closed, file, how)
			}
		}
		for _, file := range d.files {
			n := sizes[file]
			for _, keep := range []int{n - 1, n - 7, n - 100, n / 2, n / 3, 40, 1, 0} {
				if keep >= 0 && keep < n {
					ask(file, fmt.Sprintf("cut to %d of %d bytes", keep, n),
						d.damaged(t, file, func(b []byte) []byte { return b[:keep] }), false)
				}
				if keep >= 0 && keep < n && !closed && strings.HasSuffix(file, ".log") {
					ask(file, fmt.Sprintf("zeros after %d of %d bytes", keep, n),
						d.damaged(t, file, func(b []byte) []byte { clear(b[keep:]); return b }), false)
				}
			}
			if strings.HasSuffix(file, ".log") { // only reserved zeros are cut off
				for _, keep := range []int{n, n + 1, n + 30, n + 1000} {
					o := d.read(d.damaged(t, file, func(b []byte) []byte { return b[:keep] }))
					if o.err != nil || o.check != nil || storetest.Diff(o.got, d.want) != "" {
						t.Errorf("%s without its last zeros: %v, %v, %s", file, o.err, o.check,
							storetest.Diff(o.got, d.want))
					}
				}
			}
			// In a manifest, a further byte is the beginning of an edit.
			ask(file, "longer by a byte", d.damaged(t, file, func(b []byte) []byte { return append(b, 0) }),
				strings.HasPrefix(file, "MANIFEST"))
			ask(file, "with zeros in the middle", d.damaged(t, file,
				func(b []byte) []byte { clear(b[n/3 : n/2+1]); return b }), false)
			ask(file, "removed", d.damaged(t, file, func([]byte) []byte { return nil }), false)
			for _, other := range d.files {
				if other != file && filepath.Ext(other) == filepath.Ext(file) {
					b, err := vfs.ReadFile(d.fs, filepath.Join("db", other), 1<<20)
					must(t, err)
					ask(file, "replaced by "+other, d.damaged(t, file, func([]byte) []byte { return bytes.Clone(b) }),
						false)
				}
			}
		}
	}
}

// TestADamagedFilterAnswersMaybeAndIsReported damages every part of a filter block.
func TestADamagedFilterAnswersMaybeAndIsReported(t *testing.T) {
	d := newDamageStore(t, true)
	db := storetest.Open(t, "db", d.options(d.fs))
	meta := newestTable(t, d.fs)
	must(t, db.Close())
	file := filename.Base(filename.Table, meta.Number)
	start := int(meta.Size - meta.TailLen - meta.FilterLen)
	whole, err := vfs.ReadFile(d.fs, filepath.Join("db", file), 1<<20)
	must(t, err)
	header, err := bloomblock.ParseHeader(whole[start : start+bloomblock.HeaderSize])
	must(t, err)
	// Damage from here on leaves the first unit in use.
	second := start + int(header.Units[0].Offset+header.Units[0].Bytes())
	for at := start; at < start+int(meta.FilterLen); at += 5 {
		fsys := d.damaged(t, file, func(b []byte) []byte { b[at] ^= 0x40; return b })
		_, checkErr := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys})
		var damage *bloomkv.CorruptionError
		if !errors.As(checkErr, &damage) || damage.File != file {
			t.Fatalf("byte %d of the filter: check returned %v, want damage in %s", at-start, checkErr, file)
		}
		db := storetest.Open(t, "db", d.options(fsys))
		if err := lookupsAgree(db, d.want); err != nil {
			t.Fatalf("byte %d of the filter: %v", at-start, err)
		}
		counted, unfiltered := 0, uint64(0)
		for _, l := range db.Metrics().Levels {
			counted += l.FiltersDamaged
			unfiltered += l.Unfiltered
		}
		if counted != 1 || unfiltered == 0 && at < second {
			t.Fatalf("byte %d of the filter: %d filters are counted as damaged and %d searches as unfiltered, "+
				"want 1 and some unless the first unit is intact", at-start, counted, unfiltered)
		}
		must(t, db.Close())
	}
}

// TestANewerFormatIsRefused raises the version in each kind of file, with a matching checksum.
func TestANewerFormatIsRefused(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	d := newDamageStore(t, false)
	for _, file := range d.files {
		if file == filename.CurrentName {
			continue
		}
		fsys := d.damaged(t, file, func(b []byte) []byte {
			if strings.HasSuffix(file, ".sst") {
				f := b[len(b)-80:]
				binary.LittleEndian.PutUint32(f[68:], 99)
				binary.LittleEndian.PutUint32(f[64:], crc32.Update(crc32.Checksum(f[:64], table), table, f[68:]))
				return b
			}
			binary.LittleEndian.PutUint32(b[8:], 99)
			binary.LittleEndian.PutUint32(b[12:], crc32.Update(crc32.Checksum(b[:12], table), table, b[16:32]))
			return b
		})
		before := filesIn(t, fsys)
		o := d.read(fsys)
		if !errors.Is(o.err, bloomkv.ErrUnsupportedVersion) || errors.Is(o.err, bloomkv.ErrCorruption) ||
			!strings.Contains(o.err.Error(), file) {
			t.Errorf("%s: %v, want an unsupported version error with the file's name", file, o.err)
		}
		if !strings.HasSuffix(file, ".sst") {
			if changed := storetest.Diff(filesIn(t, fsys), before); changed != "" {
				t.Errorf("%s: the directory was changed: %s", file, changed)
			}
		}
	}
}

// TestCheckFindsDamageInAnOpenStore damages one table of an open store.
func TestCheckFindsDamageInAnOpenStore(t *testing.T) {
	d := newDamageStore(t, true)
	db := storetest.Open(t, "db", d.options(d.fs))
	report, err := db.Check(t.Context(), bloomkv.CheckOptions{})
	if err != nil || report.Tables == 0 || report.Entries == 0 {
		t.Errorf("an intact store: %+v, %v", report, err)
	}
	file := db.Tables()[0].File
	must(t, db.Close())
	db = storetest.Open(t, "db", d.options(d.damaged(t, file, func(b []byte) []byte { b[len(b)/3] ^= 1; return b })))
	_, err = db.Check(t.Context(), bloomkv.CheckOptions{})
	var c *bloomkv.CorruptionError
	if !errors.As(err, &c) || c.File != file {
		t.Errorf("a damaged store: %v, want damage in %s", err, file)
	}
	must(t, db.Close())
	_, err = db.Check(t.Context(), bloomkv.CheckOptions{})
	if err != bloomkv.ErrClosed { //nolint:errorlint // it is returned bare
		t.Errorf("after Close: %v", err)
	}
}

func TestATableOfAnotherSizeIsNamedWithBothSizes(t *testing.T) {
	d := newDamageStore(t, true)
	table := d.files[slices.IndexFunc(d.files, func(name string) bool { return strings.HasSuffix(name, ".sst") })]
	o := d.read(d.damaged(t, table, func(b []byte) []byte { return b[:100] }))
	for how, err := range map[string]error{"Open": o.err, "Check": o.check} {
		if !errors.Is(err, bloomkv.ErrCorruption) ||
			!strings.Contains(err.Error(), table+": offset 100: 100 bytes, the manifest wants ") {
			t.Errorf("%s: %v, want damage naming %s and both sizes", how, err, table)
		}
	}
}

// TestErrorsAboutLongKeysAreShort damages a table whose keys have 60,000 bytes and differ in the last ones.
func TestErrorsAboutLongKeysAreShort(t *testing.T) {
	const most = 2 << 10 // bytes of an error
	key := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte{0}, 60_000), "%03d", i) }
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", &bloomkv.Options{FS: mem, Durability: bloomkv.DurabilityNoSync, BlockSize: 256})
	for i := range 5 {
		must(t, db.Put(key(i), nil))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	must(t, db.Close())
	built, err := openForged(mem, "db")
	must(t, err)
	for _, damage := range []struct {
		name   string
		change func(s *forgedStore, number uint64)
	}{
		{"blocks in the wrong order", func(s *forgedStore, n uint64) {
			s.change(n, func(t *forgedTable) { t.swapBlocks(1, 3) })
		}},
		{"a last separator that is not the largest key", func(s *forgedStore, n uint64) {
			s.change(n, func(t *forgedTable) { t.blocks[len(t.blocks)-1].suffix = []byte("5") })
		}},
		{"bounds that the manifest does not have", func(s *forgedStore, _ uint64) {
			s.eachTable(func(a *manifest.Added) { a.Table.Largest = key(7) })
		}},
		{"a largest key below the smallest", func(s *forgedStore, _ uint64) {
			s.eachTable(func(a *manifest.Added) { a.Table.Smallest = key(7) })
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			s := built.clone()
			damage.change(s, s.bottom(0))
			fsys := vfstest.NewMem()
			must(t, writeFiles(fsys, "db", s.join()))
			short := func(call string, err error) {
				t.Helper()
				if n := len(err.Error()); !errors.Is(err, bloomkv.ErrCorruption) || n > most {
					t.Errorf("%s: error of %d bytes, want damage in at most %d: %.300v", call, n, most, err)
				}
			}
			_, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys})
			short("Check", err)
			db, err := bloomkv.Open("db", &bloomkv.Options{FS: fsys, ReadOnly: true})
			if err != nil {
				short("Open", err)
				return
			}
			defer db.Close()
			failed := 0
			for i := range 5 {
				if _, err := db.Get(key(i)); err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
					short("Get", err)
					failed++
				}
			}
			if failed == 0 {
				t.Error("no Get failed")
			}
		})
	}
}
