package tests

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestALostOrWrongCurrentIsRefusedAndNothingIsTouched(t *testing.T) {
	for name, content := range map[string][]byte{
		"lost":                        nil,
		"empty":                       {},
		"zeros":                       make([]byte, 25),
		"a name without a checksum":   []byte("MANIFEST-000001\n"),
		"the checksum of another":     []byte("MANIFEST-000001 00000000\n"),
		"a path":                      []byte("../../../../etc/passwd 00000000\n"),
		"a manifest with a path":      []byte("MANIFEST-000001/../../x 00000000\n"),
		"longer than any CURRENT":     bytes.Repeat([]byte("MANIFEST-000001"), 1<<16),
		"a number of too many digits": []byte("MANIFEST-99999999999999999999999 00000000\n"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDamageStore(t, true)
			fsys := d.damaged(t, "CURRENT", func([]byte) []byte { return content })
			before := filesIn(t, fsys)
			_, err := bloomkv.Open("db", d.options(fsys))
			if !errors.Is(err, bloomkv.ErrCorruption) || !strings.Contains(err.Error(), "CURRENT: offset 0") {
				t.Errorf("open: %v, want corruption in CURRENT", err)
			}
			_, err = bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys})
			if !errors.Is(err, bloomkv.ErrCorruption) ||
				!strings.Contains(err.Error(), "CURRENT") {
				t.Errorf("check: %v, want corruption in CURRENT", err)
			}
			if changed := storetest.Diff(filesIn(t, fsys), before); changed != "" {
				t.Errorf("the directory was changed: %s", changed)
			}
		})
	}
}

func TestFilesTheManifestDoesNotKnowAreRefusedWhereTheyAreNewer(t *testing.T) {
	for _, name := range []string{"999999.sst", "999999.log"} {
		d := newDamageStore(t, true)
		storetest.AddFile(t, d.fs, "db/"+name, "data of a lost manifest")
		before := filesIn(t, d.fs)
		if _, err := bloomkv.Open("db", d.options(d.fs)); !errors.Is(err, bloomkv.ErrCorruption) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want corruption that names it", name, err)
		}
		if changed := storetest.Diff(filesIn(t, d.fs), before); changed != "" {
			t.Errorf("%s: the directory was changed: %s", name, changed)
		}
	}
}

func TestUnknownFilesAreLeftAloneAndOrphansAreNot(t *testing.T) {
	d := newDamageStore(t, true)
	strange := []string{
		"+1.sst", "-1.log", " 000001.sst", "000001.sst ", "1.sst", "0000001.sst", "000001.SST", "000001.sst.bak",
		"MANIFEST-", "MANIFEST-1", "MANIFEST-000001x",
		"CURRENT.bak", "current", "LOCK2", "0x0001.log", "99999999999999999999999.sst", "notes.txt", ".hidden",
		"000001", "١٢٣٤٥٦.sst",
	}
	for _, name := range strange {
		storetest.AddFile(t, d.fs, "db/"+name, "mine")
	}
	orphans := []string{"000000.sst", "000000.log", "MANIFEST-000000", "000000.tmp"}
	for _, name := range orphans {
		storetest.AddFile(t, d.fs, "db/"+name, "left by a crash")
	}
	for range 2 {
		db := storetest.Open(t, "db", d.options(d.fs))
		if err := db.Put([]byte("key000"), []byte("0.0.0.0.0.")); err != nil {
			t.Error(err)
		}
		if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
			t.Error(err)
		}
		must(t, db.Close())
	}
	left := filesIn(t, d.fs)
	for _, name := range strange {
		if left[name] != "mine" {
			t.Errorf("%q: %q, want it unchanged", name, left[name])
		}
	}
	for _, name := range orphans {
		if _, ok := left[name]; ok {
			t.Errorf("%q is still there", name)
		}
	}
}

