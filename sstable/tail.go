package sstable

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A tail is what stays in memory of a table's tail once it was read, beside the index.
type tail struct {
	footer footer
	props  Properties
	dels   rangedel.List // as readers see them
	bytes  int64         // of dels, in memory
}

// readTail reads what is behind the filter and checks all of it. The range deletes are as the file has them. It changes
// nothing of the reader.
func (r *Reader) readTail() (*index, *tail, error) {
	m := &r.meta
	if m.TailLen > maxTail || m.TailLen < footerSize || m.TailLen > m.Size || m.Size > math.MaxInt64 {
		return nil, nil, r.damaged(0, fmt.Errorf("tail of %d bytes in a table of %d", m.TailLen, m.Size))
	}
	if m.TailLen > trustedTail {
		if _, err := r.readFooter(make([]byte, footerSize)); err != nil {
			return nil, nil, err
		}
	}
	start := m.Size - m.TailLen
	b := make([]byte, m.TailLen)
	if err := r.readAt(b, start); err != nil {
		return nil, nil, err
	}
	f, err := r.checkFooter(b[len(b)-footerSize:])
	if err != nil {
		return nil, nil, err
	}
	x, err := r.tailIndex(b, &f)
	if err != nil {
		return nil, nil, err
	}
	t := &tail{footer: f}
	if f.rangeDelLen > 0 {
		payload, err := r.openPlain(kindRangeDels, f.rangeDelOff(), b[f.rangeDelOff()-start:][:f.rangeDelLen+trailerSize])
		if err != nil {
			return nil, nil, err
		}
		if t.dels, err = parseRangeDels(payload); err != nil {
			return nil, nil, r.damaged(f.rangeDelOff(), err)
		}
	}
	payload, err := r.openPlain(kindProperties, f.propsOff(), b[f.propsOff()-start:][:f.propsLen+trailerSize])
	if err != nil {
		return nil, nil, err
	}
	if t.props, err = parseProperties(payload); err != nil {
		return nil, nil, r.damaged(f.propsOff(), err)
	}
	if err := r.checkTail(x, t); err != nil {
		return nil, nil, r.damaged(f.propsOff(), err)
	}
	x.first, x.seqs = t.props.Smallest, seqSpan{t.props.MinSeq, t.props.MaxSeq}
	return x, t, nil
}

// trustedTail is the largest tail, in bytes, that is read in one piece by the size in the manifest. Of a larger one the
// footer is read first.
const trustedTail = 1 << 20

// readFooter reads the footer alone into b.
func (r *Reader) readFooter(b []byte) (footer, error) {
	if err := r.readAt(b, r.meta.Size-footerSize); err != nil {
		return footer{}, err
	}
	return r.checkFooter(b)
}

// checkFooter parses the footer and compares it with the manifest.
func (r *Reader) checkFooter(b []byte) (footer, error) {
	m := &r.meta
	f, err := parseFooter(b, m.Size)
	if err == nil && (f.id != m.ID || f.tailLen != m.TailLen || f.filterLen != m.FilterLen) {
		err = fmt.Errorf("table %016x with a tail of %d and a filter of %d bytes, want %016x, %d and %d",
			f.id, f.tailLen, f.filterLen, m.ID, m.TailLen, m.FilterLen)
	}
	if err != nil {
		return footer{}, r.damaged(m.Size-footerSize, err)
	}
	return f, nil
}

// checkTail compares the properties with the index and the range deletes, and all of them with the manifest.
func (r *Reader) checkTail(x *index, t *tail) error {
	p := &t.props
	n, low, high := tombstones(t.dels)
	switch {
	case p.Blocks != uint64(len(x.heads)) || p.RangeDeletes != n:
		return fmt.Errorf("properties: %d blocks and %d range deletes, the table has %d and %d", p.Blocks, p.RangeDeletes, x.blocks(), n)
	case n > 0 && (low < p.MinSeq || high > p.MaxSeq):
		return fmt.Errorf("properties: sequence numbers %d…%d, range deletes have %d…%d", p.MinSeq, p.MaxSeq, low, high)
	case p.Blocks > 0 && x.compareSep(x.blocks()-1, p.Largest) != 0:
		return fmt.Errorf("properties: largest key %q, the last separator is %q", p.Largest, x.separatorKey(x.blocks()-1))
	case p.Prefixes.Bytes > 0 && (t.footer.filterLen < bloomblock.HeaderSize || p.Prefixes.Bytes > t.footer.filterLen-bloomblock.HeaderSize):
		return fmt.Errorf("properties: prefix filter of %d bytes, both filters have %d", p.Prefixes.Bytes, t.footer.filterLen)
	case r.meta.Check != nil:
		return r.meta.Check(t.info(r.meta.Size))
	}
	return nil
}

// info is what the file says of itself, as its writer did, without the rate of its filter.
func (t *tail) info(size uint64) Info {
	p, f := &t.props, &t.footer
	i := p.info(f, size)
	if n := len(t.dels); n > 0 {
		i.widen(t.dels[0].Start, t.dels[n-1].End)
	}
	return i
}

// keysLen is the length of the filter of keys alone.
func (t *tail) keysLen() uint64 { return t.footer.filterLen - t.props.Prefixes.Bytes }

// tailIndex parses the index at the front of tail b.
func (r *Reader) tailIndex(b []byte, f *footer) (*index, error) {
	payload, err := r.openPlain(kindIndex, f.indexOff, b[:f.indexLen+trailerSize])
	if err != nil {
		return nil, err
	}
	slack := uint64(0)
	if f.filterLen > 0 {
		slack = filterAlign - 1
	}
	x, err := parseIndex(payload, f.sampleOff(), slack)
	if err != nil {
		return nil, r.damaged(f.indexOff, err)
	}
	return x, nil
}

// loadIndex reads the tail if there is no index. The caller holds mu.
func (r *Reader) loadIndex() error {
	if r.index.Load() != nil {
		return nil
	}
	x, t, err := r.readTail()
	if err != nil {
		return err
	}
	r.keep(t)
	r.index.Store(x)
	return nil
}

// keep publishes what readTail returned, unless that was done before: what lookups hold of a tail stays the same. The caller
// holds mu.
func (r *Reader) keep(t *tail) {
	if r.tail.Load() != nil {
		return
	}
	if r.seq != 0 && t.dels != nil {
		k := *t
		k.dels = overridden(t.dels, r.seq)
		t = &k
	}
	t.bytes = t.dels.Bytes()
	if t.footer.filterLen == 0 {
		r.reached.Store(0)
	}
	r.tail.Store(t)
}

// openPlain checks a block of the tail.
func (r *Reader) openPlain(k kind, offset uint64, sealed []byte) ([]byte, error) {
	payload, c, err := r.seal.open(k, offset, sealed)
	if err == nil && c != None {
		err = fmt.Errorf("%v in the tail, want %v", c, None)
	}
	if err != nil {
		return nil, r.damaged(offset, err)
	}
	return payload, nil
}

// touchIndex loads the index for a lookup.
func (r *Reader) touchIndex(st *Stats) (*index, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.index.Load() == nil {
		st.TailLoads++
	}
	err := r.loadIndex()
	return r.index.Load(), err
}

// DropIndex lets go of the index and of the table's cached blocks. The next lookup loads it again.
func (r *Reader) DropIndex() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.index.Swap(nil); x != nil {
		r.cache.Drop(x.slots)
	}
}
