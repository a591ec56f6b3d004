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

// A store opened with Options.ReadOnly behaves as if a write had failed before it began: Tree.Writable, which every
// writer calls, returns ErrReadOnly, and neither flushes nor compactions run. The rest of Open changes nothing on the
// disk (I32).

// openedReadOnly returns the error of writes to such a store.
func openedReadOnly(dir string) error {
	return fmt.Errorf("%s: %w: opened with Options.ReadOnly", dir, ErrReadOnly)
}

// lockToRead takes the shared lock of the store in dir, which must exist. If a copy of a store has no file LOCK, it
// is read without a lock, since creating the file would be a change.
func lockToRead(fsys vfs.FS, dir string) (io.Closer, error) {
	// Look for CURRENT first. A new store has LOCK before CURRENT, so if LOCK is missing now, no one is about to
	// create it.
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

// unlocked replaces the lock of a store without a file LOCK.
type unlocked struct{}

func (unlocked) Close() error { return nil }

// noStore returns the error for a directory without CURRENT, when it is opened read-only.
func noStore(found recovery.Listing) error { return cmp.Or(found.Lost(), errMissing) }

// keep keeps the memtable of a replay in memory, since no table may be written, and begins a new one.
func (r *replay) keep() {
	r.mem.Freeze()
	r.frozen = slices.Insert(r.frozen, 0, r.mem)
	r.mem = memtable.New(r.mem.CommonPrefix(), r.mem.Keys(), 0)
}
