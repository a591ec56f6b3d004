package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// everyOp performs each kind of operation once and returns the errors by operation.
func everyOp(fsys vfs.FS) map[string]error {
	errs := map[string]error{}
	errs["mkdir"] = fsys.Mkdir("d")
	f, err := fsys.Create("d/a")
	errs["create"] = err
	if err == nil {
		errs["reserve"] = reserve(f, 5)
		_, errs["write"] = f.Write([]byte("abcde"))
		errs["sync"] = f.Sync()
		errs["close"] = f.Close()
	}
	errs["link"] = fsys.Link("d/a", "d/b")
	errs["rename"] = fsys.Rename("d/a", "d/c")
	errs["syncdir"] = fsys.SyncDir("d")
	f, err = fsys.Open("d/c")
	errs["open"] = err
	if err == nil {
		_, errs["readat"] = f.ReadAt(make([]byte, 2), 3)
		_, errs["size"] = f.Size()
	}
	_, errs["list"] = fsys.List("d")
	_, errs["stat"] = fsys.Stat("d/b")
	lock, err := fsys.Lock("d/LOCK")
	errs["lock"] = err
	if err == nil {
		errs["unlock"] = lock.Close()
	}
	lock, err = fsys.LockShared("d/LOCK")
	errs["lockshared"] = err
	if err == nil {
		errs["unlock"] = errors.Join(errs["unlock"], lock.Close())
	}
	_, errs["freespace"] = freeSpace(fsys, "d")
	errs["remove"] = fsys.Remove("d/b")
	return errs
}

func freeSpace(fsys vfs.FS, dir string) (uint64, error) {
	f, ok := fsys.(vfs.FreeSpacer)
	if !ok {
		return 0, errors.New("not a FreeSpacer")
	}
	return f.FreeSpace(dir)
}

func TestHookSeesEveryOperation(t *testing.T) {
	var got []string
	m := vfstest.NewMem()
	for what, err := range everyOp(vfstest.NewHook(spacious{m}, func(op vfstest.Op) error {
		got = append(got, op.String())
		return nil
	})) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	want := []string{
		"mkdir d", "create d/a", "reserve d/a 5", "write d/a 5", "sync d/a", "close d/a", "link d/a d/b",
		"rename d/a d/c", "syncdir d", "open d/c", "readat d/c 3+2", "size d/c", "list d", "stat d/b", "lock d/LOCK",
		"close d/LOCK", "lockshared d/LOCK", "close d/LOCK", "freespace d", "remove d/b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := state(t, m), "d/ d/LOCK= d/c=abcde"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHookFailsEveryOperationWithItsError(t *testing.T) {
	boom := errors.New("boom")
	kinds := map[string]vfstest.OpKind{}
	for k := vfstest.OpCreate; k <= vfstest.OpClose; k++ {
		kinds[k.String()] = k
	}
	if len(kinds) != 18 {
		t.Fatalf("got %d kinds, want 18", len(kinds))
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			m := vfstest.NewMem()
			errs := everyOp(vfstest.NewHook(spacious{m}, func(op vfstest.Op) error {
				if op.Kind == kind {
					return boom
				}
				return nil
			}))
			if errs[name] != boom { //nolint:errorlint // unwrapped is the promise
				t.Errorf("got %v, want %v", errs[name], boom)
			}
			switch kind {
			case vfstest.OpClose: // it is closed all the same
				lock, err := m.Lock("d/LOCK")
				must(t, err)
				must(t, lock.Close())
			case vfstest.OpWrite:
				if got := get(t, m, "d/c"); got != "\x00\x00\x00\x00\x00" {
					t.Errorf("a write that failed left %q", got)
				}
			case vfstest.OpReserve:
				if got := get(t, m, "d/c"); got != "abcde" {
					t.Errorf("without what was to be reserved there is %q", got)
				}
			case vfstest.OpMkdir, vfstest.OpCreate:
				if got := state(t, m); strings.Contains(got, "c=") {
					t.Errorf("done all the same: %q", got)
				}
			default:
			}
		})
	}
}

func TestHookReservesOnlyIfTheWrappedFileDoes(t *testing.T) {
	m := vfstest.NewMem()
	f, err := vfstest.NewHook(plain{m}, func(vfstest.Op) error { return nil }).Create("a")
	must(t, err)
	wantErr(t, reserve(f, 5), errors.ErrUnsupported)
	write(t, f, "abc")
	if got := get(t, m, "a"); got != "abc" {
		t.Errorf("got %q, want abc", got)
	}
}

func TestHookReturnsFreeSpaceOnlyIfTheWrappedFSDoes(t *testing.T) {
	free := func(fsys vfs.FS, hook func(vfstest.Op) error) (uint64, error) {
		return freeSpace(vfstest.NewHook(fsys, hook), "d")
	}
	_, err := free(vfstest.NewMem(), func(op vfstest.Op) error { t.Errorf("hook called for %v", op); return nil })
	wantErr(t, err, errors.ErrUnsupported)
	var ops []string
	n, err := free(spacious{vfstest.NewMem()}, func(op vfstest.Op) error { ops = append(ops, op.String()); return nil })
	must(t, err)
	if n != 5 || !slices.Equal(ops, []string{"freespace d"}) {
		t.Errorf("%d bytes, hook called for %q; want 5, and freespace d", n, ops)
	}
	refused := errors.New("refused")
	_, err = free(spacious{vfstest.NewMem()}, func(vfstest.Op) error { return refused })
	wantErr(t, err, refused)
}

// spacious is an FS with five bytes left.
type spacious struct{ vfs.FS }

func (spacious) FreeSpace(string) (uint64, error) { return 5, nil }

func TestTheSystemReturnsFreeSpace(t *testing.T) {
	dir := t.TempDir()
	n, err := freeSpace(vfs.OS, dir)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("not on this system")
	}
	if must(t, err); n < 1<<10 || n > 1<<60 {
		t.Errorf("%d bytes left on the disk that holds this test", n)
	}
	if _, err = freeSpace(vfs.OS, dir+"/absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if n, err := freeSpace(vfs.OS, "/proc"); runtime.GOOS == "linux" && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a file system that knows no space: %d, %v", n, err)
	}
}

// plain is an FS whose files reserve nothing.
type plain struct{ vfs.FS }

func (p plain) Create(name string) (vfs.File, error) {
	f, err := p.FS.Create(name)
	return struct{ vfs.File }{f}, err
}

func TestHookCanMakeAWriteShort(t *testing.T) {
	m := vfstest.NewMem()
	full := fmt.Errorf("disk full: %w", vfstest.ErrShortWrite)
	fsys := vfstest.NewHook(m, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpWrite {
			return full
		}
		return nil
	})
	f, err := fsys.Create("a")
	must(t, err)
	n, err := f.Write([]byte("abcde"))
	wantErr(t, err, full)
	if got := get(t, m, "a"); n != 2 || got != "ab" {
		t.Errorf("got %d bytes and %q, want 2 and ab", n, got)
	}
}

func TestOpKindsThatChange(t *testing.T) {
	var got []string
	for k := vfstest.OpKind(0); k <= vfstest.OpClose+1; k++ {
		if k.Changes() {
			got = append(got, k.String())
		}
	}
	const want = "create remove rename link mkdir syncdir lock write reserve sync"
	if got := strings.Join(got, " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := vfstest.OpKind(200).String(), "OpKind(200)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
