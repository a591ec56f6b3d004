package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A spaciousFS reports any amount of free space that a test sets. It never runs out of space.
type spaciousFS struct {
	vfs.FS
	free atomic.Uint64
	err  error
}

func (s *spaciousFS) FreeSpace(string) (uint64, error) { return s.free.Load(), s.err }

func TestCompactSaysThatTheDiskHasNoRoom(t *testing.T) {
	fsys := &spaciousFS{FS: vfstest.NewMem()}
	fsys.free.Store(1 << 40)
	o := &bloomkv.Options{FS: fsys}
	l := listen(o)
	db := l.open(t, o)
	putNumbers(t, db, 30_000, 1)
	putNumbers(t, db, 30_000, 2)
	fsys.free.Store(50_000) // less than the tables, and more than a put needs
	if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); !errors.Is(err, vfs.ErrNoSpace) ||
		!errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "bytes are free") {
		t.Errorf("Compact: %v, want %v", err, vfs.ErrNoSpace)
	}
	if err := db.Put([]byte("key"), nil); err != nil {
		t.Errorf("a write after it: %v", err)
	}
	fsys.free.Store(1 << 40)
	if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
		t.Errorf("Compact with room: %v", err)
	}
	l.close(t)
	if len(l.failures)+len(l.readOnly) > 0 || l.merged(t).Keys != 30_001 {
		t.Errorf("failures %v, read-only %v, want one compaction and no reports", l.failures, l.readOnly)
	}
}

func TestWhoCannotTellWhatIsFreeStopsNoCompaction(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: &spaciousFS{FS: vfstest.NewMem(), err: errors.ErrUnsupported}})
	putNumbers(t, db, 10_000, 1)
	putNumbers(t, db, 10_000, 2)
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()))
}

// TestACompactionWaitsForRoomAndWritesDoNotWaitForIt checks that a compaction without disk space is reported once, that
// level 0 may grow beyond its stop limit meanwhile, and that the compaction is done when there is space.
func TestACompactionWaitsForRoomAndWritesDoNotWaitForIt(t *testing.T) {
	fsys := &spaciousFS{FS: vfstest.NewMem()}
	fsys.free.Store(1 << 40)
	o := &bloomkv.Options{FS: fsys, Compactions: 1} // beside one that merges all runs, another would merge the newest
	l := listen(o)
	db := l.open(t, o)
	before := db.Metrics().Writes.Compactions
	fsys.free.Store(200_000) // enough for one run, not for all that merge
	for i := range stopRuns + 2 {
		putRandom(t, db, i)
	}
	if m := db.Metrics(); m.Settled || m.Writes.Compactions > before || m.Levels[0].Runs <= stopRuns {
		t.Errorf("%d compactions without disk space, %d runs in level 0, settled %v",
			m.Writes.Compactions-before, m.Levels[0].Runs, m.Settled)
	}
	fsys.free.Store(1 << 40)
	testkit.Soon(t, "the compaction is done when there is disk space", func() bool { return db.Metrics().Settled })
	l.close(t)
	if len(l.failures) != 1 || !errors.Is(l.failures[0].Err, vfs.ErrNoSpace) || len(l.readOnly) > 0 {
		t.Errorf("failures %v, read-only %v; want one failure", l.failures, l.readOnly)
	}
}

