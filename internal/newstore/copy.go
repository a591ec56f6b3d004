package newstore

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Figures describe a copy.
type Figures struct {
	Tables int
	Copied int    // tables among them that could not be linked
	Bytes  uint64 // of all tables
}

// Copy makes the directory a copy of the outer store as recorded. It links the tables, or copies those that cannot be
// linked. They must stay on the disk meanwhile. Enter must have returned nil.
func (n *Store) Copy(ctx context.Context, recorded manifest.State) (f Figures, err error) {
	for _, t := range recorded.Version.Tables() {
		copied, err := n.table(ctx, t)
		if err != nil {
			return f, err
		}
		f.Tables++
		f.Bytes += t.Size
		if copied {
			f.Copied++
		}
	}
	if err := ctx.Err(); err != nil {
		return f, err
	}
	return f, n.Create(recorded.NextFile, manifest.State{
		Version: recorded.Version, LastSeq: recorded.LastSeq, Seed: recorded.Seed, Filters: recorded.Filters,
		Mark: recorded.Mark,
	})
}

// table links a table of the outer store, or copies it.
func (n *Store) table(ctx context.Context, t *manifest.Table) (copied bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	name := filename.Base(filename.Table, t.Number)
	from, to := filepath.Join(n.outer, name), filepath.Join(n.dir, name)
	err = n.fs.Link(from, to)
	switch {
	case err == nil:
		n.names = append(n.names, name)
	case errors.Is(err, errors.ErrUnsupported):
		copied = true
		err = n.copyTable(ctx, from, name, t.Size)
	}
	return copied, err
}

// copyTable copies a table of the given size in bytes. The contents are durable when it returns, the name is not yet.
func (n *Store) copyTable(ctx context.Context, from, name string, size uint64) (err error) {
	in, err := n.fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := n.fs.Create(filepath.Join(n.dir, name))
	if err != nil {
		return err
	}
	n.names = append(n.names, name)
	defer func() { err = errors.Join(err, out.Close()) }()
	const chunk = 1 << 20
	buf := make([]byte, min(size, chunk))
	for at := uint64(0); at < size; at += uint64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = buf[:min(size-at, chunk)]
		read, err := in.ReadAt(buf, int64(at))
		if read < len(buf) {
			if errors.Is(err, io.EOF) {
				err = corrupt.Newf(name, int64(at)+int64(read), "the file ends here, want %d bytes", size)
			}
			return err
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return out.Sync()
}
