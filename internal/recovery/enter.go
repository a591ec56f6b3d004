package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Mode says what opening a store may do.
type Mode struct {
	ReadOnly       bool // nothing on the disk is changed (I32)
	ErrorIfMissing bool // no store is created
	ErrorIfExists  bool // no existing store is opened
}

var (
	// ErrMissing is the error for a directory without a store. It matches fs.ErrNotExist.
	ErrMissing = fmt.Errorf("no store here: %w", fs.ErrNotExist)

	errExists = fmt.Errorf("there is a store here: %w", fs.ErrExist)
)

// A Dir is the directory of a store, held and locked until Close (I31, I40).
type Dir struct {
	FS   vfs.HeldFS // nothing is changed in the directory any more once the lock was lost
	Lock vfs.Lock   // nil for a copy without a file LOCK that is only read
}

// Close ends it.
func (d *Dir) Close() (err error) {
	if d.Lock != nil {
		err = d.Lock.Close()
	}
	return errors.Join(err, d.FS.Close())
}

// Enter holds and locks the directory of a store. For a new store, it creates the directory, durably (I17), and
// missing parents.
func Enter(fsys vfs.FS, dir string, mode Mode) (*Dir, error) {
	if err := lookAt(fsys, dir, mode); err != nil {
		return nil, err
	}
	held, err := vfs.Hold(fsys, dir)
	if err != nil {
		return nil, err
	}
	lock, err := takeLock(held, filepath.Join(dir, filename.LockName), mode.ReadOnly)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	if !mode.ReadOnly {
		held = vfs.Guard(held, dir, lock)
	}
	return &Dir{FS: held, Lock: lock}, nil
}

// lookAt looks for a store in the directory. If there is none and mode permits a new one, it makes the directory.
func lookAt(fsys vfs.FS, dir string, mode Mode) error {
	_, err := fsys.Stat(filepath.Join(dir, filename.CurrentName))
	switch {
	case err == nil && mode.ErrorIfExists && !mode.ReadOnly:
		return errExists
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			return at.Err // the path is that of CURRENT, but dir is what is wrong
		}
		return err
	case mode.ReadOnly:
		found, err := Survey(fsys, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return cmp.Or(found.Lost(), ErrMissing)
	case mode.ErrorIfMissing:
		return ErrMissing
	}
	return vfs.MkdirAll(fsys, dir)
}

// takeLock takes the lock of a store. If a copy of a store that is only read has no file LOCK, it is read without a
// lock, which is then nil, since creating the file would be a change: a new store has LOCK before CURRENT, which is
// there, so no one is about to create it.
func takeLock(fsys vfs.FS, name string, readOnly bool) (vfs.Lock, error) {
	if !readOnly {
		return fsys.Lock(name)
	}
	lock, err := fsys.LockShared(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return lock, err
}

// Found are the files that Load has found, and begun to look at.
type Found struct {
	Listing
	look func(i int) look // at the table of an index
}

// Load lists the directory that Enter has locked and loads what its manifest records: nil if a store is to be created.
// A store without a manifest that has data is damaged. If the store may be changed and has no log, Load skips seqGap
// sequence numbers: a power cut may have removed a log whose name was not durable. After logs Replay skips them.
func Load(fsys vfs.FS, dir string, mode Mode) (Found, *manifest.State, error) {
	listed, err := Survey(fsys, dir)
	if err != nil {
		return Found{}, nil, err
	}
	found := listed.found(fsys, dir)
	s, err := manifest.Load(fsys, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = found.Lost()
		if err == nil && (mode.ReadOnly || mode.ErrorIfMissing) { // gone since Enter looked
			err = ErrMissing
		}
		return found, nil, err
	case err == nil && mode.ErrorIfExists: // created since Enter looked
		err = errExists
	case err == nil && !mode.ReadOnly && len(found.LogsFrom(s.MinLog)) == 0:
		s.LastSeq = skip(s.LastSeq) // durable before the first log is written: the first new number begins a manifest
	}
	return found, &s, err
}

// NextManifest returns the number of the first manifest of a new store. An earlier attempt to create it that crashed
// may have left a manifest. A file with a number that no store gives out is not counted on from.
func (l Listing) NextManifest() uint64 {
	for _, n := range slices.Backward(l[filename.Manifest]) {
		if manifest.CheckFile(n) == nil {
			return n + 1
		}
	}
	return 1
}
