package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// everyFS returns each file system by name, as a function that makes an empty directory on it.
func everyFS() map[string]func(t *testing.T) (fsys vfs.FS, dir string) {
	return map[string]func(t *testing.T) (fsys vfs.FS, dir string){
		"OS": func(t *testing.T) (vfs.FS, string) {
			t.Helper()
			return vfs.OS, t.TempDir()
		},
		"Mem": func(t *testing.T) (vfs.FS, string) {
			t.Helper()
			m := vfstest.NewMem()
			must(t, m.Mkdir("dir"))
			return m, "dir"
		},
		"Hook": func(t *testing.T) (vfs.FS, string) {
			t.Helper()
			return vfstest.NewHook(vfstest.NewMem(), func(vfstest.Op) error { return nil }), string(filepath.Separator)
		},
	}
}

var must = testkit.Must

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want one that is %q", got, want)
	}
}

// put makes a file with content, unsynced.
func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	n, err := f.Write([]byte(content))
	must(t, err)
	if n != len(content) {
		t.Fatalf("wrote %d bytes, want %d", n, len(content))
	}
	must(t, f.Close())
}

// get returns the content of a file, or "-" for an absent one.
func get(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(data)
}

// list returns the names in a directory, separated by spaces.
func list(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	return strings.Join(names, " ")
}

func TestFilesOfEveryFS(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			name := filepath.Join(dir, "a")
			f, err := fsys.Create(name)
			must(t, err)
			var want []byte
			for i := range 300 {
				piece := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, i)
				n, err := f.Write(piece)
				must(t, err)
				if n != len(piece) {
					t.Fatalf("wrote %d bytes, want %d", n, len(piece))
				}
				want = append(want, piece...)
			}
			must(t, f.Sync())
			if size, err := f.Size(); size != int64(len(want)) || err != nil {
				t.Errorf("size %d, %v, want %d", size, err, len(want))
			}
			if got := make([]byte, 100); true {
				if _, err = f.ReadAt(got, 4000); err != nil || !bytes.Equal(got, want[4000:4100]) {
					t.Errorf("what Create returned reads %x, %v", got, err)
				}
			}
			must(t, f.Close())

			f, err = fsys.Open(name)
			must(t, err)
			size := int64(len(want))
			for _, off := range []int64{0, 1, 511, 512, 65535, 65536, size - 10, size, size + 1} {
				for _, n := range []int{0, 1, 10, 11, 70000} {
					got := make([]byte, n)
					var wantBytes []byte
					if off < int64(len(want)) {
						wantBytes = want[off:min(off+int64(n), int64(len(want)))]
					}
					var wantError error
					if len(wantBytes) < n {
						wantError = io.EOF
					}
					k, err := f.ReadAt(got, off)
					if !bytes.Equal(got[:k], wantBytes) || !errors.Is(err, wantError) {
						t.Errorf("ReadAt(%d bytes, %d): got %d bytes, %v, want %d, %v",
							n, off, k, err, len(wantBytes), wantError)
					}
				}
			}
			if _, err = f.ReadAt(make([]byte, 1), -1); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("ReadAt(-1): got %v, want an error", err)
			}
			if n, err := f.Write([]byte("x")); n != 0 || err == nil {
				t.Errorf("writing to what Open returned: got %d, %v, want an error", n, err)
			}
			must(t, f.Sync())
			must(t, f.Close())
			wantErr(t, f.Close(), fs.ErrClosed)
			_, err = f.ReadAt(make([]byte, 1), 0)
			wantErr(t, err, fs.ErrClosed)
			_, err = f.Size()
			wantErr(t, err, fs.ErrClosed)
			wantErr(t, f.Sync(), fs.ErrClosed)
		})
	}
}

// reserve calls Reserve, if f has it.
func reserve(f vfs.File, n int64) error {
	r, ok := f.(vfs.Reserver)
	if !ok {
		return errors.ErrUnsupported
	}
	return r.Reserve(n)
}

