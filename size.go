package bloomkv

import "bytes"

// ApproximateSize is how many bytes the tables take on the disk for the keys from lo on and before hi: lo is inclusive, hi
// exclusive, nil is infinite. It counts deleted and overwritten versions that compaction has not removed yet, and nothing
// that is only in memory. Of a table at the edge of the range it counts the blocks that the index puts inside; it reads no
// block, but may read an index. An inverted range is 0. Errors are ErrClosed and those of reading an index.
func (db *DB) ApproximateSize(lo, hi []byte) (uint64, error) {
	s, ok := db.hold()
	if !ok {
		return 0, ErrClosed
	}
	defer db.release(s)
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return 0, nil
	}
	var total uint64
	for _, r := range s.runs {
		for _, t := range r.tables[r.search(lo):] {
			if hi != nil && bytes.Compare(t.meta.Smallest, hi) >= 0 {
				break
			}
			if bytes.Compare(lo, t.meta.Smallest) <= 0 && (hi == nil || t.meta.EndsBefore(hi)) {
				total += t.meta.Size
				continue
			}
			n, err := db.approximate(t, lo, hi)
			if err != nil {
				return 0, db.lookupError(err)
			}
			total += n
		}
	}
	return total, nil
}

// approximate is the part of a table between lo and hi, one of which is inside its bounds.
func (db *DB) approximate(t *table, lo, hi []byte) (uint64, error) {
	if err := db.load(t); err != nil {
		return 0, err
	}
	from, err := t.reader.ApproximateOffset(lo)
	if err != nil || hi == nil || t.meta.EndsBefore(hi) { // to the end, with the filter and the index
		return t.meta.Size - min(from, t.meta.Size), err
	}
	to, err := t.reader.ApproximateOffset(hi)
	return to - min(from, to), err
}
