package newstore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

func TestAStoreIsMadeInTheDirectoryThatItsCleanNameSays(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.MkdirAll(filepath.Join("elsewhere", "deep"), 0o700))
	if err := os.Symlink(filepath.Join("elsewhere", "deep"), "link"); err != nil {
		t.Skip(err)
	}
	n := newstore.New(vfs.OS, "link/../copy", "")
	must(t, n.Enter())
	if _, err := os.Stat("copy"); err != nil || n.Dir() != "copy" {
		t.Errorf("made %s: %v", n.Dir(), err)
	}
	must(t, n.Abandon())
	if _, err := os.Stat("copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Abandon: %v", err)
	}
	n = newstore.New(vfs.OS, "", "")
	if err := n.Enter(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory without a name: %v", err)
	}
	must(t, n.Abandon())
}

func TestAStoreStaysInItsDirectoryWhenThatIsMoved(t *testing.T) {
	base := t.TempDir()
	dir, moved := filepath.Join(base, "a"), filepath.Join(base, "moved")
	n := newstore.New(vfs.OS, dir, "")
	must(t, n.Enter())
	if err := os.Rename(dir, moved); err != nil {
		t.Skip(err)
	}
	must(t, os.Mkdir(dir, 0o700))
	must(t, n.Create(7, manifest.State{}))
	for dir, want := range map[string][]string{dir: nil, moved: {"CURRENT", "LOCK", "MANIFEST-000007"}} {
		if names, err := vfs.OS.List(dir); err != nil || !slices.Equal(names, want) {
			t.Errorf("%s has %q, %v, want %q", filepath.Base(dir), names, err, want)
		}
	}
}

// unholdable is an FS whose directories cannot be held.
type unholdable struct{ vfs.FS }

var errHold = errors.New("hold")

func (unholdable) Hold(string) (vfs.HeldFS, error) { return nil, errHold }

func TestADirectoryThatCannotBeHeldIsLeftAsItWas(t *testing.T) {
	for _, there := range []bool{false, true} {
		mem := vfstest.NewMem()
		if there {
			must(t, mem.Mkdir("a"))
		}
		n := newstore.New(unholdable{mem}, "a", "")
		if err := n.Enter(); !errors.Is(err, errHold) || errors.Is(err, fs.ErrExist) != there {
			t.Errorf("there before %v: %v", there, err)
		}
		must(t, n.Abandon())
		if _, err := mem.Stat("a"); (err == nil) != there {
			t.Errorf("there before %v: %v", there, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	n := newstore.New(vfs.OS, file, "")
	if err := n.Enter(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file: %v, want %v", err, fs.ErrExist)
	}
	must(t, n.Abandon())
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// hook calls f before each operation of a kind on a name.
func hook(mem *vfstest.Mem, kind vfstest.OpKind, name string, f func() error) vfs.FS {
	return vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == kind && op.Name == filepath.FromSlash(name) {
			return f()
		}
		return nil
	})
}

func TestAnExistingDirectoryMayHaveAParentThatCannotBeSynced(t *testing.T) {
	for _, there := range []bool{false, true} {
		mem := vfstest.NewMem()
		if there {
			must(t, mem.Mkdir("a"))
		}
		n := newstore.New(hook(mem, vfstest.OpSyncDir, ".", func() error { return fs.ErrPermission }), "a", "")
		if err := n.Enter(); errors.Is(err, fs.ErrPermission) == there || (err == nil) != there {
			t.Errorf("there before %v: %v", there, err)
		}
	}
}

func TestAbandonLeavesWhatAnotherProcessMade(t *testing.T) {
	mem := vfstest.NewMem()
	must(t, mem.Mkdir("a"))
	create := func(name string) {
		f, err := mem.Create(filepath.FromSlash(name))
		must(t, errors.Join(err, f.Close()))
	}
	n := newstore.New(hook(mem, vfstest.OpClose, "a/LOCK", func() error { create("a/LOCK"); return nil }), "a", "")
	must(t, n.Enter())
	must(t, n.Abandon())
	if names, err := mem.List("a"); err != nil || !slices.Equal(names, []string{"LOCK"}) {
		t.Errorf("another process locked the directory when the lock was released, and finds %q, %v", names, err)
	}
	n = newstore.New(hook(mem, vfstest.OpLock, "b/LOCK", func() error { create("b/CURRENT"); return nil }), "b", "")
	if err := n.Enter(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another process has made a store: %v", err)
	}
	must(t, n.Abandon())
	if names, err := mem.List("b"); err != nil || !slices.Equal(names, []string{"CURRENT", "LOCK"}) {
		t.Errorf("another process has made a store, and finds %q, %v", names, err)
	}
}

func TestAbandonLetsTheDirectoryGo(t *testing.T) {
	dir := t.TempDir()
	n := newstore.New(vfs.OS, dir, "")
	must(t, n.Enter())
	must(t, n.Abandon())
	if _, err := n.FS().Stat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the directory is held after Abandon: %v", err)
	}
}

func TestCreateReportsThatTheManifestWasNotClosed(t *testing.T) {
	broken := errors.New("broken")
	fsys := hook(vfstest.NewMem(), vfstest.OpClose, "a/MANIFEST-000007", func() error { return broken })
	n := newstore.New(fsys, "a", "")
	must(t, n.Enter())
	if err := n.Create(7, manifest.State{}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of Close", err)
	}
}

// TestACopyIsWholeOrAnError copies a file of two chunks and a part, where links are not possible.
func TestACopyIsWholeOrAnError(t *testing.T) {
	const size = 2<<20 + 100
	content := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
	for _, c := range []struct {
		name   string
		links  bool
		cancel vfstest.OpKind // at which the context ends; OpSync: never
		length int            // that the file has
		want   error
		left   bool // a file
	}{
		{"a link", true, vfstest.OpSync, size, nil, true},
		{"a copy", false, vfstest.OpSync, size, nil, true},
		{"a context that has ended", true, vfstest.OpMkdir, size, context.Canceled, false},
		{"a context that ends", false, vfstest.OpWrite, size, context.Canceled, true},
		{"a file that is short", false, vfstest.OpSync, size - 200, corrupt.Err, true},
	} {
		mem := vfstest.NewMem()
		f, err := mem.Create("from")
		must(t, err)
		_, err = f.Write(content[:c.length])
		must(t, errors.Join(err, f.Close()))
		ctx, cancel := context.WithCancel(t.Context())
		if c.cancel == vfstest.OpMkdir {
			cancel()
		}
		writes := 0
		copied, err := newstore.LinkOrCopy(ctx, vfstest.NewHook(mem, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpWrite {
				writes++
			}
			if op.Kind == c.cancel && c.want != nil {
				cancel()
			}
			if op.Kind == vfstest.OpLink && !c.links {
				return errors.ErrUnsupported
			}
			return nil
		}), "from", "to", size)
		cancel()
		if !errors.Is(err, c.want) || copied == c.links {
			t.Errorf("%s: copied %v, %v, want %v", c.name, copied, err, c.want)
		}
		if damage, ok := errors.AsType[*corrupt.Error](err); ok && damage.Offset != int64(c.length) {
			t.Errorf("%s: the file ends at %d, want %d", c.name, damage.Offset, c.length)
		}
		got, err := vfs.ReadFile(mem, "to", size)
		if (err == nil) != c.left || c.want == nil && !bytes.Equal(got, content) || c.want != nil && writes > 2 {
			t.Errorf("%s: %d bytes in %d writes, %v", c.name, len(got), writes, err)
		}
	}
}
