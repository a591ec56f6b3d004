package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/words"
)

// The range deletes block of a table has fragments of its range tombstones, which ascend by their start:
//
//	0           4
//	+-----------+------------------------------------------------------------------------------------+----
//	| count u32 | start length u32, start | end length u32, end | tombstones u32, their sequences n×u64 | …
//	+-----------+------------------------------------------------------------------------------------+----
//
// There is at least one fragment, and one tombstone in each; sequence numbers ascend and none is 0. A start is before
// its end; both are user keys or, as where a range ends just after a key, one byte longer. An end of length 2³²−1 has
// no bytes and is infinite. Fragments overlap only in a table with flagOverlap, and there some do.
const (
	rangeDelHeader = 4
	minFragment    = 4 + 4 + 4 + 8
	maxBound       = maxKey + 1
	infinite       = math.MaxUint32
)

// appendFragment appends one fragment to dst.
func appendFragment(dst []byte, f *rangedel.Fragment) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.Start))) //nolint:gosec // at most maxBound
	dst = append(dst, f.Start...)
	if f.End == nil {
		dst = binary.LittleEndian.AppendUint32(dst, infinite)
	} else {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.End))) //nolint:gosec // at most maxBound
		dst = append(dst, f.End...)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.Seqs))) //nolint:gosec // below what memory holds of them
	for _, s := range f.Seqs {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s))
	}
	return dst
}

// checkFragment checks f, which follows a fragment that starts at before. first reports that f is the first fragment.
func checkFragment(f *rangedel.Fragment, before []byte, first bool) error {
	switch {
	case len(f.Start) > maxBound || len(f.End) > maxBound:
		return fmt.Errorf("%w: range from %d to %d bytes, want at most %d", ErrSize, len(f.Start), len(f.End), maxBound)
	case f.End != nil && bytes.Compare(f.Start, f.End) >= 0:
		return fmt.Errorf("%w: range from %s to %s", ErrOrder, words.Quoted(f.Start), words.Quoted(f.End))
	case !first && bytes.Compare(f.Start, before) < 0:
		return fmt.Errorf("%w: range from %s after one from %s", ErrOrder, words.Quoted(f.Start), words.Quoted(before))
	case len(f.Seqs) == 0:
		return errors.New("range without a tombstone")
	}
	last := ikey.Seq(0)
	for _, s := range f.Seqs {
		if s <= last || s > ikey.MaxSeq {
			return fmt.Errorf("%w: range tombstone %d after %d", ErrOrder, s, last)
		}
		last = s
	}
	return nil
}

// A rangeDelBuilder collects the range tombstones of a table.
type rangeDelBuilder struct {
	encoded  []byte // fragments
	n        uint32
	first    []byte // start of the first
	start    []byte // start of the last
	end      []byte // the last of their ends; nil is infinite
	overlaps bool
}

func (b *rangeDelBuilder) add(f *rangedel.Fragment) error {
	if err := checkFragment(f, b.start, b.n == 0); err != nil {
		return err
	}
	b.encoded = appendFragment(b.encoded, f)
	b.start = append([]byte{}, f.Start...)
	if b.n++; b.n == 1 {
		b.first, b.end = b.start, slices.Clone(f.End)
		return nil
	}
	b.overlaps = b.overlaps || b.end == nil || bytes.Compare(f.Start, b.end) < 0
	if b.end != nil && (f.End == nil || bytes.Compare(f.End, b.end) > 0) {
		b.end = slices.Clone(f.End)
	}
	return nil
}

func (b *rangeDelBuilder) append(dst []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, b.n), b.encoded...)
}

// widen extends the bounds of the versions by the table's range tombstones, which begin at first and end at last, nil
// for no end.
func (i *Info) widen(first, last []byte) {
	if i.Entries == 0 || bytes.Compare(first, i.Smallest) < 0 {
		i.Smallest = first
	}
	switch {
	case last == nil:
		i.Largest, i.LargestInfinite = nil, true
	case i.Entries == 0 || bytes.Compare(last, i.Largest) > 0:
		i.Largest, i.LargestExclusive = last, true
	}
}

