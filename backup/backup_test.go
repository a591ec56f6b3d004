package backup_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log"
	"maps"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

func open(tb testing.TB, fsys vfs.FS) *backup.Dir {
	tb.Helper()
	d, err := backup.OpenDir(fsys, "backups")
	must(tb, err)
	return d
}

// oneGeneration returns a directory with one generation.
func oneGeneration(t *testing.T) *backup.Dir {
	t.Helper()
	db, write := written(t)
	write()
	d := open(t, vfstest.NewMem())
	_, err := backup.Make(t.Context(), db, d)
	must(t, err)
	return d
}

// content returns the content of an object.
func content(t *testing.T, s backup.Storage, name string) []byte {
	t.Helper()
	r, err := s.Get(t.Context(), name)
	must(t, err)
	b, err := io.ReadAll(r)
	must(t, errors.Join(err, r.Close()))
	return b
}

// restores restores a generation and compares it.
func restores(s backup.Storage, n uint64, want map[string]string) error {
	mem, ctx := vfstest.NewMem(), context.Background()
	if err := backup.Restore(ctx, s, n, "restored", bloomkv.NewStoreOptions{FS: mem}); err != nil {
		return err
	}
	db, err := bloomkv.Open("restored", &bloomkv.Options{FS: mem, ErrorIfMissing: true})
	if err != nil {
		return err
	}
	got := map[string]string{}
	for kv, scanErr := range db.Scan(bloomkv.IterOptions{}) {
		err = errors.Join(err, scanErr)
		got[string(kv.Key)] = string(kv.Value)
	}
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("generation %d has %d keys, want %d", n, len(got), len(want))
	}
	return errors.Join(err, db.Close())
}

// written returns an open store, and a function that writes more keys and returns what there is then.
func written(tb testing.TB) (*bloomkv.DB, func() map[string]string) {
	tb.Helper()
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem(), FilterSeed: 1})
	must(tb, err)
	tb.Cleanup(func() { _ = db.Close() })
	all, n := map[string]string{}, 0
	return db, func() map[string]string {
		for range 40 {
			k, v := fmt.Sprintf("k%03d", n), strings.Repeat("v", n)
			must(tb, db.Put([]byte(k), []byte(v)))
			all[k] = v
			n++
		}
		return maps.Clone(all)
	}
}

func TestGenerationsShareTablesAndAreRestoredOneByOne(t *testing.T) {
	mem, ctx := vfstest.NewMem(), t.Context()
	db, write := written(t)
	d := open(t, mem)
	var want []map[string]string
	for i := range 4 {
		want = append(want, write())
		r, err := backup.Make(ctx, db, d)
		if err != nil || r.Generation != uint64(i+1) || r.Stored != 1 && i < 3 {
			t.Fatalf("%+v, %v, want one new table", r, err)
		}
		size := int64(0)
		for _, l := range db.Metrics().Levels {
			size += int64(l.Bytes)
		}
		g, err := backup.Describe(ctx, d, r.Generation)
		if want := (backup.Generation{Number: r.Generation, Tables: r.Tables, Bytes: size}); err != nil || g != want {
			t.Errorf("%+v, %v, want %+v", g, err, want)
		}
	}
	if _, err := backup.Describe(ctx, d, 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("generation 5: %v, want fs.ErrNotExist", err)
	}
	if _, err := backup.OpenDir(mem, "backups"); !errors.Is(err, bloomkv.ErrLocked) {
		t.Errorf("a second program: %v, want ErrLocked", err)
	}
	must(t, backup.Verify(ctx, d, nil))
	for i, w := range want {
		must(t, restores(d, uint64(i+1), w))
	}
	must(t, backup.Prune(ctx, d, 2))
	if all, err := backup.List(ctx, d); err != nil || fmt.Sprint(all) != "[3 4]" {
		t.Errorf("after Prune: %v, %v", all, err)
	}
	must(t, db.Compact(ctx, bloomkv.CompactOptions{Rewrite: true}))
	r, err := backup.Make(ctx, db, d)
	if err != nil || r.Generation != 5 || r.Stored != r.Tables {
		t.Errorf("%+v, %v, want new tables alone", r, err)
	}
	must(t, restores(d, 3, want[2]))
	must(t, backup.Prune(ctx, d, 1))
	if names, err := d.List(ctx, "tables/"); err != nil || len(names) != r.Tables {
		t.Errorf("%q, %v, want %d tables", names, err, r.Tables)
	}
	must(t, restores(d, 5, want[3]))
	if err := restores(d, 4, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a generation that is gone: %v, want fs.ErrNotExist", err)
	}
	must(t, d.Close())
}

