package sstable

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A tail holds a table's tail in memory, without parts of the index.
type tail struct {
	footer footer
	top    *top
	props  Properties
	dels   *rangedel.Index // as readers see them
	bytes  int64           // of dels, in memory
}

// trustedTail is the largest tail, in bytes, that is read in one piece by the size in the manifest. For a larger one
// the footer is read first.
const trustedTail = 1 << 20

// readTail reads everything after the filter and checks it. The index is its only part if it is in one block, else nil.
// The range tombstones are returned as the file has them.
func (f *tableFile) readTail() (*index, *tail, error) {
	m := &f.meta
	if m.TailLen > maxTail || m.TailLen < footerSize || m.TailLen > m.Size || m.Size > math.MaxInt64 {
		return nil, nil, f.damaged(0, fmt.Errorf("tail of %d bytes in a table of %d", m.TailLen, m.Size))
	}
	if m.TailLen > trustedTail {
		if _, err := f.readFooter(); err != nil {
			return nil, nil, err
		}
	}
	start := m.Size - m.TailLen
	b := make([]byte, m.TailLen)
	if err := f.readAt(b, start); err != nil {
		return nil, nil, err
	}
	ft, err := f.checkFooter(b[max(0, len(b)-extraSize-footerSize):])
	if err != nil {
		return nil, nil, err
	}
	x, top, err := f.tailIndex(b, &ft)
	if err != nil {
		return nil, nil, err
	}
	t := &tail{footer: ft, top: top}
	if ft.rangeDelLen > 0 {
		sealed := b[ft.rangeDelOff()-start:][:ft.rangeDelLen+trailerSize]
		payload, err := f.openPlain(KindRangeDels, ft.rangeDelOff(), sealed)
		if err != nil {
			return nil, nil, err
		}
		if t.dels, err = parseRangeDels(payload); err != nil {
			return nil, nil, f.damaged(ft.rangeDelOff(), err)
		}
	}
	payload, err := f.openPlain(KindProperties, ft.propsOff(), b[ft.propsOff()-start:][:ft.propsLen+trailerSize])
	if err != nil {
		return nil, nil, err
	}
	if t.props, err = ParseProperties(payload); err != nil {
		return nil, nil, f.damaged(ft.propsOff(), err)
	}
	if err := t.check(m); err != nil {
		return nil, nil, f.damaged(ft.propsOff(), err)
	}
	top.first, top.seqs = t.props.Smallest, seqSpan{t.props.MinSeq, t.props.MaxSeq}
	if top.blocks == 0 {
		x = nil
	} else if x != nil {
		x.first, x.seqs, x.checked = top.first, top.seqs, top.checked
	}
	return x, t, nil
}

// tailIndex parses the index at the front of tail b, or its top.
func (f *tableFile) tailIndex(b []byte, ft *footer) (x *index, t *top, err error) {
	payload, err := f.openPlain(ft.indexKind(), ft.indexOff, b[:ft.indexLen+trailerSize])
	if err != nil {
		return nil, nil, err
	}
	if ft.inParts() {
		t, err = parseTop(payload, ft.sampleOff(), ft.slack())
	} else if x, err = parseIndex(payload, ft.sampleOff(), ft.slack()); err == nil {
		t = topOfOne(x, ft.indexOff, ft.indexLen)
	}
	if err != nil {
		return nil, nil, f.damaged(ft.indexOff, err)
	}
	return x, t, nil
}

// check compares the properties with the top of the index and the range tombstones, and all of them with the manifest
// (I34).
func (t *tail) check(m *Meta) error {
	p, filters, x := &t.props, t.footer.filterLen, t.top
	dels := t.dels.List()
	n, low, high := tombstones(dels)
	switch {
	case dels.Overlaps() != t.footer.overlaps():
		return fmt.Errorf("range deletes overlap: %v, flags %#x", dels.Overlaps(), t.footer.flags)
	case p.Entries > x.end*maxRatio/leastEntry:
		return fmt.Errorf("properties: %d entries in %d bytes", p.Entries, x.end)
	case p.Blocks != uint64(x.blocks) || p.RangeDeletes != n: //nolint:gosec // a length
		return fmt.Errorf("properties: %d blocks and %d range deletes, the table has %d and %d",
			p.Blocks, p.RangeDeletes, x.blocks, n)
	case n > 0 && (low < p.MinSeq || high > p.MaxSeq):
		return fmt.Errorf("properties: sequence numbers %d…%d, range deletes have %d…%d", p.MinSeq, p.MaxSeq, low, high)
	case p.Blocks > 0 && x.compareSep(len(x.parts)-1, p.Largest) != 0:
		return fmt.Errorf("properties: largest key %s, the last separator is %s",
			words.Quoted(p.Largest), words.Quoted(x.separatorKey(len(x.parts)-1)))
	case p.Prefixes.Bytes > 0 &&
		(filters < bloomblock.HeaderSize || p.Prefixes.Bytes > filters-bloomblock.HeaderSize):
		return fmt.Errorf("properties: prefix filter of %d bytes, both filters have %d", p.Prefixes.Bytes, filters)
	case m.Check != nil:
		return m.Check(t.info(m.Size))
	}
	return nil
}

// info describes the file as its writer did, without the rate of its filter.
func (t *tail) info(size uint64) Info {
	i := t.props.info(&t.footer, size)
	if l := t.dels.List(); len(l) > 0 {
		i.widen(l.Bounds())
	}
	return i
}

// keysLen returns the length of the filter of keys alone.
func (t *tail) keysLen() uint64 { return t.footer.filterLen - t.props.Prefixes.Bytes }

// prefixesOff returns the offset of the filter of prefixes.
func (t *tail) prefixesOff() uint64 { return t.footer.indexOff - t.props.Prefixes.Bytes }
