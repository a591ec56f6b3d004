package compaction

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A cover holds the range tombstones of some runs, one index for each run. They may delete whole tables of older runs.
type cover []*rangedel.Index

// whole reports whether tombstones delete everything in t, its own range tombstones included, for every reader:
// over each key within the bounds of t lies a tombstone that is newer than all of t, and no snapshot was taken
// between any version in t and that tombstone.
func (c cover) whole(t *manifest.Table, snapshots intervals) bool {
	top := snapshots.top(t.MinSeq)
	for from := t.Smallest; ; {
		end, ok := c.stretch(from, t.MaxSeq, top)
		if !ok || end == nil || t.EndsBefore(end) {
			return ok
		}
		from = end
	}
}

// stretch returns the end of the range that starts at from and is covered by tombstones newer than seq that a
// reader at top sees; a nil end is infinite. It looks at one tombstone of each run, so the keys after end may be
// covered too.
func (c cover) stretch(from []byte, seq, top ikey.Seq) (end []byte, ok bool) {
	for _, x := range c {
		_, hi, newest := x.Stretch(from, top)
		if newest <= seq {
			continue
		}
		if hi == nil {
			return nil, true
		}
		if !ok || bytes.Compare(hi, end) > 0 {
			end, ok = hi, true
		}
	}
	return end, ok
}
