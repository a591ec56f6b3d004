package tests

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// writeStore makes a closed store of n keys with a value.
func writeStore(t *testing.T, fsys vfs.FS, n int, value string) {
	t.Helper()
	o := salvageOptions(fsys)
	db := storetest.Open(t, "db", o)
	for i := range n {
		must(t, db.Put(fmt.Appendf(nil, "key%04d", i), []byte(value)))
	}
	must(t, db.Close())
}

// readAll returns the contents of a store that is not open.
func readAll(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	db := storetest.Open(t, dir, &bloomkv.Options{FS: fsys, ReadOnly: true, MemoryBudget: 8 << 20})
	got, err := storetest.Contents(db)
	must(t, errors.Join(err, db.Close()))
	return got
}

func TestSalvageLeavesAStoreThatIsOpenAlone(t *testing.T) {
	fsys := vfstest.NewMem()
	writeStore(t, fsys, 10, "v")
	o := salvageOptions(fsys)
	writer := storetest.Open(t, "db", o)
	if _, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: o}); !errors.Is(err, bloomkv.ErrLocked) {
		t.Errorf("while the store is open for writing: %v, want ErrLocked", err)
	}
	if _, err := fsys.Stat("new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
	must(t, writer.Close())
	readOnly := *o
	readOnly.ReadOnly = true
	reader := storetest.Open(t, "db", &readOnly)
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

// TestSalvageThatFailsLeavesNothing makes each operation that changes something, or closes a table or a log, fail in
// turn, and cancels the context at each step.
func TestSalvageThatFailsLeavesNothing(t *testing.T) {
	testkit.Long(t)
	d := newSalvageStore(t, false)
	failed, errFails := 0, errors.New("it fails")
	for at := 1; ; at++ {
		mem := d.fs.Kill()
		n := 0
		open := storetest.TrackOpen(vfstest.NewHook(mem, func(op vfstest.Op) error {
			closes := op.Kind == vfstest.OpClose && (filepath.Ext(op.Name) == ".sst" || filepath.Ext(op.Name) == ".log")
			if op.Kind.Changes() && op.Kind != vfstest.OpRemove || closes {
				if n++; n == at {
					return errFails
				}
			}
			return nil
		}))
		_, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(open)})
		must(t, open.Left())
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
		open := storetest.TrackOpen(mem)
		_, err := salvage.Run(ctx, "db", "new", salvage.Options{Store: salvageOptions(open), Progress: progress})
		must(t, open.Left())
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

// TestSalvageTellsOfALogThatIsMissingOrCut removes the only log, which the manifest names, and cuts it where it is
// durable by the manifest.
func TestSalvageTellsOfALogThatIsMissingOrCut(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", salvageOptions(mem))
	must(t, storetest.PutWith(db, bloomkv.DurabilitySync, []byte("key"), []byte("acknowledged")))
	storetest.AtRest(t, db, mem, "db") // the manifest names the log
	recorded := storetest.Recorded(t, mem, "db").Log
	log := filename.Make("db", filename.Log, recorded.Number)
	whole := filesIn(t, mem)[filepath.Base(log)]
	for _, c := range []struct {
		keep int
		part string
	}{{int(recorded.Synced), ""}, {int(recorded.Synced) - 1, "log record"}, {0, "header of the log"}, {-1, "log"}} {
		killed := mem.Kill()
		must(t, killed.Remove(log))
		if c.keep >= 0 {
			must(t, writeFiles(killed, "db", map[string][]byte{filepath.Base(log): []byte(whole)[:c.keep]}))
		}
		report, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: salvageOptions(killed)})
		must(t, err)
		lost := ""
		if len(report.Lost) > 0 {
			lost = report.Lost[0].Part
		}
		if lost != c.part || report.Whole() != (lost == "") || says(report, "a key may be missing") != (lost != "") {
			t.Errorf("%d bytes of the log: lost %+v, whole %v, %q; want %q lost", c.keep, report.Lost, report.Whole(),
				report.Unknown, c.part)
		}
	}
	must(t, db.Close())
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
	testkit.LongUnderRace(t)
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

// everywhere makes the test damage each byte and truncate files at each length, instead of a selection: it takes
// minutes.
var everywhere = flag.Bool("everywhere", false, "salvage a store with damage at every byte of every file")

