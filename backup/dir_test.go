package backup_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A holder counts the directories that are held.
type holder struct {
	vfs.FS

	held int
}

type heldDir struct {
	vfs.FS

	of *holder
}

func (h *holder) Hold(string) (vfs.HeldFS, error) {
	h.held++
	return heldDir{h.FS, h}, nil
}

func (d heldDir) Close() error {
	d.of.held--
	return nil
}

// TestAFailedOperationOfADirectoryKeepsNothingOpen fails each operation of a call in turn. Nothing that the call has
// opened is open, or there, after the failure.
func TestAFailedOperationOfADirectoryKeepsNothingOpen(t *testing.T) {
	const name = "tables/0000000000000001-5-0000000000000002"
	for what, call := range map[string]func(d *backup.Dir) error{
		"open": nil, // OpenDir itself
		"get": func(d *backup.Dir) error {
			r, err := d.Get(t.Context(), "tables/there")
			if err == nil {
				err = r.Close()
			}
			return err
		},
		"put": func(d *backup.Dir) error { return d.Put(t.Context(), name, strings.NewReader("bytes")) },
	} {
		last := false
		for nth := 1; !last; nth++ {
			mem := vfstest.NewMem()
			d := open(t, mem)
			must(t, errors.Join(d.Put(t.Context(), "tables/there", strings.NewReader("there")), d.Close()))
			ops := 0
			var failed vfstest.Op
			files := storetest.TrackOpen(vfstest.NewHook(mem, func(op vfstest.Op) error {
				if ops++; ops == nth {
					failed = op
					return syscall.EIO
				}
				return nil
			}))
			h := &holder{FS: files}
			if call != nil {
				ops = -1 << 30
			}
			d, err := backup.OpenDir(h, "backups")
			if call != nil {
				must(t, err)
				ops = 0
				err = call(d)
				last = ops < nth
				if left := files.Of("unfinished") + files.Of("there"); left > 0 {
					t.Errorf("%s: %v fails: %d files stay open", what, failed, left)
				}
				if _, statErr := mem.Stat("backups/" + name); what == "put" && (err == nil) != (statErr == nil) {
					t.Errorf("put returns %v after %v failed, the object: %v", err, failed, statErr)
				}
			} else {
				last = ops < nth
			}
			if d != nil {
				ops = 1 << 30
				must(t, d.Close())
			}
			if (err == nil) != last || h.held != 0 || files.Left() != nil {
				t.Errorf("%s: %v fails: %v, %d directories held, %v", what, failed, err, h.held, files.Left())
			}
		}
	}
}