func TestOddOptionsAreRefusedByNameAndCreateNothing(t *testing.T) {
	for _, tt := range []struct {
		option string
		set    func(o *bloomkv.Options)
	}{
		{"Durability", func(o *bloomkv.Options) { o.Durability = 2 }},
		{"Durability", func(o *bloomkv.Options) { o.Durability = 255 }},
		{"FilterFPR", func(o *bloomkv.Options) { o.FilterFPR = -0.01 }},
		{"FilterFPR", func(o *bloomkv.Options) { o.FilterFPR = 1.01 }},
		{"FilterFPR", func(o *bloomkv.Options) { o.FilterFPR = math.NaN() }},
		{"FilterFPR", func(o *bloomkv.Options) { o.FilterFPR = math.Inf(1) }},
		{"FilterFPR", func(o *bloomkv.Options) { o.FilterFPR = math.Inf(-1) }},
		{"FilterFPR", func(o *bloomkv.Options) { o.FilterFPR = 1e-30 }},
		{"FilterFPR", func(o *bloomkv.Options) { o.FilterFPR = math.SmallestNonzeroFloat64 }},
		{"MemoryBudget", func(o *bloomkv.Options) { o.MemoryBudget = -1 }},
		{"MemoryBudget", func(o *bloomkv.Options) { o.MemoryBudget = 1 << 20 }},
		{"MemoryBudget", func(o *bloomkv.Options) { o.MemoryBudget = math.MaxInt64 }},
		{"MemtableSize", func(o *bloomkv.Options) { o.MemtableSize = -1 }},
		{"MemtableSize", func(o *bloomkv.Options) { o.MemtableSize = 1 }},
		{"MemtableSize", func(o *bloomkv.Options) { o.MemoryBudget, o.MemtableSize = 8<<20, 2<<20+1 }},
		{"MemtableSize", func(o *bloomkv.Options) { o.MemtableSize = math.MaxInt64 }},
		{"BlockSize", func(o *bloomkv.Options) { o.BlockSize = -4096 }},
		{"BlockSize", func(o *bloomkv.Options) { o.BlockSize = 1 }},
		{"BlockSize", func(o *bloomkv.Options) { o.BlockSize = 1 << 30 }},
		{"TableSize", func(o *bloomkv.Options) { o.TableSize = 1 }},
		{"TableSize", func(o *bloomkv.Options) { o.TableSize = math.MinInt64 }},
		{"TableSize", func(o *bloomkv.Options) { o.TableSize = math.MaxInt64 }},
		{"BaseLevelSize", func(o *bloomkv.Options) { o.BaseLevelSize = 1 }},
		{"BaseLevelSize", func(o *bloomkv.Options) { o.BaseLevelSize = math.MaxInt64 }},
		{"LevelRatio", func(o *bloomkv.Options) { o.LevelRatio = 1 }},
		{"LevelRatio", func(o *bloomkv.Options) { o.LevelRatio = -10 }},
		{"LevelRatio", func(o *bloomkv.Options) { o.LevelRatio = math.MaxInt32 }},
		{"Compression", func(o *bloomkv.Options) { o.Compression = 3 }},
		{"MaxOpenFiles", func(o *bloomkv.Options) { o.MaxOpenFiles = 1 }},
		{"MaxOpenFiles", func(o *bloomkv.Options) { o.MaxOpenFiles = -1 }},
	} {
		o := &bloomkv.Options{FS: vfstest.NewMem()}
		tt.set(o)
		if _, err := bloomkv.Open("db", o); err == nil || !strings.Contains(err.Error(), "option "+tt.option+":") ||
			!strings.Contains(err.Error(), "db") {
			t.Errorf("%+v: %v, want an error that names option %s", o, err, tt.option)
		}
		if names, err := o.FS.List("."); err != nil || len(names) > 0 {
			t.Errorf("%+v: left %q, %v", o, names, err)
		}
	}
	fsys := vfstest.NewMem()
	if _, err := bloomkv.Open("db", &bloomkv.Options{FS: fsys, ErrorIfMissing: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ErrorIfMissing: %v", err)
	}
	if names, err := fsys.List("."); err != nil || len(names) > 0 {
		t.Errorf("ErrorIfMissing: left %q, %v", names, err)
	}
}

func TestADirectoryThatCannotBeWrittenIsRefusedClearly(t *testing.T) {
	readOnly := func(fsys vfs.FS) vfs.FS {
		return vfstest.NewHook(fsys, func(op vfstest.Op) error {
			if op.Kind.Changes() {
				return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: syscall.EROFS}
			}
			return nil
		})
	}
	mem := vfstest.NewMem()
	if _, err := bloomkv.Open("db", &bloomkv.Options{FS: readOnly(mem)}); !errors.Is(err, syscall.EROFS) ||
		!strings.Contains(err.Error(), "db") {
		t.Errorf("a new store: %v, want EROFS and the directory", err)
	}
	if names, err := mem.List("."); err != nil || len(names) > 0 {
		t.Errorf("a new store: left %q, %v", names, err)
	}
	for _, closed := range []bool{true, false} {
		d := newDamageStore(t, closed)
		before := filesIn(t, d.fs)
		if _, err := bloomkv.Open("db", d.options(readOnly(d.fs))); !errors.Is(err, syscall.EROFS) ||
			!strings.Contains(err.Error(), "db") {
			t.Errorf("closed %v: %v, want EROFS and the directory", closed, err)
		}
		if changed := storetest.Diff(filesIn(t, d.fs), before); changed != "" {
			t.Errorf("closed %v: the directory was changed: %s", closed, changed)
		}
	}
}