// TestACompactionThatWasPutOffIsLookedAtAgain has too little disk space, and later enough, without any other change.
func TestACompactionThatWasPutOffIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &spaciousFS{FS: vfstest.NewMem()}
		fsys.free.Store(1 << 40)
		const spaceAgain = time.Second // after which a compaction that was put off is considered again
		o := &bloomkv.Options{FS: fsys, Durability: bloomkv.DurabilityNoSync}
		l := listen(o)
		db := l.open(t, o)
		before := db.Metrics().Writes.Compactions
		fsys.free.Store(200_000)
		for i := range triggerRuns + 1 {
			putRandom(t, db, i)
		}
		synctest.Wait()
		if w := db.Metrics().Writes; w.Compactions != before || len(l.failures) != 1 {
			t.Fatalf("%d compactions, failures %v; want one postponed", w.Compactions-before, l.failures)
		}
		time.Sleep(3 * spaceAgain)
		synctest.Wait()
		if w := db.Metrics().Writes; w.Compactions != before || len(l.failures) != 1 {
			t.Fatalf("%d compactions without disk space, failures %v; want one report",
				w.Compactions-before, l.failures)
		}
		fsys.free.Store(1 << 40)
		began := time.Now()
		time.Sleep(spaceAgain)
		synctest.Wait()
		if m := db.Metrics(); m.Writes.Compactions == before || !m.Settled {
			t.Errorf("%v after there was enough disk space, the compaction is not done", time.Since(began))
		}
		l.close(t)
	})
}

// TestWhatUnfinishedWorkLeftGoesBeforeAnythingIsWritten opens stores on a disk that is full as long as a table that no
// manifest names is there.
func TestWhatUnfinishedWorkLeftGoesBeforeAnythingIsWritten(t *testing.T) {
	for _, c := range []struct {
		name, file string
		log, opens bool
	}{
		{"a table that was never named, and a log", "db/000090.sst", true, true},
		{"a table that was never named, and no log", "db/000090.sst", false, true},
		{"a file that is no table, and a log", "db/notes", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfstest.NewMem()
			db := storetest.Open(t, "db", &bloomkv.Options{FS: mem})
			must(t, db.Put([]byte("key"), []byte("value")))
			if !c.log {
				must(t, db.Flush(t.Context()))
			}
			left, err := mem.Create(c.file)
			must(t, err)
			must(t, left.Close())
			image := mem.Kill()
			must(t, db.Close())
			full := vfstest.NewHook(image, func(op vfstest.Op) error {
				if op.Kind == vfstest.OpWrite {
					if _, err := image.Stat(c.file); err == nil {
						return syscall.ENOSPC
					}
				}
				return nil
			})
			db, err = bloomkv.Open("db", &bloomkv.Options{FS: full})
			if (err == nil) != c.opens || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Open: %v, want an open store %v", err, c.opens)
			}
			if err != nil {
				return
			}
			if v, err := db.Get([]byte("key")); string(v) != "value" {
				t.Errorf("the value of the log: %q, %v", v, err)
			}
			must(t, db.Close())
		})
	}
}

