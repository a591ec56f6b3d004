package newstore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

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
