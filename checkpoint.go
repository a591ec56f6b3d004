package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// Checkpoint makes a copy of the store in dir. The copy holds all writes that returned before the call; of those that run
// beside it, the first ones or none, batches whole. It is durable when Checkpoint returns, and a store of its own.
//
// What is in memory is written out first, as Flush does. The tables, which no store ever changes, are not copied but get
// second names (hard links): they take space of their own only once one of the stores has replaced them. Where names
// cannot be given, as on another file system, the tables are copied.
//
// dir must not exist, or be an empty directory, else the error Is fs.ErrExist; its parent must exist. It must not lie inside
// the directory of the store itself, by links either. After any error, that of ctx included, what was made is removed again. A crash on the way leaves no store in dir: Open refuses what there is, or
// finds nothing. With Options.ReadOnly it is ErrReadOnly.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	ctx, end, err := db.begin(ctx)
	if err != nil {
		return err
	}
	c := checkpoint{db: db, fs: db.opts.FS, dir: dir}
	if dir != "" {
		c.dir = filepath.Clean(dir) // as filepath.Join does, so that all names lie in the same directory
	}
	err = c.run(ctx)
	if err == nil {
		return end(nil)
	}
	left := c.abandon()
	if err = end(err); left == nil && errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("bloomkv: checkpoint %s: %w", dir, errors.Join(err, left))
}

// A checkpoint is one under way. CURRENT comes last, when all that it leads to is durable, so that until then there is no
// store; and LOCK first, held, so that nobody else makes one there.
type checkpoint struct {
	db  *DB
	fs  vfs.FS
	dir string

	made   bool      // the directory was
	lock   io.Closer // nil until it is held
	names  []string  // what was made in the directory, or may have been, other than LOCK
	copied int       // tables that could not be linked
}

func (c *checkpoint) run(ctx context.Context) error {
	began := time.Now()
	if err := c.enter(); err != nil {
		return err
	}
	// The state's tables stay on the disk until it is released. Under editMu it is what the manifest has.
	c.db.editMu.Lock()
	recorded := c.db.recorded
	_, release := c.db.acquire() // there is one, since Close waits
	c.db.editMu.Unlock()
	defer release()
	tables, bytes := 0, uint64(0)
	for _, t := range recorded.Version.Tables() {
		if err := c.table(ctx, t); err != nil {
			return err
		}
		tables++
		bytes += t.Size
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.manifest(&recorded); err != nil {
		return err
	}
	_ = c.lock.Close() // all is there and durable
	c.db.report.checkpointMade(c.dir, tables, c.copied, bytes, time.Since(began))
	return nil
}

// makeDir makes a directory unless it is there, and makes its name durable.
func makeDir(fsys vfs.FS, dir string) (made bool, err error) {
	err = fsys.Mkdir(dir)
	made = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	// A directory that is there may have been made by a process that died before it could sync the parent.
	err = fsys.SyncDir(filepath.Dir(filepath.Clean(dir)))
	if !made && errors.Is(err, fs.ErrPermission) {
		return false, nil // a parent that may not be opened is somebody else's, who made the directory
	}
	return made, err
}

var (
	errNotEmpty = fmt.Errorf("not an empty directory: %w", fs.ErrExist)
	errInside   = errors.New("lies inside the directory of the store itself")
)

// enter makes the directory, or makes sure that it is empty, and locks it.
func (c *checkpoint) enter() (err error) {
	if c.made, err = makeDir(c.fs, c.dir); err != nil {
		return err
	}
	empty, err := c.holdsOnly("")
	if err != nil && !c.made { // it is no directory
		return fmt.Errorf("%w: %w", errNotEmpty, err)
	}
	if err == nil && !empty {
		err = errNotEmpty
	}
	if err != nil {
		return err
	}
	inside, err := vfs.Inside(c.fs, c.dir, c.db.dir)
	if err == nil && inside {
		err = errInside
	}
	if err != nil {
		return err
	}
	if c.lock, err = c.fs.Lock(filepath.Join(c.dir, filename.LockName)); err != nil {
		return err
	}
	empty, err = c.holdsOnly(filename.LockName)
	if err == nil && !empty { // somebody made a store before it was locked
		err = errors.Join(errNotEmpty, c.lock.Close())
		c.made, c.lock = false, nil // what is there is the other's
	}
	return err
}

// holdsOnly reports whether the directory holds nothing but that name.
func (c *checkpoint) holdsOnly(name string) (bool, error) {
	names, err := c.fs.List(c.dir)
	return !slices.ContainsFunc(names, func(n string) bool { return n != name }), err
}

// table gives a table a second name, or copies it.
func (c *checkpoint) table(ctx context.Context, t *manifest.Table) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := filename.Base(filename.Table, t.Number)
	from, to := filepath.Join(c.db.dir, name), filepath.Join(c.dir, name)
	err := c.fs.Link(from, to)
	switch {
	case err == nil:
		c.names = append(c.names, name)
	case errors.Is(err, errors.ErrUnsupported):
		c.copied++
		err = c.copyTable(ctx, from, name, t.Size)
	}
	return err
}

// copyTable copies a table of that many bytes, durably but for its name.
func (c *checkpoint) copyTable(ctx context.Context, from, name string, size uint64) (err error) {
	in, err := c.fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := c.fs.Create(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	c.names = append(c.names, name)
	defer func() { err = errors.Join(err, out.Close()) }()
	const chunk = 1 << 20
	buf := make([]byte, min(size, chunk))
	for at := uint64(0); at < size; at += uint64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = buf[:min(size-at, chunk)]
		n, err := in.ReadAt(buf, int64(at))
		if n < len(buf) {
			if errors.Is(err, io.EOF) {
				err = corrupt.Newf(name, int64(at)+int64(n), "ends here, the manifest wants %d bytes", size)
			}
			return err
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return out.Sync()
}

// manifest makes a store of the directory: all of the version, and no log. Its first step is to make the names of the
// tables durable, with the manifest's own, and its last one CURRENT.
func (c *checkpoint) manifest(recorded *manifest.State) error {
	number := recorded.NextFile // no file has it
	c.names = append(c.names, filename.Base(filename.Manifest, number), filename.Base(filename.Temp, number), filename.CurrentName)
	m, err := manifest.Create(c.fs, c.dir, number, manifest.State{
		Version: recorded.Version, LastSeq: recorded.LastSeq, NextFile: number + 1, MinLog: number, Seed: recorded.Seed, Filters: recorded.Filters,
	})
	if err != nil {
		return err
	}
	return m.Close()
}

// abandon removes what was made, CURRENT first.
func (c *checkpoint) abandon() error {
	var errs []error
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Backward(c.names) {
		note(c.fs.Remove(filepath.Join(c.dir, name)))
	}
	if c.lock != nil {
		// While it is locked, so that nobody else locks what is removed; some systems remove no open file.
		name := filepath.Join(c.dir, filename.LockName)
		err := c.fs.Remove(name)
		note(c.lock.Close())
		if err != nil {
			note(c.fs.Remove(name))
		}
	}
	switch {
	case c.made:
		note(c.fs.Remove(c.dir))
		note(c.fs.SyncDir(filepath.Dir(filepath.Clean(c.dir))))
	case c.lock != nil:
		note(c.fs.SyncDir(c.dir))
	}
	return errors.Join(errs...)
}
