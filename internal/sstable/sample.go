package sstable

import "github.com/bloomkv/bloomkv/bloomblock"

// Sample reads the sample of the hashes of the table's keys from the file, and its index before if need be. It is not
// kept: a lookup has no use for it. Nil is no sample: the table has no filter, or no versions, or was written before
// there were samples. Damage is an error that Is corrupt.Err, and a sample of the future one that Is
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

// Overlaps is which share of each table's keys is in each other one: row i, column j is what the sample of table i says
// when it is asked in the filter of table j. It is known where i has a sample and j a filter, so far as that is loaded:
// who wants the best answer calls Load(0) of each before. A table is in itself. Errors are those of Sample.
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
