package storetest

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
)

// Rewrite replaces the contents of a file; a nil result removes it.
func Rewrite(t *testing.T, fsys vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 64<<20)
	testkit.Must(t, err)
	b = change(bytes.Clone(b))
	testkit.Must(t, fsys.Remove(name))
	if b != nil {
		testkit.Must(t, createFile(fsys, name, b))
	}
}

// AddFile creates a file.
func AddFile(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	testkit.Must(t, createFile(fsys, name, []byte(content)))
}

func createFile(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// Recorded returns the state in the manifest of a store, which may be open: if it begins another manifest while this
// one is looked for, Recorded reads the new one.
func Recorded(t *testing.T, fsys vfs.FS, dir string) manifest.State {
	t.Helper()
	current := func() string {
		b, err := vfs.ReadFile(fsys, filepath.Join(dir, filename.CurrentName), 1<<10)
		testkit.Must(t, err)
		return string(b)
	}
	for {
		before := current()
		s, err := manifest.Load(fsys, dir)
		if err == nil {
			return s
		}
		if current() == before {
			t.Fatal(err)
		}
	}
}