// TestUnfinishedTablesStayWhileALogIsDamaged opens a store whose flush was not finished and whose log was damaged then:
// the table, which no manifest names, has all that the log had.
func TestUnfinishedTablesStayWhileALogIsDamaged(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", &bloomkv.Options{FS: mem})
	must(t, db.Put([]byte("key"), []byte("value")))
	image := mem.Kill()
	must(t, db.Flush(t.Context()))
	table := db.Tables()[0].File
	flushed, err := vfs.ReadFile(mem, filepath.Join("db", table), 1<<20)
	must(t, err)
	must(t, db.Close())
	f, err := image.Create(filepath.Join("db", table))
	must(t, err)
	_, err = f.Write(flushed)
	must(t, errors.Join(err, f.Close()))
	for name := range filesIn(t, image) {
		if strings.HasSuffix(name, ".log") {
			storetest.Rewrite(t, image, filepath.Join("db", name), func(b []byte) []byte {
				b[bytes.Index(b, []byte("value"))] ^= 1
				return b
			})
		}
	}
	before := filesIn(t, image)
	if _, err := bloomkv.Open("db", &bloomkv.Options{FS: image}); !errors.Is(err, bloomkv.ErrCorruption) {
		t.Fatalf("Open: %v, want damage", err)
	}
	if after := filesIn(t, image); !maps.Equal(before, after) {
		t.Errorf("Open has left %v of %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	_, err = salvage.Run(t.Context(), "db", "new", salvage.Options{Store: &bloomkv.Options{FS: image}})
	must(t, err)
	db = storetest.Open(t, "new", &bloomkv.Options{FS: image})
	if v, err := db.Get([]byte("key")); string(v) != "value" {
		t.Errorf("salvaged %q, %v", v, err)
	}
	must(t, db.Close())
}

// A fullDisk is a file system in memory of a limited size, in blocks of 4 KiB.
type fullDisk struct {
	vfs.FS
	mem   *vfstest.Mem
	bytes atomic.Int64

	mu      sync.Mutex
	written map[string]int64 // guarded by mu; by name, of the bytes of a file, which may have more reserved
}

func newDisk(mem *vfstest.Mem, bytes int64) *fullDisk {
	d := &fullDisk{mem: mem, written: map[string]int64{}}
	d.bytes.Store(bytes)
	d.FS = vfstest.NewHook(d.mem, func(op vfstest.Op) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		n, free := int64(op.Size), d.free()
		switch op.Kind { //nolint:exhaustive // the others take no space
		case vfstest.OpCreate:
			d.written[op.Name] = 0
		case vfstest.OpReserve:
			if n > free/16 {
				return syscall.ENOSPC
			}
		case vfstest.OpWrite:
			info, err := d.mem.Stat(op.Name)
			if err != nil {
				return err
			}
			if inBlocks(d.written[op.Name]+n)-inBlocks(info.Size()) > free {
				return syscall.ENOSPC
			}
			d.written[op.Name] += n
		}
		return nil
	})
	return d
}

func inBlocks(n int64) int64 { return (n + 4095) &^ 4095 }

func (d *fullDisk) free() int64 {
	free := d.bytes.Load()
	names, _ := d.mem.List("db")
	for _, name := range names {
		if info, err := d.mem.Stat(filepath.Join("db", name)); err == nil {
			free -= inBlocks(info.Size())
		}
	}
	return free
}

func (d *fullDisk) FreeSpace(string) (uint64, error) { return uint64(max(d.free(), 0)), nil }

// TestAStoreOnAFullDiskOpensAgainAndCanBeEmptied writes or deletes single keys until the disk is full. The write that
// does not fit is refused and nothing else is lost, the store opens again after a crash, and a range delete empties it.
func TestAStoreOnAFullDiskOpensAgainAndCanBeEmptied(t *testing.T) {
	testkit.Long(t)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }
	const keys = 5000
	random := make([]byte, 100*keys) // values that do not compress
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	value := func(i int) []byte { return random[100*i:][:100] }
	for _, free := range []int64{8 << 10, 20 << 10, 68 << 10, 200 << 10} {
		for _, deletes := range []bool{false, true} {
			t.Run(fmt.Sprintf("free=%d/deletes=%v", free, deletes), func(t *testing.T) {
				disk := newDisk(vfstest.NewMem(), 1<<40)
				o := &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilityNoSync}
				l := listen(o)
				db := l.open(t, o)
				for i := range keys {
					must(t, db.Put(key(i), value(i)))
				}
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				l.close(t)
				full := 1<<40 - disk.free()
				disk.bytes.Store(full + free)
				db = l.open(t, o)
				done, err := 0, error(nil)
				for done < keys && err == nil {
					if deletes {
						err = db.Delete(key(done))
					} else {
						err = db.Put(key(done), value(keys - 1 - done)[1:])
					}
					if err == nil {
						done++
					}
				}
				if !deletes && done == keys || err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("%d writes: %v, want an error that says that the disk is full", done, err)
				}
				holds := func(db *bloomkv.DB) {
					t.Helper()
					for i := range keys {
						v, err := db.Get(key(i))
						want := 100
						if i < done {
							want--
						}
						gone := deletes && i < done
						if gone && !errors.Is(err, bloomkv.ErrNotFound) || !gone && len(v) != want {
							t.Fatalf("key %d, %d written: %d bytes, %v", i, done, len(v), err)
						}
					}
				}
				holds(db)
				killed := newDisk(disk.mem.Kill(), full+free)
				l.close(t)
				if len(l.readOnly) > 0 {
					t.Errorf("read-only: %v", l.readOnly)
				}
				o = &bloomkv.Options{FS: killed, Durability: bloomkv.DurabilityNoSync}
				l = listen(o)
				db = l.open(t, o)
				holds(db)
				must(t, db.DeleteRange(bloomkv.KeyRange{}))
				must(t, db.Flush(t.Context()))
				testkit.Soon(t, "the space is free", func() bool { return killed.free() > full*9/10 })
				l.close(t)
			})
		}
	}
}

