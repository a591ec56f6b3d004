package foreign

import (
	"encoding/binary"
	"slices"
)

// A maker writes a table by hand, as the formats are drawn in this package.
type maker struct {
	magic    string
	version  uint32
	checksum checksum
	context  uint32
	policy   string
	layout   Layout
	filter   func(keys [][]byte) []byte // of the table, or for each data block
	delta    bool                       // index values
	perBlock int                        // keys
	extra    map[string]string          // properties

	out  []byte
	meta []pair
}

type pair struct{ key, value []byte }

// block appends a block with its trailer.
func (m *maker) block(b []byte) handle { return m.blockBy(codecNone, b) }

// blockBy appends a block that is compressed already.
func (m *maker) blockBy(codec byte, b []byte) handle {
	h := handle{uint64(len(m.out)), uint64(len(b))}
	sum := m.checksum.of(append(slices.Clone(b), codec)) + modifier(m.context, h.offset)
	m.out = append(append(m.out, b...), codec)
	m.out = binary.LittleEndian.AppendUint32(m.out, sum)
	return h
}

func (h handle) encode() []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, h.offset), h.size)
}

// rowBlock returns a block of entries with a restart for the first.
func rowBlock(all []pair, bare bool) []byte {
	var b, last []byte
	for i, p := range all {
		shared := 0
		for i > 0 && shared < min(len(last), len(p.key)) && last[shared] == p.key[shared] {
			shared++
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(shared)), uint64(len(p.key)-shared))
		if !bare {
			b = binary.AppendUvarint(b, uint64(len(p.value)))
		}
		b = append(append(b, p.key[shared:]...), p.value...)
		last = p.key
	}
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, 0), 1)
}

func internal(key []byte) []byte { return binary.LittleEndian.AppendUint64(slices.Clone(key), 7<<8|1) }

// make returns a table with the given keys.
func (m *maker) make(keys [][]byte) []byte {
	var index []pair
	var filters, offsets []byte
	var previous handle
	for part := range slices.Chunk(keys, m.perBlock) {
		for m.layout == PerRange && len(offsets)/4 <= len(m.out)>>11 {
			offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(filters)))
			if len(offsets)/4 > len(m.out)>>11 {
				filters = append(filters, m.filter(part)...)
			}
		}
		var all []pair
		for _, key := range part {
			all = append(all, pair{internal(key), slices.Repeat([]byte("v"), 2048/m.perBlock)})
		}
		h := m.block(rowBlock(all, false))
		value := h.encode()
		upper := internal(part[len(part)-1])
		if m.delta && len(index) > 0 && index[len(index)-1].key[0] == upper[0] {
			difference := int64(h.size) - int64(previous.size)
			value = binary.AppendVarint(nil, difference)
		}
		index = append(index, pair{upper, value})
		previous = h
	}
	m.addFilter(keys, filters, offsets)
	if m.magic != levelMagic {
		var properties []pair
		number := func(name string, v uint64) {
			properties = append(properties, pair{[]byte(name), binary.AppendUvarint(nil, v)})
		}
		number(propDelta, map[bool]uint64{true: 1}[m.delta])
		number(propEntries, uint64(len(keys)))
		for name, v := range m.extra {
			properties = append(properties, pair{[]byte(name), []byte(v)})
		}
		m.meta = append(m.meta, pair{[]byte(metaProperties), m.block(rowBlock(properties, false)).encode()})
	}
	top := m.block(rowBlock(index, m.delta))
	if m.magic == rocksMagic && m.version >= 6 {
		m.meta = append(m.meta, pair{[]byte(metaIndex), top.encode()})
	}
	m.footer(m.block(rowBlock(m.meta, false)), top)
	return m.out
}

func (m *maker) addFilter(keys [][]byte, filters, offsets []byte) {
	name := "fullfilter."
	var b []byte
	switch m.layout {
	case Full:
		b = m.filter(keys)
	case Partitioned:
		var index []pair
		for part := range slices.Chunk(keys, len(keys)/3+1) {
			index = append(index, pair{internal(part[len(part)-1]), m.block(m.filter(part)).encode()})
		}
		name, b = "partitionedfilter.", rowBlock(index, false)
	case PerRange:
		name = "filter."
		end := uint32(len(filters))
		b = append(append(filters, offsets...), 0, 0, 0, 0, 11)
		binary.LittleEndian.PutUint32(b[len(b)-5:], end)
	default:
		return
	}
	m.meta = append(m.meta, pair{[]byte(name + m.policy), m.block(b).encode()})
}

func (m *maker) footer(meta, index handle) {
	at := uint64(len(m.out))
	var b []byte
	if m.magic != levelMagic {
		b = append(b, byte(m.checksum))
	}
	if m.magic == rocksMagic && m.version >= 6 {
		b = append(b, 0x3e, 0, 0x7a, 0, 0, 0, 0, 0)
		b = binary.LittleEndian.AppendUint32(b, m.context)
		b = binary.LittleEndian.AppendUint32(b, uint32(meta.size))
		b = append(b, make([]byte, 24)...)
	} else {
		start := len(b)
		b = append(append(b, meta.encode()...), index.encode()...)
		b = append(b, make([]byte, handlesLen-(len(b)-start))...)
	}
	if m.magic != levelMagic {
		b = binary.LittleEndian.AppendUint32(b, m.version)
	}
	b = append(b, m.magic...)
	if m.magic == rocksMagic && m.version >= 6 {
		binary.LittleEndian.PutUint32(b[5:], m.checksum.of(b)+modifier(m.context, at))
	}
	m.out = append(m.out, b...)
}
