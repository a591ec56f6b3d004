package sstable

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A Loss is a part of a table that cannot be read.
type Loss struct {
	Offset, Bytes uint64
	Part          string // "data block", "index" and so on
	Harmless      bool   // it held no version and no range tombstone
	Lower, Upper  []byte // bounds of its keys, both inclusive; a nil Upper is unknown or infinite
	Err           error  // what is wrong
}

// Counts holds a manifest's counts of a table's versions and range tombstones.
type Counts struct{ Entries, RangeDeletes uint64 }

// Remains reads a table that may be damaged. It uses each block whose checksum is right. It finds data blocks by the
// index, or without one by their checksums alone, also those of a single part of the index, and the parts of the tail
// by the footer, or without one by the manifest's facts. It does not read filters and samples.
type Remains struct {
	src    *corrupt.Reader
	meta   Meta
	seal   sealer
	footer *footer // nil: damaged; as the next four
	index  *index
	top    *top // of an index in parts, instead of index
	props  *Properties
	dels   *rangedel.Index // as readers see them
	counts *Counts         // nil: unknown
	lost   []Loss
}

var errNoBlock = errors.New("no block with a right checksum found here")

var errNoID = errors.New("the table's id is unknown without a footer or a manifest: no checksum can be checked")

// Survey reads the tail of a table. m and c are the manifest's facts; without a manifest, m has the name only and c is
// nil, and nothing can be read if the footer is damaged. A part that cannot be read is not an error but a Loss. The
// only error matches ErrVersion. Once ctx ends, nothing more can be read.
func Survey(ctx context.Context, f io.ReaderAt, size uint64, m Meta, c *Counts) (*Remains, error) {
	known := m.ID != 0
	r := &Remains{src: corrupt.NewReader(ctx, f, size), meta: m, seal: newSealer(m.ID), counts: c}
	end := size
	if known {
		end = m.Size
	}
	err := r.readFooter(end)
	switch {
	case errors.Is(err, ErrVersion):
		return nil, fmt.Errorf("%s: offset %d: %w", m.Name, end-min(end, footerSize), err)
	case err == nil:
		f := r.footer
		r.meta.ID, r.meta.Size, r.meta.TailLen, r.meta.FilterLen = f.id, end, f.tailLen, f.filterLen
		r.seal = newSealer(f.id)
		r.readTail()
		return r, nil
	case !known || m.TailLen < footerSize || m.TailLen > m.Size || m.FilterLen > m.Size-m.TailLen:
		r.lose(Loss{Offset: 0, Bytes: size, Part: "table", Err: errors.Join(err, errNoID)})
		return r, nil
	}
	r.lose(Loss{Offset: end - footerSize, Bytes: footerSize, Part: "footer", Harmless: true, Err: err})
	r.searchTail()
	return r, nil
}

func (r *Remains) lose(l Loss) { r.lost = append(r.lost, l) }

// readFooter reads the footer before end.
func (r *Remains) readFooter(end uint64) error {
	if end < footerSize || r.src.Size() < end {
		return fmt.Errorf("%w: %d bytes, want %d", errShort, r.src.Size(), max(end, footerSize))
	}
	b := make([]byte, min(end, extraSize+footerSize))
	failed := r.src.Read(b, end-uint64(len(b)))
	f, err := parseFooter(b, end)
	if err == nil && r.meta.ID != 0 && f.id != r.meta.ID {
		err = fmt.Errorf("table %016x, want %016x", f.id, r.meta.ID)
	}
	if err != nil {
		return cmp.Or(failed, err)
	}
	r.footer = &f
	return nil
}

// readTail reads the parts of the tail, each by itself.
func (r *Remains) readTail() {
	f := r.footer
	if f.inParts() {
		r.part("top of the index", kindTop, f.indexOff, f.indexLen, true, func(b []byte) (err error) {
			r.top, err = parseTop(b, f.sampleOff(), f.slack())
			return err
		})
	} else {
		r.part("index", kindIndex, f.indexOff, f.indexLen, true, func(b []byte) (err error) {
			r.index, err = parseIndex(b, f.sampleOff(), f.slack())
			return err
		})
	}
	if f.rangeDelLen > 0 {
		r.part("range deletes", kindRangeDels, f.rangeDelOff(), f.rangeDelLen, false, r.parseDels)
	}
	r.part("properties", kindProperties, f.propsOff(), f.propsLen, true, r.parseProps)
}

// part reads a block of the tail.
func (r *Remains) part(name string, k kind, offset, length uint64, harmless bool, parse func(payload []byte) error) {
	if err := r.open(k, offset, length, parse); err != nil {
		r.lose(Loss{Offset: offset, Bytes: length + trailerSize, Part: name, Harmless: harmless, Err: err})
	}
}

// open reads a block that is never compressed, and calls parse with its payload, if that is right.
func (r *Remains) open(k kind, offset, length uint64, parse func(payload []byte) error) error {
	b := make([]byte, length+trailerSize)
	failed := r.src.Read(b, offset)
	payload, c, err := r.seal.open(k, offset, b)
	if err == nil && c != None {
		err = fmt.Errorf("%v, want %v", c, None)
	}
	if err == nil {
		err = parse(payload)
	}
	if err != nil {
		return cmp.Or(failed, err)
	}
	return nil
}

// readPart reads part p of the index.
func (r *Remains) readPart(p int) (x *index, err error) {
	w := &r.top.parts[p]
	err = r.open(kindPart, w.offset, uint64(w.length), func(payload []byte) error {
		x, err = r.top.parsePart(p, payload)
		return err
	})
	return x, err
}

