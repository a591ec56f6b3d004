package bloomkv

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
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
			before := dirOf(t, fsys)
			_, err := Open("db", d.options(fsys))
			if !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), "CURRENT: offset 0") {
				t.Errorf("open: %v, want corruption in CURRENT", err)
			}
			if _, err := Check(t.Context(), "db", d.options(fsys), nil); !errors.Is(err, ErrCorruption) ||
				!strings.Contains(err.Error(), "CURRENT") {
				t.Errorf("check: %v, want corruption in CURRENT", err)
			}
			if changed := diff(dirOf(t, fsys), before); changed != "" {
				t.Errorf("the directory was changed: %s", changed)
			}
		})
	}
}

func TestFilesTheManifestDoesNotKnowAreRefusedWhereTheyAreNewer(t *testing.T) {
	for _, name := range []string{"999999.sst", "999999.log"} {
		d := newDamageStore(t, true)
		addFile(t, d.fs, "db/"+name, "data of a lost manifest")
		before := dirOf(t, d.fs)
		if _, err := Open("db", d.options(d.fs)); !errors.Is(err, ErrCorruption) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want corruption that names it", name, err)
		}
		if changed := diff(dirOf(t, d.fs), before); changed != "" {
			t.Errorf("%s: the directory was changed: %s", name, changed)
		}
	}
}

func addFile(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
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
		addFile(t, d.fs, "db/"+name, "mine")
	}
	orphans := []string{"000000.sst", "000000.log", "MANIFEST-000000", "000000.tmp"}
	for _, name := range orphans {
		addFile(t, d.fs, "db/"+name, "left by a crash")
	}
	for range 2 {
		db, err := Open("db", d.options(d.fs))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Put([]byte("key000"), []byte("0.0.0.0.0.")); err != nil {
			t.Error(err)
		}
		if err := db.Compact(t.Context(), nil, nil); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	left := dirOf(t, d.fs)
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
		set    func(o *Options)
	}{
		{"Durability", func(o *Options) { o.Durability = 3 }},
		{"Durability", func(o *Options) { o.Durability = 255 }},
		{"FilterFPR", func(o *Options) { o.FilterFPR = -0.01 }},
		{"FilterFPR", func(o *Options) { o.FilterFPR = 1.01 }},
		{"FilterFPR", func(o *Options) { o.FilterFPR = math.NaN() }},
		{"FilterFPR", func(o *Options) { o.FilterFPR = math.Inf(1) }},
		{"FilterFPR", func(o *Options) { o.FilterFPR = math.Inf(-1) }},
		{"FilterFPR", func(o *Options) { o.FilterFPR = 1e-30 }},
		{"FilterFPR", func(o *Options) { o.FilterFPR = math.SmallestNonzeroFloat64 }},
		{"MemoryBudget", func(o *Options) { o.MemoryBudget = -1 }},
		{"MemoryBudget", func(o *Options) { o.MemoryBudget = 1 << 20 }},
		{"MemoryBudget", func(o *Options) { o.MemoryBudget = math.MaxInt64 }},
		{"MemtableSize", func(o *Options) { o.MemtableSize = -1 }},
		{"MemtableSize", func(o *Options) { o.MemtableSize = 1 }},
		{"MemtableSize", func(o *Options) { o.MemoryBudget, o.MemtableSize = 8<<20, 2<<20+1 }},
		{"MemtableSize", func(o *Options) { o.MemtableSize = math.MaxInt64 }},
		{"BlockSize", func(o *Options) { o.BlockSize = -4096 }},
		{"BlockSize", func(o *Options) { o.BlockSize = 1 }},
		{"BlockSize", func(o *Options) { o.BlockSize = 1 << 30 }},
		{"TableSize", func(o *Options) { o.TableSize = 1 }},
		{"TableSize", func(o *Options) { o.TableSize = math.MinInt64 }},
		{"TableSize", func(o *Options) { o.TableSize = math.MaxInt64 }},
		{"BaseLevelSize", func(o *Options) { o.BaseLevelSize = 1 }},
		{"BaseLevelSize", func(o *Options) { o.BaseLevelSize = math.MaxInt64 }},
		{"LevelRatio", func(o *Options) { o.LevelRatio = 1 }},
		{"LevelRatio", func(o *Options) { o.LevelRatio = -10 }},
		{"LevelRatio", func(o *Options) { o.LevelRatio = math.MaxInt32 }},
		{"Compression", func(o *Options) { o.Compression = 3 }},
		{"MaxOpenFiles", func(o *Options) { o.MaxOpenFiles = 1 }},
		{"MaxOpenFiles", func(o *Options) { o.MaxOpenFiles = -1 }},
	} {
		o := &Options{FS: vfs.NewMem()}
		tt.set(o)
		if _, err := Open("db", o); err == nil || !strings.Contains(err.Error(), "option "+tt.option+":") ||
			!strings.Contains(err.Error(), "db") {
			t.Errorf("%+v: %v, want an error that names option %s", o, err, tt.option)
		}
		if names, err := o.FS.List("."); err != nil || len(names) > 0 {
			t.Errorf("%+v: left %q, %v", o, names, err)
		}
	}
	fsys := vfs.NewMem()
	if _, err := Open("db", &Options{FS: fsys, ErrorIfMissing: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ErrorIfMissing: %v", err)
	}
	if names, err := fsys.List("."); err != nil || len(names) > 0 {
		t.Errorf("ErrorIfMissing: left %q, %v", names, err)
	}
}

