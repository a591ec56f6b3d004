package foreign

// A flat is a flatbuffer, of which Badger's index is one: https://flatbuffers.dev/internals/. Offsets are relative to
// where they are, and have four bytes. A read outside of the buffer sets bad and returns zero.
type flat struct {
	b   []byte
	bad bool
}

// A flatTable is a table of a flatbuffer: where it is, and where the offsets of its fields are.
type flatTable struct {
	at, fields, end uint64
}

func (f *flat) word(at, n uint64) (v uint64) {
	if size := uint64(len(f.b)); at > size || n > size-at {
		f.bad = true
		return 0
	}
	for i := range n {
		v |= uint64(f.b[at+i]) << (8 * i)
	}
	return v
}

// follow returns the place to which the offset at a place leads.
func (f *flat) follow(at uint64) uint64 { return at + f.word(at, 4) }

// table returns the table at a place. It begins with the distance back to the list of its fields, which begins with its
// length in bytes and that of the table, two bytes each.
func (f *flat) table(at uint64) flatTable {
	back := int64(int32(f.word(at, 4))) //nolint:gosec // signed, as specified
	list := uint64(int64(at) - back)    //nolint:gosec // checked by word
	size := f.word(list, 2)
	if size < 4 || size > uint64(len(f.b))-min(list, uint64(len(f.b))) {
		f.bad = true
		return flatTable{}
	}
	return flatTable{at, list + 4, list + size}
}

// field returns the place of a field, or 0 if the table does not have it.
func (f *flat) field(t flatTable, i uint64) uint64 {
	if at := t.fields + 2*i; at+2 <= t.end {
		if offset := f.word(at, 2); offset != 0 {
			return t.at + offset
		}
	}
	return 0
}

// number returns a field of n bytes, or 0 if the table does not have it.
func (f *flat) number(t flatTable, i, n uint64) uint64 {
	if at := f.field(t, i); at != 0 {
		return f.word(at, n)
	}
	return 0
}

// vector returns the place and the number of the elements of a vector, which have n bytes each.
func (f *flat) vector(t flatTable, i, n uint64) (at, count uint64) {
	field := f.field(t, i)
	if field == 0 {
		return 0, 0
	}
	at = f.follow(field)
	count = f.word(at, 4)
	if at += 4; f.bad || at > uint64(len(f.b)) || count > (uint64(len(f.b))-at)/n {
		f.bad = true
		return 0, 0
	}
	return at, count
}

// bytes returns a vector of bytes and its place.
func (f *flat) bytes(t flatTable, i uint64) (b []byte, at uint64) {
	at, n := f.vector(t, i, 1)
	return f.b[at:][:n], at
}
