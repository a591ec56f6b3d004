package foreign

import "errors"

// errStop ends a walk early.
var errStop = errors.New("stop")

// stopped returns nil if a walk ended early as intended.
func stopped(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// A dataBlock is a data block as the index names it.
type dataBlock struct {
	handle

	number int
	upper  []byte // no key of the block is greater; nil if that is not known; overwritten after the call
}

// dataBlocks calls each for every data block, in the order of their keys.
func (s *sst) dataBlocks(each func(dataBlock) error) error {
	number, end := 0, uint64(0)
	block := func(upper []byte, h handle) error {
		err := each(dataBlock{h, number, upper})
		number++
		return err
	}
	if !s.twoLevel {
		return s.walkIndex(s.index, "index", &end, block)
	}
	partition := uint64(0)
	return s.walkIndex(s.index, "top index", &partition, func(_ []byte, h handle) error {
		return s.walkIndex(h, "index partition", &end, block)
	})
}

// walkIndex calls each for every entry of an index block: the user key that no key of the block exceeds, and the
// block. The key is overwritten after the call. Each block must begin at end or after it, and end is moved behind the
// block: stores write blocks in order, and so a file cannot name one block many times.
func (s *sst) walkIndex(h handle, what string, end *uint64, each func(upper []byte, h handle) error) error {
	b, err := s.readBlock(h, what)
	if err != nil {
		return err
	}
	entry := func(upper []byte, h handle) error {
		if h.offset < *end || h.offset > s.size || h.size > s.size {
			return s.damaged(b.at, "%s: block of %d bytes at offset %d, want it in the file and not before %d", what,
				h.size, h.offset, *end)
		}
		*end = h.offset + h.size + trailerLen
		return each(upper, h)
	}
	if s.columnar {
		return s.walkColumns(b, entry)
	}
	return s.walkRows(b, entry)
}

// walkRows is walkIndex for a block of rows.
func (s *sst) walkRows(b block, each func(upper []byte, h handle) error) error {
	r, err := newRows(s.file, b, s.delta)
	if err != nil {
		return err
	}
	var previous handle
	for r.next() {
		h, rest, ok := s.indexValue(r, previous)
		if !ok {
			return r.damaged("index value that is not a handle")
		}
		if s.delta {
			r.skip(rest)
		}
		upper := r.key
		if !s.userKeys {
			if len(upper) < internalTrailer {
				return r.damaged("index key of %d bytes, want at least %d", len(upper), internalTrailer)
			}
			upper = upper[:len(upper)-internalTrailer]
		}
		if err := each(upper, h); err != nil {
			return err
		}
		previous = h
	}
	return r.err
}

// indexValue reads the handle of an index entry. RocksDB records only the difference of the sizes if the key shares
// bytes with the key before it, since the blocks are adjacent then (IndexValue in table/format.cc and
// table/block_based/block_builder.cc).
func (s *sst) indexValue(r *rows, previous handle) (h handle, rest []byte, ok bool) {
	if s.delta && r.shared > 0 {
		var zigzag uint64
		zigzag, rest, ok = cutUvarint(r.value)
		h.offset = previous.offset + previous.size + trailerLen
		h.size = previous.size + (zigzag>>1 ^ -(zigzag & 1))
	} else {
		h, rest, ok = cutHandle(r.value)
	}
	if ok && s.firstKeys {
		var n uint64
		if n, rest, ok = cutUvarint(rest); ok {
			if n > uint64(len(rest)) {
				return h, nil, false
			}
			rest = rest[n:]
		}
	}
	return h, rest, ok
}

// walkColumns is walkIndex for a columnar block, whose columns are the keys, the offsets and the lengths: Pebble's
// sstable/colblk/index_block.go.
func (s *sst) walkColumns(b block, each func(upper []byte, h handle) error) error {
	c, err := newColumns(s.file, b, 0, 3)
	if err != nil {
		return err
	}
	keys, offsets, lengths := c.strings(0), c.uints(1), c.uints(2)
	if c.err != nil {
		return c.err
	}
	for i := range c.rows {
		upper, ok := keys.at(i)
		if !ok {
			return c.damaged("row %d reaches beyond its column", i)
		}
		if err := each(upper, handle{offsets.at(i), lengths.at(i)}); err != nil {
			return err
		}
	}
	return nil
}
