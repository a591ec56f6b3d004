package digest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// A Patch leads from one digest of a store to another. It has the parts that the older one lacks, and names those that
// stay. It is immutable.
type Patch struct {
	header

	mark  []byte // of the digest that the patch leads to
	steps []step
}

// A step is a new part, or parts of the older digest that stay.
type step struct {
	part  *Part // nil: parts stay
	first bool  // the part, or the first of those that stay, begins a run

	from, parts uint32 // in the older digest
	units       uint8  // of each part that stay
}

// Since returns the patch that leads from an older digest to d: the filters of new tables and of memtables, and which
// others stay. It shares the parts of d. The error matches ErrMismatch if the older digest is of another store.
func (d *Digest) Since(older *Digest) (*Patch, error) {
	if older.seed != d.seed {
		return nil, fmt.Errorf("%w: they are of different stores", ErrMismatch)
	}
	at := make(map[uint64]uint32, len(older.parts)) // index of a part by its ID
	for i, p := range older.parts {
		if p.ID != 0 {
			at[p.ID] = uint32(i)
		}
	}
	begins := older.beginnings()
	p := &Patch{header: header{magic: magicPatch, seed: d.seed, base: older.id, id: d.id}, mark: d.mark}
	for _, run := range d.runs {
		for k, part := range run {
			i, known := at[part.ID]
			if !known || !part.isIn(older.parts[i]) {
				p.steps = append(p.steps, step{part: part, first: k == 0})
				continue
			}
			delete(at, part.ID)             // each part stays once
			units := uint8(len(part.Units)) //nolint:gosec // at most MaxUnits
			if n := len(p.steps); n > 0 {
				if last := &p.steps[n-1]; last.part == nil && last.from+last.parts == i && last.units == units &&
					begins[i] == (k == 0) {
					last.parts++
					continue
				}
			}
			p.steps = append(p.steps, step{first: k == 0, from: i, parts: 1, units: units})
		}
	}
	return p, nil
}

// beginnings reports for each part whether it begins a run.
func (d *Digest) beginnings() []bool {
	begins := make([]bool, 0, len(d.parts))
	for _, run := range d.runs {
		for i := range run {
			begins = append(begins, i == 0)
		}
	}
	return begins
}

// isIn reports whether p is the part older, or has fewer units of the same filter.
func (p *Part) isIn(older *Part) bool {
	return len(p.Units) <= len(older.Units) &&
		bytes.Equal(appendPart(nil, false, p), appendPart(nil, false, older.cut(len(p.Units))))
}

// cut returns the part with the first n units of its filter.
func (p *Part) cut(n int) *Part {
	if n == len(p.Units) {
		return p
	}
	c := *p
	c.ready = false
	c.Header.Units, c.Units = slices.Clip(c.Header.Units[:n]), slices.Clip(c.Units[:n])
	return &c
}

// Apply returns the digest that the patch leads to. It shares the parts of d and p. The error matches ErrMismatch if
// the patch is for another digest, and ErrCorruption if it is invalid.
func (d *Digest) Apply(p *Patch) (*Digest, error) {
	if p.seed != d.seed {
		return nil, fmt.Errorf("%w: the patch is of another store", ErrMismatch)
	}
	if p.base != d.id {
		return nil, fmt.Errorf("%w: the patch is for digest %016x, not for %016x", ErrMismatch, p.base, d.id)
	}
	return d.patched(p)
}

// patched returns the digest that the patch leads to, from d or from nothing.
func (d *Digest) patched(p *Patch) (*Digest, error) {
	begins := d.beginnings()
	named := make([]bool, len(d.parts))
	var runs [][]*Part
	add := func(part *Part, first bool) error {
		if first {
			runs = append(runs, nil)
		} else if len(runs) == 0 {
			return errNoRun
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], part)
		return nil
	}
	for i := range p.steps {
		s := &p.steps[i]
		var err error
		if s.part != nil {
			err = add(s.part, s.first)
		}
		for k := s.from; s.part == nil && err == nil && k-s.from < s.parts; k++ {
			switch {
			case uint64(k) >= uint64(len(d.parts)) || named[k] || int(s.units) > len(d.parts[k].Units):
				err = fmt.Errorf("%d units of part %d, which is not there or was named before", s.units, k)
			default:
				named[k] = true
				err = add(d.parts[k].cut(int(s.units)), k == s.from && s.first || k != s.from && begins[k])
			}
		}
		if err != nil {
			return nil, located(headerSize, err)
		}
	}
	newer, err := New(p.seed, runs)
	if err == nil && len(p.mark) > 0 {
		newer, err = newer.Marked(p.mark)
	}
	switch {
	case err != nil || newer.id == p.id:
	case p.magic == magicDigest:
		err = fmt.Errorf("id %016x, want %016x", p.id, newer.id)
	default:
		err = fmt.Errorf("the patch leads to digest %016x, want %016x", newer.id, p.id)
	}
	if err != nil {
		return nil, located(headerSize, err)
	}
	return newer, nil
}

// encoded returns the directory, and the parts in it.
func (p *Patch) encoded() (directory []byte, parts []*Part) {
	directory = appendMark(nil, p.mark)
	for i := range p.steps {
		s := &p.steps[i]
		if s.part != nil {
			directory = appendPart(directory, s.first, s.part)
			parts = append(parts, s.part)
			continue
		}
		flags := byte(stays)
		if s.first {
			flags |= beginsRun
		}
		directory = binary.LittleEndian.AppendUint32(append(directory, flags), s.from)
		directory = append(binary.LittleEndian.AppendUint32(directory, s.parts), s.units)
	}
	return directory, parts
}

// Size returns the number of bytes that WriteTo writes.
func (p *Patch) Size() int64 {
	directory, parts := p.encoded()
	n := headerSize + uint64(len(directory))
	for _, part := range parts {
		n += part.Header.UnitsSize()
	}
	return int64(n) //nolint:gosec // all of it is in memory
}

// WriteTo writes the patch. It returns the number of bytes written and the error of w.
func (p *Patch) WriteTo(w io.Writer) (written int64, err error) {
	directory, parts := p.encoded()
	h := p.header
	h.directory, h.checksum = uint64(len(directory)), checksum(directory)
	put := func(b []byte) {
		if err == nil {
			var n int
			n, err = w.Write(b)
			written += int64(n)
		}
	}
	put(h.append(nil))
	put(directory)
	for _, part := range parts {
		for _, u := range part.Units {
			put(u)
		}
	}
	return written, err
}

// ReadPatch reads what Patch.WriteTo wrote, and nothing behind it. See Read for errors and memory.
func ReadPatch(r io.Reader) (*Patch, error) { return read(r, magicPatch) }
