//go:build unix

package tests

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestWhatIsNoRegularFileIsRefusedAndDoesNotHang replaces files by a link, a pipe, a directory and a socket.
func TestWhatIsNoRegularFileIsRefusedAndDoesNotHang(t *testing.T) {
	d := newDamageStore(t, false)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("not yours"), 0o600))
	for _, file := range append(slices.Clone(d.files), "LOCK") {
		for kind, place := range map[string]func(name string) error{
			"a link to a file outside": func(name string) error { return os.Symlink(outside, name) },
			"a link to the same file": func(name string) error {
				return errors.Join(os.Rename(name, outside+"2"), os.Symlink(outside+"2", name))
			},
			"a link to nothing": func(name string) error { return os.Symlink(outside+"3", name) },
			"a pipe":            func(name string) error { return syscall.Mkfifo(name, 0o600) },
			"a directory":       func(name string) error { return os.Mkdir(name, 0o700) },
		} {
			dir := filepath.Join(t.TempDir(), "db")
			d.copyTo(t, dir)
			name := filepath.Join(dir, file)
			if kind != "a link to the same file" {
				must(t, os.Remove(name))
			}
			must(t, place(name))
			testkit.Within(t, file+" as "+kind, func() {
				db, err := bloomkv.Open(dir, d.options(vfs.OS))
				if err == nil {
					_ = db.Close()
				}
				if err == nil || !strings.Contains(err.Error(), file) {
					t.Errorf("%s as %s: %v, want an error that names it", file, kind, err)
				}
				if _, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: vfs.OS}); err == nil ||
					!strings.Contains(err.Error(), file) {
					t.Errorf("check: %s as %s: %v, want an error that names it", file, kind, err)
				}
			})
		}
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "not yours" {
		t.Errorf("outside: %q, %v", b, err)
	}
	if _, err := os.Lstat(outside + "3"); err == nil {
		t.Error("a file was created at the target of a link")
	}
}

// copyTo writes the store to a directory of the operating system, with LOCK.
func (d *damageStore) copyTo(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	for name, content := range filesIn(t, d.fs) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

// TestTheGroupOfADirectoryMayUseWhatIsMadeInIt makes a store, and from it all else that has files, in a directory that
// gives new files to its group.
func TestTheGroupOfADirectoryMayUseWhatIsMadeInIt(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o007))
	parent, ctx := t.TempDir(), t.Context()
	must(t, os.Chmod(parent, 0o770|fs.ModeSetgid))
	at := func(name string) string { return filepath.Join(parent, name) }
	db := storetest.Open(t, at("store"), nil)
	must(t, db.Put([]byte("k"), []byte("v")))
	must(t, db.Flush(ctx))
	must(t, db.Put([]byte("l"), []byte("v"))) // remains in a log
	must(t, db.Checkpoint(ctx, at("checkpoint")))
	to, err := backup.OpenDir(nil, at("backup"))
	must(t, err)
	_, err = backup.Make(ctx, db, to)
	must(t, err)
	must(t, backup.Restore(ctx, to, 1, at("restored"), bloomkv.NewStoreOptions{}))
	must(t, to.Close())
	_, err = salvage.Run(ctx, at("checkpoint"), at("salvaged"), salvage.Options{})
	must(t, err)
	must(t, filepath.WalkDir(parent, func(name string, _ fs.DirEntry, err error) error {
		must(t, err)
		info, err := os.Stat(name)
		must(t, err)
		want := fs.FileMode(0o660)
		if info.IsDir() {
			want = 0o770
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: %v, want %v", name, info.Mode(), want)
		}
		return nil
	}))
	must(t, db.Close())
}

// TestAStoreMayBeALinkAndIsItsOwnersAlone opens a store through a link, and checks the permissions of the files that it
// creates.
func TestAStoreMayBeALinkAndIsItsOwnersAlone(t *testing.T) {
	tmp := t.TempDir()
	must(t, os.Symlink(filepath.Join(tmp, "real"), filepath.Join(tmp, "link")))
	must(t, os.Mkdir(filepath.Join(tmp, "real"), 0o700))
	db := storetest.Open(t, filepath.Join(tmp, "link"), nil)
	if err := db.Put([]byte("k"), []byte("v")); err != nil {
		t.Error(err)
	}
	must(t, db.Close())
	files, err := os.ReadDir(filepath.Join(tmp, "real"))
	must(t, err)
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v, want a file accessible only to its owner", f.Name(), info.Mode(), err)
		}
	}
	db = storetest.Open(t, filepath.Join(tmp, "new"), nil)
	must(t, db.Close())
	if info, err := os.Stat(filepath.Join(tmp, "new")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v, want one accessible only to its owner", info.Mode(), err)
	}
	must(t, os.WriteFile(filepath.Join(tmp, "file"), nil, 0o600))
	if _, err := bloomkv.Open(filepath.Join(tmp, "file"), nil); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("a file instead of the directory: %v, want an error that names it", err)
	}
}
