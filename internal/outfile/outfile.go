// Package outfile writes files that a user names: pages, pictures, reports.
package outfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/filename"
)

// A target is the file that a name refers to.
type target struct {
	name string      // with symbolic links resolved
	info fs.FileInfo // nil if there is no file yet
}

var (
	errDirectory = errors.New("is a directory, want a file")
	errStoreFile = errors.New("is the name of a file of a store; choose another")
	errLinks     = errors.New("too many symbolic links")
)

// Check returns the error that Write would return before writing: the name is that of a directory, of a store's file,
// or of a file without write permission, or its directory does not exist.
func Check(name string) error {
	to, err := find(name)
	if dir := to.dir(); err == nil && to.info == nil && dir != "" {
		_, err = os.Stat(dir)
	}
	return named(name, err)
}

// Write replaces the content of a file.
//
// A regular file is replaced as a whole, by renaming a temporary file in the same directory, so that after an error it
// has its old content and the temporary file is gone. It keeps its permissions; a new file has mode 0666 less the
// umask. A symbolic link is kept, and the file that it refers to is written. A device, a pipe, or an open file named in
// /proc or /dev/fd is written into. When ctx ends, Write stops waiting for the reader of a pipe and returns the error
// of ctx.
func Write(ctx context.Context, name string, data []byte) error {
	return WriteFrom(ctx, name, bytes.NewReader(data))
}

// WriteFrom does what Write does with what from writes. When ctx ends, it also stops before from writes more.
func WriteFrom(ctx context.Context, name string, from io.WriterTo) error {
	to, err := find(name)
	switch {
	case err != nil:
	case to.info == nil || to.info.Mode().IsRegular() && !openFile(to.name):
		err = to.replace(ctx, from)
	default:
		err = to.fill(ctx, from)
	}
	return named(name, err)
}

// An output is a file that takes no more once ctx has ended.
type output struct {
	ctx  context.Context //nolint:containedctx // Write has no parameter for it
	file *os.File
}

func (o output) Write(b []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	return o.file.Write(b)
}

// MkdirAll creates a directory and its missing parents with mode 0777 less the umask.
func MkdirAll(dir string) error { return os.MkdirAll(dir, 0o777) }

// named returns err with the name that the user gave.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, cause(err))
}

// cause returns an error of package os without the operation and the names.
func cause(err error) error {
	switch e := err.(type) { //nolint:errorlint // an error that is joined to another keeps its name
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	case interface{ Unwrap() []error }:
		if all := e.Unwrap(); len(all) == 1 {
			return cause(all[0])
		}
	}
	return err
}

// mostLinks is the limit of Linux.
const mostLinks = 40

// find follows symbolic links, even to a missing file, and checks that the file can be written.
func find(name string) (target, error) {
	to := target{name: name}
	for range mostLinks {
		info, err := os.Lstat(to.name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && to.base() != "":
			return to, to.check()
		case err != nil:
			return to, err
		case openFile(to.name): // the link refers to an open file, whatever its text is
			to.info, err = os.Stat(to.name)
			return to, errors.Join(err, to.check())
		case info.Mode()&fs.ModeSymlink == 0:
			to.info = info
			return to, to.check()
		}
		link, err := os.Readlink(to.name)
		if err != nil {
			return to, err
		}
		if !filepath.IsAbs(link) {
			link = to.dir() + link
		}
		to.name = link
	}
	return to, errLinks
}

// openFile reports whether a name stands for an open file of a process, as /dev/stdout does.
func openFile(name string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	return err == nil && (strings.HasPrefix(dir, "/proc/") || dir == "/dev/fd")
}

func (t *target) base() string {
	_, base := filepath.Split(t.name)
	return base
}

// dir returns the part before the base: "" or a directory with a separator at the end. filepath.Dir would clean it and
// so remove a/.. even if a is a link.
func (t *target) dir() string {
	dir, _ := filepath.Split(t.name)
	return dir
}

// check rejects files that must not or cannot be written.
func (t *target) check() error {
	if t.info != nil && t.info.IsDir() {
		return errDirectory
	}
	if kind, _ := filename.Parse(t.base()); kind != filename.Unknown {
		return errStoreFile
	}
	if t.info == nil || !t.info.Mode().IsRegular() {
		return nil // opening a device may have an effect, and opening a pipe waits
	}
	f, err := os.OpenFile(t.name, os.O_WRONLY, 0) // renaming needs no write permission for the file
	if err != nil {
		return err
	}
	return f.Close()
}

// replace writes a temporary file and renames it.
func (t *target) replace(ctx context.Context, from io.WriterTo) error {
	mode := fs.FileMode(0o666)
	if t.info != nil {
		mode = t.info.Mode().Perm()
	}
	temp := t.dir() + ".bloomkv-" + rand.Text()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) // less the umask
	if err != nil {
		return err
	}
	if t.info != nil {
		err = keepMode(f, mode)
	}
	if err == nil {
		_, err = from.WriteTo(output{ctx, f})
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, t.name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// keepMode restores the mode of a new file, which the umask has reduced.
func keepMode(f *os.File, mode fs.FileMode) error {
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != mode {
		err = f.Chmod(mode)
	}
	return err
}

// fill writes into an existing file, at the end if it is regular, and stops waiting when ctx ends.
func (t *target) fill(ctx context.Context, from io.WriterTo) error {
	flag := os.O_WRONLY
	if t.info.Mode().IsRegular() {
		flag |= os.O_APPEND
	}
	done := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(t.name, flag, 0)
		if err == nil {
			_, err = from.WriteTo(output{ctx, f})
			err = errors.Join(err, f.Close())
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
