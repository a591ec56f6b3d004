package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// grown returns a store with tables on several levels and writes in memory, and its contents.
func grown(t *testing.T, fsys vfs.FS) (*bloomkv.DB, map[string]string) {
	t.Helper()
	o := storetest.Tiny(fsys)
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	rng := rand.New(rand.NewPCG(35, 0))
	want := map[string]string{}
	for i := range 600 {
		w := modelWrite{
			{key: fmt.Sprintf("k%03d", rng.IntN(400)), value: strings.Repeat(fmt.Sprint(i, "."), rng.IntN(80))},
			{key: fmt.Sprintf("k%03d", rng.IntN(400)), del: true},
		}
		must(t, db.ApplyWith(w.batch(), bloomkv.DurabilityNoSync))
		w.apply(want)
		if i == 400 {
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		}
	}
	return db, want
}

// enlarge overwrites keys of a grown store, so that it has three tables at least, whatever compaction does.
func enlarge(t *testing.T, db *bloomkv.DB, want map[string]string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{}) // no compression makes it smaller
	for i := range 60 {
		k, v := fmt.Sprintf("k%03d", i), make([]byte, 1000)
		_, _ = random.Read(v)
		must(t, db.Put([]byte(k), v))
		want[k] = string(v)
	}
}

// holds opens a store in each mode and compares its contents; the last mode also writes.
func holds(fsys vfs.FS, dir string, want map[string]string) error {
	o := storetest.Tiny(fsys)
	if _, err := bloomkv.Check(context.Background(), dir, bloomkv.CheckOptions{FS: o.FS}); err != nil {
		return err
	}
	for _, readOnly := range []bool{true, false} {
		o.ReadOnly, o.ErrorIfMissing = readOnly, true
		db, err := bloomkv.Open(dir, o)
		if err != nil {
			return err
		}
		got, err := storetest.Contents(db)
		if d := storetest.Diff(got, want); err == nil && d != "" {
			err = errors.New(d)
		}
		if err == nil {
			err = lookupsAgree(db, want)
		}
		if err == nil && !readOnly {
			for i := range 50 {
				err = errors.Join(err, db.Put(fmt.Appendf(nil, "k%03d", i), []byte("newer"))) // newer by sequence, too
			}
			err = errors.Join(err, db.Compact(context.Background(), bloomkv.CompactOptions{}))
			if v, getErr := db.Get([]byte("k007")); string(v) != "newer" {
				err = errors.Join(err, getErr, fmt.Errorf("a write after it: %.40q, want newer", v))
			}
		}
		if err = errors.Join(err, db.Close()); err != nil {
			return err
		}
	}
	_, err := bloomkv.Check(context.Background(), dir, bloomkv.CheckOptions{FS: o.FS})
	return err
}

func TestACheckpointIsTheStoreAtTheCallAndCopiesNoTable(t *testing.T) {
	mem := vfstest.NewMem()
	var created, linked atomic.Int64
	db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
		switch {
		case op.Kind == vfstest.OpCreate && strings.HasPrefix(op.Name, "copy") && strings.HasSuffix(op.Name, ".sst"):
			created.Add(1)
		case op.Kind == vfstest.OpLink:
			linked.Add(1)
		}
		return nil
	}))
	defer db.Close()
	enlarge(t, db, want)
	must(t, db.Checkpoint(t.Context(), "copy"))
	lost := mem.Crash(vfstest.KeepNothing)
	names, err := lost.List("copy")
	if err != nil || !slices.Contains(names, filename.LockName) ||
		slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".log") }) {
		t.Errorf("after a power cut it has %q, %v; want a LOCK and no log", names, err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".sst") })
	if n := linked.Load(); created.Load() != 0 || n < 2 || n != int64(len(names)) {
		t.Errorf("%d tables created and %d linked; the copy has %q", created.Load(), n, names)
	}
	if err := holds(lost, "copy", want); err != nil {
		t.Errorf("after a power cut: %v", err)
	}
	// Source and copy stay usable independently of each other.
	for i := range 400 {
		must(t, db.Put(fmt.Appendf(nil, "k%03d", i), []byte("source")))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	if err := holds(mem, "copy", want); err != nil {
		t.Error(err)
	}
	for i := range 400 {
		if v, err := db.Get(fmt.Appendf(nil, "k%03d", i)); string(v) != "source" {
			t.Fatalf("the source's key %d: %q, %v", i, v, err)
		}
	}
	must(t, db.Close())
	if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem}); err != nil {
		t.Error(err)
	}
}

