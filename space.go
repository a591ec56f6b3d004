package bloomkv

import (
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// A compaction writes before it removes. One for which the disk has no room would fill it for all others too, the store's own
// log among them, and then fail. So it does not begin: who asked for it by Compact gets the error, and what the tree needs is put off,
// until there is room, or until writes wait for it: then it is tried, as what is free may have been told wrong.

// errDiskSpace is the error of a compaction that did not begin.
var errDiskSpace = compaction.ErrDiskSpace

// spaceAgain is after how long a compaction that was put off is looked at again, unless the tree changes before.
const spaceAgain = time.Second

// freeSpace returns the disk space that a plan may use, in bytes. It is not known if the file system cannot tell, or if
// writers wait for the plan, which is then tried in any case.
func (db *DB) freeSpace(plan *compaction.Plan) (free uint64, known bool) {
	fsys, ok := db.opts.FS.(vfs.FreeSpacer)
	if !ok {
		return 0, false
	}
	if p := db.policy.Pressure(db.tree.Load().Version); p.Stop && plan.Inputs[0].Level == p.Level {
		return 0, false
	}
	free, err := fsys.FreeSpace(db.dir)
	return free, err == nil
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
