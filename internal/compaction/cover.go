package compaction

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A cover is the range tombstones of some runs, which may lie over tables of older ones.
type cover []rangedel.List

// whole says whether tombstones delete all that t holds, its own range tombstones included, for every reader: each key within
// the bounds of t has one that is newer than all of t, while no snapshot came between it and anything in t.
func (c cover) whole(t *manifest.Table, snapshots stripes) bool {
	top := snapshots.top(t.MinSeq)
	for from := t.Smallest; ; {
		end, ok := c.stretch(from, t.MaxSeq, top)
		if !ok || end == nil || t.EndsBefore(end) {
			return ok
		}
		from = end
	}
}

// stretch is how far keys from a key on are covered by tombstones newer than seq that a reader at top sees; nil is without
// end. It looks at one tombstone of each run, so that what follows may be covered too.
func (c cover) stretch(from []byte, seq, top ikey.Seq) (end []byte, ok bool) {
	for _, l := range c {
		_, hi, newest := l.Stretch(from, top)
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
