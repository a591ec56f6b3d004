package newstore

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
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
	name := filename.Base(filename.Table, t.Number)
	n.Add(t.Number)
	return LinkOrCopy(ctx, n.fs, filepath.Join(n.outer, name), filepath.Join(n.dir, name), t.Size)
}

// LinkOrCopy gives a file of the given size in bytes a second name, or copies it where that is not possible; from may
// then be on another file system. The contents of a copy are durable when it returns, the name is not yet. After an
// error there may be a file with the new name.
func LinkOrCopy(ctx context.Context, fsys vfs.FS, from, to string, size uint64) (copied bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err = fsys.Link(from, to); errors.Is(err, errors.ErrUnsupported) {
		return true, copyFile(ctx, fsys, from, to, size)
	}
	return false, err
}

func copyFile(ctx context.Context, fsys vfs.FS, from, to string, size uint64) (err error) {
	in, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := fsys.Create(to)
	if err != nil {
		return err
	}
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
				err = corrupt.Newf(from, int64(at)+int64(read), "the file ends here, want %d bytes", size)
			}
			return err
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return out.Sync()
}
