package salvage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// counts holds a manifest's counts of a table's versions and range tombstones.
type counts struct{ entries, rangeDeletes uint64 }

// Remains are a table that may be damaged. Each block whose checksum is right is used. Data blocks are found by the
// index, or without one by their checksums alone, also those of a single part of the index, and the parts of the tail
// by the footer, or without one by the manifest's facts. Filters and samples are not read.
type remains struct {
	src    *damagedFile
	meta   sstable.Meta
	seal   sstable.Seal
	footer *sstable.Footer // nil: damaged; as the next three
	blocks *sstable.Index  // the data blocks of the table
	parts  *sstable.Index  // of an index in parts, instead of blocks
	props  *sstable.Properties
	dels   rangedel.List // as readers see them; nil: damaged, or there are none
	counts *counts       // nil: unknown
	lost   []Loss        // parts of the tail; as all losses of a table, without the file
	at     uint64        // where the next data block begins, or is expected
}

var (
	errShort   = errors.New("file ends too early")
	errNoBlock = errors.New("no block with a right checksum found here")
	errNoID    = errors.New("the table's id is unknown without a footer or a manifest: no checksum can be checked")
)

// readTail reads the tail of a table. m and c are the manifest's facts; without a manifest, m has the name only and c
// is nil, and nothing can be read if the footer is damaged. A part that cannot be read is not an error but a Loss. The
// only error matches sstable.ErrVersion. Once ctx ends, nothing more can be read.
func readTail(ctx context.Context, f io.ReaderAt, size uint64, m sstable.Meta, c *counts) (*remains, error) {
	known := m.ID != 0
	r := &remains{src: openDamaged(ctx, f, size), meta: m, seal: sstable.NewSeal(m.ID), counts: c}
	end := size
	if known {
		end = m.Size
	}
	err := r.readFooter(end)
	switch {
	case errors.Is(err, sstable.ErrVersion):
		return nil, corrupt.At(m.Name, int64(end-min(end, sstable.FooterSize)), err) //nolint:gosec // within a file
	case err == nil:
		f := r.footer
		r.meta.ID, r.meta.Size, r.meta.TailLen, r.meta.FilterLen = f.ID, end, f.TailLen, f.FilterLen
		r.seal = sstable.NewSeal(f.ID)
		r.openTail()
		return r, nil
	case !known || m.TailLen < sstable.FooterSize || m.TailLen > m.Size || m.FilterLen > m.Size-m.TailLen:
		r.lose(0, size, "table", false, errors.Join(err, errNoID))
		return r, nil
	}
	r.lose(end-sstable.FooterSize, sstable.FooterSize, "footer", true, err)
	r.searchTail()
	return r, nil
}

// lose records the loss of a part of the tail.
func (r *remains) lose(offset, length uint64, part string, harmless bool, err error) {
	l := lossOf(offset, offset+length, part, nil, nil, err)
	l.Harmless = harmless
	r.lost = append(r.lost, l)
}

// readFooter reads the footer before end.
func (r *remains) readFooter(end uint64) error {
	if end < sstable.FooterSize || r.src.size < end {
		return fmt.Errorf("%w: %d bytes, want %d", errShort, r.src.size, max(end, sstable.FooterSize))
	}
	b := make([]byte, min(end, 2*sstable.FooterSize))
	failed := r.src.read(b, end-uint64(len(b)))
	f, err := sstable.ParseFooter(b, end)
	if err == nil && r.meta.ID != 0 && f.ID != r.meta.ID {
		err = fmt.Errorf("table %016x, want %016x", f.ID, r.meta.ID)
	}
	if err != nil {
		return cmp.Or(failed, err)
	}
	r.footer = &f
	return nil
}

// openTail reads the parts of the tail, each by itself.
func (r *remains) openTail() {
	f := r.footer
	part := func(name string, e sstable.Extent, harmless bool) {
		payload, err := r.open(e)
		if err == nil {
			err = r.parse(e.Kind, payload, f.Limit, f.Slack)
		}
		if err != nil {
			r.lose(e.Offset, e.Length+sstable.TrailerSize, name, harmless, err)
		}
	}
	if f.Index.Kind == sstable.KindTop {
		part("top of the index", f.Index, true)
	} else {
		part("index", f.Index, true)
	}
	if f.RangeDels.Length > 0 {
		part("range deletes", f.RangeDels, false)
	}
	part("properties", f.Properties, true)
}

// open reads a block that is never compressed.
func (r *remains) open(e sstable.Extent) ([]byte, error) {
	b := make([]byte, e.Length+sstable.TrailerSize)
	failed := r.src.read(b, e.Offset)
	payload, c, err := r.seal.Open(e.Kind, e.Offset, b)
	if err == nil && c != sstable.None {
		err = fmt.Errorf("%v, want %v", c, sstable.None)
	}
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	return payload, nil
}

