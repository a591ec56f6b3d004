package sstable

import "github.com/bloomkv/bloomkv/bloomblock"

// Sample reads the sample of the hashes of the table's keys from the file, and loads the tail before if need be. The
// sample is not kept, as lookups do not use it. It is nil if the table has no filter or no versions, or was written
// before there were samples. Damage is an error matching corrupt.Err; for a sample of a later version the error matches
// bloomblock.ErrUnknownKind.
func (r *Reader) Sample() (*bloomblock.Sample, error) {
	t, err := r.loadTail()
	if err != nil {
		return nil, err
	}
	return r.readSample(&t.footer)
}

func (f *tableFile) readSample(ft *footer) (*bloomblock.Sample, error) {
	if ft.sampleLen == 0 {
		return nil, nil
	}
	b := make([]byte, ft.sampleLen+trailerSize)
	if err := f.readAt(b, ft.sampleOff()); err != nil {
		return nil, err
	}
	payload, err := f.openPlain(kindSample, ft.sampleOff(), b)
	if err != nil {
		return nil, err
	}
	s, err := bloomblock.ParseSample(payload)
	if err != nil {
		return nil, f.damaged(ft.sampleOff(), err)
	}
	return &s, nil
}

// Overlaps estimates the share of each table's keys that each other table has: row i, column j is the result of asking
// the filter of table j for the sample of table i. It is known if i has a sample and j a loaded filter; the more units
// of the filter are loaded, the better the estimate. The share of a table in itself is 1. The errors are those of
// Sample.
func Overlaps(tables []*Reader) ([][]bloomblock.Overlap, error) {
	rows := make([][]bloomblock.Overlap, len(tables))
	for i, r := range tables {
		s, err := r.Sample()
		if err != nil {
			return nil, err
		}
		rows[i] = make([]bloomblock.Overlap, len(tables))
		for j, other := range tables {
			switch {
			case i == j:
				rows[i][j] = bloomblock.Overlap{Share: 1, Known: true}
			case s == nil:
				rows[i][j] = bloomblock.Overlap{Err: 1}
			default:
				rows[i][j] = s.Overlap(other.Filter())
			}
		}
	}
	return rows, nil
}