// TestACrashOfABackupLeavesWholeGenerations crashes before each operation of a backup and of a prune.
func TestACrashOfABackupLeavesWholeGenerations(t *testing.T) {
	mem, ctx := vfstest.NewMem(), t.Context()
	var found []*vfstest.Mem
	armed := false
	d := open(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
		if armed && op.Kind.Changes() {
			seed := uint64(len(found))
			found = append(found, mem.Kill(), mem.Crash(vfstest.KeepNothing), mem.Crash(vfstest.KeepAll),
				mem.Crash(vfstest.KeepSome(seed, 50)))
		}
		return nil
	}))
	db, write := written(t)
	want := map[uint64]map[string]string{}
	for i := range 2 {
		want[uint64(i+1)] = write()
		_, err := backup.Make(ctx, db, d)
		must(t, err)
	}
	for _, step := range []func() error{
		func() error { want[3] = write(); _, err := backup.Make(ctx, db, d); return err },
		func() error { return backup.Prune(ctx, d, 1) },
	} {
		found, armed = nil, true
		must(t, step())
		armed = false
		seen := map[int]int{}
		for i, left := range found {
			s := open(t, left)
			all, err := backup.List(ctx, s)
			if err == nil {
				err = backup.Verify(ctx, s, nil)
			}
			for _, n := range all {
				if err == nil {
					err = restores(s, n, want[n])
				}
			}
			if err == nil { // the place can be used on
				var r backup.Report
				if r, err = backup.Make(ctx, db, s); err == nil {
					err = restores(s, r.Generation, want[3])
				}
			}
			if err == nil {
				err = errors.Join(backup.Prune(ctx, s, 1), backup.Verify(ctx, s, nil))
			}
			if err != nil || len(all) == 0 {
				t.Fatalf("state %d with generations %v: %v", i, all, err)
			}
			seen[len(all)]++
			must(t, s.Close())
		}
		t.Logf("%d states, by number of generations %v", len(found), seen)
	}
	must(t, restores(d, 3, want[3]))
	must(t, d.Close())
}

// TestEveryFailedOperationOfABackupLeavesWholeGenerations also counts on what is listed in the same session.
func TestEveryFailedOperationOfABackupLeavesWholeGenerations(t *testing.T) {
	db, write := written(t)
	want := write()
	fault := errors.New("fault")
	for at := 0; ; at++ {
		mem, ops, armed := vfstest.NewMem(), 0, false
		d := open(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
			if op.Kind.Changes() && armed {
				if ops++; ops == at+1 {
					return fault
				}
			}
			return nil
		}))
		armed = true
		_, err := backup.Make(t.Context(), db, d)
		struck := ops > at
		armed = false
		if struck != errors.Is(err, fault) {
			t.Fatalf("operation %d: %v", at, err)
		}
		r, err := backup.Make(t.Context(), db, d)
		if err == nil {
			err = errors.Join(backup.Verify(t.Context(), d, nil), d.Close())
		}
		if err == nil {
			err = restores(open(t, mem.Crash(vfstest.KeepNothing)), r.Generation, want)
		}
		if err != nil {
			t.Fatalf("operation %d: %v", at, err)
		}
		if !struck {
			if at < 5 {
				t.Errorf("only %d operations", at)
			}
			return
		}
	}
}