// parse takes a part of the tail.
func (r *remains) parse(k sstable.Kind, payload []byte, limit, slack uint64) error {
	switch k { //nolint:exhaustive // the others are not parts of the tail
	case sstable.KindIndex, sstable.KindTop:
		x, err := sstable.ParseIndex(k, payload, limit, slack)
		switch {
		case err != nil:
			return err
		case k == sstable.KindTop:
			r.parts = &x
		default:
			r.blocks = &x
		}
	case sstable.KindRangeDels:
		l, err := sstable.ParseRangeDels(payload)
		if err != nil {
			return err
		}
		for i := range l {
			if r.meta.Seq != 0 {
				l[i].Seqs = []ikey.Seq{r.meta.Seq}
			}
		}
		r.dels = l
	case sstable.KindProperties:
		p, err := sstable.ParseProperties(payload)
		if err != nil {
			return err
		}
		r.props, r.counts = &p, &counts{p.Entries, p.RangeDeletes}
	}
	return nil
}

// searchTail searches for the parts of the tail at the manifest's offsets, without the footer.
func (r *remains) searchTail() {
	m := &r.meta
	at, end := m.Size-m.TailLen, min(m.Size-sstable.FooterSize, r.src.size)
	limit, slack := at-m.FilterLen, uint64(0)
	if m.FilterLen > 0 {
		slack = sstable.MaxGap
	}
	for _, k := range [...]sstable.Kind{
		sstable.KindIndex, sstable.KindTop, sstable.KindRangeDels, sstable.KindProperties,
	} {
		offset, n, ok := r.search(k, at, end, func(b []byte) bool { return r.parse(k, b, limit, slack) == nil })
		if !ok {
			continue // the table may have no such part; if it had, the part is in a gap
		}
		if offset > at {
			r.loseTail(at, offset)
		}
		at = offset + uint64(n) + sstable.TrailerSize //nolint:gosec // a length
	}
	if want := m.Size - sstable.FooterSize; at < want {
		r.loseTail(at, want)
	}
}

// search searches for a block that is never compressed, from an offset up to end.
func (r *remains) search(k sstable.Kind, from, end uint64, is func(payload []byte) bool) (uint64, int, bool) {
	return newBlockSearch(r.src, r.seal, k, end, func(b []byte, c sstable.Codec) bool {
		return c == sstable.None && is(b)
	}).next(from)
}

// loseTail records that a part of the tail was not found.
func (r *remains) loseTail(from, to uint64) {
	harmless := r.dels != nil || r.counts != nil && r.counts.rangeDeletes == 0
	r.lose(from, to-from, "index, range deletes or properties", harmless,
		fmt.Errorf("no checksum of a file of %d bytes fits, want one of %d", r.src.size, r.meta.Size))
}

// readable reports whether the table's id is known, without which no checksum can be checked.
func (r *remains) readable() bool { return r.meta.ID != 0 }

// upper returns the largest key of a version, or nil if it is unknown.
func (r *remains) upper() []byte {
	switch {
	case r.props != nil:
		return r.props.Largest
	case r.parts != nil:
		return r.parts.Upper(r.parts.Len() - 1)
	case r.blocks != nil && r.blocks.Len() > 0:
		return r.blocks.Upper(r.blocks.Len() - 1)
	}
	return nil
}

// dataEnd returns the largest possible offset of the end of the data blocks. exact reports that only zeros may be
// between the last block and that offset.
func (r *remains) dataEnd() (end uint64, exact bool) {
	if r.footer != nil {
		return r.footer.Limit, r.footer.Index.Kind == sstable.KindIndex
	}
	return r.meta.Size - r.meta.TailLen - r.meta.FilterLen, r.meta.FilterLen == 0
}

// unreadBehind returns the loss, if any, in the data after offset from, where no further block was found. read is the
// number of versions before from, or 0 if some of those could not be read.
func (r *remains) unreadBehind(from, read uint64) (Loss, bool) {
	end, exact := r.dataEnd()
	if r.counts != nil && read > 0 && read == r.counts.entries {
		return Loss{}, false
	}
	if !exact && r.src.size >= end { // parts of the index and a sample may lie there
		if offset, _, ok := r.search(sstable.KindSample, from, end, isSample); ok {
			end = offset
		}
		if offset, _, ok := r.search(sstable.KindPart, from, end, sstable.IsPart); ok {
			end = offset
		}
	}
	l := lossOf(from, end, "data blocks", nil, r.upper(), errNoBlock)
	switch {
	case from >= end:
		return l, false
	case r.src.size < end:
		l.Err = fmt.Errorf("%w: %d bytes, want %d", errShort, r.src.size, r.meta.Size)
		return l, true
	case end-from < sstable.FilterAlign && r.meta.FilterLen > 0:
		b := make([]byte, end-from)
		failed := r.src.read(b, from)
		return l, failed != nil || !bytes.Equal(b, make([]byte, len(b)))
	}
	return l, true
}

func isSample(payload []byte) bool {
	_, err := bloomblock.ParseSample(payload)
	return err == nil || errors.Is(err, bloomblock.ErrUnknownKind)
}

// lossOf returns the loss of the bytes from an offset up to another one.
func lossOf(from, to uint64, part string, lower, upper []byte, err error) Loss {
	//nolint:gosec // within a file
	return Loss{
		Offset: int64(from), Bytes: int64(to - min(from, to)), Part: part, Lower: lower, Upper: upper, Err: err,
	}
}