func TestACheckpointOnDiskSharesFilesWithItsSource(t *testing.T) {
	tmp := t.TempDir()
	source, dir := filepath.Join(tmp, "db"), filepath.Join(tmp, "copy")
	db := storetest.Open(t, source, storetest.Tiny(vfs.OS))
	defer db.Close()
	must(t, errors.Join(db.Put([]byte("k"), []byte("v")), db.Checkpoint(t.Context(), dir)))
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("tables %q, %v, want one", tables, err)
	}
	a, errA := os.Stat(tables[0])
	b, errB := os.Stat(filepath.Join(source, filepath.Base(tables[0])))
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		t.Errorf("%s is not the source's file: %v, %v", tables[0], errA, errB)
	}
	if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
		t.Error(err)
	}
	if err := holds(vfs.OS, dir, map[string]string{"k": "v"}); err != nil {
		t.Error(err)
	}
}

func TestACheckpointCopiesWhereLinksCannotBeMade(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpLink {
			return fmt.Errorf("another device: %w", errors.ErrUnsupported)
		}
		return nil
	}))
	defer db.Close()
	must(t, db.Checkpoint(t.Context(), "copy"))
	if err := holds(mem.Crash(vfstest.KeepNothing), "copy", want); err != nil {
		t.Errorf("after a power cut: %v", err)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	if err := holds(mem, "copy", want); err != nil {
		t.Error(err)
	}
}

func TestACheckpointLogsItsFigures(t *testing.T) {
	for _, copies := range []bool{false, true} {
		var logged strings.Builder
		o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
			if copies && op.Kind == vfstest.OpLink {
				return errors.ErrUnsupported
			}
			return nil
		}))
		o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		db := storetest.Open(t, "db", o)
		must(t, errors.Join(db.Put([]byte("key"), nil), db.Checkpoint(t.Context(), "copy")))
		want := fmt.Sprintf("dir=copy tables=1 bytes=%d copied=0 ", db.Tables()[0].Bytes)
		if copies {
			want = strings.Replace(want, "copied=0", "copied=1", 1)
		}
		must(t, db.Close())
		if !strings.Contains(logged.String(), want) {
			t.Errorf("no %q in\n%s", want, logged.String())
		}
	}
}

func TestACheckpointOfLittle(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, db *bloomkv.DB) // called before the store is reopened
		open int
	}{
		{"a new store", func(*testing.T, *bloomkv.DB) {}, 0},
		{"a store just opened", func(t *testing.T, db *bloomkv.DB) {
			t.Helper()
			must(t, db.Put([]byte("k"), []byte("v")))
		}, 2},
		{"a store of deletes", func(t *testing.T, db *bloomkv.DB) {
			t.Helper()
			for range 3 {
				must(t, errors.Join(db.Delete([]byte("k")), db.Flush(t.Context())))
			}
		}, 0},
		{"an empty store that was reopened", func(*testing.T, *bloomkv.DB) {}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfstest.NewMem()
			db, err := bloomkv.Open("db", storetest.Tiny(mem))
			must(t, err)
			c.make(t, db)
			for range c.open {
				must(t, db.Close())
				db = storetest.Open(t, "db", storetest.Tiny(mem))
			}
			want, err := storetest.Contents(db)
			must(t, err)
			must(t, mem.Mkdir("empty"))
			for _, dir := range []string{"copy", "empty", filepath.Join("a-db", "..", "beside")} {
				if err := db.Checkpoint(t.Context(), dir); err != nil {
					t.Errorf("%s: %v", dir, err)
				}
				if err := holds(mem.Crash(vfstest.KeepNothing), dir, want); err != nil {
					t.Errorf("%s: %v", dir, err)
				}
			}
			must(t, db.Close())
			if err := holds(mem, "db", want); err != nil {
				t.Errorf("the source: %v", err)
			}
		})
	}
}

// TestACheckpointOfACheckpointHasItsNumbers checks the numbers from which the copy continues.
func TestACheckpointOfACheckpointHasItsNumbers(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	source := "db"
	for i := range 3 {
		dir := fmt.Sprint("copy", i)
		if i == 1 { // then no table has the newest sequence numbers
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		}
		must(t, db.Checkpoint(t.Context(), dir))
		must(t, db.Close())
		last := storetest.Recorded(t, mem, source).LastSeq
		source = dir
		got := storetest.Recorded(t, mem, dir) // before it is opened: an open store may begin another manifest at once
		if got.LastSeq < last || got.Log != nil || got.MinLog != got.ManifestNumber ||
			got.NextFile != got.ManifestNumber+1 {
			t.Errorf("%s has last sequence %d, manifest %d, log %v from %d on; the source's last is %d", dir,
				got.LastSeq, got.ManifestNumber, got.Log, got.MinLog, last)
		}
		for level, runs := range got.Version.Levels {
			for _, run := range runs {
				for _, table := range run.Tables {
					if run.ID >= got.NextFile || table.Number >= got.NextFile || table.MaxSeq > got.LastSeq {
						t.Errorf("%s has run %d, table %v on level %d", dir, run.ID, table, level)
					}
				}
			}
		}
		var err error
		db = storetest.Open(t, dir, storetest.Tiny(mem))
		w := modelWrite{{key: fmt.Sprintf("k%03d", i), value: "newer"}, {key: fmt.Sprintf("k%03d", i+5), del: true}}
		must(t, db.ApplyWith(w.batch(), bloomkv.DurabilitySync))
		w.apply(want)
		all, err := storetest.Contents(db)
		if err != nil || storetest.Diff(all, want) != "" {
			t.Errorf("%s: %v, %s", dir, err, storetest.Diff(all, want))
		}
	}
	must(t, db.Close())
}

