package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Properties describe a table. They are stored in it.
type Properties struct {
	Entries       uint64   // versions, point tombstones included
	Deletes       uint64   // point tombstones among them
	RangeDeletes  uint64   // range tombstones, each once for each fragment that it is cut into
	RawKeyBytes   uint64   // sum of the lengths of user keys
	RawValueBytes uint64   // sum of the lengths of values
	Blocks        uint64   // data blocks
	BlockSize     uint64   // the writer's target, in bytes of memory
	FilterKeys    uint64   // distinct user keys, as the filter counts them; 0 without a filter
	MinSeq        ikey.Seq // smallest sequence number of a version or a range tombstone
	MaxSeq        ikey.Seq // largest
	Smallest      []byte   // first user key of a version; empty without versions
	Largest       []byte   // last
	Prefixes      PrefixProperties
}

// PrefixProperties describe the prefix filter. The zero value means that there is no such filter.
type PrefixProperties struct {
	Rule  string // text of the PrefixRule; a later version may have written one that this version does not know
	Keys  uint64 // distinct prefixes
	Bytes uint64 // length of the block, which ends where the index begins
	Sum   uint32 // checksum, made as the footer's for the other filter
}

const (
	propertyWords = 10
	maxRuleText   = 64
)

// The properties block: ten u64 in the order of the fields, then for smallest and largest a length u32 and the bytes.
// For a table with a prefix filter follow keys u64, bytes u64, checksum u32, and the rule as text, 1 to 64 bytes, up to
// the end.
func (p *Properties) append(dst []byte) []byte {
	for _, v := range [...]uint64{
		p.Entries, p.Deletes, p.RangeDeletes, p.RawKeyBytes, p.RawValueBytes, p.Blocks, p.BlockSize, p.FilterKeys,
		uint64(p.MinSeq), uint64(p.MaxSeq),
	} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, k := range [...][]byte{p.Smallest, p.Largest} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(k))) //nolint:gosec // at most maxKey
		dst = append(dst, k...)
	}
	if x := &p.Prefixes; *x != (PrefixProperties{}) {
		dst = binary.LittleEndian.AppendUint64(dst, x.Keys)
		dst = binary.LittleEndian.AppendUint64(dst, x.Bytes)
		dst = binary.LittleEndian.AppendUint32(dst, x.Sum)
		dst = append(dst, x.Rule...)
	}
	return dst
}

// see widens the range of sequence numbers by low to high, before their versions or tombstones are counted.
func (p *Properties) see(low, high ikey.Seq) {
	if p.Entries+p.RangeDeletes == 0 {
		p.MinSeq = low
	}
	p.MinSeq, p.MaxSeq = min(p.MinSeq, low), max(p.MaxSeq, high)
}

// ParseProperties checks a properties block. It keeps no reference to b.
func ParseProperties(b []byte) (Properties, error) {
	var p Properties
	if len(b) < propertyWords*8 {
		return p, fmt.Errorf("properties of %d bytes, want at least %d", len(b), propertyWords*8)
	}
	for i, v := range [...]*uint64{
		&p.Entries, &p.Deletes, &p.RangeDeletes, &p.RawKeyBytes, &p.RawValueBytes, &p.Blocks, &p.BlockSize,
		&p.FilterKeys,
		(*uint64)(&p.MinSeq), (*uint64)(&p.MaxSeq),
	} {
		*v = binary.LittleEndian.Uint64(b[8*i:])
	}
	b = b[propertyWords*8:]
	for _, k := range [...]*[]byte{&p.Smallest, &p.Largest} {
		if len(b) < 4 {
			return p, errors.New("properties: a bound is cut off")
		}
		n := binary.LittleEndian.Uint32(b)
		b = b[4:]
		if n > maxKey || int(n) > len(b) {
			return p, fmt.Errorf("properties: bound of %d bytes, want at most %d", n, min(len(b), maxKey))
		}
		*k = append([]byte{}, b[:n]...)
		b = b[n:]
	}
	if len(b) > 0 {
		if err := p.Prefixes.parse(b); err != nil {
			return p, err
		}
	}
	switch {
	case p.Prefixes.Keys > p.Entries:
		return p, fmt.Errorf("properties: %d prefixes of %d entries", p.Prefixes.Keys, p.Entries)
	case p.Entries < p.Blocks || p.Entries > 0 && p.Blocks == 0 || p.Deletes > p.Entries || p.FilterKeys > p.Entries:
		return p, fmt.Errorf("properties: %d entries, %d deletes, %d filter keys in %d blocks",
			p.Entries, p.Deletes, p.FilterKeys, p.Blocks)
	case p.Entries == 0 &&
		(p.RangeDeletes == 0 || len(p.Smallest)+len(p.Largest) > 0 || p.RawKeyBytes|p.RawValueBytes != 0):
		return p,
			fmt.Errorf("properties: no entries, %d range deletes, bounds %s and %s, %d bytes of keys and %d of values",
				p.RangeDeletes, words.Quoted(p.Smallest), words.Quoted(p.Largest), p.RawKeyBytes, p.RawValueBytes)
	case p.MinSeq > p.MaxSeq || p.MaxSeq > ikey.MaxSeq:
		return p, fmt.Errorf("properties: sequence numbers %d…%d", p.MinSeq, p.MaxSeq)
	case p.RawKeyBytes > math.MaxInt64 || p.RawValueBytes > math.MaxInt64 || p.BlockSize > maxCoded:
		return p, errors.New("properties: a size is out of range")
	}
	return p, nil
}

// parse parses the part of the properties that describes the prefix filter.
func (x *PrefixProperties) parse(b []byte) error {
	const fixed = 8 + 8 + 4
	if n := len(b) - fixed; n < 1 || n > maxRuleText {
		return fmt.Errorf("properties: %d bytes for the prefix filter, want %d to %d",
			len(b), fixed+1, fixed+maxRuleText)
	}
	x.Keys, x.Bytes = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	x.Sum, x.Rule = binary.LittleEndian.Uint32(b[16:]), string(b[fixed:])
	if x.Bytes < bloomblock.HeaderSize || x.Bytes%filterAlign != 0 {
		return fmt.Errorf("properties: prefix filter of %d bytes, want a multiple of %d, at least %d",
			x.Bytes, filterAlign, bloomblock.HeaderSize)
	}
	return nil
}