// TestSalvageLosesOnlyWhatDamagedBlocksHeld flips a bit in bytes of every file of a store, truncates files and removes
// them. Everything outside of damaged blocks must be in the new store.
func TestSalvageLosesOnlyWhatDamagedBlocksHeld(t *testing.T) {
	testkit.Long(t)
	for _, closed := range []bool{true, false} {
		t.Run(fmt.Sprintf("closed %v", closed), func(t *testing.T) {
			d := newSalvageStore(t, closed)
			stride := 173
			if *everywhere {
				stride = 1
			}
			edges := map[string]map[int]bool{} // offsets at which parts of a file begin or end
			for _, i := range d.items {
				if edges[i.file] == nil {
					edges[i.file] = map[int]bool{}
				}
				edges[i.file][i.from], edges[i.file][i.to] = true, true
			}
			var all []salvageDamage
			total, shift := 0, 0
			for _, file := range d.files {
				n := d.sizes[file]
				total += n
				all = append(all, removed(file))
				for at := range n {
					near := edges[file][at] || edges[file][at+1] || at < 2 || at >= n-2
					if (at+shift)%stride == 0 || near && at%7 == 0 {
						all = append(all, flipped(file, at, at%8))
					}
					if (at+shift)%(3*stride) == 0 || near && (*everywhere || at%5 == 0) {
						all = append(all, cutTo(file, at))
					}
				}
				shift += n
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for !t.Failed() {
						i := int(next.Add(1) - 1)
						if i >= len(all) {
							return
						}
						d.try(t, all[i])
						storetest.Progress.Add(1)
					}
				})
			}
			wg.Wait()
			t.Logf("%d bytes in %d files, %d damages", total, len(d.files), len(all))
		})
	}
}

// TestSalvageKeepsTheDataWhateverTheNumbersAre sets each number of a store to values at its limits, with right
// checksums. What Salvage makes of it is sound, opens, takes a write, and has all data where the number says nothing
// about data.
func TestSalvageKeepsTheDataWhateverTheNumbersAre(t *testing.T) {
	testkit.LongUnderRace(t)
	numbers := []uint64{
		0, 1, manifest.MaxFile, manifest.MaxFile + 1, uint64(manifest.MaxWrite), uint64(manifest.MaxWrite) + 1,
		uint64(manifest.MaxSeq), uint64(manifest.MaxSeq) + 1, uint64(ikey.MaxSeq), uint64(ikey.MaxSeq) + 1,
		math.MaxUint64 - 1, math.MaxUint64,
	}
	edits := func(change func(e *manifest.Edit, n uint64)) func(s *forgedStore, n uint64) {
		return func(s *forgedStore, n uint64) { s.edit(func(e *manifest.Edit) { change(e, n) }) }
	}
	tests := []struct {
		what  string
		set   func(s *forgedStore, n uint64)
		whole bool // all data is kept
	}{
		{"next file", edits(func(e *manifest.Edit, n uint64) { e.NextFile = n }), true},
		{"last sequence", edits(func(e *manifest.Edit, n uint64) { e.LastSeq = ikey.Seq(n) }), true},
		{"mark", edits(func(e *manifest.Edit, n uint64) {
			e.Mark = batch.Mark{Seq: ikey.Seq(n), Bytes: []byte("m")}
		}), true},
		{"run", edits(func(e *manifest.Edit, n uint64) {
			for i := range e.Added {
				e.Added[i].Run = n - uint64(i)
			}
		}), false},
		{"sequences of tables", edits(func(e *manifest.Edit, n uint64) {
			for i := range e.Added {
				e.Added[i].Table.MinSeq, e.Added[i].Table.MaxSeq = ikey.Seq(n), ikey.Seq(n)
			}
		}), false},
		{"entries of tables", edits(func(e *manifest.Edit, n uint64) {
			for i := range e.Added {
				e.Added[i].Table.Entries = n
			}
		}), true},
		{"synced", edits(func(e *manifest.Edit, n uint64) {
			if e.Log != nil {
				e.Log.Synced = int64(n & math.MaxInt64)
			}
		}), true},
		{"sequence of a record", func(s *forgedStore, n uint64) {
			for _, records := range s.logs {
				records[0] = slices.Clone(records[0])
				binary.LittleEndian.PutUint64(records[0], n)
			}
		}, false},
	}
	step := min(storetest.Stride(), 2)
	for i, kind := range hostileKinds {
		want := salvagedContents(t, kind, kind.store(t))
		for _, tt := range tests {
			for j := i % step; j < len(numbers); j += step { // of two stores, one has every other number
				n, s := numbers[j], kind.store(t)
				for number, records := range s.logs {
					s.logs[number] = slices.Clone(records)
				}
				tt.set(s, n)
				got := salvagedContents(t, kind, s)
				for k, v := range want { // without an edit that cannot be read, a deleted key may be back
					if now, ok := got[k]; tt.whole && (!ok || now != v) {
						t.Errorf("%s %d, store %d: %q is %q, %v; want %q", tt.what, n, i, k, now, ok, v)
						break
					}
				}
			}
		}
	}
}