// TestReservedSpaceIsFilledInOrder writes pieces of all sizes into reserved space, behind it and across its end, with
// syncs between them, and reads everything meanwhile.
func TestReservedSpaceIsFilledInOrder(t *testing.T) {
	testkit.Long(t)
	for name, setup := range everyFS() {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				fsys, dir := setup(t)
				name := filepath.Join(dir, "a")
				f, err := fsys.Create(name)
				must(t, err)
				defer func() { must(t, f.Close()) }()
				other, err := fsys.Open(name)
				must(t, err)
				defer func() { must(t, other.Close()) }()
				var want []byte
				size := 0
				for range 400 {
					switch rng.IntN(25) {
					case 0:
						n := 1 + rng.IntN([]int{10, 5000, 70_000, 900_000}[rng.IntN(4)])
						if err := reserve(f, int64(n)); errors.Is(err, errors.ErrUnsupported) {
							t.Skip(err)
						} else {
							must(t, err)
						}
						size = max(size, len(want)+n)
					case 1:
						if seed%2 == 0 { // else the system populates pages ahead of the writes
							must(t, f.Sync())
						}
					default:
						piece := make([]byte, rng.IntN([]int{2, 300, 300, 300, 5000, 20_000}[rng.IntN(6)]))
						for i := range piece {
							piece[i] = byte(1 + rng.IntN(255))
						}
						write(t, f, string(piece))
						want = append(want, piece...)
						size = max(size, len(want))
					}
					from := rng.IntN(size + 1)
					part := make([]byte, min(size-from, 1+rng.IntN(8000)))
					for _, r := range []vfs.File{f, other} {
						n, err := r.ReadAt(part, int64(from))
						if n != len(part) || err != nil && !errors.Is(err, io.EOF) {
							t.Fatalf("ReadAt(%d bytes, %d): %d, %v", len(part), from, n, err)
						}
						filled := part[:min(len(part), max(0, len(want)-from))]
						behind := part[len(filled):]
						if !bytes.HasPrefix(want[min(from, len(want)):], filled) ||
							len(bytes.Trim(behind, "\x00")) > 0 {
							t.Fatalf("%d bytes at %d are wrong; the file has %d bytes, %d of them written",
								len(part), from, size, len(want))
						}
						if got, err := r.Size(); got != int64(size) || err != nil {
							t.Fatalf("size %d, %v, want %d", got, err, size)
						}
					}
				}
				if got := get(t, fsys, name); got != string(want)+strings.Repeat("\x00", size-len(want)) {
					t.Errorf("the whole file differs: %d bytes, want %d", len(got), size)
				}
			})
		}
	}
}

func TestWhatCannotBeReserved(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			name := filepath.Join(dir, "a")
			f, err := fsys.Create(name)
			must(t, err)
			write(t, f, "abc")
			for _, n := range []int64{0, -1, 1<<63 - 1} {
				if err := reserve(f, n); err == nil {
					t.Errorf("%d bytes reserved", n)
				}
			}
			write(t, f, "def")
			if got := get(t, fsys, name); got != "abcdef" {
				t.Errorf("got %q, want abcdef", got)
			}
			r, err := fsys.Open(name)
			must(t, err)
			if err := reserve(r, 10); err == nil {
				t.Error("reserved by what Open returned")
			}
			must(t, r.Close())
			must(t, f.Close())
			if err := reserve(f, 10); !errors.Is(err, fs.ErrClosed) && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("after Close: %v", err)
			}
			_, err = f.Write([]byte("x"))
			if err == nil {
				t.Error("written after Close")
			}
		})
	}
}

