package tests

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// writeStore makes a closed store of n keys with a value.
func writeStore(t *testing.T, fsys vfs.FS, n int, value string) {
	t.Helper()
	o := salvageOptions(fsys)
	db, err := bloomkv.Open("db", o)
	must(t, err)
	for i := range n {
		must(t, db.Put(fmt.Appendf(nil, "key%04d", i), []byte(value)))
	}
	must(t, db.Close())
}

// readAll returns the contents of a store that is not open.
func readAll(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	db, err := bloomkv.Open(dir, &bloomkv.Options{FS: fsys, ReadOnly: true, MemoryBudget: 8 << 20})
	must(t, err)
	got, err := storetest.Contents(db)
	must(t, errors.Join(err, db.Close()))
	return got
}

func TestSalvageLeavesAStoreThatIsOpenAlone(t *testing.T) {
	fsys := vfstest.NewMem()
	writeStore(t, fsys, 10, "v")
	o := salvageOptions(fsys)
	writer, err := bloomkv.Open("db", o)
	must(t, err)
	if _, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: o}); !errors.Is(err, bloomkv.ErrLocked) {
		t.Errorf("while the store is open for writing: %v, want ErrLocked", err)
	}
	if _, err := fsys.Stat("new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
	must(t, writer.Close())
	readOnly := *o
	readOnly.ReadOnly = true
	reader, err := bloomkv.Open("db", &readOnly)
	must(t, err)
	if _, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: o}); err != nil {
		t.Errorf("while a reader has the store open: %v", err)
	}
	must(t, reader.Close())
	must(t, fsys.Remove(filepath.Join("db", "LOCK")))
	if _, err := salvage.Run(t.Context(), "db", "other", salvage.Options{Store: o}); err != nil {
		t.Errorf("without a file LOCK: %v", err)
	}
	if _, err := fsys.Stat(filepath.Join("db", "LOCK")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file LOCK was made: %v", err)
	}
}

// TestSalvageChangesNothingOfTheOldDirectory fails the test at every operation that changes something there.
func TestSalvageChangesNothingOfTheOldDirectory(t *testing.T) {
	for _, closed := range []bool{true, false} {
		d := newSalvageStore(t, closed)
		fsys := vfstest.NewHook(d.fs, func(op vfstest.Op) error {
			if op.Kind.Changes() && (filepath.Dir(op.Name) == "db" || op.Name == "db") {
				t.Errorf("%v", op)
				return fs.ErrPermission
			}
			return nil
		})
		report, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(fsys)})
		if err != nil || len(report.Lost) > 0 || report.Keys != uint64(len(d.full)) {
			t.Errorf("%+v, %v", report, err)
		}
		if got := readAll(t, d.fs, "new"); storetest.Diff(got, d.full) != "" {
			t.Error(storetest.Diff(got, d.full))
		}
	}
}