// TestALogReservesNoSpaceThatItsTableNeeds fills a disk nearly with large values, for which a log reserves no space,
// and then writes a small one. The store can be closed, and it opens again after a crash.
func TestALogReservesNoSpaceThatItsTableNeeds(t *testing.T) {
	testkit.Long(t)
	random := make([]byte, 160<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for size := int64(4800 << 10); size < 4928<<10; size += 32 << 10 {
		for values := 14; values <= 17; values++ {
			disk := newDisk(vfstest.NewMem(), size)
			o := &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilityNoSync}
			db, err := bloomkv.Open("db", o)
			must(t, err)
			for i := range values {
				must(t, db.Put(fmt.Append(nil, i), random[i<<10:][:140<<10]))
			}
			must(t, db.Put([]byte("small"), nil))
			killed := newDisk(disk.mem.Kill(), size)
			if flushes := db.Metrics().Writes.Flushes; flushes > 0 {
				t.Fatalf("%d values on a disk of %d bytes: %d flushes, want none before Close", values, size, flushes)
			}
			if err := db.Close(); err != nil {
				t.Errorf("%d values on a disk of %d bytes: Close: %v", values, size, err)
			}
			db, err = bloomkv.Open("db", &bloomkv.Options{FS: killed})
			if err != nil {
				t.Errorf("%d values on a disk of %d bytes: Open after a crash: %v", values, size, err)
				continue
			}
			must(t, db.Close())
		}
	}
}

// TestABatchOfSmallKeysIsRefusedUnlessItsTableFits deletes keys that take 6 bytes each in the log, and in their table
// and its filter 20, on disks of different sizes. What is taken can be written out, also after a crash.
func TestABatchOfSmallKeysIsRefusedUnlessItsTableFits(t *testing.T) {
	testkit.Long(t)
	var b bloomkv.Batch
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b.Delete(binary.BigEndian.AppendUint32(nil, rng.Uint32()))
	}
	refused, taken := 0, 0
	for size := int64(100 << 10); taken < 5 && size < 10<<20; size += 50 << 10 {
		disk := newDisk(vfstest.NewMem(), size)
		o := &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone}
		db := storetest.Open(t, "db", o)
		if err := db.Apply(&b); err != nil {
			if refused++; !errors.Is(err, bloomkv.ErrNoSpace) || errors.Is(err, bloomkv.ErrReadOnly) {
				t.Fatalf("a disk of %d bytes: Apply: %v", size, err)
			}
			must(t, db.Close())
			continue
		}
		taken++
		killed := newDisk(disk.mem.Kill(), size)
		if err := db.Close(); err != nil {
			t.Errorf("a disk of %d bytes: Close: %v", size, err)
		}
		db, err := bloomkv.Open("db", &bloomkv.Options{FS: killed, Compression: bloomkv.CompressionNone})
		if err != nil {
			t.Errorf("a disk of %d bytes: Open after a crash: %v", size, err)
			continue
		}
		must(t, errors.Join(db.DeleteRange(bloomkv.KeyRange{}), db.Flush(t.Context()), db.Close()))
	}
	if refused == 0 || taken < 5 {
		t.Errorf("the batch is refused by %d disks, and taken by %d", refused, taken)
	}
}

