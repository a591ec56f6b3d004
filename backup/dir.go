package backup

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/vfs"
)

// A Dir is a [Storage] in a directory: each object is a file. It is locked until Close.
type Dir struct {
	fs     vfs.HeldFS
	dir    string
	lock   io.Closer
	toRead bool
}

const (
	lockName = "LOCK"
	temp     = "unfinished"
)

// OpenDir opens the storage in a directory, and creates it if it does not exist; its parent must exist. A nil fsys
// means the operating system's. The error matches [bloomkv.ErrLocked] while another program has it open.
func OpenDir(fsys vfs.FS, dir string) (*Dir, error) {
	fsys = cmp.Or(fsys, vfs.OS)
	dir = filepath.Clean(dir) // with a slash at its end it would be its own parent
	if err := makeDir(fsys, dir); err != nil {
		return nil, err
	}
	return enter(fsys, dir, (*Dir).enter)
}

// OpenDirToRead opens the storage in a directory for what only reads, such as Restore. It changes nothing, so the
// directory may be read-only, and others may have it open to read too. Put and Delete return an error matching
// fs.ErrPermission. A nil fsys means the operating system's. The error matches [bloomkv.ErrLocked] while a Dir of
// OpenDir is open.
func OpenDirToRead(fsys vfs.FS, dir string) (*Dir, error) {
	return enter(cmp.Or(fsys, vfs.OS), filepath.Clean(dir), (*Dir).enterToRead)
}

// enter holds a directory and locks it.
func enter(fsys vfs.FS, dir string, lock func(*Dir) error) (*Dir, error) {
	held, err := vfs.Hold(fsys, dir)
	if err != nil {
		return nil, err
	}
	d := &Dir{fs: held, dir: dir}
	if err := lock(d); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return d, nil
}

// enterToRead locks the directory against programs that change it. A copy without the file LOCK is not locked.
func (d *Dir) enterToRead() error {
	d.toRead = true
	lock, err := d.fs.LockShared(filepath.Join(d.dir, lockName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.lock = io.NopCloser(nil)
		return nil
	case err == nil:
		d.lock = lock
	}
	return err
}

// enter locks the directory and makes those in it.
func (d *Dir) enter() (err error) {
	for _, name := range []string{generations, tables} {
		if err := makeDir(d.fs, d.path(name)); err != nil {
			return err
		}
	}
	if d.lock, err = d.fs.Lock(filepath.Join(d.dir, lockName)); err != nil {
		return err
	}
	if err := d.fs.Remove(filepath.Join(d.dir, temp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, d.lock.Close())
	}
	return nil
}

// makeDir makes a directory, unless there is one, and its name durable.
func makeDir(fsys vfs.FS, dir string) error {
	if err := fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(filepath.Dir(dir))
}

// Close unlocks the directory.
func (d *Dir) Close() error { return errors.Join(d.lock.Close(), d.fs.Close()) }

func (d *Dir) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// Put implements [Storage].
func (d *Dir) Put(ctx context.Context, name string, r io.Reader) error {
	if d.toRead {
		return &fs.PathError{Op: "put", Path: d.path(name), Err: fs.ErrPermission}
	}
	tmp := filepath.Join(d.dir, temp)
	f, err := d.fs.Create(tmp)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, until{ctx, r}, make([]byte, 256<<10))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.fs.Rename(tmp, d.path(name))
	}
	if err != nil {
		return errors.Join(err, d.fs.Remove(tmp))
	}
	if err = errors.Join(d.fs.SyncDir(filepath.Dir(d.path(name))), d.fs.SyncDir(d.dir)); err != nil {
		return errors.Join(err, d.fs.Remove(d.path(name))) // it must not be counted on
	}
	return nil
}

// An until reader ends with its context.
type until struct {
	ctx context.Context //nolint:containedctx // Read has no parameter for it
	r   io.Reader
}

func (u until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// Get implements [Storage].
func (d *Dir) Get(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := d.fs.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		*io.SectionReader
		io.Closer
	}{io.NewSectionReader(f, 0, size), f}, nil
}

// List implements [Storage]. It makes durable what it lists, and that nothing else is there: an interrupted program, or
// a call that failed, may have changed the directory without syncing it. A Dir that is open to read does not.
func (d *Dir) List(_ context.Context, prefix string) ([]string, error) {
	if !d.toRead {
		if err := d.fs.SyncDir(d.path(prefix)); err != nil {
			return nil, err
		}
	}
	names, err := d.fs.List(d.path(prefix))
	for i, name := range names {
		names[i] = prefix + name
	}
	return names, err
}

// Delete implements [Storage].
func (d *Dir) Delete(_ context.Context, name string) error {
	if d.toRead {
		return &fs.PathError{Op: "delete", Path: d.path(name), Err: fs.ErrPermission}
	}
	err := d.fs.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir, _, _ := strings.Cut(name, "/")
	return errors.Join(err, d.fs.SyncDir(d.path(dir)))
}