func TestASecondOpenerInTheProcessIsRefusedAtOnce(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": vfstest.NewMem(), "system": vfs.OS} {
		dir := filepath.Join(t.TempDir(), "db")
		if name == "memory" {
			dir = "db"
		}
		db, err := bloomkv.Open(dir, storetest.Tiny(fsys))
		must(t, err)
		testkit.Within(t, "a second Open", func() {
			if _, err := bloomkv.Open(dir, storetest.Tiny(fsys)); !errors.Is(err, bloomkv.ErrLocked) ||
				!strings.Contains(err.Error(), dir) {
				t.Errorf("%s: second open: %v, want ErrLocked and the directory", name, err)
			}
			_, err = bloomkv.Check(context.Background(), dir, bloomkv.CheckOptions{FS: fsys})
			if !errors.Is(err, bloomkv.ErrLocked) {
				t.Errorf("%s: check of an open store: %v, want ErrLocked", name, err)
			}
		})
		if err := db.Put([]byte("k"), nil); err != nil {
			t.Errorf("%s: the first opener: %v", name, err)
		}
		must(t, db.Close())
		if db, err = bloomkv.Open(dir, storetest.Tiny(fsys)); err != nil {
			t.Fatalf("%s: after Close: %v", name, err)
		}
		must(t, db.Close())
	}
}

