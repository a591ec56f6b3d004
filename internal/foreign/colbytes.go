package foreign

// A bytesColumn has byte strings, one after the other, after their n+1 offsets: Pebble's sstable/colblk/raw_bytes.go.
type bytesColumn struct {
	offsets uintColumn
	data    []byte
}

// cutBytes reads n strings that begin at offset from.
func (c *columns) cutBytes(data []byte, from, n int) (b bytesColumn, err error) {
	if n == 0 {
		return b, nil
	}
	b.offsets, from, err = c.cutUints(data, from, n+1)
	if err == nil {
		b.data = data[from:]
	}
	return b, err
}

// at returns string i.
func (b *bytesColumn) at(i int) ([]byte, bool) {
	from, to := b.offsets.at(i), b.offsets.at(i+1)
	if from > to || to > uint64(len(b.data)) {
		return nil, false
	}
	return b.data[from:to], true
}

// strings returns column i as byte strings, one for each row.
func (c *columns) strings(i int) (b bytesColumn, err error) {
	data, from, err := c.column(i, kindBytes)
	if err == nil {
		b, err = c.cutBytes(data, from, c.rows)
	}
	return b, err
}

// A prefixColumn has byte strings in ascending order without the prefix of all and the prefix of each bundle of 2^shift
// rows. Its strings are the common prefix, and then for each bundle its prefix and its rows. An empty row is equal to
// the row before it. The first offset is where the common prefix ends. Source: Pebble's sstable/colblk/prefix_bytes.go.
type prefixColumn struct {
	bytesColumn
	shift int
	rows  int
	key   []byte // of the row that at has returned last
	shown int    // length of the prefixes in key
}

// prefixes returns column i, which has one string for each row.
func (c *columns) prefixes(i int) (p prefixColumn, err error) {
	data, from, err := c.column(i, kindPrefixBytes)
	if err != nil || c.rows == 0 {
		return p, err
	}
	if from >= len(data) || data[from] > 31 {
		return p, c.damaged("column %d has no bundles of at most 2³¹ rows", i)
	}
	p.shift, p.rows = int(data[from]), c.rows
	bundles := 1 + (c.rows-1)>>p.shift
	p.bytesColumn, err = c.cutBytes(data, from+1, c.rows+bundles)
	if err == nil && p.offsets.at(0) > uint64(len(p.data)) {
		err = c.damaged("column %d: common prefix of %d bytes", i, p.offsets.at(0))
	}
	return p, err
}

// next returns the string of a row. Rows are asked in their order, beginning with 0. The string is overwritten by the
// next call.
func (p *prefixColumn) next(row int) ([]byte, bool) {
	bundle := row >> p.shift
	if first := bundle << p.shift; row == first {
		own, ok := p.at(bundle + first)
		if !ok {
			return nil, false
		}
		p.key = append(append(p.key[:0], p.data[:p.offsets.at(0)]...), own...)
		p.shown = len(p.key)
	}
	own, ok := p.at(1 + bundle + row)
	if !ok {
		return nil, false
	}
	if len(own) > 0 {
		p.key = append(p.key[:p.shown], own...)
	}
	return p.key, true
}