// TestAnObjectIsThereOrGoneAfterAPowerCut stores one, deletes one, and ends storing one by an error and by a context.
func TestAnObjectIsThereOrGoneAfterAPowerCut(t *testing.T) {
	mem := vfstest.NewMem()
	d := open(t, mem)
	want := func(names ...string) {
		t.Helper()
		for _, fsys := range []*vfstest.Mem{mem, mem.Crash(vfstest.KeepNothing)} {
			if got, err := fsys.List("backups/tables"); err != nil || !slices.Equal(got, names) {
				t.Errorf("objects %q, %v, want %q", got, err, names)
			}
			if _, err := fsys.Stat("backups/unfinished"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("an unfinished object: %v", err)
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		must(t, d.Put(t.Context(), "tables/"+name, strings.NewReader(name)))
	}
	want("a", "b")
	must(t, d.Delete(t.Context(), "tables/a"))
	must(t, d.Delete(t.Context(), "tables/a"))
	want("b")
	failed := errors.New("failed")
	err := d.Put(t.Context(), "tables/c", io.MultiReader(strings.NewReader("c"), iotest.ErrReader(failed)))
	if !errors.Is(err, failed) {
		t.Errorf("%v, want the error of the reader", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := readerFunc(func([]byte) (int, error) {
		cancel()
		return 1, nil
	})
	again := errors.New("read again")
	err = d.Put(ctx, "tables/c", io.MultiReader(io.LimitReader(ends, 1), iotest.ErrReader(again)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was canceled", err)
	}
	want("b")
	must(t, d.Close())
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A slow storage takes an hour for each table, and counts the readers that are open or being opened.
type slow struct {
	backup.Storage

	open int
}

type slowReader struct {
	io.ReadCloser

	of *slow
}

func (s *slow) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	s.open++
	if strings.HasPrefix(name, "tables/") {
		time.Sleep(time.Hour)
	}
	r, err := s.Storage.Get(ctx, name)
	if err != nil {
		s.open--
		return nil, err
	}
	return &slowReader{r, s}, nil
}

func (r *slowReader) Close() error {
	r.of.open--
	return r.ReadCloser.Close()
}

// TestNoObjectStaysOpen verifies and restores generations of several tables, with errors and without.
func TestNoObjectStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, d, mem := t.Context(), open(t, vfstest.NewMem()), vfstest.NewMem()
		db, write := written(t)
		for range 3 {
			write()
			_, err := backup.Make(ctx, db, d)
			must(t, err)
		}
		s := &slow{Storage: d}
		restored := func(n uint64, dir string) error {
			return backup.Restore(ctx, s, n, dir, bloomkv.NewStoreOptions{FS: mem})
		}
		restore := func() error { return restored(3, "restored") }
		for i, c := range []struct {
			call func() error
			want error
		}{
			{func() error { return backup.Verify(ctx, s, nil) }, nil},
			{restore, nil},
			{restore, fs.ErrExist},
			{func() error { return restored(9, "other") }, fs.ErrNotExist},
			{func() error {
				names, err := d.List(ctx, "tables/")
				must(t, err)
				must(t, d.Delete(ctx, names[0]))
				return backup.Verify(ctx, s, nil)
			}, fs.ErrNotExist},
			{func() error { return restored(3, "other") }, fs.ErrNotExist},
		} {
			if err := c.call(); !errors.Is(err, c.want) || s.open != 0 {
				t.Errorf("call %d: %v, want %v; %d objects are open", i, err, c.want, s.open)
			}
		}
		must(t, errors.Join(d.Close(), db.Close()))
	})
}

// TestADirOpenToReadChangesNothing uses a file system that refuses every change, with the file LOCK and without.
func TestADirOpenToReadChangesNothing(t *testing.T) {
	ctx, mem := t.Context(), vfstest.NewMem()
	db, write := written(t)
	write()
	writer := open(t, mem)
	_, err := backup.Make(ctx, db, writer)
	must(t, err)
	if _, err := backup.OpenDirToRead(mem, "backups"); !errors.Is(err, bloomkv.ErrLocked) {
		t.Errorf("to read beside a writer: %v", err)
	}
	must(t, writer.Close())
	fixed := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind.Changes() {
			return syscall.EROFS
		}
		return nil
	})
	for _, locked := range []bool{true, false} {
		if !locked {
			must(t, mem.Remove("backups/LOCK"))
		}
		var readers [2]*backup.Dir
		for i := range readers {
			d, err := backup.OpenDirToRead(fixed, "backups")
			must(t, err)
			readers[i] = d
			_, err = backup.Describe(ctx, d, 1)
			must(t, errors.Join(err, backup.Verify(ctx, d, nil)))
			must(t, backup.Restore(ctx, d, 1, "new", bloomkv.NewStoreOptions{FS: vfstest.NewMem()}))
			for what, err := range map[string]error{
				"put": d.Put(ctx, "tables/a", strings.NewReader("a")), "delete": d.Delete(ctx, "generations/00000001"),
			} {
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%s: %v, want that it is not permitted", what, err)
				}
			}
		}
		if locked {
			if _, err := backup.OpenDir(mem, "backups"); !errors.Is(err, bloomkv.ErrLocked) {
				t.Errorf("to write beside readers: %v", err)
			}
		}
		must(t, errors.Join(readers[0].Close(), readers[1].Close()))
	}
}