func TestDamageIsFoundByVerifyAndRefusedByRestore(t *testing.T) {
	ctx, d := t.Context(), oneGeneration(t)
	for _, prefix := range []string{"tables/", "generations/"} {
		names, err := d.List(ctx, prefix)
		must(t, err)
		whole := content(t, d, names[0])
		for i := len(whole) - 1; i >= 0; i -= 1 + len(whole)/200 { // the last byte is of a checksum
			flipped := bytes.Clone(whole)
			flipped[i] ^= 4
			for _, b := range [][]byte{flipped, whole[:i], append(bytes.Clone(whole), whole[i])} {
				must(t, d.Put(ctx, names[0], bytes.NewReader(b)))
				if err := backup.Verify(ctx, d, nil); !errors.Is(err, bloomkv.ErrCorruption) ||
					!strings.Contains(err.Error(), names[0]) {
					t.Fatalf("byte %d of %s: Verify: %v", i, names[0], err)
				}
				if err := restores(d, 1, nil); !errors.Is(err, bloomkv.ErrCorruption) {
					t.Fatalf("byte %d of %s: Restore: %v", i, names[0], err)
				}
			}
		}
		must(t, d.Delete(ctx, names[0]))
		if err := restores(d, 1, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without %s: %v", names[0], err)
		}
		must(t, d.Put(ctx, names[0], bytes.NewReader(whole)))
	}
	must(t, errors.Join(backup.Verify(ctx, d, nil), d.Close()))
}

func TestABackupInANewDirectoryIsDurable(t *testing.T) {
	for _, name := range []string{"backups", "backups/", "./backups//"} {
		mem := vfstest.NewMem()
		db, write := written(t)
		want := write()
		d, err := backup.OpenDir(mem, name)
		must(t, err)
		_, err = backup.Make(t.Context(), db, d)
		must(t, err)
		again, err := backup.OpenDir(mem.Crash(vfstest.KeepNothing), name)
		must(t, err)
		if err := restores(again, 1, want); err != nil {
			t.Errorf("%q after a power cut: %v", name, err)
		}
		must(t, errors.Join(again.Close(), d.Close(), db.Close()))
	}
}

// TestAPruneAfterOneThatFailedRemovesNoTableThatMayBeNeeded lets the removal of a generation become visible and not
// durable.
func TestAPruneAfterOneThatFailedRemovesNoTableThatMayBeNeeded(t *testing.T) {
	mem, ctx := vfstest.NewMem(), t.Context()
	fail := false
	d, err := backup.OpenDir(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if fail && op.Kind == vfstest.OpSyncDir && strings.HasSuffix(op.Name, "generations") {
			return errors.New("no sync")
		}
		return nil
	}), "backups")
	must(t, err)
	db, write := written(t)
	for range 2 {
		write()
		must(t, db.Compact(ctx, bloomkv.CompactOptions{Rewrite: true}))
		_, err = backup.Make(ctx, db, d)
		must(t, err)
	}
	fail = true
	for range 2 {
		if err := backup.Prune(ctx, d, 1); err == nil {
			t.Error("Prune does not report that a directory could not be synced")
		}
	}
	crashed := open(t, mem.Crash(vfstest.KeepNothing))
	must(t, errors.Join(backup.Verify(ctx, crashed, nil), crashed.Close()))
	fail = false
	must(t, backup.Prune(ctx, d, 1))
	crashed = open(t, mem.Crash(vfstest.KeepNothing))
	must(t, errors.Join(backup.Verify(ctx, crashed, nil), crashed.Close(), d.Close()))
	if all, err := backup.List(ctx, d); err != nil || len(all) != 1 {
		t.Errorf("generations %v, %v; want one", all, err)
	}
}

// A refusing storage refuses to store generations, without reading them, and counts the readers that it has open.
type refusing struct {
	backup.Storage

	open int
}

func (s *refusing) Put(ctx context.Context, name string, r io.Reader) error {
	if strings.HasPrefix(name, "generations/") {
		return fs.ErrPermission
	}
	return s.Storage.Put(ctx, name, r)
}

func (s *refusing) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.Storage.Get(ctx, name)
	s.open++
	return &counted{r, s}, err
}

type counted struct {
	io.ReadCloser

	of *refusing
}

func (c *counted) Close() error {
	c.of.open--
	return c.ReadCloser.Close()
}