// awaitNoLog returns once a store that was flushed has removed its log, which it does in the background.
func awaitNoLog(t *testing.T, fsys vfs.FS) {
	t.Helper()
	testkit.Soon(t, "the log is removed", func() bool {
		names, err := fsys.List("db")
		must(t, err)
		return !slices.ContainsFunc(names, func(name string) bool { return filepath.Ext(name) == ".log" })
	})
}

// TestAStoreThatTablesHaveFilledCanBeEmptied ingests or imports tables that leave some space on the disk: too little,
// so that they are refused and nothing is left of them, or enough, so that the store opens again and can be emptied.
func TestAStoreThatTablesHaveFilledCanBeEmptied(t *testing.T) {
	testkit.Long(t)
	// Before it is measured what an import takes, compactions may have joined some of that.
	const most = 96 << 10
	ctx, random := t.Context(), make([]byte, 100<<10) // values that do not compress
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	pairs := map[string]string{}
	for i := range 1000 {
		pairs[fmt.Sprintf("key%04d", i)] = string(random[100*i:][:100])
	}
	from := storetest.OpenTiny(t)
	must(t, from.Ingest(ctx, storetest.PairsOf(pairs), bloomkv.IngestOptions{}))
	x, err := from.Export(ctx, bloomkv.ExportOptions{})
	must(t, err)
	var sent bytes.Buffer
	_, err = x.WriteTo(&sent)
	must(t, errors.Join(err, x.Close(), from.Close()))
	for name, fill := range map[string]func(*bloomkv.DB) error{
		"ingest": func(db *bloomkv.DB) error {
			return db.Ingest(ctx, storetest.PairsOf(pairs), bloomkv.IngestOptions{})
		},
		"import": func(db *bloomkv.DB) error {
			return db.Import(ctx, bytes.NewReader(sent.Bytes()), bloomkv.ImportOptions{Replace: true})
		},
	} {
		// filled opens a store on a disk with the given free space, before, and fills it.
		filled := func(space int64) (d *fullDisk, db *bloomkv.DB, before int64, err error) {
			d = newDisk(vfstest.NewMem(), 1<<40)
			db = storetest.Open(t, "db", &bloomkv.Options{FS: d})
			must(t, errors.Join(db.Put([]byte("a"), nil), db.Flush(ctx)))
			awaitNoLog(t, d.mem)
			d.bytes.Add(space - d.free())
			return d, db, d.free(), fill(db)
		}
		d, db, before, err := filled(1 << 30)
		must(t, errors.Join(err, db.Close()))
		took := before - d.free()
		taken := false
		for spare := int64(0); spare <= most; spare += 4 << 10 {
			d, db, before, err := filled(took + spare)
			switch {
			case err == nil:
				taken = true
			case taken || !errors.Is(err, syscall.ENOSPC) || d.free() != before:
				t.Errorf("%s with %d bytes to spare: %v; %d of %d bytes are left", name, spare, err, d.free(), before)
			}
			for i := 0; err == nil && i < 1000; i++ {
				err = db.Put(fmt.Appendf(nil, "more%04d", i), random[100*i:][:100])
			}
			if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, bloomkv.ErrReadOnly) {
				t.Errorf("%s with %d bytes to spare, and then puts: %v", name, spare, err)
			}
			killed := newDisk(d.mem.Kill(), d.bytes.Load())
			must(t, errors.Join(db.DeleteRange(bloomkv.KeyRange{}), db.Flush(ctx), db.Close()))
			db, err = bloomkv.Open("db", &bloomkv.Options{FS: killed})
			if err == nil {
				err = errors.Join(db.DeleteRange(bloomkv.KeyRange{}), db.Flush(ctx), db.Close())
			}
			if err != nil {
				t.Errorf("%s with %d bytes to spare, and after a crash: %v", name, spare, err)
			}
		}
		if !taken {
			t.Errorf("%s: %d bytes to spare are not enough", name, most)
		}
	}
}