func TestSalvageRefusesADirectoryThatIsNotForIt(t *testing.T) {
	fsys := vfstest.NewMem()
	writeStore(t, fsys, 10, "v")
	for _, dir := range []string{"empty", "full"} {
		must(t, fsys.Mkdir(dir))
	}
	if _, err := fsys.Create(filepath.Join("full", "something")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, dir, new string
		is             error
	}{
		{"one that is not empty", "db", "full", fs.ErrExist},
		{"the store itself", "db", "db", fs.ErrExist},
		{"one in the store", "db", filepath.Join("db", "new"), newstore.ErrInside},
		{"one without a parent", "db", filepath.Join("none", "new"), fs.ErrNotExist},
		{"of a directory without a store", "empty", "new", fs.ErrNotExist},
		{"of a directory that does not exist", "none", "new", fs.ErrNotExist},
		{"of foreign files", "full", "new", fs.ErrNotExist},
	} {
		before := filesIn(t, fsys)
		_, err := salvage.Run(t.Context(), test.dir, test.new, salvage.Options{Store: salvageOptions(fsys)})
		if !errors.Is(err, test.is) {
			t.Errorf("%s: %v, want %v", test.name, err, test.is)
		}
		if !maps.Equal(before, filesIn(t, fsys)) {
			t.Errorf("%s: the store was changed", test.name)
		}
		if _, err := fsys.Stat("new"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a directory was left: %v", test.name, err)
		}
	}
	if _, err := salvage.Run(t.Context(), "db", "empty", salvage.Options{Store: salvageOptions(fsys)}); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestSalvageThatFailsLeavesNothing makes each operation that changes something fail in turn, and cancels the context
// at each step.
func TestSalvageThatFailsLeavesNothing(t *testing.T) {
	d := newSalvageStore(t, false)
	failed, errFails := 0, errors.New("it fails")
	for at := 1; ; at++ {
		mem := d.fs.Kill()
		n := 0
		hook := vfstest.NewHook(mem, func(op vfstest.Op) error {
			if op.Kind.Changes() && op.Kind != vfstest.OpRemove {
				if n++; n == at {
					return errFails
				}
			}
			return nil
		})
		_, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(hook)})
		if n < at {
			break
		}
		if failed++; err == nil { // operations after the new store is complete and durable
			t.Fatalf("operation %d of %d failed, but Salvage returned no error", at, n)
		}
		if _, e := mem.Stat("new"); !errors.Is(err, errFails) || !errors.Is(e, fs.ErrNotExist) {
			names, _ := mem.List("new")
			t.Fatalf("operation %d failed: %v; left %v", at, err, names)
		}
	}
	if failed < 10 {
		t.Errorf("only %d operations failed", failed)
	}
	for at := 0; ; at++ {
		mem := d.fs.Kill()
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		progress := func(done, total uint64) {
			if n++; n > at || done > total {
				cancel()
			}
		}
		_, err := salvage.Run(ctx, "db", "new", salvage.Options{Store: salvageOptions(mem), Progress: progress})
		cancel()
		if err == nil {
			break
		}
		if names, e := mem.List("new"); !errors.Is(err, context.Canceled) || e == nil {
			t.Fatalf("ended after %d steps: %v, left %v", at, err, names)
		}
	}
}

// TestSalvageThatIsCutShortLeavesNoStore crashes at each operation.
func TestSalvageThatIsCutShortLeavesNoStore(t *testing.T) {
	d := newSalvageStore(t, true)
	mem := d.fs.Kill()
	var crashed []*vfstest.Mem
	hook := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind.Changes() {
			crashed = append(crashed, mem.Kill())
		}
		return nil
	})
	_, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(hook)})
	must(t, err)
	for i, c := range crashed {
		db, err := bloomkv.Open("new", &bloomkv.Options{FS: c, ReadOnly: true, MemoryBudget: 8 << 20})
		if err == nil { // if CURRENT exists, all the rest must, too
			got, err := storetest.Contents(db)
			if err = errors.Join(err, db.Close()); err != nil || storetest.Diff(got, d.full) != "" {
				t.Errorf("crash before operation %d: %v, %s", i, err, storetest.Diff(got, d.full))
			}
		}
	}
}

// says reports whether one of the report's Unknown texts contains a part.
func says(r salvage.Report, part string) bool {
	return slices.ContainsFunc(r.Unknown, func(s string) bool { return strings.Contains(s, part) })
}