// TestAStorageThatRefusesLeavesNothingRunning is in a bubble, whose end would find a goroutine that still runs.
func TestAStorageThatRefusesLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, vfstest.NewMem())
		s := &refusing{Storage: d}
		db, write := written(t)
		write()
		if _, err := backup.Make(t.Context(), db, s); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v, want the storage's error", err)
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
		synctest.Wait()
		if n := db.Metrics().Files.Obsolete; n != 0 {
			t.Errorf("%d replaced tables are kept for an export", n)
		}
		_, err := backup.Make(t.Context(), db, d)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := backup.Verify(ctx, s, nil); !errors.Is(err, context.Canceled) || s.open != 0 {
			t.Errorf("Verify: %v, want that it was canceled; %d objects are open", err, s.open)
		}
		must(t, errors.Join(d.Close(), db.Close()))
	})
}

// TestAPruneKeepsOldGenerationsWhileANewOneCannotBeRead damages the newest generation, the only one that would stay.
func TestAPruneKeepsOldGenerationsWhileANewOneCannotBeRead(t *testing.T) {
	ctx, d := t.Context(), open(t, vfstest.NewMem())
	db, write := written(t)
	want := write()
	for range 2 {
		_, err := backup.Make(ctx, db, d)
		must(t, err)
		write()
	}
	const newest = "generations/00000002"
	damaged := content(t, d, newest)
	damaged[len(damaged)/2] ^= 1
	must(t, d.Put(ctx, newest, bytes.NewReader(damaged)))
	if err := backup.Prune(ctx, d, 1); !errors.Is(err, bloomkv.ErrCorruption) ||
		!strings.Contains(err.Error(), newest) {
		t.Errorf("Prune: %v, want damage of the generation that would stay", err)
	}
	if err := restores(d, 1, want); err != nil {
		t.Errorf("the old generation: %v", err)
	}
	must(t, errors.Join(d.Close(), db.Close()))
}

func TestRemovalSparesGenerationsOfLaterVersions(t *testing.T) {
	ctx, d := t.Context(), open(t, vfstest.NewMem())
	db, write := written(t)
	for range 2 {
		write()
		must(t, db.Compact(ctx, bloomkv.CompactOptions{Rewrite: true}))
		_, err := backup.Make(ctx, db, d)
		must(t, err)
	}
	before, err := d.List(ctx, "tables/")
	must(t, err)
	must(t, d.Put(ctx, "generations/v2-1", strings.NewReader("unknown")))
	for _, err := range []error{backup.Prune(ctx, d, 1), backup.Verify(ctx, d, nil)} {
		if err == nil || !strings.Contains(err.Error(), "generations/v2-1") {
			t.Errorf("%v, want an error that names the unknown object", err)
		}
	}
	if after, err := d.List(ctx, "tables/"); err != nil || len(after) != len(before) {
		t.Errorf("%d tables, %v; want all %d", len(after), err, len(before))
	}
	must(t, d.Close())
}

// TestManyUnknownObjectsAreNamedAtACostOfTheirNumber has an error that names them all. Joined one to the other, they
// would take half the square of their number.
func TestManyUnknownObjectsAreNamedAtACostOfTheirNumber(t *testing.T) {
	ctx, d := t.Context(), open(t, vfstest.NewMem())
	const objects = 2000
	for i := range objects {
		must(t, d.Put(ctx, fmt.Sprintf("generations/junk-%04d", i), strings.NewReader("")))
	}
	for name, call := range map[string]func() error{
		"Verify": func() error { return backup.Verify(ctx, d, nil) },
		"Prune":  func() error { return backup.Prune(ctx, d, 1) },
	} {
		var before, after runtime.MemStats
		err := call()
		runtime.ReadMemStats(&before)
		text := err.Error()
		runtime.ReadMemStats(&after)
		if n := strings.Count(text, "generations/junk-"); n != objects {
			t.Errorf("%s names %d objects, want %d", name, n, objects)
		}
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(10*len(text)); got > most {
			t.Errorf("%s: the text takes %d bytes, want at most %d", name, got, most)
		}
	}
	must(t, d.Close())
}