func TestNamesOfEveryFS(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			at := func(name string) string { return filepath.Join(dir, name) }
			put(t, fsys, at("b"), "B")
			put(t, fsys, at("a"), "A")
			must(t, fsys.Mkdir(at("sub")))
			put(t, fsys, at("sub/c"), "C")
			if got, want := list(t, fsys, dir), "a b sub"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}

			_, err := fsys.Create(at("a"))
			wantErr(t, err, fs.ErrExist)
			_, err = fsys.Create(at("no/x"))
			wantErr(t, err, fs.ErrNotExist)
			_, err = fsys.Open(at("no"))
			wantErr(t, err, fs.ErrNotExist)
			_, err = fsys.Open(at("sub"))
			wantErr(t, err, vfs.ErrNotRegular)
			_, err = fsys.Stat(at("no"))
			wantErr(t, err, fs.ErrNotExist)
			_, err = fsys.List(at("no"))
			wantErr(t, err, fs.ErrNotExist)
			wantErr(t, fsys.Remove(at("no")), fs.ErrNotExist)
			wantErr(t, fsys.Rename(at("no"), at("x")), fs.ErrNotExist)
			wantErr(t, fsys.Rename(at("a"), at("no/x")), fs.ErrNotExist)
			wantErr(t, fsys.Rename(at("a"), at("sub")), fs.ErrExist)
			wantErr(t, fsys.Link(at("no"), at("x")), fs.ErrNotExist)
			wantErr(t, fsys.Link(at("a"), at("b")), fs.ErrExist)
			wantErr(t, fsys.Link(at("sub"), at("x")), vfs.ErrNotRegular)
			wantErr(t, fsys.Mkdir(at("a")), fs.ErrExist)
			wantErr(t, fsys.Mkdir(at("no/x")), fs.ErrNotExist)
			wantErr(t, fsys.SyncDir(at("no")), fs.ErrNotExist)
			for what, err := range map[string]error{
				"removing a full directory":      fsys.Remove(at("sub")),
				"a directory in place of a file": fsys.Rename(at("sub"), at("a")),
				"syncing a file as a directory":  fsys.SyncDir(at("a")),
				"a file as a directory":          fsys.Mkdir(at("a/x")),
			} {
				if err == nil {
					t.Errorf("%s: got no error", what)
				}
			}

			must(t, fsys.Rename(at("a"), at("b")))     // in place of another
			must(t, fsys.Link(at("b"), at("sub/d")))   // a second name
			must(t, fsys.Rename(at("b"), at("sub/d"))) // of one file: nothing happens
			must(t, fsys.Rename(at("sub"), at("e")))   // a directory
			must(t, fsys.Rename(at("e/c"), at("f")))   // to another directory
			must(t, errors.Join(fsys.SyncDir(dir), fsys.SyncDir(at("e"))))
			if got, want := list(t, fsys, dir)+"; "+list(t, fsys, at("e")), "b e f; d"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got, want := get(t, fsys, at("b"))+get(t, fsys, at("e/d"))+get(t, fsys, at("f")), "AAC"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			info, err := fsys.Stat(at("f"))
			must(t, err)
			if info.Name() != "f" || info.Size() != 1 || !info.Mode().IsRegular() || info.IsDir() {
				t.Errorf("got %v", fs.FormatFileInfo(info))
			}
			info, err = fsys.Stat(at("e"))
			must(t, err)
			if info.Name() != "e" || !info.IsDir() || info.ModTime().IsZero() {
				t.Errorf("got %v", fs.FormatFileInfo(info))
			}
			must(t, fsys.Remove(at("e/d")))
			must(t, fsys.Remove(at("e")))
			if got, want := list(t, fsys, dir), "b f"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := get(t, fsys, at("b")); got != "A" {
				t.Errorf("a file whose other name is removed holds %q, want A", got)
			}
		})
	}
}

func TestARemovedFileCanStillBeRead(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			name := filepath.Join(dir, "a")
			put(t, fsys, name, "old")
			f, err := fsys.Open(name)
			must(t, err)
			must(t, fsys.Remove(name))
			put(t, fsys, name, "new")
			got := make([]byte, 3)
			if _, err = f.ReadAt(got, 0); string(got) != "old" || err != nil {
				t.Errorf("got %q, %v, want old", got, err)
			}
			must(t, f.Close())
		})
	}
}

func TestI31SecondLockIsRefusedAtOnce(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			name := filepath.Join(dir, "LOCK")
			lock, err := fsys.Lock(name)
			must(t, err)
			for range 2 { // the first refusal must not release the lock
				_, err = fsys.Lock(name)
				wantErr(t, err, vfs.ErrLocked)
			}
			other, err := fsys.Lock(filepath.Join(dir, "OTHER"))
			must(t, err)
			must(t, other.Close())
			must(t, lock.Close())
			wantErr(t, lock.Close(), fs.ErrClosed)
			if got, want := list(t, fsys, dir), "LOCK OTHER"; got != want {
				t.Errorf("after the unlock got %q, want %q", got, want)
			}
			second, err := fsys.Lock(name)
			must(t, err)
			wantErr(t, lock.Close(), fs.ErrClosed) // must not release the second one
			_, err = fsys.Lock(name)
			wantErr(t, err, vfs.ErrLocked)
			must(t, second.Close())

			must(t, fsys.Mkdir(filepath.Join(dir, "sub")))
			if _, err = fsys.Lock(filepath.Join(dir, "sub")); err == nil {
				t.Error("a directory was locked as a file")
			}
			_, err = fsys.Lock(filepath.Join(dir, "no", "LOCK"))
			wantErr(t, err, fs.ErrNotExist)
		})
	}
}