func (r *Remains) parseDels(b []byte) (err error) {
	if r.dels, err = parseRangeDels(b); err == nil && r.meta.Seq != 0 {
		r.dels = overridden(r.dels, r.meta.Seq)
	}
	return err
}

func (r *Remains) parseProps(b []byte) error {
	p, err := parseProperties(b)
	if err == nil {
		r.props, r.counts = &p, &Counts{p.Entries, p.RangeDeletes}
	}
	return err
}

// searchTail searches for the parts of the tail at the manifest's offsets, without the footer.
func (r *Remains) searchTail() {
	m := &r.meta
	at, end := m.Size-m.TailLen, min(m.Size-footerSize, r.src.Size())
	limit, slack := at-m.FilterLen, uint64(0)
	if m.FilterLen > 0 {
		slack = filterAlign - 1 + maxSample + trailerSize
	}
	for _, p := range [...]struct {
		kind  kind
		parse func(payload []byte) error
	}{
		{kindIndex, func(b []byte) (err error) { r.index, err = parseIndex(b, limit, slack); return err }},
		{kindTop, func(b []byte) (err error) { r.top, err = parseTop(b, limit, slack); return err }},
		{kindRangeDels, r.parseDels},
		{kindProperties, r.parseProps},
	} {
		q := newBlockSearch(r.src, r.seal, p.kind, end, func(b []byte, c Codec) bool {
			return c == None && p.parse(b) == nil
		})
		offset, n, ok := q.next(at)
		if !ok {
			continue // the table may have no such part; if it had, the part is in a gap
		}
		if offset > at {
			r.loseTail(at, offset)
		}
		at = offset + uint64(n) + trailerSize //nolint:gosec // a length
	}
	if want := m.Size - footerSize; at < want {
		r.loseTail(at, want)
	}
}

// loseTail records that a part of the tail was not found.
func (r *Remains) loseTail(from, to uint64) {
	harmless := r.dels != nil || r.counts != nil && r.counts.RangeDeletes == 0
	r.lose(Loss{
		Offset: from, Bytes: to - from, Part: "index, range deletes or properties", Harmless: harmless,
		Err: fmt.Errorf("no checksum of a file of %d bytes fits, want one of %d", r.src.Size(), r.meta.Size),
	})
}

// Lost returns the parts of the tail that cannot be read.
func (r *Remains) Lost() []Loss { return r.lost }

// RangeDels returns the range tombstones, nil if they cannot be read.
func (r *Remains) RangeDels() rangedel.List { return r.dels.List() }

// Properties returns the properties of the table; false if they cannot be read.
func (r *Remains) Properties() (Properties, bool) {
	if r.props == nil {
		return Properties{}, false
	}
	return *r.props, true
}

// Readable reports whether the table's id is known, without which no checksum can be checked.
func (r *Remains) Readable() bool { return r.meta.ID != 0 }

// upper returns the largest key of a version, or nil if it is unknown.
func (r *Remains) upper() []byte {
	switch {
	case r.props != nil:
		return r.props.Largest
	case r.top != nil:
		return r.top.separatorKey(len(r.top.parts) - 1)
	case r.index != nil && r.index.blocks() > 0:
		return r.index.separatorKey(r.index.blocks() - 1)
	}
	return nil
}

// dataEnd returns the largest possible offset of the end of the data blocks. exact reports that only zeros may be
// between the last block and that offset.
func (r *Remains) dataEnd() (end uint64, exact bool) {
	if r.footer != nil {
		return r.footer.sampleOff(), !r.footer.inParts()
	}
	return r.meta.Size - r.meta.TailLen - r.meta.FilterLen, r.meta.FilterLen == 0
}

// unreadBehind returns the loss, if any, in the data after offset from, where no further block was found. read is the
// number of versions before from, or 0 if some of those could not be read.
func (r *Remains) unreadBehind(from, read uint64) (Loss, bool) {
	end, exact := r.dataEnd()
	if r.counts != nil && read > 0 && read == r.counts.Entries {
		return Loss{}, false
	}
	if !exact && r.src.Size() >= end { // parts of the index and a sample may lie there
		for _, other := range [...]struct {
			kind kind
			is   func(payload []byte) bool
		}{
			{kindSample, func(b []byte) bool {
				_, err := bloomblock.ParseSample(b)
				return err == nil || errors.Is(err, bloomblock.ErrUnknownKind)
			}},
			{kindPart, func(b []byte) bool { _, err := viewPart(b); return err == nil }},
		} {
			q := newBlockSearch(r.src, r.seal, other.kind, end, func(b []byte, c Codec) bool {
				return c == None && other.is(b)
			})
			if offset, _, ok := q.next(from); ok {
				end = offset
			}
		}
	}
	l := Loss{Offset: from, Bytes: end - min(from, end), Part: "data blocks", Upper: r.upper(), Err: errNoBlock}
	switch {
	case from >= end:
		return l, false
	case r.src.Size() < end:
		l.Err = fmt.Errorf("%w: %d bytes, want %d", errShort, r.src.Size(), r.meta.Size)
		return l, true
	case end-from < filterAlign && r.meta.FilterLen > 0:
		b := make([]byte, end-from)
		failed := r.src.Read(b, from)
		return l, failed != nil || !bytes.Equal(b, make([]byte, len(b)))
	}
	return l, true
}
