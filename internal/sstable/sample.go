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
	payload, err := f.openPlain(KindSample, ft.sampleOff(), b)
	if err != nil {
		return nil, err
	}
	s, err := bloomblock.ParseSample(payload)
	if err != nil {
		return nil, f.damaged(ft.sampleOff(), err)
	}
	return &s, nil
}