// salvagedContents returns what Salvage keeps of a store, after a check of the new store and a write to it.
func salvagedContents(t *testing.T, kind *hostileKind, s *forgedStore) map[string]string {
	t.Helper()
	mem := vfstest.NewMem()
	must(t, writeFiles(mem, "db", s.join()))
	o := kind.options(mem)
	if _, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: o}); err != nil {
		t.Errorf("Salvage: %v", err)
		return nil
	}
	little := *o // tables may claim more keys than this holds filters for
	little.FilterFPR, little.FilterMemory = 0, 64<<10
	_, err := salvage.Run(t.Context(), "db", "little", salvage.Options{Store: &little})
	if err != nil {
		t.Errorf("Salvage with FilterMemory: %v", err)
		return nil
	}
	db := storetest.Open(t, "little", &little)
	must(t, db.Close())
	_, err = bloomkv.Check(t.Context(), "new", bloomkv.CheckOptions{FS: mem})
	must(t, err)
	db = storetest.Open(t, "new", o)
	got, err := storetest.Contents(db)
	must(t, errors.Join(err, storetest.PutWith(db, bloomkv.DurabilitySync, []byte("later"), nil), db.Close()))
	db = storetest.Open(t, "new", o)
	if ok, err := db.Has([]byte("later")); !ok || err != nil {
		t.Errorf("a write to what was salvaged is %v, %v", ok, err)
	}
	must(t, db.Close())
	return got
}

