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

// Checkpoint makes a copy of the store in dir. The copy contains every write that returned before the call, and of
// the writes that run concurrently a prefix, possibly empty; a batch is in it whole or not at all. When Checkpoint
// returns, the copy is durable. It is a store of its own.
//
// Checkpoint first writes out what is in memory, as Flush does. Tables never change, so they are not copied but get a
// second name (a hard link): they take additional disk space only after one of the two stores has replaced them.
// Where links are not possible, such as on another file system, tables are copied.
//
// dir must not exist or must be an empty directory, otherwise the error matches fs.ErrExist; its parent must exist.
// dir must not lie inside the directory of the store itself, not even through links. After any error, including that
// of ctx, Checkpoint removes what it made. A crash during the call leaves no store in dir: Open refuses the directory
// or finds nothing. With Options.ReadOnly, Checkpoint returns ErrReadOnly.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	ctx, end, err := db.tree.BeginCall(ctx)
	if err != nil {
		return err
	}
	c := checkpoint{newStore: newStore{fs: db.opts.FS, dir: dir, outer: db.dir}, db: db}
	if dir != "" {
		c.dir = filepath.Clean(dir) // as filepath.Join does, so that all names are in the same directory
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

// A checkpoint is a call of Checkpoint in progress.
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
	recorded, s := c.db.tree.Recorded() // not nil, since Close waits
	defer c.db.tree.Release(s)          // keeps its tables on the disk until then
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

// table links a table into the copy, or copies it.
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

// copyTable copies a table of the given size in bytes. The contents are durable when it returns, the name is not yet.
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
				err = corrupt.Newf(name, int64(at)+int64(n), "the file ends here, want %d bytes", size)
			}
			return err
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return out.Sync()
}