// TestWritesBesideACompactionAreRefusedBeforeTheDiskIsFull puts values while a compaction has taken nearly all of the
// disk. What the writer was granted before must not be more than what the compaction leaves.
func TestWritesBesideACompactionAreRefusedBeforeTheDiskIsFull(t *testing.T) {
	const values = 20 << 20 / 1000
	random := make([]byte, values*1000) // which does not compress
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	disk := newDisk(vfstest.NewMem(), 1<<40)
	var db *bloomkv.DB
	var once sync.Once
	var err error
	var armed atomic.Bool
	puts, refused := 0, error(nil)
	disk.FS = vfstest.NewHook(disk.FS, func(op vfstest.Op) error {
		if armed.Load() && op.Kind == vfstest.OpWrite && filepath.Ext(op.Name) == ".sst" && disk.free() < 400<<10 {
			once.Do(func() {
				armed.Store(false)
				for ; refused == nil && puts < 1000; puts++ {
					refused = db.Put(fmt.Appendf(nil, "more%d", puts), random[1000*puts:][:1000])
				}
			})
		}
		return nil
	})
	o := &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilityNoSync, Compactions: 1}
	db, err = bloomkv.Open("db", o)
	must(t, err)
	for i := range values {
		must(t, db.Put(fmt.Appendf(nil, "key%08d", i), random[1000*i:][:1000]))
	}
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()))
	full := 1<<40 - disk.free()
	disk.bytes.Store(2*full + 20<<10)
	db, err = bloomkv.Open("db", o)
	must(t, err)
	must(t, errors.Join(db.Put([]byte("a"), nil), db.Flush(t.Context()), db.Put([]byte("a"), nil)))
	armed.Store(true)
	_ = db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true})
	_ = db.Close()
	if !errors.Is(refused, syscall.ENOSPC) || errors.Is(refused, bloomkv.ErrReadOnly) {
		t.Errorf("after %d puts: %v, want that one is refused", puts, refused)
	}
}

// TestWritesBesideTablesFromOutsideAreRefusedBeforeTheDiskIsFull does the same beside an ingest and an import. They
// fail for lack of space, and then there is space again.
func TestWritesBesideTablesFromOutsideAreRefusedBeforeTheDiskIsFull(t *testing.T) {
	const values = 20 << 20 / 1000
	ctx, random := t.Context(), make([]byte, values*1000) // which does not compress
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	sorted := func(yield func(bloomkv.KV, error) bool) {
		for i := range values {
			if !yield(bloomkv.KV{Key: fmt.Appendf(nil, "key%08d", i), Value: random[1000*i:][:1000]}, nil) {
				return
			}
		}
	}
	from := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem()})
	must(t, from.Ingest(ctx, sorted, bloomkv.IngestOptions{}))
	x, err := from.Export(ctx, bloomkv.ExportOptions{})
	must(t, err)
	var sent bytes.Buffer
	_, err = x.WriteTo(&sent)
	must(t, errors.Join(err, x.Close(), from.Close()))
	all := int64(sent.Len())
	for name, c := range map[string]struct {
		size int64 // of the disk; an import that is certain not to fit does not begin
		fill func(db *bloomkv.DB, meanwhile func()) error
	}{
		"ingest": {all - 1<<20, func(db *bloomkv.DB, meanwhile func()) error {
			return db.Ingest(ctx, func(yield func(bloomkv.KV, error) bool) {
				for kv, err := range sorted {
					if meanwhile(); !yield(kv, err) {
						return
					}
				}
			}, bloomkv.IngestOptions{})
		}},
		"import": {all + 256<<10, func(db *bloomkv.DB, meanwhile func()) error {
			return db.Import(ctx, readerFunc(func(p []byte) (int, error) {
				meanwhile()
				return sent.Read(p[:min(len(p), 16<<10)])
			}), bloomkv.ImportOptions{Replace: true})
		}},
	} {
		disk := newDisk(vfstest.NewMem(), c.size)
		db := storetest.Open(t, "db", &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilityNoSync})
		must(t, db.Put([]byte("a"), nil)) // lets a writer take a MiB without a look at the free space
		puts, refused := 0, error(nil)
		err := c.fill(db, func() {
			for ; disk.free() < 400<<10 && refused == nil && puts < 1000; puts++ {
				refused = db.Put(fmt.Appendf(nil, "more%d", puts), random[1000*puts:][:1000])
			}
		})
		if !errors.Is(err, bloomkv.ErrNoSpace) || puts == 0 ||
			refused != nil && !errors.Is(refused, bloomkv.ErrNoSpace) {
			t.Errorf("%s: %v; put %d beside it: %v", name, err, puts, refused)
		}
		if err := errors.Join(db.Put([]byte("b"), nil), db.Close()); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// TestMarksAloneDoNotFillADisk writes more marks than the disk has space for: the newest is enough.
