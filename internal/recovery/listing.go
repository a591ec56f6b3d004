// Package recovery opens a store: it locks the directory and decides which files must exist, which logs count, and
// which files are left over. It brings what the logs hold into tables.
package recovery

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Listing is the files of a store's directory: the numbers of each kind, ascending. It does not contain files with
// unknown names.
type Listing map[filename.Kind][]uint64

// Survey lists a directory.
func Survey(fsys vfs.FS, dir string) (Listing, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	return List(names), nil
}

// List sorts the names in a directory by kind.
func List(names []string) Listing {
	found := Listing{}
	for _, name := range names {
		if kind, number := filename.Parse(name); kind != filename.Unknown {
			found[kind] = append(found[kind], number)
		}
	}
	for _, numbers := range found {
		slices.Sort(numbers)
	}
	return found
}

// LogsFrom returns the logs that the manifest still needs: those numbered first or higher.
func (l Listing) LogsFrom(first uint64) []uint64 {
	i, _ := slices.BinarySearch(l[filename.Log], first)
	return l[filename.Log][i:]
}

// Lost returns the damage of a directory without CURRENT: an error if there are tables or logs, whose manifest is lost
// (I18).
func (l Listing) Lost() error {
	for _, kind := range []filename.Kind{filename.Table, filename.Log} {
		if n := l[kind]; len(n) > 0 {
			return corrupt.Newf(filename.CurrentName, 0, "missing, but there is data (%s)", filename.Base(kind, n[0]))
		}
	}
	return nil
}

// A look is what the file system says about a file.
type look struct {
	size int64
	mode os.FileMode
	err  error
}

// fewTables is the number of tables up to which a goroutine of their own would not be worth it.
const fewTables = 256

// lookAt looks at the table of an index.
func (l Listing) lookAt(fsys vfs.FS, dir string, i int) look {
	info, err := fsys.Stat(filename.Make(dir, filename.Table, l[filename.Table][i]))
	if err != nil {
		return look{err: err}
	}
	return look{size: info.Size(), mode: info.Mode()}
}

// found begins to look at the tables of a listing, beside the caller, if they are many. Few are looked at when Check is
// called, so that operations on few files have one order.
func (l Listing) found(fsys vfs.FS, dir string) Found {
	n := len(l[filename.Table])
	if n <= fewTables {
		return Found{l, func(i int) look { return l.lookAt(fsys, dir, i) }}
	}
	looks, done := make([]look, n), make(chan struct{})
	go func() {
		defer close(done)
		for i := range looks {
			looks[i] = l.lookAt(fsys, dir, i)
		}
	}()
	return Found{l, func(i int) look {
		<-done
		return looks[i]
	}}
}

// Check compares the manifest with the directory (I15). A file that the manifest names must exist, tables with their
// size. A file with a number that the manifest has not given out yet shows that the manifest is older than the data.
func (l Listing) Check(fsys vfs.FS, dir string, s *manifest.State) error {
	return l.found(fsys, dir).Check(s)
}

// Check compares the manifest with the directory, as Listing.Check does.
func (f Found) Check(s *manifest.State) error {
	l := f.Listing
	for _, t := range s.Version.Tables() {
		name := func() string { return filename.Base(filename.Table, t.Number) }
		i, ok := slices.BinarySearch(l[filename.Table], t.Number)
		if !ok {
			return corrupt.Newf(name(), 0, "missing, the manifest names it")
		}
		switch file := f.look(i); {
		case file.err != nil:
			return file.err
		case !file.mode.IsRegular():
			return corrupt.Newf(name(), 0, "not a regular file but of mode %v, the manifest names it", file.mode)
		case uint64(file.size) != t.Size: //nolint:gosec // a file's size is not negative
			return corrupt.Newf(name(), file.size, "%d bytes, the manifest wants %d", file.size, t.Size)
		}
	}
	for _, kind := range []filename.Kind{filename.Table, filename.Log} {
		if n := l[kind]; len(n) > 0 && n[len(n)-1] >= s.NextFile {
			return corrupt.Newf(filename.Base(filename.Manifest, s.ManifestNumber), 0,
				"knows no file from number %d on, but there is %s: the manifest is older than the data",
				s.NextFile, filename.Base(kind, n[len(n)-1]))
		}
	}
	if s.Log != nil {
		if _, ok := slices.BinarySearch(l[filename.Log], s.Log.Number); !ok {
			return corrupt.Newf(filename.Base(filename.Log, s.Log.Number), 0, "missing, the manifest names it")
		}
	}
	return nil
}

// Orphans returns the names of the files that a crash left: files whose numbers the manifest knows to be out of use
// (I19).
func (l Listing) Orphans(s *manifest.State) (names []string) {
	live := make(map[uint64]bool, s.Version.NumTables())
	for _, t := range s.Version.Tables() {
		live[t.Number] = true
	}
	for kind, numbers := range l {
		for _, n := range numbers {
			gone := false
			switch kind {
			case filename.Table:
				gone = !live[n]
			case filename.Log:
				gone = n < s.MinLog
			case filename.Manifest:
				gone = n != s.ManifestNumber
			case filename.Temp:
				gone = true
			case filename.Unknown, filename.Current, filename.Lock:
			}
			if gone {
				names = append(names, filename.Base(kind, n))
			}
		}
	}
	return names
}

// RemoveUnfinished removes the tables that unfinished work has left, before anything is written: they may be what fills
// the disk. If there is one manifest, no record of it has named them, durable or not, unlike other orphans.
func (l Listing) RemoveUnfinished(fsys vfs.FS, dir string, s *manifest.State, o Observer) {
	if len(l[filename.Manifest]) > 1 {
		return
	}
	replaced := slices.Sorted(slices.Values(s.Replaced))
	remove(fsys, dir, slices.DeleteFunc(l.Orphans(s), func(name string) bool {
		kind, number := filename.Parse(name)
		_, named := slices.BinarySearch(replaced, number)
		return kind != filename.Table || named
	}), o)
}

// RemoveOrphans removes the orphans. own makes sure that the manifest was begun by this use of the store, and returns
// its number.
func (l Listing) RemoveOrphans(
	fsys vfs.FS, dir string, s *manifest.State, own func() (number uint64, err error), o Observer,
) error {
	orphans := l.Orphans(s)
	if len(orphans) == 0 {
		return nil
	}
	number, err := own()
	if err != nil {
		return err
	}
	current := filename.Base(filename.Manifest, number) // it may have replaced an orphan of its number
	remove(fsys, dir, slices.DeleteFunc(orphans, func(name string) bool { return name == current }), o)
	return nil
}

// remove removes orphans. Those that cannot be removed stay until the store is opened again.
func remove(fsys vfs.FS, dir string, orphans []string, o Observer) {
	for _, name := range orphans {
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.OrphanStays(name, err)
		}
	}
}