// TestANumberOutOfRangeIsNoGeneration puts objects beside a generation whose numbers no backup can have reached. The
// next backup follows the generation, and pruning removes neither of the two.
func TestANumberOutOfRangeIsNoGeneration(t *testing.T) {
	const last = "generations/4611686018427387903" // 2^62-1
	for _, foreign := range []string{
		"generations/18446744073709551615", "generations/4611686018427387904", "generations/00000000",
	} {
		ctx, d := t.Context(), open(t, vfstest.NewMem())
		db, write := written(t)
		write()
		_, err := backup.Make(ctx, db, d)
		must(t, err)
		copied := func(from, name string) {
			t.Helper()
			r, err := d.Get(ctx, from)
			must(t, err)
			must(t, errors.Join(d.Put(ctx, name, r), r.Close()))
		}
		copied("generations/00000001", foreign)
		want := write()
		r, err := backup.Make(ctx, db, d)
		if err != nil || r.Generation != 2 {
			t.Errorf("beside %s: generation %d, %v; want 2", foreign, r.Generation, err)
		}
		for _, err := range []error{backup.Verify(ctx, d, nil), backup.Prune(ctx, d, 1)} {
			if err == nil || !strings.Contains(err.Error(), foreign) {
				t.Errorf("%v, want an error that names %s", err, foreign)
			}
		}
		all, err := backup.List(ctx, d)
		must(t, err)
		if !slices.Equal(all, []uint64{2}) {
			t.Errorf("after Prune there are %v, want the newest", all)
		}
		if err := restores(d, 2, want); err != nil {
			t.Error(err)
		}

		must(t, d.Delete(ctx, foreign))
		copied("generations/00000002", "generations/4611686018427387902")
		if r, err := backup.Make(ctx, db, d); err != nil || r.Generation != 1<<62-1 {
			t.Errorf("before the last number: generation %d, %v", r.Generation, err)
		}
		if _, err := backup.Make(ctx, db, d); err == nil || !strings.Contains(err.Error(), "exhausted") {
			t.Errorf("after %s: %v, want that the numbers are exhausted", last, err)
		}
		must(t, d.Close())
	}
}

func Example() {
	files, ctx := vfstest.NewMem(), context.Background() // default: the operating system's files
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	d, err := backup.OpenDir(files, "backups")
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	for _, value := range []string{"monday", "tuesday"} {
		if err := db.Put([]byte("day"), []byte(value)); err != nil {
			log.Fatal(err)
		}
		r, err := backup.Make(ctx, db, d)
		fmt.Println("generation", r.Generation, "has", r.Stored, "new table,", err)
	}
	if err := backup.Restore(ctx, d, 1, "restored", bloomkv.NewStoreOptions{FS: files}); err != nil {
		log.Fatal(err)
	}
	restored, err := bloomkv.Open("restored", &bloomkv.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	defer restored.Close()
	value, err := restored.Get([]byte("day"))
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// generation 1 has 1 new table, <nil>
	// generation 2 has 1 new table, <nil>
	// monday <nil>
}

// sequential is a storage whose objects can only be read from their beginning.
type sequential struct {
	backup.Storage
	gets, bytes, open, most int
}

func (s *sequential) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.Storage.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s.gets++
	s.open++
	s.most = max(s.most, s.open)
	return &begun{r, s}, nil
}

// begun is an object of a sequential storage, which counts what is read of it.
type begun struct {
	io.ReadCloser
	of *sequential
}

func (b *begun) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.of.bytes += n
	return n, err
}

func (b *begun) Close() error {
	b.of.open--
	return b.ReadCloser.Close()
}

// TestVerifyChecksTables damages tables and corrects the checksums of their objects, as if the store had been damaged
// when it was stored.
func TestVerifyChecksTables(t *testing.T) {
	ctx, d := t.Context(), oneGeneration(t)
	slow := &sequential{Storage: d}
	must(t, backup.Verify(ctx, slow, nil))
	if slow.gets < 3 || slow.gets > 7 {
		t.Errorf("%d objects were begun, want some", slow.gets)
	}
	names, err := d.List(ctx, "tables/")
	must(t, err)
	whole := content(t, d, names[0])
	whole = whole[:len(whole)-4]
	for i := 0; i < len(whole); i += 1 + len(whole)/100 {
		b := bytes.Clone(whole)
		b[i] ^= 4
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		must(t, d.Put(ctx, names[0], bytes.NewReader(b)))
		for _, s := range []backup.Storage{d, slow} {
			if err := backup.Verify(ctx, s, nil); !errors.Is(err, bloomkv.ErrCorruption) ||
				!strings.Contains(err.Error(), names[0]) {
				t.Fatalf("byte %d of %s: Verify by %T: %v", i, names[0], s, err)
			}
		}
	}
	must(t, d.Close())
}

