package bloomkv

import (
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// A compaction writes new tables before it removes old ones. If the disk has too little space for it, it would fill the
// disk for everything else, including the store's own log, and then fail. Therefore it does not begin. A Compact call
// returns the error. A compaction in the background is put off until there is space, or until writes wait for it: then
// it is tried anyway, since the reported free space may be wrong.

// errDiskSpace is the error of a compaction that did not begin.
var errDiskSpace = compaction.ErrDiskSpace

// spaceAgain is the delay after which a compaction that was put off is considered again, unless the tree changes
// earlier.
const spaceAgain = time.Second

// freeSpace returns the disk space that a plan may use, in bytes. It is unknown if the file system cannot report it,
// or if writers wait for the plan, which is then tried in any case.
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

// putOff returns after spaceAgain, or when the tree changes.
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