func TestEveryCallAfterCloseIsErrClosed(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem()})
	must(t, db.Put([]byte("k"), []byte("v")))
	scan := db.Scan(bloomkv.IterOptions{})
	must(t, db.Close())
	calls := allCalls(t.Context(), db)
	ended, end := context.WithCancel(t.Context())
	end()
	calls["update, whose context has ended"] = db.Update(ended, func(*bloomkv.Tx) error { return nil })
	_, calls["digest of no possible rate"] = db.Digest(t.Context(), bloomkv.DigestOptions{FPR: 2})
	for what, err := range calls {
		if !errors.Is(err, bloomkv.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	for _, err := range scan {
		if !errors.Is(err, bloomkv.ErrClosed) {
			t.Errorf("a scan made before: %v, want ErrClosed", err)
		}
	}
	if m := db.Metrics(); m.Settled || len(m.Levels) > 0 {
		t.Errorf("metrics: %+v, want none of the tree", m)
	}
}

// allCalls calls every method that can fail.
func allCalls(ctx context.Context, db *bloomkv.DB) map[string]error {
	k := []byte("k")
	var b, empty, bad bloomkv.Batch
	b.Put(k, k)
	bad.Put(make([]byte, bloomkv.MaxKeySize+1), nil)
	nothing := bloomkv.KeyRange{Upper: []byte{}}
	calls := map[string]error{
		"put": db.Put(k, k), "delete": db.Delete(k), "sync": db.Sync(), "flush": db.Flush(ctx),
		"compact":                      db.Compact(ctx, bloomkv.CompactOptions{}),
		"compact of nothing":           db.Compact(ctx, bloomkv.CompactOptions{Range: nothing}),
		"checkpoint":                   db.Checkpoint(ctx, "checkpoint"),
		"apply sync":                   db.ApplyWith(&b, bloomkv.DurabilitySync),
		"apply nosync":                 db.ApplyWith(&b, bloomkv.DurabilityNoSync),
		"apply nothing":                db.ApplyWith(&empty, bloomkv.DurabilityNoSync),
		"apply of too much":            db.ApplyWith(&bad, bloomkv.DurabilityNoSync),
		"apply with an odd durability": db.ApplyWith(&b, 77),
	}
	_, calls["get"] = db.Get(k)
	_, calls["appendget"] = db.AppendGet(nil, k)
	_, calls["has"] = db.Has(k)
	for _, err := range db.Scan(bloomkv.IterOptions{}) {
		calls["scan"] = err
	}
	calls["close"] = db.Close()
	return calls
}

var (
	hostileCases = flag.Int("cases", 1200, "number of stores with changed files to try")
	hostileSeed  = flag.Uint64("seed", 0, "seed of the first store; a store depends only on its seed")
)

// TestChangedFilesHarmNobody changes fields of small stores, corrects all checksums and uses the stores in every way.
// To reproduce a failure: go test -run TestChangedFilesHarmNobody -seed N -cases 1 .
func TestChangedFilesHarmNobody(t *testing.T) {
	defer watch(timeLimit)()
	defer watched.end()
	began, damaged := time.Now(), 0
	finds := 0
	n := *hostileCases
	if f := flag.Lookup("cases"); f.Value.String() == f.DefValue {
		n = storetest.Seeds(n)
	}
	for i := range uint64(n) {
		seed := *hostileSeed + i
		hostile := hostileSeeded
		if seed%4 == 3 {
			hostile = hostileStreamSeeded
		}
		did, r := hostile(t, seed)
		storetest.Progress.Add(1)
		if r.damage {
			damaged++
		}
		if r.err != nil {
			t.Errorf("seed %d: %s\n%v", seed, did, r.err)
			if finds++; finds == 20 {
				t.Fatal("stopped after 20 failures")
			}
		}
		if done := i + 1; done%20000 == 0 || done == uint64(n) {
			t.Logf("seeds %d to %d: %d of %d stores are refused at some point; %v",
				*hostileSeed, seed, damaged, done, time.Since(began).Round(time.Millisecond))
		}
	}
}

// hostileSeeded builds the case of a seed and runs it.
func hostileSeeded(t *testing.T, seed uint64) (string, hostileResult) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	kind := hostileKinds[rng.IntN(len(hostileKinds))]
	v := &vandal{rng: rng, s: kind.store(t)}
	readOnly, system := rng.IntN(8) == 0, rng.IntN(64) == 0
	for range 1 + rng.IntN(3) {
		v.change()
	}
	files := v.s.join()
	for _, f := range v.late {
		f(files)
	}
	did := fmt.Sprintf("%v; read-only %v, system %v: %s", kind, readOnly, system, strings.Join(v.did, "; "))
	watched.begin(did)
	return did, hostileRun(kind, files, readOnly, system, seed)
}

func systemDir() string {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		panic(err) // a failure of the test itself
	}
	return dir + "/db"
}

func (c *hostileCase) removeAll() {
	if err := os.RemoveAll(strings.TrimSuffix(c.dir, "/db")); err != nil {
		c.bad("%w", err)
	}
}
