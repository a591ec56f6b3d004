//go:build unix

package tests

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

func TestReadOnlyOfADirectoryThatMayNotBeWritten(t *testing.T) {
	d := newDamageStore(t, false)
	dir := filepath.Join(t.TempDir(), "db")
	d.copyTo(t, dir)
	names, err := os.ReadDir(dir)
	must(t, err)
	for _, n := range names {
		must(t, os.Chmod(filepath.Join(dir, n.Name()), 0o400))
	}
	must(t, os.Chmod(dir, 0o500))
	defer os.Chmod(dir, 0o700) //nolint:errcheck // so that the directory can be removed
	o := d.options(vfs.OS)
	if os.Getuid() != 0 { // root may write anyway
		if _, err := bloomkv.Open(dir, o); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("for writing: %v, want fs.ErrPermission", err)
		}
	}
	o.ReadOnly = true
	if _, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: o.FS}); err != nil {
		t.Errorf("check: %v", err)
	}
	db := storetest.Open(t, dir, o)
	got, err := storetest.Contents(db)
	if err = errors.Join(err, db.Close()); err != nil || storetest.Diff(got, d.want) != "" {
		t.Errorf("%v, %s", err, storetest.Diff(got, d.want))
	}
}