// TestVerifyBeginsALargeTableAFewTimes has a table with an index in parts, which are behind the data blocks.
func TestVerifyBeginsALargeTableAFewTimes(t *testing.T) {
	ctx, d := t.Context(), open(t, vfstest.NewMem())
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem(), Compression: bloomkv.CompressionNone})
	must(t, err)
	for i := range 6000 { // 1,500 blocks: some six parts
		must(t, db.Put(fmt.Appendf(nil, "key%06d", i), make([]byte, 1000)))
	}
	_, err = backup.Make(ctx, db, d)
	must(t, errors.Join(err, db.Close()))
	names, err := d.List(ctx, "tables/")
	must(t, err)
	size := 0
	for _, name := range names {
		size += len(content(t, d, name))
	}
	s := &sequential{Storage: d}
	must(t, backup.Verify(ctx, s, nil))
	if gets := 8*len(names) + 1; s.gets > gets || s.bytes > 8*size || s.open > 0 || s.most > 2 {
		t.Errorf("%d objects of %d tables were begun, %d at a time, %d are open, and %d bytes read; "+
			"want at most %d, 2 at a time, all closed, and 8 times %d", s.gets, len(names), s.most, s.open, s.bytes,
			gets, size)
	}
	must(t, d.Close())
}

func TestADamagedStoreGivesNoGeneration(t *testing.T) {
	mem, ctx := vfstest.NewMem(), t.Context()
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: mem})
	must(t, err)
	must(t, errors.Join(db.Put([]byte("k"), bytes.Repeat([]byte("v"), 100)), db.Close()))
	table := onlyTable(t, mem)
	b, err := vfs.ReadFile(mem, table, 1<<20)
	must(t, err)
	b[5] ^= 1
	must(t, mem.Remove(table))
	f, err := mem.Create(table)
	must(t, err)
	_, err = f.Write(b)
	must(t, errors.Join(err, f.Close()))
	db, err = bloomkv.Open("db", &bloomkv.Options{FS: mem})
	must(t, err)
	d := open(t, mem)
	if _, err := backup.Make(ctx, db, d); !errors.Is(err, bloomkv.ErrCorruption) ||
		!strings.Contains(err.Error(), "offset 0") {
		t.Errorf("Make: %v, want damage at offset 0", err)
	}
	for _, kind := range []string{"generations/", "tables/"} {
		if all, err := d.List(ctx, kind); err != nil || len(all) > 0 {
			t.Errorf("%v, %v; want none, and no part of one", all, err)
		}
	}
	must(t, errors.Join(d.Close(), db.Close()))
}

// onlyTable returns the path of the only table of a store.
func onlyTable(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	names, err := fsys.List("db")
	must(t, err)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") })
	if i < 0 {
		t.Fatal(names)
	}
	return "db/" + names[i]
}

// TestANameLikeThatOfATableIsNoTable has an object whose name begins as that of the table of a store.
func TestANameLikeThatOfATableIsNoTable(t *testing.T) {
	ctx, d := t.Context(), open(t, vfstest.NewMem())
	db, write := written(t)
	write()
	for _, suffix := range []string{"", "0", ".old"} {
		r, err := backup.Make(ctx, db, d)
		if err != nil || r.Stored != r.Tables || r.Tables != 1 {
			t.Errorf("beside %q: %+v, %v; want that the table is stored", suffix, r, err)
		}
		names, err := d.List(ctx, "tables/")
		must(t, err)
		must(t, d.Put(ctx, names[0]+suffix+"x", strings.NewReader("")))
		must(t, d.Delete(ctx, names[0]))
	}
	must(t, d.Close())
}

// TestVerifyReadsALargeTableInParts has a table that takes more than one read.
func TestVerifyReadsALargeTableInParts(t *testing.T) {
	ctx, d := t.Context(), open(t, vfstest.NewMem())
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem(), Compression: bloomkv.CompressionNone})
	must(t, errors.Join(err, db.Put([]byte("k"), make([]byte, 600<<10))))
	_, err = backup.Make(ctx, db, d)
	must(t, errors.Join(err, backup.Verify(ctx, d, nil), d.Close(), db.Close()))
}

