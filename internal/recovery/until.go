package recovery

import (
	"context"
	"os"

	"github.com/bloomkv/bloomkv/vfs"
)

// Until returns an FS that reads nothing once ctx has ended, so that all that reads files stops soon: then the calls
// return the error of ctx.
func Until(ctx context.Context, fsys vfs.FS) vfs.FS { return until{fsys, ctx} }

type until struct {
	vfs.FS
	ctx context.Context //nolint:containedctx // of the caller of Until
}

func (u until) Open(name string) (vfs.File, error) {
	if err := u.ctx.Err(); err != nil {
		return nil, err
	}
	f, err := u.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return fileUntil{f, u.ctx}, nil
}

func (u until) List(dir string) ([]string, error) {
	if err := u.ctx.Err(); err != nil {
		return nil, err
	}
	return u.FS.List(dir)
}

func (u until) Stat(name string) (os.FileInfo, error) {
	if err := u.ctx.Err(); err != nil {
		return nil, err
	}
	return u.FS.Stat(name)
}

type fileUntil struct {
	vfs.File
	ctx context.Context //nolint:containedctx // of the caller of Until
}

func (f fileUntil) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}
