package digest

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A Range is a range of keys [Start, End). A nil End is infinite.
type Range struct{ Start, End []byte }

// A Part is one sorted source of keys: a table or a memtable. It is immutable once it is in a Digest. It is for code
// that makes digests; see New.
type Part struct {
	ID   uint64 // of the table, random; 0 if the part may change, as a memtable does
	Keys uint64 // at most; 0 if there are only range tombstones

	// All keys and range tombstones are in [Lo, Hi]; if Exclusive, Hi itself is not. A nil Hi is infinite.
	Lo, Hi    []byte
	Exclusive bool

	// Deleted are the ranges that range tombstones cover, ascending and disjoint: older parts have no key in them.
	Deleted []Range

	Header bloomblock.Header // of the filter; it has the units below and no others
	Units  [][]byte          // none: every key within the bounds may be in the part

	filter bloomblock.Filter
	ready  bool // init has returned; from then on digests share the part
}

// SetFilter makes a filter block the filter of the part. The block must not change any more. The error is for a block
// with an invalid header or of another size; New verifies the rest.
func (p *Part) SetFilter(block []byte) (err error) {
	if p.Header, err = bloomblock.ParseHeader(block); err != nil {
		return err
	}
	if size := p.Header.BlockSize(); uint64(len(block)) != size {
		return fmt.Errorf("filter block of %d bytes, want %d", len(block), size)
	}
	p.Units = p.Header.Split(block[bloomblock.HeaderSize:][:p.Header.UnitsSize()])
	return nil
}

// init checks the part and prepares its filter, once.
func (p *Part) init() (err error) {
	if p.ready {
		return nil
	}
	if err = p.check(); err != nil {
		return err
	}
	if len(p.Units) != len(p.Header.Units) {
		return fmt.Errorf("%d units, the header has %d", len(p.Units), len(p.Header.Units))
	}
	p.filter, err = p.Header.Filter(p.Units)
	p.ready = err == nil
	return err
}

// check checks the bounds and the ranges.
func (p *Part) check() error {
	if c := bytes.Compare(p.Lo, p.Hi); p.Hi != nil && (c > 0 || c == 0 && p.Exclusive) {
		return fmt.Errorf("bounds from %s to %s", words.Quoted(p.Lo), words.Quoted(p.Hi))
	}
	var last *Range
	for i := range p.Deleted {
		r := &p.Deleted[i]
		if r.End != nil && bytes.Compare(r.Start, r.End) >= 0 ||
			last != nil && (last.End == nil || bytes.Compare(last.End, r.Start) > 0) {
			return fmt.Errorf("range from %s to %s", words.Quoted(r.Start), words.Quoted(r.End))
		}
		last = r
	}
	return nil
}

// endsBefore reports whether all of p is less than key.
func (p *Part) endsBefore(key []byte) bool {
	if p.Hi == nil {
		return false
	}
	c := bytes.Compare(p.Hi, key)
	return c < 0 || c == 0 && p.Exclusive
}

// deletes reports whether a range tombstone covers key.
func (p *Part) deletes(key []byte) bool {
	i := sort.Search(len(p.Deleted), func(i int) bool { return bytes.Compare(p.Deleted[i].Start, key) > 0 })
	return i > 0 && (p.Deleted[i-1].End == nil || bytes.Compare(key, p.Deleted[i-1].End) < 0)
}

// rate returns the highest rate of false positives that the part promises.
func (p *Part) rate() float64 {
	if p.Keys == 0 {
		return 0
	}
	return p.Header.Rate(len(p.Units))
}