// TestVerifyComparesFingerprints stores a table under the name that another fingerprint in the generation gives it.
func TestVerifyComparesFingerprints(t *testing.T) {
	ctx, d := t.Context(), oneGeneration(t)
	in, err := stream.NewReader(bytes.NewReader(content(t, d, "generations/00000001")))
	must(t, err)
	name := func() string {
		id := in.Header.Tables[0].Identity()
		return fmt.Sprintf("tables/%016x-%x-%016x", id.ID, id.Size, id.Sum)
	}
	b := content(t, d, name())
	in.Header.Tables[0].Sum++
	must(t, d.Put(ctx, name(), bytes.NewReader(b)))
	w, err := stream.NewWriter(in.Header)
	must(t, err)
	var generation bytes.Buffer
	_, err = w.Write(&generation, nil)
	must(t, errors.Join(err, d.Put(ctx, "generations/00000001", &generation)))
	for what, err := range map[string]error{
		"Verify":  backup.Verify(ctx, d, nil),
		"Restore": backup.Restore(ctx, d, 1, "new", bloomkv.NewStoreOptions{FS: vfstest.NewMem()}),
	} {
		if !errors.Is(err, bloomkv.ErrCorruption) || !strings.Contains(err.Error(), "fingerprint") {
			t.Errorf("%s: %v, want another fingerprint", what, err)
		}
	}
	must(t, d.Close())
}

// A storageOf lists its names backwards, and asks fails before each call.
type storageOf struct {
	backup.Storage

	fails func(call, name string) error
}

func (s *storageOf) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := s.Storage.List(ctx, prefix)
	slices.Sort(names)
	slices.Reverse(names)
	return names, errors.Join(err, s.fails("list", prefix))
}

func (s *storageOf) Delete(ctx context.Context, name string) error {
	return errors.Join(s.Storage.Delete(ctx, name), s.fails("delete", name))
}

// TestAPruneEndsWithTheErrorOfItsStorage has three generations, of which the newest is kept, and a table of no other.
func TestAPruneEndsWithTheErrorOfItsStorage(t *testing.T) {
	for _, c := range []struct {
		call, prefix string
		err, want    error
	}{
		{"none", "", nil, nil},
		{"delete", "generations/", fs.ErrNotExist, nil}, // as another Prune may have been faster
		{"delete", "generations/", syscall.EIO, syscall.EIO},
		{"delete", "tables/", syscall.EIO, syscall.EIO},
		{"list", "generations/", syscall.EIO, syscall.EIO},
		{"list", "tables/", syscall.EIO, syscall.EIO},
	} {
		d := open(t, vfstest.NewMem())
		db, write := written(t)
		s := &storageOf{d, func(string, string) error { return nil }}
		for n := range uint64(3) {
			write()
			r, err := backup.Make(t.Context(), db, s)
			if err != nil || r.Generation != n+1 {
				t.Fatalf("generation %d, %v, want %d", r.Generation, err, n+1)
			}
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
		}
		failed := false // once is enough
		s.fails = func(call, name string) error {
			if !failed && call == c.call && strings.HasPrefix(name, c.prefix) {
				failed = true
				return c.err
			}
			return nil
		}
		if err := backup.Prune(t.Context(), s, 0); err == nil {
			t.Error("no generation is to be kept, and that is no error")
		}
		if err := backup.Prune(t.Context(), s, 1); !errors.Is(err, c.want) {
			t.Errorf("%s %s: %v, want %v", c.call, c.prefix, err, c.want)
		}
		failed = false
		if _, err := backup.Make(t.Context(), db, s); c.call == "list" && !errors.Is(err, c.err) {
			t.Errorf("%s %s: Make returns %v, want %v", c.call, c.prefix, err, c.err)
		}
		left, err := backup.List(t.Context(), d)
		if err != nil || c.want == nil && left[0] != 3 {
			t.Errorf("%s %s: generations %d are left, %v", c.call, c.prefix, left, err)
		}
		must(t, errors.Join(d.Close(), db.Close()))
	}
}
