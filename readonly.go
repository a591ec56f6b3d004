package bloomkv

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/vfs"
)

// A store opened with Options.ReadOnly is one that has failed to write before it began: what every writer asks, writable,
// answers ErrReadOnly, and neither flushes nor compactions run. What is left of Open changes nothing on the disk (I32).

// openedReadOnly is what such a store answers to writes.
func openedReadOnly(dir string) error {
	return fmt.Errorf("%s: %w: opened with Options.ReadOnly", dir, ErrReadOnly)
}

// lockToRead takes the shared lock of the store in dir, which must be there. A copy of a store that came without LOCK is
// read unlocked, as making the file would be a change.
func lockToRead(fsys vfs.FS, dir string) (io.Closer, error) {
	// CURRENT first: whoever makes a store makes LOCK before it, so that a LOCK missing after this look is not one to come.
	_, err := fsys.Stat(filepath.Join(dir, filename.CurrentName))
	if errors.Is(err, fs.ErrNotExist) {
		found, err := recovery.Survey(fsys, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, noStore(found)
	}
	if err != nil {
		return nil, err
	}
	lock, err := fsys.LockShared(filepath.Join(dir, filename.LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return unlocked{}, nil
	}
	return lock, err
}

// unlocked stands for the lock where there is nothing to lock.
type unlocked struct{}

func (unlocked) Close() error { return nil }

// noStore is what a reader is told of a directory without CURRENT.
func noStore(found recovery.Listing) error { return cmp.Or(found.Lost(), errMissing) }

// keep puts the memtable of a replay behind those that stay in memory, since no table may be written.
func (r *replay) keep() {
	r.mem.Freeze()
	r.frozen = slices.Insert(r.frozen, 0, r.mem)
	r.mem = memtable.New(r.mem.CommonPrefix(), r.mem.Keys(), 0)
}
