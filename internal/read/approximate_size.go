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
	s, ok := r.tree.Hold()
	if !ok {
		return 0, tree.ErrClosed
	}
	defer r.tree.Release(s)
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return 0, nil
	}
	var total uint64
	for _, run := range s.Runs {
		for _, t := range run.Tables[run.Search(lo):] {
			if hi != nil && bytes.Compare(t.Meta.Smallest, hi) >= 0 {
				break
			}
			if bytes.Compare(lo, t.Meta.Smallest) <= 0 && (hi == nil || t.Meta.EndsBefore(hi)) {
				total += t.Meta.Size
				continue
			}
			n, err := r.approximate(t, lo, hi)
			if err != nil {
				return 0, r.failed(err)
			}
			total += n
		}
	}
	return total, nil
}

// approximate returns the size of the part of a table between lo and hi. At least one of the two is within its bounds.
func (r *Reader) approximate(t *tree.Table, lo, hi []byte) (uint64, error) {
	if err := r.tables.Load(t); err != nil {
		return 0, err
	}
	from, err := t.Reader.ApproximateOffset(lo)
	if err != nil || hi == nil || t.Meta.EndsBefore(hi) { // to the end, including the filter and the index
		return t.Meta.Size - min(from, t.Meta.Size), err
	}
	to, err := t.Reader.ApproximateOffset(hi)
	return to - min(from, to), err
}
