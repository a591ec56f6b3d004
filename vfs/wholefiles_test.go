package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestReadFile(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			name := filepath.Join(dir, "a")
			put(t, fsys, name, "abc")
			for _, most := range []int64{3, 4, 1 << 40} {
				if got, err := vfs.ReadFile(fsys, name, most); string(got) != "abc" || err != nil {
					t.Errorf("at most %d: got %q, %v", most, got, err)
				}
			}
			got, err := vfs.ReadFile(fsys, name, 2)
			wantErr(t, err, vfs.ErrTooLarge)
			if got != nil || !strings.Contains(err.Error(), "3 bytes, want at most 2") {
				t.Errorf("got %q, %v", got, err)
			}
			_, err = vfs.ReadFile(fsys, filepath.Join(dir, "b"), 2)
			wantErr(t, err, fs.ErrNotExist)
			put(t, fsys, filepath.Join(dir, "empty"), "")
			if got, err := vfs.ReadFile(fsys, filepath.Join(dir, "empty"), 0); len(got) != 0 || err != nil {
				t.Errorf("an empty file: got %q, %v", got, err)
			}
		})
	}
}

// lyingFS returns sizes one byte too large.
type lyingFS struct{ vfs.FS }

type lyingFile struct{ vfs.File }

func (l lyingFS) Open(name string) (vfs.File, error) {
	f, err := l.FS.Open(name)
	return lyingFile{f}, err
}

func (f lyingFile) Size() (int64, error) {
	n, err := f.File.Size()
	return n + 1, err
}

func TestReadFileReportsEveryError(t *testing.T) {
	m := vfstest.NewMem()
	put(t, m, "a", "abc")
	boom := errors.New("boom")
	for _, kind := range []vfstest.OpKind{vfstest.OpOpen, vfstest.OpSize, vfstest.OpReadAt, vfstest.OpClose} {
		got, err := vfs.ReadFile(vfstest.NewHook(m, func(op vfstest.Op) error {
			if op.Kind == kind {
				return boom
			}
			return nil
		}), "a", 10)
		wantErr(t, err, boom)
		if got != nil {
			t.Errorf("%v fails: got %q with the error", kind, got)
		}
	}
	_, err := vfs.ReadFile(lyingFS{m}, "a", 10)
	wantErr(t, err, io.ErrUnexpectedEOF)
}

func TestWriteFileAtomicLeavesOldOrNew(t *testing.T) {
	for _, before := range []struct{ name, do, old string }{
		{"no file", "", "-"},
		{"a file", "put d/a o3, sync d/a, syncdir d", "ooo"},
		{"a file, and one half-made", "put d/a o3, sync d/a, syncdir d, put d/tmp h4", "ooo"},
	} {
		t.Run(before.name, func(t *testing.T) {
			m := vfstest.NewMem()
			must(t, vfs.MkdirAll(m, "d"))
			run(t, m, before.do)
			seen := map[string]bool{}
			crash := func(vfstest.Op) error {
				for c := range m.Crashes() {
					seen[get(t, c, "d/a")] = true
				}
				return nil
			}
			must(t, vfs.WriteFileAtomic(vfstest.NewHook(m, crash), "d", "tmp", "a", []byte("new")))
			if len(seen) != 2 || !seen[before.old] || !seen["new"] {
				t.Errorf("crashes leave %v, want %q or new", seen, before.old)
			}
			if got, want := outcomes(t, m), "d/ d/a=new"; len(got) != 1 || got[0] != want {
				t.Errorf("after success got %q, want %q alone", got, want)
			}
		})
	}
}