// TestWhatIsLeftOverDoesNotCount restores tables that a compaction has replaced, as a crash may leave them.
func TestWhatIsLeftOverDoesNotCount(t *testing.T) {
	fsys := vfstest.NewMem()
	writeStore(t, fsys, 100, "old")
	old := filesIn(t, fsys)
	db, err := bloomkv.Open("db", salvageOptions(fsys))
	must(t, err)
	for i := range 100 {
		if i%2 == 0 {
			err = db.Delete(fmt.Appendf(nil, "key%04d", i))
		} else {
			err = db.Put(fmt.Appendf(nil, "key%04d", i), []byte("new"))
		}
		must(t, err)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	want, err := storetest.Contents(db)
	if err != nil || len(want) != 50 {
		t.Fatal(err, len(want))
	}
	running := fsys.Kill() // the manifest has an edit that deletes the table
	must(t, db.Close())
	for name, mem := range map[string]*vfstest.Mem{"which an edit deletes": running, "from before the manifest": fsys} {
		back := 0
		for name, b := range old {
			if filepath.Ext(name) != ".sst" {
				continue
			}
			back++
			// Restore the tables that were removed.
			if _, err := mem.Stat(filepath.Join("db", name)); errors.Is(err, fs.ErrNotExist) {
				f, err := mem.Create(filepath.Join("db", name))
				if err == nil {
					_, err = f.Write([]byte(b))
				}
				must(t, errors.Join(err, f.Close()))
			}
		}
		report, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(mem)})
		if err != nil || back == 0 || !says(report, "these tables were replaced") {
			t.Errorf("tables %s: %d, %v, %q", name, back, err, report.Unknown)
		}
		if got := readAll(t, mem, "new"); storetest.Diff(got, want) != "" {
			t.Errorf("tables %s: %s", name, storetest.Diff(got, want))
		}
		// Without a manifest, Salvage can't know this and must report it.
		for name := range filesIn(t, mem) {
			if kind, _ := filename.Parse(name); kind == filename.Manifest || kind == filename.Current {
				must(t, mem.Remove(filepath.Join("db", name)))
			}
		}
		report, err = salvage.Run(t.Context(), "db", "without", salvage.Options{Store: salvageOptions(mem)})
		if err != nil || report.Manifest != "" || !says(report, "No manifest could be read") {
			t.Errorf("without a manifest: %v, %q", err, report.Unknown)
		}
		for k, v := range readAll(t, mem, "without") {
			if v != "old" && v != "new" {
				t.Errorf("unexpected %q = %q", k, v)
			}
		}
	}
}

func TestSalvageRefusesAFormatOfTheFuture(t *testing.T) {
	fsys := vfstest.NewMem()
	writeStore(t, fsys, 10, "v")
	s, err := manifest.Load(fsys, "db")
	must(t, err)
	for _, m := range s.Version.Tables() {
		storetest.Rewrite(t, fsys, filename.Make("db", filename.Table, m.Number), futureFooter)
	}
	_, err = salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(fsys)})
	if !errors.Is(err, bloomkv.ErrUnsupportedVersion) || errors.Is(err, bloomkv.ErrCorruption) {
		t.Errorf("%v, want ErrUnsupportedVersion", err)
	}
	if _, err := fsys.Stat("new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
}

// TestSalvageOfManyDamages damages tables at several random offsets each, and checks only that the new store has no
// values that were never written.
func TestSalvageOfManyDamages(t *testing.T) {
	d := newSalvageStore(t, false)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		mem := d.fs.Kill()
		for _, file := range d.files {
			if rng.IntN(3) > 0 {
				storetest.Rewrite(t, mem, filepath.Join("db", file), func(b []byte) []byte {
					for range rng.IntN(4) {
						b[rng.IntN(d.sizes[file])] ^= byte(1 + rng.IntN(255))
					}
					if rng.IntN(8) == 0 {
						b = b[:rng.IntN(len(b))]
					}
					return b
				})
			}
		}
		if _, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(mem)}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := bloomkv.Check(t.Context(), "new", bloomkv.CheckOptions{FS: mem}); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		for k, v := range readAll(t, mem, "new") {
			if !d.ever[k][v] {
				t.Errorf("round %d: %q has %q, which was never written", round, k, v)
			}
		}
	}
}

// futureFooter changes the version of a table to an unknown one.
func futureFooter(b []byte) []byte {
	f := b[len(b)-80:]
	f[68] = 200
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(f[64:], crc32.Update(crc32.Checksum(f[:64], table), table, f[68:]))
	return b
}
