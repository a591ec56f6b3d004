package bloomkv

import (
	"errors"
	"fmt"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// A compaction writes before it removes. One for which the disk has no room would fill it for all others too, the store's own
// log among them, and then fail. So it does not begin: who asked for it by Compact gets the error, and what the tree needs is put off,
// until there is room, or until writes wait for it: then it is tried, as what is free may have been told wrong.

// errDiskSpace says that a compaction was not begun.
var errDiskSpace = errors.New("not enough room on the disk")

// spaceAgain is after how long a compaction that was put off is looked at again, unless the tree changes before.
const spaceAgain = time.Second

// room returns why a plan that writes so many bytes should not begin.
func (db *DB) room(plan *compaction.Plan, bytes uint64) error {
	fsys, ok := db.opts.FS.(vfs.FreeSpacer)
	if !ok || plan.Inputs[0].Level == 0 && len(db.tree.Load().Version.Levels[0]) >= stopRuns {
		return nil
	}
	free, err := fsys.FreeSpace(db.dir)
	if err != nil || free >= bytes {
		return nil //nolint:nilerr // who cannot tell does not stop a compaction
	}
	return fmt.Errorf("%s: %w: %d bytes are free, and at least %d would be written", db.dir, errDiskSpace, free, bytes)
}

// putOff waits a while, or until the tree changes.
func (db *DB) putOff() {
	timer := time.AfterFunc(spaceAgain, db.tree.Wake)
	defer timer.Stop()
	woken := false
	db.tree.Await(func(v tree.View) bool {
		was := woken
		woken = true
		return was || v.Closing || v.Failed != nil
	})
}