// TestSalvageOfAGigabyte damages ten blocks of a store of 1 GB, half of which is in overlapping levels, and logs time
// and memory.
func TestSalvageOfAGigabyte(t *testing.T) {
	if !*everywhere {
		t.Skip("writes 2 GB: run it with -everywhere")
	}
	dir := filepath.Join(t.TempDir(), "db")
	const keys = 700_000
	rng := rand.NewChaCha8([32]byte{1})
	value := make([]byte, 1000)
	db := storetest.Open(t, dir, nil)
	key := func(i int) []byte { return binary.BigEndian.AppendUint64([]byte("key"), uint64(i)) }
	must(t, db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for i := range keys {
			_, _ = rng.Read(value)
			if !yield(bloomkv.KV{Key: key(i), Value: value}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{}))
	var b bloomkv.Batch
	for i := range keys / 2 {
		_, _ = rng.Read(value)
		b.Put(key(i*7919%keys), value)
		if b.Len() == 100 || i == keys/2-1 {
			must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
			b.Reset()
		}
	}
	must(t, db.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) < 10 {
		t.Fatal(tables, err)
	}
	var size int64
	for _, name := range tables {
		info, err := os.Stat(name)
		must(t, err)
		size += info.Size()
	}
	places := rand.New(rng)
	for i := range 10 {
		f, err := os.OpenFile(tables[i*len(tables)/10], os.O_RDWR, 0)
		must(t, err)
		info, err := f.Stat()
		must(t, err)
		at, one := places.Int64N(info.Size()*9/10), []byte{0}
		if _, err := f.ReadAt(one, at); err != nil {
			t.Fatal(err)
		}
		one[0] ^= 0xff
		if _, err := f.WriteAt(one, at); err != nil {
			t.Fatal(err)
		}
		must(t, f.Close())
	}
	runtime.GC()
	var peak runtime.MemStats
	most, calls := uint64(0), 0
	began := time.Now()
	progress := func(uint64, uint64) {
		storetest.Progress.Add(1)
		if calls++; calls%256 == 0 {
			runtime.ReadMemStats(&peak)
			most = max(most, peak.HeapInuse)
		}
	}
	report, err := salvage.Run(t.Context(), dir, filepath.Join(t.TempDir(), "new"), salvage.Options{Progress: progress})
	if err != nil || len(report.Lost) != 10 || report.Keys < keys-200 || report.Keys > keys {
		t.Errorf("%d keys, want about %d; lost %v, %v", report.Keys, keys, report.Lost, err)
	}
	t.Logf("%d MB in %d tables: %v, at most %d MB of heap in use; %d keys of %d", size>>20, len(tables),
		time.Since(began).Round(time.Millisecond), most>>20, report.Keys, keys)
}

// TestSalvageLosesAValueThatNoStoreTakes forges a value longer than any version has written.
func TestSalvageLosesAValueThatNoStoreTakes(t *testing.T) {
	if !*everywhere {
		t.Skip("takes a gigabyte: run it with -everywhere")
	}
	kind := hostileKinds[2] // without compression
	want := salvagedContents(t, kind, kind.store(t))
	s := kind.store(t)
	lost := 0
	number := s.bottom(0)
	key := s.added(number).Table.Smallest
	s.change(number, func(f *forgedTable) {
		x := &f.blocks[0]
		lost = int(binary.LittleEndian.Uint32(x.payload))
		data := binary.LittleEndian.AppendUint32(nil, 1)
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(key))), key...)
		data = append(data, make([]byte, -len(data)&7+8)...) // padding, and the head of an empty suffix
		data = append(append(data, 0), make([]byte, batch.MaxValue+1)...)
		x.encode(data, sstable.None)
	})
	fsys := vfstest.NewMem()
	must(t, writeFiles(fsys, "db", s.join()))
	report, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: kind.options(fsys)})
	must(t, err)
	db := storetest.Open(t, "new", kind.options(fsys))
	got, err := storetest.Contents(db)
	must(t, errors.Join(err, db.Close()))
	if len(report.Lost) != 1 || len(want)-len(got) > lost || len(got) == len(want) {
		t.Errorf("%d of %d keys are left, lost %v; want those but of one block of %d entries",
			len(got), len(want), report.Lost, lost)
	}
}

// TestSalvageSaysThatReplacedTablesMayHideKeys loses the manifest while a table is there that was replaced and that
// deletes a key which was put later. Compaction has given that put a sequence number below all others.
func TestSalvageSaysThatReplacedTablesMayHideKeys(t *testing.T) {
	mem, ctx, key := vfstest.NewMem(), t.Context(), []byte("key")
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	must(t, errors.Join(db.Put(key, []byte("old")), db.Flush(ctx)))
	snap, err := db.Snapshot() // until the tables are held, the deletion stays
	must(t, errors.Join(err, db.Delete(key), db.Flush(ctx)))
	it := db.Iter(bloomkv.IterOptions{}) // keeps the replaced tables
	must(t, snap.Close())
	must(t, errors.Join(db.Put(key, []byte("new")), db.Compact(ctx, bloomkv.CompactOptions{})))
	awaitNoLog(t, mem) // which has the put with its own number, as its first table has
	testkit.Soon(t, "the other tables are removed", func() bool { return db.Metrics().Files.Obsolete == 2 })
	lost := mem.Kill()
	must(t, errors.Join(it.Close(), db.Close()))
	for name := range filesIn(t, lost) {
		if name == filename.CurrentName || strings.HasPrefix(name, "MANIFEST") {
			must(t, lost.Remove(filepath.Join("db", name)))
		}
	}
	report, err := salvage.Run(ctx, "db", "new", salvage.Options{Store: storetest.Tiny(lost)})
	must(t, err)
	db = storetest.Open(t, "new", storetest.Tiny(lost))
	there, err := db.Has(key)
	must(t, errors.Join(err, db.Close()))
	if there || !strings.Contains(strings.Join(report.Unknown, " "), "hide keys that were put later") {
		t.Errorf("the key is there: %v; the report says %q", there, report.Unknown)
	}
}