func TestWriteFileAtomicReportsEveryError(t *testing.T) {
	for _, kind := range []vfstest.OpKind{
		vfstest.OpCreate, vfstest.OpWrite, vfstest.OpSync, vfstest.OpClose, vfstest.OpRename, vfstest.OpRemove,
		vfstest.OpSyncDir,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			m := vfstest.NewMem()
			must(t, vfs.WriteFileAtomic(m, "", "tmp", "a", []byte("old")))
			put(t, m, "tmp", "left")
			boom := errors.New("boom")
			err := vfs.WriteFileAtomic(vfstest.NewHook(m, func(op vfstest.Op) error {
				if op.Kind == kind {
					return boom
				}
				return nil
			}), "", "tmp", "a", []byte("new"))
			wantErr(t, err, boom)
			want := "a=old"
			switch kind {
			case vfstest.OpSyncDir:
				want = "a=new"
			case vfstest.OpCreate, vfstest.OpRemove: // before anything happened
				want = "a=old tmp=left"
			default:
			}
			if got := state(t, m); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestMkdirAllReportsEveryError(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		dir  string
		kind vfstest.OpKind
		name string // of the operation that fails
		err  error
		want error
	}{
		{"new/b", vfstest.OpMkdir, "new", boom, boom},
		{"new/b", vfstest.OpSyncDir, ".", boom, boom},
		{"new/b", vfstest.OpSyncDir, "new", boom, boom},
		{"new", vfstest.OpSyncDir, ".", fs.ErrPermission, fs.ErrPermission},
		{"old", vfstest.OpList, "old", boom, boom},
		{"old", vfstest.OpSyncDir, ".", boom, boom},
		{"old", vfstest.OpSyncDir, ".", fs.ErrPermission, nil}, // the parent belongs to somebody else
	} {
		m := vfstest.NewMem()
		must(t, m.Mkdir("old"))
		err := vfs.MkdirAll(vfstest.NewHook(m, func(op vfstest.Op) error {
			if op.Kind == c.kind && op.Name == c.name {
				return c.err
			}
			return nil
		}), filepath.FromSlash(c.dir))
		if !errors.Is(err, c.want) {
			t.Errorf("%s, where %v of %s fails: %v, want %v", c.dir, c.kind, c.name, err, c.want)
		}
	}
}

// TestMkdirAllOfTheWorkingDirectory syncs the directory that has the name.
func TestMkdirAllOfTheWorkingDirectory(t *testing.T) {
	up := func(n int) string { return filepath.Join(slices.Repeat([]string{".."}, n)...) }
	for dir, want := range map[string]string{
		".": up(1), "": up(1), up(1): up(2), up(2): up(3), filepath.Join(up(1), "a"): up(1), "a": ".",
	} {
		m := vfstest.NewMem()
		must(t, m.Mkdir("a"))
		var synced []string
		must(t, vfs.MkdirAll(vfstest.NewHook(m, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpSyncDir {
				synced = append(synced, op.Name)
			}
			return nil
		}), dir))
		if !slices.Equal(synced, []string{want}) {
			t.Errorf("%q: %q were synced, want %q", dir, synced, want)
		}
	}
}

func TestMkdirAllIsDurable(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			for range 2 {
				must(t, vfs.MkdirAll(fsys, filepath.Join(dir, "a", "b", "c")))
			}
			put(t, fsys, filepath.Join(dir, "file"), "")
			if err := vfs.MkdirAll(fsys, filepath.Join(dir, "file")); err == nil {
				t.Error("a file was taken for a directory")
			}
			if err := vfs.MkdirAll(fsys, filepath.Join(dir, "file", "a")); err == nil {
				t.Error("a directory was made in a file")
			}
		})
	}
	m := vfstest.NewMem()
	must(t, vfs.MkdirAll(m, filepath.Join("a", "b")))
	if got, want := state(t, m.Crash(vfstest.KeepNothing)), filepath.FromSlash("a/ a/b/"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	must(t, m.Mkdir("c")) // by a process that died before it synced the name
	k := m.Kill()
	must(t, vfs.MkdirAll(k, "c"))
	if got, want := state(t, k.Crash(vfstest.KeepNothing)), filepath.FromSlash("a/ a/b/ c/"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
