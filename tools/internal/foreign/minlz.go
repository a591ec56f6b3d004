package foreign

import "errors"

var errMinLZ = errors.New("minlz: an element reaches outside of its block")

// maxMinLZ is the largest block that the format allows, decompressed.
const maxMinLZ = 8 << 20

// A minlz reads the elements of a block: https://github.com/minio/minlz/blob/main/SPEC.md, version 1.0, without
// dictionaries.
type minlz struct {
	b   []byte // what is left
	out []byte
	bad bool
}

// unminlz decompresses a MinLZ block, or a snappy block, as the specification allows.
func unminlz(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, errMinLZ
	}
	if b[0] != 0 {
		return unsnappy(b)
	}
	if len(b) == 1 {
		return nil, nil
	}
	n, rest, ok := cutUvarint(b[1:])
	switch {
	case !ok || n > maxMinLZ:
		return nil, errMinLZ
	case n == 0:
		return rest, nil
	}
	m := minlz{b: rest, out: make([]byte, 0, min(n, 64+uint64(len(rest))*8))}
	limit := int(n)
	distance := 1
	for len(m.b) > 0 && !m.bad && len(m.out) <= limit {
		m.element(&distance, limit)
	}
	if m.bad || len(m.out) != limit {
		return nil, errMinLZ
	}
	return m.out, nil
}

// element decodes the next element.
func (m *minlz) element(distance *int, limit int) {
	tag := m.number(1)
	var length, literals int
	switch kind := tag & 3; {
	case kind == 0: // literals, or a repeat of the last distance
		length = m.extended(tag>>3, 29, 29) + 1
		if tag&4 == 0 {
			m.literals(length)
			return
		}
	case kind == 1:
		*distance = tag>>6 | m.number(1)<<2
		*distance++
		if length = 4 + tag>>2&15; length == 19 {
			length = 18 + m.number(1)
		}
	case kind == 2:
		*distance = m.number(2) + 64
		length = m.copyLength(tag >> 2)
	case tag&4 == 0:
		literals = tag>>3&3 + 1
		length = tag>>5 + 4
		*distance = m.number(2) + 64
	default:
		word := uint32(tag) | uint32(m.number(3))<<8 //nolint:gosec // one byte and three
		literals = int(word >> 3 & 3)
		*distance = int(word>>11) + 65536
		length = m.copyLength(int(word >> 5 & 63))
	}
	m.literals(literals)
	if m.bad || *distance > len(m.out) || length > limit-len(m.out) {
		m.bad = true
		return
	}
	m.out = repeat(m.out, *distance, length)
}

// copyLength decodes six bits of a length and what follows.
func (m *minlz) copyLength(v int) int {
	if v <= 60 {
		return v + 4
	}
	return m.extended(v, 61, 64)
}

// extended returns v below first, else base plus the number that follows, of one byte more than v exceeds first.
func (m *minlz) extended(v, first, base int) int {
	if v < first {
		return v
	}
	return base + m.number(v-first+1)
}

// number reads n bytes, little-endian.
func (m *minlz) number(n int) (v int) {
	if len(m.b) < n {
		m.bad = true
		return 0
	}
	for i, c := range m.b[:n] {
		v |= int(c) << (8 * i)
	}
	m.b = m.b[n:]
	return v
}

func (m *minlz) literals(n int) {
	if m.bad || n > len(m.b) {
		m.bad = true
		return
	}
	m.out = append(m.out, m.b[:n]...)
	m.b = m.b[n:]
}