func TestACheckpointInsideItsOwnStoreIsRefused(t *testing.T) {
	for _, fsys := range []vfs.FS{vfs.OS, vfstest.NewMem()} {
		t.Run(fmt.Sprintf("%T", fsys), func(t *testing.T) {
			t.Chdir(t.TempDir())
			o := storetest.Tiny(fsys)
			db := storetest.Open(t, "db", o)
			defer db.Close()
			targets := []string{"db/copy", "db/../db/copy", "beside/../db/copy", "db/sub", "db/sub/copy"}
			must(t, errors.Join(fsys.Mkdir(filepath.FromSlash("db/sub")), fsys.Mkdir("beside")))
			if fsys == vfs.OS {
				for link, to := range map[string]string{"to-db": "db", "beside/to-sub": "../db/sub"} {
					if err := os.Symlink(filepath.FromSlash(to), filepath.FromSlash(link)); err != nil {
						t.Skip("no links here: ", err)
					}
				}
				wd, err := os.Getwd()
				must(t, err)
				targets = append(targets, "to-db/copy", "beside/to-sub", "beside/to-sub/copy",
					filepath.Join(wd, "to-db", "copy"))
			}
			must(t, db.Flush(t.Context()))
			before, err := fsys.List("db")
			must(t, err)
			for _, dir := range targets {
				dir = filepath.FromSlash(dir)
				if err := db.Checkpoint(t.Context(), dir); err == nil ||
					!strings.HasSuffix(err.Error(),
						"checkpoint "+dir+": lies inside the directory of the store itself") {
					t.Errorf("%s: got %v", dir, err)
				}
				after, err := fsys.List("db")
				sub, errSub := fsys.List(filepath.FromSlash("db/sub"))
				if err != nil || errSub != nil || !slices.Equal(before, after) || len(sub) > 0 {
					t.Errorf("%s: the store holds %q and %q, %v, %v, want %q", dir, after, sub, err, errSub, before)
				}
			}
			for _, dir := range []string{"copy", "db2", filepath.FromSlash("db/../copy2")} {
				if err := db.Checkpoint(t.Context(), dir); err != nil {
					t.Errorf("%s next to the store: %v", dir, err)
				}
			}
		})
	}
}

func TestACheckpointOverwritesNothing(t *testing.T) {
	mem := vfstest.NewMem()
	db, _ := grown(t, mem)
	defer db.Close()
	other := storetest.Open(t, "open", storetest.Tiny(mem))
	defer other.Close()
	for _, make := range []func() error{
		func() error { return mem.Mkdir("full") }, func() error { return replaceNone(mem, "full/x") },
		func() error { return mem.Mkdir("locked") }, func() error { return replaceNone(mem, "locked/LOCK") },
		func() error { return replaceNone(mem, "file") }, func() error { return db.Checkpoint(t.Context(), "copy") },
	} {
		must(t, make())
	}
	tree := func() string {
		var all []string
		for _, dir := range []string{".", "full", "locked", "copy", "open"} {
			names, err := mem.List(dir)
			all = append(all, fmt.Sprint(dir, names, err))
		}
		return strings.Join(all, "; ")
	}
	before := tree()
	for dir, want := range map[string]error{
		"full": fs.ErrExist, "locked": fs.ErrExist, "file": fs.ErrExist, "copy": fs.ErrExist, "db": fs.ErrExist,
		"open": fs.ErrExist, ".": fs.ErrExist, filepath.Join("no", "parent"): fs.ErrNotExist,
	} {
		if err := db.Checkpoint(t.Context(), dir); !errors.Is(err, want) ||
			!strings.Contains(err.Error(), "checkpoint "+dir) {
			t.Errorf("%s: got %v, want %v and the directory", dir, err, want)
		}
	}
	if after := tree(); after != before {
		t.Errorf("left %s, want %s", after, before)
	}
}

