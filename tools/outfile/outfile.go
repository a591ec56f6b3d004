// Package outfile writes files that a user names: pages, pictures, reports.
package outfile

import (
	"bytes"
	"cmp"
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
	"github.com/bloomkv/bloomkv/vfs"
)

var (
	errDirectory = errors.New("is a directory, want a file")
	errStoreFile = errors.New("is the name of a file of a store; choose another")
)

// Check returns the error that Write would return before writing: the name is that of a directory, of a store's file,
// or of a file without write permission, or its directory does not exist.
func Check(name string) error {
	to, err := find(name)
	if err == nil && to.info == nil {
		dir, _ := filepath.Split(to.last)
		_, err = os.Stat(cmp.Or(dir, "."))
	}
	return named(name, err)
}

// Write replaces the content of a file.
//
// A regular file is replaced as a whole, by renaming a temporary file in the same directory, so that after an error it
// has its old content and the temporary file is gone. It keeps its permissions; a new file has those of [vfs.OS].
//
// What is no regular file is opened by its name and written into: a symbolic link, a device, a pipe, or an open file
// named in /proc or /dev/fd, which is appended to. Write leaves links to the system, since that follows those of others
// in directories for all, as /tmp is, only where it is safe. After an error the file behind a link may have a part of
// the new content. When ctx ends, Write stops waiting for the reader of a pipe and returns the error of ctx.
func Write(ctx context.Context, name string, data []byte) error {
	return WriteFrom(ctx, name, bytes.NewReader(data))
}

// WriteFrom does what Write does with what from writes. When ctx ends, it also stops before from writes more.
func WriteFrom(ctx context.Context, name string, from io.WriterTo) error {
	to, err := find(name)
	switch {
	case err != nil:
	case to.link || to.open || to.info != nil && !to.info.Mode().IsRegular():
		err = to.fill(ctx, from)
	default:
		err = to.replace(ctx, from)
	}
	return named(name, err)
}

// Stream writes what from writes to what is open already. When ctx ends, it stops waiting for the reader of a pipe, and
// before from writes more, and returns the error of ctx.
func Stream(ctx context.Context, to io.Writer, from io.WriterTo) error {
	_, err := Wait(ctx, func() (int64, error) { return from.WriteTo(UntilDone(ctx, to)) })
	return err
}

// UntilDone returns a writer to another one that takes no more once ctx has ended.
func UntilDone(ctx context.Context, to io.Writer) io.Writer { return output{ctx, to} }

type output struct {
	ctx context.Context //nolint:containedctx // Write has no parameter for it
	to  io.Writer
}

func (o output) Write(b []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	return o.to.Write(b)
}

// Wait returns what f returns. When ctx ends before that, it returns the error of ctx, and f has a goroutine of its own
// until it returns.
func Wait[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		got T
		err error
	}
	done := make(chan result, 1)
	go func() {
		got, err := f()
		done <- result{got, err}
	}()
	select {
	case r := <-done:
		return r.got, r.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
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

// A target is what a name refers to.
type target struct {
	name string
	info fs.FileInfo // of the file behind all links; nil if there is none
	link bool        // it is a symbolic link
	last string      // the name that the links lead to, which others may have changed by now
	open bool        // it stands for an open file of a process, as /dev/stdout does
}

// mostLinks is the limit of Linux.
const mostLinks = 40

// find returns what a name refers to, and checks that it can be written. It reads links only to describe them.
func find(name string) (target, error) {
	to := target{name: name, last: name}
	for range mostLinks {
		if to.open = openFile(to.last); to.open {
			break
		}
		link, err := os.Readlink(to.last)
		if err != nil {
			break
		}
		to.link = true
		if !filepath.IsAbs(link) {
			dir, _ := filepath.Split(to.last) // filepath.Dir would remove a/.. even if a is a link
			link = dir + link
		}
		to.last = link
	}
	var err error
	if to.info, err = os.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return to, err
	}
	return to, to.check(err)
}

// openFile reports whether a name stands for an open file of a process.
func openFile(name string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	return err == nil && (strings.HasPrefix(dir, "/proc/") || dir == "/dev/fd")
}

// check rejects files that must not or cannot be written.
func (t *target) check(missing error) error {
	_, base := filepath.Split(t.last)
	switch kind, _ := filename.Parse(base); {
	case t.info != nil && t.info.IsDir():
		return errDirectory
	case base == "": // a file with this name would be a directory
		return missing
	case kind != filename.Unknown:
		return errStoreFile
	case t.info == nil || !t.info.Mode().IsRegular():
		return nil // opening a device may have an effect, and opening a pipe waits
	}
	f, err := t.enter(0) // renaming needs no write permission for the file
	if err != nil {
		return err
	}
	return f.Close()
}

// enter opens the file for writing as if to create it: the system then also refuses files and pipes that another user
// has left in a directory for all.
func (t *target) enter(flag int) (*os.File, error) {
	return os.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|flag, 0o600)
}

// replace writes a temporary file and renames it.
func (t *target) replace(ctx context.Context, from io.WriterTo) error {
	dir, _ := filepath.Split(t.name)
	temp := dir + ".bloomkv-" + rand.Text()
	f, err := t.create(temp)
	if err != nil {
		return err
	}
	if _, err = from.WriteTo(UntilDone(ctx, f)); err == nil {
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

// A file is a new file.
type file interface {
	io.WriteCloser
	Sync() error
}

// create creates a file with the permissions of the one that it will replace.
func (t *target) create(name string) (file, error) {
	if t.info == nil {
		return vfs.OS.Create(name)
	}
	mode := t.info.Mode().Perm()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != mode { // the umask has reduced it
		err = f.Chmod(mode)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return f, nil
}

// fill writes into a file, and stops waiting when ctx ends.
func (t *target) fill(ctx context.Context, from io.WriterTo) error {
	flag := 0
	switch {
	case t.open:
		flag = os.O_APPEND
	case t.info == nil || t.info.Mode().IsRegular():
		flag = os.O_TRUNC
	}
	_, err := Wait(ctx, func() (n int64, err error) {
		f, err := t.enter(flag)
		if err == nil {
			n, err = from.WriteTo(UntilDone(ctx, f))
			err = errors.Join(err, f.Close())
		}
		return n, err
	})
	return err
}