func TestMarksAloneDoNotFillADisk(t *testing.T) {
	disk := newDisk(vfstest.NewMem(), 300<<10)
	o := &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilityNoSync}
	db := storetest.Open(t, "db", o)
	mark := make([]byte, bloomkv.MaxMarkSize)
	for i := range 3000 {
		var b bloomkv.Batch
		b.SetMark(fmt.Appendf(mark[:0], "%0*d", len(mark), i))
		if err := db.Apply(&b); err != nil {
			t.Fatalf("mark %d: %v", i, err)
		}
	}
	if got, err := db.Mark(); err != nil || string(got) != fmt.Sprintf("%0*d", len(mark), 2999) {
		t.Errorf("the mark is %q, %v", got, err)
	}
	must(t, db.Close())
}

// TestAFlushWaitsForDiskSpace has no space for tables, as when another program fills the disk. Writes fail once the
// memtable is full, reads go on, and the store takes writes again as soon as there is space.
func TestAFlushWaitsForDiskSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
			if op.Kind == vfstest.OpWrite && filepath.Ext(op.Name) == ".sst" && full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}))
		l := listen(o)
		db := l.open(t, o)
		full.Store(true)
		n, err := 0, error(nil)
		for ; err == nil; n++ {
			err = db.Put(fmt.Append(nil, n), make([]byte, 100))
		}
		n-- // the last one failed
		if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, bloomkv.ErrReadOnly) {
			t.Errorf("Put without space for tables: %v", err)
		}
		if err := db.Flush(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Flush without space for tables: %v", err)
		}
		full.Store(false)
		time.Sleep(2 * time.Second) // the flush is tried once a second
		must(t, db.Put(fmt.Append(nil, n), make([]byte, 100)))
		for i := range n + 1 {
			if v, err := db.Get(fmt.Append(nil, i)); err != nil || len(v) != 100 {
				t.Fatalf("key %d of %d: %d bytes, %v", i, n, len(v), err)
			}
		}
		l.close(t)
		if len(l.failures) != 1 || len(l.readOnly) > 0 || n == 0 {
			t.Errorf("%d writes, failures %v, read-only %v; want one failure", n, l.failures, l.readOnly)
		}
	})
}

// putNumbers puts the keys 0, step, 2*step and so on below hi, and flushes.
func putNumbers(t *testing.T, db *bloomkv.DB, hi, step int) {
	t.Helper()
	var b bloomkv.Batch
	for i := 0; i < hi; i += step {
		b.Put(fmt.Appendf(nil, "key%08d", i), []byte("value"))
	}
	must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	must(t, db.Flush(t.Context()))
}

// putRandom makes run i of 20 values of 3,000 bytes, which do not compress.
func putRandom(t *testing.T, db *bloomkv.DB, i int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{byte(i)})
	var b bloomkv.Batch
	for k := range 20 {
		value := make([]byte, 3000)
		_, _ = random.Read(value) // never fails
		b.Put(fmt.Appendf(nil, "key%02d-%02d", k, i), value)
	}
	must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	must(t, db.Flush(t.Context()))
}
