package commit

import (
	"context"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// What is in a log must become tables before the log can go, and Open must do that, too: a log that has taken the last
// of the disk would leave a store that nobody can open before something else makes space. So a group is refused, before
// anything is written, if the tables of what is in memory might not fit after it (I22). A refused group loses nothing:
// the store takes the next one that fits. A range delete, which makes space, needs the least.

const (
	blockBytes = 4 << 10  // in which file systems count space
	spareParts = 16       // the free space is asked for again once this part of what was spare may be in use,
	spareMost  = 1 << 20  // or so many bytes: others write, too
	rangesKept = 16 << 10 // bytes that only range deletes may use
	nearlyFull = 1 << 30  // spare bytes from which on the size of the manifest does not matter
)

func inBlocks(bytes int64) int64 { return (bytes + blockBytes - 1) &^ (blockBytes - 1) }

// fitsOnDisk returns an error matching vfs.ErrNoSpace unless a group of the given number of bytes fits on the disk:
// into the log, and then, beside the tables of what is in memory, into a table. If it does not fit, what is in memory
// is flushed, and its log removed, before the group is refused. mu is held.
func (w *Writer) fitsOnDisk(size int64, group []*commit) error {
	taken := w.Tree.SpaceTaken.Load()
	if w.roomFor -= 2 * size; w.roomFor >= 0 && w.taken == taken {
		return nil
	}
	w.roomFor, w.taken = spareMost, taken // if the free space is not known
	fsys, ok := w.FS.(vfs.FreeSpacer)
	if !ok {
		return nil
	}
	kept, inTable := int64(0), size
	if slices.ContainsFunc(group, (*commit).fills) {
		kept = rangesKept
	}
	for _, c := range group {
		inTable += int64(c.count) * tree.VersionBytes
	}
	for {
		state := w.Tree.Load()
		logged := int64(0)
		if w.log != nil {
			logged = w.log.w.Size()
		}
		table := inBlocks(state.Unflushed() + inTable)
		need := inBlocks(logged+size) - inBlocks(logged) + kept + table
		n, err := fsys.FreeSpace(w.Dir)
		if err != nil {
			return nil //nolint:nilerr // what is not known refuses nothing
		}
		free := int64(min(n, 1<<62))
		if free < need+nearlyFull {
			// A new manifest takes the place of the one before, and that before a table is written.
			snapshot, tail := w.Tree.ManifestSpace()
			need += tail + max(inBlocks(snapshot)-table, 0)
		}
		if free >= need {
			w.roomFor = min((free-need)/spareParts, spareMost)
			if w.scarce = w.roomFor < spareMost; w.scarce && w.log != nil {
				w.log.w.StopReserving() // a crash would leave a log with space that its table needs
			}
			return nil
		}
		if w.roomFor = 0; w.empty(state.Mem) && len(state.Frozen) == 0 { // marks are in the log alone
			return fmt.Errorf("bloomkv: %s: %w: %d bytes are free, a write of %d bytes may need %d",
				w.Dir, vfs.ErrNoSpace, free, size, need)
		}
		if err := w.writeOut(context.Background()); err != nil {
			return err
		}
		if w.frozen != nil {
			step.Take(w.frozen.removed)
		}
	}
}

// fills reports whether a commit has an operation that is no range delete.
func (c *commit) fills() bool {
	for ops := c.ops; len(ops) > 0; {
		kind, _, _, rest, err := batch.NextOp(ops)
		if kind != ikey.RangeDelete || err != nil {
			return true
		}
		ops = rest
	}
	return false
}
