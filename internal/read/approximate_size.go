package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/tree"
)

// ApproximateSize returns the number of bytes that keys k with lo ≤ k < hi take in tables on the disk; nil bounds are
// unbounded. It counts deleted and overwritten versions that compaction has not removed yet, and nothing that is only
// in memory. For a table at the edge of the range, it counts the blocks inside the range according to the index; it
// reads no block, but may read an index. An inverted range is 0. Errors are tree.ErrClosed and those of reading an
// index.
func (r *Reader) ApproximateSize(lo, hi []byte) (uint64, error) {
	s := r.Tree.Hold()
	if s == nil {
		return 0, tree.ErrClosed
	}
	defer r.Tree.Release(s)
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return 0, nil
	}
	var total uint64
	for _, run := range s.Runs {
		for _, t := range run.Tables[run.Search(lo):] {
			if hi != nil && bytes.Compare(t.Meta.Smallest, hi) >= 0 {
				break
			}
			from, err := r.offset(t, lo, bytes.Compare(lo, t.Meta.Smallest) <= 0, 0)
			if err != nil {
				return 0, r.failed(err)
			}
			to, err := r.offset(t, hi, hi == nil || t.Meta.EndsBefore(hi), t.Meta.Size)
			if err != nil {
				return 0, r.failed(err)
			}
			total += to - min(from, to)
		}
	}
	return total, nil
}

// offset returns the approximate offset of key in a table, or if key is outside of it, the given end.
func (r *Reader) offset(t *tree.Table, key []byte, outside bool, end uint64) (uint64, error) {
	if outside {
		return end, nil
	}
	if err := r.Tables.Load(t); err != nil {
		return 0, err
	}
	return t.Reader.ApproximateOffset(key)
}