// TestACheckpointKeepsTheTablesThatItHasYetToTake stops a checkpoint before a table and replaces all tables of the
// store.
func TestACheckpointKeepsTheTablesThatItHasYetToTake(t *testing.T) {
	for _, copies := range []bool{false, true} {
		for stop := range 3 {
			g := storetest.NewGate()
			n := 0
			mem := vfstest.NewMem()
			db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
				if op.Kind == vfstest.OpLink && isOfCopy(op) {
					if n++; n == stop+1 {
						g.Pass()
					}
					if copies {
						return errors.ErrUnsupported
					}
				}
				return nil
			}))
			enlarge(t, db, want)
			done := make(chan error, 1)
			go func() { done <- db.Checkpoint(t.Context(), "copy") }()
			g.Wait(t, "the table")
			for round := range 3 {
				for i := range 400 {
					must(t, db.Put(fmt.Appendf(nil, "k%03d", i), fmt.Append(nil, round)))
				}
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			}
			removeObsolete(t, db)
			close(g.Open)
			if err := <-done; err != nil {
				t.Fatalf("stopped at table %d, copies: %v: %v", stop, copies, err)
			}
			if err := errors.Join(holds(mem, "copy", want), db.Close()); err != nil {
				t.Errorf("stopped at table %d, copies: %v: %v", stop, copies, err)
			}
		}
	}
}

// TestACheckpointTakesItsStateBetweenTwoEdits begins a checkpoint while a compaction's edit is under way, and removes
// the tables that the compaction replaced before the checkpoint links one. The manifest's counts and the state that
// keeps the tables must be of one moment.
func TestACheckpointTakesItsStateBetweenTwoEdits(t *testing.T) {
	enter, edit, take := storetest.NewGate(), storetest.NewGate(), storetest.NewGate()
	var editing atomic.Bool
	mem := vfstest.NewMem()
	db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
		switch {
		case op.Kind == vfstest.OpLock && op.Name == "copy/"+filename.LockName:
			enter.Pass()
		case op.Kind == vfstest.OpLink && isOfCopy(op):
			take.Pass()
		case op.Kind == vfstest.OpSync && strings.Contains(op.Name, "MANIFEST") && editing.Load() &&
			storetest.Inside(storetest.CompactLoop):
			edit.Pass()
		}
		return nil
	}))
	made, compacted := make(chan error, 1), make(chan error, 1)
	go func() { made <- db.Checkpoint(t.Context(), "copy") }()
	enter.Wait(t, "the checkpoint's directory")
	for k, v := range want { // something to compact, which may else be done already
		must(t, db.Put([]byte(k), []byte(v)))
		break
	}
	editing.Store(true)
	go func() { compacted <- db.Compact(t.Context(), bloomkv.CompactOptions{}) }()
	edit.Wait(t, "the compaction's edit")
	close(enter.Open)
	testkit.Soon(t, "the checkpoint waits for the edit, or takes a table", func() bool {
		return len(take.Come) > 0 || storetest.Waiting(storetest.CopyTo)
	})
	if len(take.Come) > 0 {
		t.Error("a table is taken while an edit is under way")
	}
	close(edit.Open)
	must(t, <-compacted)
	take.Wait(t, "the first table of the checkpoint, after it took its state")
	removeObsolete(t, db)
	close(take.Open)
	must(t, <-made)
	must(t, errors.Join(holds(mem, "copy", want), db.Close()))
}

// removeObsolete waits until the store has released the states that were replaced, and flushes, which removes the files
// that no state needs.
func removeObsolete(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	testkit.Soon(t, "replaced states are released", func() bool { return !storetest.Running(storetest.EpochWait) })
	for range 2 {
		must(t, errors.Join(db.Put([]byte("k"), nil), db.Flush(t.Context())))
	}
}

// TestAScanKeepsItsTablesOnTheDisk stops a scan in the middle and replaces all tables that it reads.
func TestAScanKeepsItsTablesOnTheDisk(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	got := map[string]string{}
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		must(t, err)
		if len(got) == 3 {
			for i := range 400 {
				must(t, db.Put(fmt.Appendf(nil, "k%03d", i), []byte(strings.Repeat("n", 50))))
			}
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			removeObsolete(t, db)
			if obsolete := db.Metrics().Files.Obsolete; obsolete == 0 {
				t.Error("no file is kept for the scan")
			}
		}
		got[string(kv.Key)] = string(kv.Value)
	}
	if d := storetest.Diff(got, want); d != "" {
		t.Errorf("the scan: %s", d)
	}
	storetest.AtRest(t, db, mem, "db")
	if obsolete := db.Metrics().Files.Obsolete; obsolete != 0 {
		t.Errorf("%d obsolete files are kept after the scan", obsolete)
	}
	must(t, db.Close())
}
