package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
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
	c := checkpoint{newStore: newStore{fs: db.opts.FS, dir: dir, outer: db.dir}, db: db}
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

// A checkpoint is one under way.
type checkpoint struct {
	newStore
	db     *DB
	copied int // tables that could not be linked
}

func (c *checkpoint) run(ctx context.Context) error {
	began := time.Now()
	if err := c.enter(); err != nil {
		return err
	}
	recorded, s := c.db.tree.Recorded() // there is a state, since Close waits
	defer c.db.tree.Release(s)          // its tables stay on the disk until then
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
	if err := c.create(recorded.NextFile, manifest.State{
		Version: recorded.Version, LastSeq: recorded.LastSeq, Seed: recorded.Seed, Filters: recorded.Filters,
	}); err != nil {
		return err
	}
	c.db.report.checkpointMade(c.dir, tables, c.copied, bytes, time.Since(began))
	return nil
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
