package sstable

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/vfs"
)

// Where memory is far too short for a filter, what is left of it in memory says maybe to most keys. The file always has
// the whole filter. A lookup then asks the page of it that the key belongs to, before it reads a part of the index and
// a data block: one page in place of two reads, for nearly all absent keys.

// A fileFilter is a filter that is asked in its file.
type fileFilter struct {
	header bloomblock.Header // constant
	place  filterPlace       // constant

	whole atomic.Uint32 // bit i: unit i is whole in memory, where lookups ask it first

	mu   step.Mutex // held while the checksums are read
	sums atomic.Pointer[bloomblock.PageSums]
}

// AskInFile makes lookups ask the filter of keys in the file, or not: the units that are not whole in memory. The
// header must be known.
func (r *Reader) AskInFile(ask bool) {
	k := &r.Keys
	k.mu.Lock()
	defer k.mu.Unlock()
	if !ask || k.damage != nil || k.sound == 0 {
		k.file.Store(nil)
		return
	}
	f := k.file.Load()
	if f == nil {
		f = &fileFilter{header: k.header, place: k.place}
	}
	whole := uint32(0)
	for i := range k.header.Units {
		if f.header.Steps() > 1 && k.form.HasWhole(i) {
			whole |= 1 << i
		}
	}
	f.whole.Store(whole)
	k.file.Store(f)
}

// AskFile asks the filter of keys in the file, if AskInFile says so. False is certain: the table has no version of the
// key. asked reports whether the file has answered. The caller is inside a guard of the domain. AskFile allocates
// nothing once the checksums of the filter's pages were read. An error is one of the file, or damage of the filter, see
// IsFilterDamage: then the answer is maybe, Keys.State says so, and the filter is not asked again.
func (r *Reader) AskFile(h bloomblock.Hash, st *Stats) (maybe, asked bool, err error) {
	f := r.Keys.file.Load()
	if f == nil {
		return true, false, nil
	}
	sums := f.sums.Load()
	if sums == nil {
		if sums, err = r.readSums(f); err != nil {
			return true, false, r.lose(err)
		}
	}
	whole := f.whole.Load()
	for step := range f.header.Steps() {
		if whole>>step&1 != 0 {
			continue
		}
		offset, size := f.header.StepPages(step, h)
		st.FilterParts++
		yes, done := true, false
		if r.mapped != nil {
			done = vfs.ReadMapped(func() {
				b := r.mapped.Mapped(int64(f.place.offset+offset), int(size), true) //nolint:gosec // in a file
				if b == nil || sums.Verify(offset, b) != nil {
					return
				}
				yes, done = f.header.StepMayContain(step, h, b), true
			}) == nil && done
		}
		if !done {
			if yes, err = r.askPages(f, sums, step, h); err != nil {
				return true, false, r.lose(err)
			}
		}
		if !yes {
			return false, true, nil
		}
	}
	return true, true, nil
}

// askPages reads the pages of a step and asks them.
func (r *Reader) askPages(
	f *fileFilter, sums *bloomblock.PageSums, step int, h bloomblock.Hash,
) (maybe bool, err error) {
	offset, size := f.header.StepPages(step, h)
	s, _ := scratches.Get().(*scratch) // the pool has no others
	defer scratches.Put(s)
	b := s.bytes(int(size)) //nolint:gosec // two pages
	if err := r.readAt(b, f.place.offset+offset); err != nil {
		return true, err
	}
	if err := sums.Verify(offset, b); err != nil {
		return true, r.damaged(f.place.offset+offset, err)
	}
	return f.header.StepMayContain(step, h, b), nil
}

// readSums reads the checksums of the pages, or the whole filter to make them, once.
func (r *Reader) readSums(f *fileFilter) (*bloomblock.PageSums, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sums := f.sums.Load(); sums != nil {
		return sums, nil
	}
	var sums bloomblock.PageSums
	offset, size := f.header.SumsSpan()
	if size > 0 {
		b := make([]byte, size) // a thousandth of the filter
		if err := r.readAt(b, f.place.offset+offset); err != nil {
			return nil, err
		}
		var err error
		if sums, err = f.header.ParseSums(b); err != nil {
			return nil, r.damaged(f.place.offset+offset, err)
		}
	} else {
		units, err := r.readUnits(f.place, f.header.UnitsSize())
		if err == nil {
			if _, bad := f.header.Filter(f.header.Split(units)); bad != nil {
				err = r.damaged(f.place.offset, bad)
			}
		}
		if err != nil {
			return nil, err
		}
		sums = bloomblock.SumPages(units)
	}
	f.sums.Store(&sums)
	return &sums, nil
}

// lose keeps damage that was found in the file, so that the filter is not asked there again, and returns err.
func (r *Reader) lose(err error) error {
	if IsFilterDamage(err) {
		r.Keys.lose(err)
	}
	return err
}
