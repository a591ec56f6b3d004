package foreign

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// A filterSet is all units of a table.
type filterSet interface {
	parts() int
	// unit returns a unit and where it begins in the file.
	unit(part int) (*unit, uint64, error)
	// find returns the number of the unit that a lookup asks for a key that would be in a data block. It returns false
	// if the lookup asks none.
	find(d dataBlock, key []byte) (part int, asked bool)
}

// A single is a set of one unit.
type single struct {
	one *unit
	at  uint64
}

func (s *single) parts() int                         { return 1 }
func (s *single) unit(int) (*unit, uint64, error)    { return s.one, s.at, nil }
func (s *single) find(dataBlock, []byte) (int, bool) { return 0, true }

// A ranges has a unit for each 2ⁿ bytes of the file, with the keys of the data blocks that begin there:
//
//	| units | offset 4 for each unit | offset of the offsets 4 | n 1 |
//
// Source: LevelDB's doc/table_format.md and table/filter_block.cc.
type ranges struct {
	data    []byte
	offsets int // where the offsets begin
	count   int
	shift   uint
	at      uint64
	h       bloomHash
}

// newRanges checks that the units lie one after the other.
func newRanges(f *file, b block, h bloomHash) (*ranges, error) {
	const end = 5
	n := len(b.data) - end
	if n < 0 {
		return nil, f.damaged(b.at, "filter block of %d bytes, want at least %d", len(b.data), end)
	}
	offsets := uint64(binary.LittleEndian.Uint32(b.data[n:]))
	if offsets > uint64(n) || (uint64(n)-offsets)%4 != 0 {
		return nil, f.damaged(b.at, "offsets of filters from byte %d to %d", offsets, n)
	}
	r := &ranges{data: b.data, offsets: int(offsets), at: b.at, h: h} //nolint:gosec // at most n
	r.shift = uint(b.data[n+4])
	r.count = (n - r.offsets) / 4
	for part := range r.count {
		if from, to := r.bounds(part); from > to || to > offsets {
			return nil, f.damaged(b.at, "filter %d from byte %d to %d of %d", part, from, to, offsets)
		}
	}
	return r, nil
}

func (r *ranges) parts() int { return r.count }

// bounds returns where a unit begins and ends. The offset after the last is that of the offsets.
func (r *ranges) bounds(part int) (from, to uint64) {
	at := r.data[r.offsets+4*part:]
	return uint64(binary.LittleEndian.Uint32(at)), uint64(binary.LittleEndian.Uint32(at[4:]))
}

func (r *ranges) unit(part int) (*unit, uint64, error) {
	from, to := r.bounds(part)
	return newPlain(r.data[from:to], r.h), r.at + from, nil
}

func (r *ranges) find(d dataBlock, _ []byte) (int, bool) {
	part := d.offset >> r.shift
	if part >= uint64(r.count) { //nolint:gosec // not negative
		return 0, false
	}
	return int(part), true //nolint:gosec // below count
}

// A partitions is a set of units for ranges of keys.
type partitions struct {
	s   *sst
	all []partition
}

type partition struct {
	handle

	upper []byte // no key of the partition is greater
}

// newPartitions reads the index of a partitioned filter, which has the form of an index of data blocks.
func newPartitions(s *sst, index handle) (*partitions, error) {
	p := &partitions{s: s}
	end, uppers := uint64(0), 0
	err := s.walkIndex(index, "index of filters", &end, func(upper []byte, h handle) error {
		if uppers += len(upper); uppers > maxDecoded {
			return s.unknown(index.offset, "index of filters with keys of more than %d bytes", maxDecoded)
		}
		p.all = append(p.all, partition{h, bytes.Clone(upper)})
		return nil
	})
	return p, err
}

func (p *partitions) parts() int { return len(p.all) }

func (p *partitions) unit(part int) (*unit, uint64, error) {
	b, err := p.s.readBlock(p.all[part].handle, "filter partition")
	if err != nil {
		return nil, 0, err
	}
	return newTableFilter(b.data), b.at, nil
}

// find returns the first partition whose upper bound is not less than the key, or the last one.
func (p *partitions) find(_ dataBlock, key []byte) (int, bool) {
	if len(p.all) == 0 || p.s.unordered != "" {
		return 0, false
	}
	i, _ := slices.BinarySearchFunc(p.all, key, func(q partition, key []byte) int {
		return bytes.Compare(q.upper, key)
	})
	return min(i, len(p.all)-1), true
}

// bytes returns the length of all partitions and of their index.
func (p *partitions) bytes(index uint64) uint64 {
	for i := range p.all {
		index += p.all[i].size
	}
	return index
}

// The policies whose filters are read. RocksDB writes one name for all kinds of its filters, and Pebble writes the same
// name for its Bloom filters.
const (
	policyLevel   = "leveldb.BuiltinBloomFilter2"
	policyGoLevel = "leveldb.BuiltinBloomFilter"
	policyRocks   = "rocksdb.BuiltinBloomFilter"
	policyFuse    = "binaryfuse"
)

// openFilter reads the filters of a table. It returns nil if none is known.
func (s *sst) openFilter(f *Filter) (filterSet, error) {
	h := handle{f.Offset, f.Bytes}
	if f.Layout == Partitioned && f.Policy == policyRocks {
		p, err := newPartitions(s, h)
		if err != nil {
			return nil, err
		}
		f.Bytes = p.bytes(h.size)
		return p, nil
	}
	hash := unsignedTail
	fuse := f.Policy == policyFuse && f.Layout == Full && s.magic == pebbleMagic
	switch {
	case f.Policy == policyRocks:
		hash = signedTail
	case f.Layout == PerRange && (f.Policy == policyLevel || f.Policy == policyGoLevel), fuse:
	default:
		return nil, s.unknown(h.offset, "filter policy %s, %s", f.Policy, f.Layout)
	}
	b, err := s.readBlock(h, "filter")
	if err != nil {
		return nil, err
	}
	switch {
	case f.Layout == PerRange:
		return newRanges(s.file, b, hash)
	case fuse:
		u, err := newFuse(s.file, b)
		return &single{u, b.at}, err
	}
	return &single{newTableFilter(b.data), b.at}, nil
}
