package intake

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
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