func TestI31ManyShareALockThatExcludesAnExclusiveOne(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			name := filepath.Join(dir, "LOCK")
			_, err := fsys.LockShared(name)
			wantErr(t, err, fs.ErrNotExist)
			_, err = fsys.LockShared(filepath.Join(dir, "no", "LOCK"))
			wantErr(t, err, fs.ErrNotExist)
			must(t, fsys.Mkdir(filepath.Join(dir, "sub")))
			if _, err = fsys.LockShared(filepath.Join(dir, "sub")); err == nil {
				t.Error("a directory was locked as a file")
			}
			if got, want := list(t, fsys, dir), "sub"; got != want {
				t.Errorf("failures left %q, want %q", got, want)
			}

			lock, err := fsys.Lock(name)
			must(t, err)
			_, err = fsys.LockShared(name)
			wantErr(t, err, vfs.ErrLocked)
			must(t, lock.Close())

			var shares []io.Closer
			for range 3 {
				share, err := fsys.LockShared(name)
				must(t, err)
				shares = append(shares, share)
				_, err = fsys.Lock(name)
				wantErr(t, err, vfs.ErrLocked)
			}
			for i, share := range shares { // the last share keeps the lock, also when another is closed twice
				_, err = fsys.Lock(name)
				wantErr(t, err, vfs.ErrLocked)
				must(t, share.Close())
				if i < 2 {
					wantErr(t, share.Close(), fs.ErrClosed)
				}
			}
			lock, err = fsys.Lock(name)
			must(t, err)
			wantErr(t, shares[2].Close(), fs.ErrClosed) // must not release the new one
			_, err = fsys.LockShared(name)
			wantErr(t, err, vfs.ErrLocked)
			must(t, lock.Close())
			share, err := fsys.LockShared(name)
			must(t, err)
			must(t, share.Close())
		})
	}
}

func TestTheHolderOfALockMayRemoveItsFile(t *testing.T) {
	for name, setup := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := setup(t)
			name := filepath.Join(dir, "LOCK")
			lock, err := fsys.Lock(name)
			must(t, err)
			if err := fsys.Remove(name); err != nil {
				must(t, lock.Close())
				t.Skipf("an open file stays: %v", err)
			}
			_, err = fsys.LockShared(name)
			wantErr(t, err, fs.ErrNotExist)
			next, err := fsys.Lock(name) // of another file
			must(t, err)
			must(t, lock.Close())
			_, err = fsys.Lock(name)
			wantErr(t, err, vfs.ErrLocked)
			must(t, next.Close())
		})
	}
}

func TestMemNamesAreCleaned(t *testing.T) {
	m := vfstest.NewMem()
	must(t, m.Mkdir("a"))
	put(t, m, "a/b", "x")
	for _, name := range []string{"a/b", "/a/b", "./a//b", "a/../a/./b", "../a/b", "/../a/b"} {
		if got := get(t, m, filepath.FromSlash(name)); got != "x" {
			t.Errorf("%s holds %q, want x", name, got)
		}
	}
	for _, root := range []string{".", "/", "", "..", "a/.."} {
		if got := list(t, m, filepath.FromSlash(root)); got != "a" {
			t.Errorf("root %q holds %q, want a", root, got)
		}
		wantErr(t, m.Remove(root), fs.ErrInvalid)
		wantErr(t, m.Rename(root, "b"), fs.ErrInvalid)
		wantErr(t, m.Mkdir(root), fs.ErrExist)
	}
	must(t, m.Mkdir("c"))
	must(t, m.Mkdir("c/d"))
	wantErr(t, m.Rename(filepath.Join("c", "d"), filepath.Join("a", "d")), errors.ErrUnsupported)
	wantErr(t, m.Rename("c", filepath.Join("c", "d", "e")), errors.ErrUnsupported)
	names, err := m.List("c")
	must(t, err)
	if !slices.Equal(names, []string{"d"}) {
		t.Errorf("got %q, want d", names)
	}
}