func TestWhatIsTooLargeIsRefusedAndTheStoreStaysWell(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if MaxBatchSize > wal.MaxPayload {
		t.Errorf("a batch of %d bytes exceeds a log record, which has at most %d", MaxBatchSize, wal.MaxPayload)
	}
	if MaxKeySize != batch.MaxKey || MaxValueSize != batch.MaxValue {
		t.Errorf("keys of %d and values of %d bytes may be written, but only %d and %d can be read", MaxKeySize,
			MaxValueSize, batch.MaxKey, batch.MaxValue)
	}
	tooLong, tooLarge := make([]byte, MaxKeySize+1), make([]byte, MaxValueSize+1)
	full := Batch{ops: make([]byte, MaxBatchSize-batch.RecordHeader-batch.MaxOpHeader+1), count: 1} // of zeros
	full.Put(nil, nil)
	later := Batch{}
	later.Put([]byte("fine"), nil)
	later.Put(tooLong, nil)
	later.Put([]byte("fine too"), nil)
	for what, err := range map[string]error{
		"a key": db.Put(tooLong, nil), "a key to delete": db.Delete(tooLong), "a value": db.Put([]byte("k"), tooLarge),
		"a batch": db.Apply(&full, NoSync), "a key in a batch": db.Apply(&later, Sync),
	} {
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", what, err)
		}
	}
	for _, k := range [][]byte{tooLong, []byte("k"), []byte("fine"), []byte("fine too")} {
		if v, err := db.Get(k); !errors.Is(err, ErrNotFound) {
			t.Errorf("key of %d bytes: %d bytes, %v, want none", len(k), len(v), err)
		}
	}
	later.Reset()
	largest := tooLong[:MaxKeySize]
	later.Put(largest, tooLarge[:9<<20]) // more than a memtable
	later.Put(nil, nil)
	if err := db.Apply(&later, Sync); err != nil {
		t.Fatalf("the largest key: %v", err)
	}
	for range 2 {
		if v, err := db.Get(largest); err != nil || len(v) != 9<<20 {
			t.Errorf("the largest key: %d bytes, %v", len(v), err)
		}
		if v, err := db.Get(nil); err != nil || v == nil || len(v) > 0 {
			t.Errorf("the empty key: %v, %v", v, err)
		}
		if err := db.Compact(t.Context(), nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestADirectoryThatCannotBeWrittenIsRefusedClearly(t *testing.T) {
	readOnly := func(fsys vfs.FS) vfs.FS {
		return vfs.NewHook(fsys, func(op vfs.Op) error {
			if op.Kind.Changes() {
				return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: syscall.EROFS}
			}
			return nil
		})
	}
	mem := vfs.NewMem()
	if _, err := Open("db", &Options{FS: readOnly(mem)}); !errors.Is(err, syscall.EROFS) ||
		!strings.Contains(err.Error(), "db") {
		t.Errorf("a new store: %v, want EROFS and the directory", err)
	}
	if names, err := mem.List("."); err != nil || len(names) > 0 {
		t.Errorf("a new store: left %q, %v", names, err)
	}
	for _, closed := range []bool{true, false} {
		d := newDamageStore(t, closed)
		before := dirOf(t, d.fs)
		if _, err := Open("db", d.options(readOnly(d.fs))); !errors.Is(err, syscall.EROFS) ||
			!strings.Contains(err.Error(), "db") {
			t.Errorf("closed %v: %v, want EROFS and the directory", closed, err)
		}
		if changed := diff(dirOf(t, d.fs), before); changed != "" {
			t.Errorf("closed %v: the directory was changed: %s", closed, changed)
		}
	}
}

func TestASecondOpenerInTheProcessIsRefusedAtOnce(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewMem(), "system": vfs.OS} {
		dir := filepath.Join(t.TempDir(), "db")
		if name == "memory" {
			dir = "db"
		}
		db, err := Open(dir, tiny(fsys))
		if err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, "a second Open", func() {
			if _, err := Open(dir, tiny(fsys)); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: second open: %v, want ErrLocked and the directory", name, err)
			}
			if _, err := Check(context.Background(), dir, tiny(fsys), nil); !errors.Is(err, ErrLocked) {
				t.Errorf("%s: check of an open store: %v, want ErrLocked", name, err)
			}
		})
		if err := db.Put([]byte("k"), nil); err != nil {
			t.Errorf("%s: the first opener: %v", name, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if db, err = Open(dir, tiny(fsys)); err != nil {
			t.Fatalf("%s: after Close: %v", name, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryCallAfterCloseIsErrClosed(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put([]byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	scan := db.Scan(IterOptions{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for what, err := range allCalls(t.Context(), db) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	for _, err := range scan {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("a scan made before: %v, want ErrClosed", err)
		}
	}
	if m := db.Metrics(); m.Settled || len(m.Levels) > 0 {
		t.Errorf("metrics: %+v, want none of the tree", m)
	}
}

// allCalls calls every method that can fail.
func allCalls(ctx context.Context, db *DB) map[string]error {
	k := []byte("k")
	var b, empty, bad Batch
	b.Put(k, k)
	bad.Put(make([]byte, MaxKeySize+1), nil)
	calls := map[string]error{
		"put": db.Put(k, k), "delete": db.Delete(k), "sync": db.Sync(), "flush": db.Flush(ctx),
		"compact":            db.Compact(ctx, nil, nil),
		"compact of nothing": db.Compact(ctx, []byte("b"), []byte("a")), "checkpoint": db.Checkpoint(ctx, "checkpoint"),
		"apply sync": db.Apply(&b, Sync), "apply nosync": db.Apply(&b, NoSync),
		"apply nothing": db.Apply(&empty, NoSync), "apply of too much": db.Apply(&bad, NoSync),
		"apply with an odd durability": db.Apply(&b, 77),
	}
	_, calls["get"] = db.Get(k)
	_, calls["appendget"] = db.AppendGet(nil, k)
	_, calls["has"] = db.Has(k)
	for _, err := range db.Scan(IterOptions{}) {
		calls["scan"] = err
	}
	calls["close"] = db.Close()
	return calls
}