// parseRangeDels parses and checks the range tombstones of a table. It keeps no reference to b, and allocates at most
// eight times its length while it runs, and for fragments that overlap n log n numbers for n of them.
func parseRangeDels(b []byte) (*rangedel.Index, error) {
	if len(b) < rangeDelHeader {
		return nil, fmt.Errorf("range deletes: %d bytes, want at least %d", len(b), rangeDelHeader)
	}
	count := binary.LittleEndian.Uint32(b)
	rest := b[rangeDelHeader:]
	if count == 0 || uint64(count)*minFragment > uint64(len(rest)) {
		return nil, fmt.Errorf("range deletes: %d fragments do not fit %d bytes", count, len(b))
	}
	l := make(rangedel.List, count)
	keys, seqs := 0, make([]ikey.Seq, 0, len(rest)/8)
	var before []byte
	for i := range l {
		f := &l[i]
		var err error
		if rest, err = parseFragment(f, rest, &seqs); err == nil {
			err = checkFragment(f, before, i == 0)
		}
		if err != nil {
			return nil, fmt.Errorf("range deletes: fragment %d: %w", i, err)
		}
		before = f.Start
		keys += len(f.Start) + len(f.End)
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("range deletes: %d bytes too many", len(rest))
	}
	compact(l, make([]byte, 0, keys), make([]ikey.Seq, 0, len(seqs)))
	return rangedel.NewIndex(l), nil
}

// compact moves the bytes and numbers that the list refers to into keys and seqs, which have capacity for all of them.
func compact(l rangedel.List, keys []byte, seqs []ikey.Seq) {
	for i := range l {
		f := &l[i]
		for _, p := range [...]*[]byte{&f.Start, &f.End} {
			if *p != nil {
				n := len(keys)
				keys = append(keys, *p...)
				*p = keys[n:len(keys):len(keys)]
			}
		}
		n := len(seqs)
		seqs = append(seqs, f.Seqs...)
		f.Seqs = seqs[n:len(seqs):len(seqs)]
	}
}

var errCutOff = errors.New("cut off")

// parseFragment parses one fragment at the front of b and returns the rest of b. The fragment refers to b. Its sequence
// numbers are appended to seqs, which has the capacity.
func parseFragment(f *rangedel.Fragment, b []byte, seqs *[]ikey.Seq) ([]byte, error) {
	for i, p := range [...]*[]byte{&f.Start, &f.End} {
		if len(b) < 4 {
			return nil, errCutOff
		}
		n := binary.LittleEndian.Uint32(b)
		b = b[4:]
		switch {
		case i == 1 && n == infinite:
		case n > maxBound:
			return nil, fmt.Errorf("bound of %d bytes, want at most %d", n, maxBound)
		case int(n) > len(b):
			return nil, errCutOff
		default:
			*p, b = b[:n], b[n:]
		}
	}
	if len(b) < 4 {
		return nil, errCutOff
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if uint64(n)*8 > uint64(len(b)) {
		return nil, errCutOff
	}
	start := len(*seqs)
	for range n {
		*seqs = append(*seqs, ikey.Seq(binary.LittleEndian.Uint64(b)))
		b = b[8:]
	}
	f.Seqs = (*seqs)[start:]
	return b, nil
}

// tombstones returns the number of range tombstones in the list, and the smallest and largest of their sequence
// numbers.
func tombstones(l rangedel.List) (n uint64, low, high ikey.Seq) {
	for i := range l {
		s := l[i].Seqs
		if i == 0 {
			low = s[0]
		}
		n += uint64(len(s))
		low, high = min(low, s[0]), max(high, s[len(s)-1])
	}
	return n, low, high
}

// overridden returns the list of x with seq instead of all sequence numbers.
func overridden(x *rangedel.Index, seq ikey.Seq) *rangedel.Index {
	l, one := x.List(), []ikey.Seq{seq}
	o := make(rangedel.List, len(l))
	for i := range l {
		o[i] = rangedel.Fragment{Start: l[i].Start, End: l[i].End, Seqs: one}
	}
	return rangedel.NewIndex(o)
}
