// Package outfile writes the files that a user of a program names: pages, pictures, reports.
package outfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/filename"
)

// A target is what a name leads to.
type target struct {
	name string      // symbolic links followed
	info fs.FileInfo // nil where there is nothing yet
}

var (
	errDirectory = errors.New("is a directory, want a file")
	errStoreFile = errors.New("has the name of a file of a store, want another")
	errLinks     = errors.New("too many symbolic links")
)

// Check returns the error that Write would return before it writes: the name is that of a directory, of a file of a store,
// or of something that may not be written, or its directory does not exist.
func Check(name string) error {
	to, err := find(name)
	if dir := to.dir(); err == nil && to.info == nil && dir != "" {
		_, err = os.Stat(dir)
	}
	return named(name, err)
}

// Write gives a file new content.
//
// A regular file is replaced as a whole, by renaming a temporary file of its directory, so that after an error it has its
// old content and the temporary file is gone. It keeps its permissions; a new file has mode 0666 less the umask. A symbolic
// link stays, and the file that it leads to is written, or made. A device, a pipe, or an open file by its name in /proc or
// /dev/fd, is written into; when ctx ends, Write stops waiting for the reader of a pipe and returns the error of ctx.
func Write(ctx context.Context, name string, data []byte) error {
	to, err := find(name)
	switch {
	case err != nil:
	case to.info == nil || to.info.Mode().IsRegular() && !openFile(to.name):
		err = to.replace(data)
	default:
		err = to.fill(ctx, data)
	}
	return named(name, err)
}

// MkdirAll makes a directory for files, and the parents that it lacks, with mode 0777 less the umask.
func MkdirAll(dir string) error { return os.MkdirAll(dir, 0o777) }

// named returns err with the name that the user gave, in place of the one that was worked on.
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

// mostLinks is as many as Linux follows.
const mostLinks = 40

// find follows symbolic links, also to where there is nothing yet, and checks that what they lead to can be written.
func find(name string) (target, error) {
	to := target{name: name}
	for range mostLinks {
		info, err := os.Lstat(to.name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && to.base() != "":
			return to, to.check()
		case err != nil:
			return to, err
		case openFile(to.name): // its link leads to an open file, whatever the text of the link
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

// openFile reports whether a name stands for an open file of a process, such as /dev/stdout does.
func openFile(name string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	return err == nil && (strings.HasPrefix(dir, "/proc/") || dir == "/dev/fd")
}

func (t *target) base() string {
	_, base := filepath.Split(t.name)
	return base
}

// dir returns the part before the base: "" or a directory that ends with a separator. filepath.Dir would clean it, and take
// a/.. for nothing, also where a is a link.
func (t *target) dir() string {
	dir, _ := filepath.Split(t.name)
	return dir
}

// check refuses what must not be written, and what may not.
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
	f, err := os.OpenFile(t.name, os.O_WRONLY, 0) // renaming asks for no permission to write the file
	if err != nil {
		return err
	}
	return f.Close()
}

// replace writes a temporary file and renames it.
func (t *target) replace(data []byte) error {
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
		_, err = f.Write(data)
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

// keepMode undoes what the umask took from the mode of a new file.
func keepMode(f *os.File, mode fs.FileMode) error {
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != mode {
		err = f.Chmod(mode)
	}
	return err
}

// fill writes into what is there, at the end of a regular file, and stops waiting when ctx ends.
func (t *target) fill(ctx context.Context, data []byte) error {
	flag := os.O_WRONLY
	if t.info.Mode().IsRegular() {
		flag |= os.O_APPEND
	}
	done := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(t.name, flag, 0)
		if err == nil {
			_, err = f.Write(data)
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
