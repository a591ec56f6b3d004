package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

// TestAnInventoryIsOfAllTables has a table without a file, and one of which nothing is read.
func TestAnInventoryIsOfAllTables(t *testing.T) {
	fsys, domain := vfstest.NewMem(), new(epoch.Domain)
	shared := tree.Shared{
		Domain: domain, Files: tablefile.NewPool(8).NewDir(fsys, "db", domain), Blocks: cache.New(1<<20, domain),
		Parts: sstable.NewPartPool(1 << 20),
	}
	a, b := []byte("a"), []byte("b")
	absent := shared.NewTable(&manifest.Table{Number: 1, ID: 7, Size: 10, TailLen: 10, Smallest: a, Largest: a})
	empty := shared.NewTable(&manifest.Table{Number: 2, ID: 8, Smallest: b, Largest: b})
	s := &tree.State{Runs: []*tree.Run{tree.NewRun(6, 1, []*tree.Table{absent, empty})}}
	if ids, err := Inventory(t.Context(), s); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v, want %v", ids, err, fs.ErrNotExist)
	}
	if _, err := Of(s)(&stream.Table{Table: absent.Meta}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the table without a file: %v, want %v", err, fs.ErrNotExist)
	}
	s = &tree.State{Runs: []*tree.Run{tree.NewRun(6, 1, []*tree.Table{empty})}}
	if ids, err := Inventory(t.Context(), s); err != nil || len(ids) != 1 || ids[0].ID != 8 {
		t.Errorf("%v, %v, want one table", ids, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ids, err := Inventory(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v, want that it was canceled", ids, err)
	}
}

// TestAFileThatIsNoTableIsAnErrorAndClosed fails each operation on one.
func TestAFileThatIsNoTableIsAnErrorAndClosed(t *testing.T) {
	mem := vfstest.NewMem()
	must(t, vfs.WriteFileAtomic(mem, ".", "tmp", "file", make([]byte, 1000)))
	for nth, failed := 0, true; failed; nth++ {
		ops, open := 0, 0
		failed = false
		target := &Target{FS: vfstest.NewHook(mem, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpClose {
				open--
			}
			if ops++; ops == nth+1 {
				failed = true
				return syscall.EIO
			}
			if op.Kind == vfstest.OpOpen {
				open++
			}
			return nil
		})}
		_, err := target.describe("file")
		if want := map[bool]error{true: syscall.EIO, false: corrupt.Err}[failed]; !errors.Is(err, want) || open != 0 {
			t.Errorf("operation %d fails: %v, %d files are open, want %v", nth, err, open, want)
		}
		if err := target.syncFile("nothing"); err == nil {
			t.Error("a file that is not there is synced")
		}
	}
}

// written writes a table of 100 keys with an index in parts, and returns it with the given number and its bytes.
func written(t *testing.T, fsys vfs.FS, path string, number uint64) (*manifest.Table, []byte) {
	t.Helper()
	sstable.SetPartSize(1)
	defer sstable.SetPartSize(0)
	var b bytes.Buffer
	w := sstable.NewWriter(&b, sstable.WriterOptions{ID: 7, BlockSize: 512})
	for i := range 100 {
		k := ikey.Key{User: fmt.Appendf(nil, "key%02d", i), Trailer: ikey.MakeTrailer(0, ikey.Set)}
		must(t, w.Add(k, make([]byte, 50)))
	}
	info, err := w.Finish()
	must(t, err)
	must(t, vfs.WriteFileAtomic(fsys, filepath.Dir(path), "tmp", filepath.Base(path), b.Bytes()))
	return compaction.Table(number, info), b.Bytes()
}

// noNumbers are numbers that have come to their end.
type noNumbers struct{}

var errNumbers = errors.New("no number is left")

func (noNumbers) NewNumber() (uint64, error) { return 0, errNumbers }

// TestAFileIsRefusedForTheFirstReason has one reason at a time.
func TestAFileIsRefusedForTheFirstReason(t *testing.T) {
	mem := vfstest.NewMem()
	must(t, mem.Mkdir("db"))
	written(t, mem, "table", 0)
	must(t, vfs.WriteFileAtomic(mem, ".", "tmp", "file", make([]byte, 1000)))
	hook := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpLink {
			return syscall.EIO
		}
		return nil
	})
	for _, c := range []struct {
		fsys    vfs.FS
		path    string
		numbers compaction.Numbers
		want    error
	}{
		{mem, "file", new(compaction.Counter), corrupt.Err},
		{mem, "table", noNumbers{}, errNumbers},
		{hook, "table", new(compaction.Counter), syscall.EIO},
		{mem, "table", new(compaction.Counter), nil},
	} {
		target := &Target{FS: c.fsys, Dir: "db", Numbers: c.numbers}
		tables, err := target.Files(t.Context(), []string{c.path})
		names, _ := mem.List("db")
		if !errors.Is(err, c.want) || len(names) != len(tables) || (err == nil) != (len(tables) == 1) {
			t.Errorf("%s: %v, left %q, want %v", c.path, err, names, c.want)
		}
		must(t, target.Abandon()) // also of a file that was not created
	}
}

// TestATableOpensOnlyWithAllPartsOfItsIndex damages each byte behind the first block.
func TestATableOpensOnlyWithAllPartsOfItsIndex(t *testing.T) {
	mem := vfstest.NewMem()
	must(t, mem.Mkdir("db"))
	path := filename.Make("db", filename.Table, 1)
	meta, file := written(t, mem, path, 1)
	must(t, opens(t.Context(), mem, "db", []*manifest.Table{meta}))
	parts := 0
	for at := range len(file) - int(meta.TailLen) {
		file[at]++
		must(t, mem.Remove(path))
		must(t, vfs.WriteFileAtomic(mem, "db", "tmp", filepath.Base(path), file))
		if err := opens(t.Context(), mem, "db", []*manifest.Table{meta}); errors.Is(err, corrupt.Err) {
			parts++
		} else if err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
		file[at]--
	}
	if parts < 100 {
		t.Errorf("%d damaged bytes in front of the tail are found, want those of the parts", parts)
	}
}

func TestAnIntakeThatIsCanceledTouchesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(Target).table(ctx, nil, nil, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a table of a stream: %v", err)
	}
	if err := opens(ctx, nil, "db", []*manifest.Table{{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a table that is opened: %v", err)
	}
}

func TestUnknownFreeSpaceIsEnough(t *testing.T) {
	h := &stream.Header{Tables: []stream.Table{{Table: &manifest.Table{Size: 1 << 60}, Travels: true}}}
	must(t, (&Target{FS: struct{ vfs.FS }{vfstest.NewMem()}}).space(h))
}

// A slowFile takes a second to sync.
type slowFile struct {
	vfs.File

	running, most *atomic.Int32
}

func (f slowFile) Sync() error {
	f.most.Store(max(f.most.Load(), f.running.Add(1)))
	time.Sleep(time.Second)
	return nil
}

func (f slowFile) Close() error {
	f.running.Add(-1)
	return nil
}

func TestTwoTablesAreSyncedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		var s compaction.Syncs
		for range 5 {
			must(t, s.Sync(slowFile{nil, &running, &most}, syncsAhead))
			synctest.Wait()
		}
		if must(t, s.Wait()); most.Load() != syncsAhead || running.Load() != 0 {
			t.Errorf("%d files are synced at once, %d stay open; want 2 and none", most.Load(), running.Load())
		}
	})
}
