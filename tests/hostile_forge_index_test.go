package tests

import (
	"bytes"
	"encoding/binary"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// takeIndex decodes an index of one block, and the data blocks.
func (t *forgedTable) takeIndex(file, index []byte) {
	count, prefix := int(binary.LittleEndian.Uint32(index)), int(binary.LittleEndian.Uint32(index[4:]))
	t.prefix = index[8 : 8+prefix]
	fixed := index[8+prefix:]
	seps := fixed[12*count:]
	for i := range count {
		e := fixed[12*i:]
		stored, suffix := int(binary.LittleEndian.Uint32(e)), int(binary.LittleEndian.Uint32(e[8:]))
		t.takeBlock(file, stored, binary.LittleEndian.Uint32(e[4:]), seps[:suffix])
		seps, file = seps[suffix:], file[stored+forgeTrailer:]
	}
}

// takeParts decodes an index in parts, and the data blocks.
func (t *forgedTable) takeParts(file, top []byte) {
	count, prefix := int(binary.LittleEndian.Uint32(top)), int(binary.LittleEndian.Uint32(top[4:]))
	t.prefix = top[8 : 8+prefix]
	entries := top[8+prefix:]
	part := file
	for i := range count {
		part = part[binary.LittleEndian.Uint64(entries[20*i+8:]):] // behind all data blocks
	}
	for i := range count {
		length := int(binary.LittleEndian.Uint32(entries[20*i:]))
		n, own := int(binary.LittleEndian.Uint32(part)), int(binary.LittleEndian.Uint32(part[4:]))
		fixed := part[8+own:]
		seps := fixed[12*n:]
		before, from := 0, 0
		for j := range n {
			end, to := int(binary.LittleEndian.Uint32(fixed[12*j:])), int(binary.LittleEndian.Uint32(fixed[12*j+8:]))
			sep := append(bytes.Clone(part[8:8+own]), seps[from:to]...)
			stored := end - before - forgeTrailer
			t.takeBlock(file, stored, binary.LittleEndian.Uint32(fixed[12*j+4:]), sep[prefix:])
			file = file[stored+forgeTrailer:]
			before, from = end, to
		}
		t.cuts = append(t.cuts, n)
		part = part[length+forgeTrailer:]
	}
}

// takeBlock decodes the data block at the start of b.
func (t *forgedTable) takeBlock(b []byte, stored int, decoded uint32, suffix []byte) {
	t.blocks = append(t.blocks, forgedBlock{
		payload: bytes.Clone(b[:stored]), codec: sstable.Codec(b[stored]), decoded: decoded, suffix: suffix,
	})
}

// indexPayload returns the index of the current blocks, or its top.
func (t *forgedTable) indexPayload() []byte {
	if t.index != nil {
		return t.index
	}
	if t.cuts != nil {
		return t.topPayload()
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(t.blocks)))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t.prefix))), t.prefix...)
	for _, x := range t.blocks {
		for _, v := range [...]uint32{uint32(len(x.payload)), x.decoded, uint32(len(x.suffix))} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, x := range t.blocks {
		b = append(b, x.suffix...)
	}
	return b
}

// blocksOf returns the blocks of part i, as many of them as there are.
func (t *forgedTable) blocksOf(i int) []forgedBlock {
	rest := t.blocks
	for _, n := range t.cuts[:i] {
		rest = rest[min(n, len(rest)):]
	}
	return rest[:min(t.cuts[i], len(rest))]
}

// partPayload returns part i of the index.
func (t *forgedTable) partPayload(i int) []byte {
	if b, ok := t.parts[i]; ok {
		return b
	}
	blocks := t.blocksOf(i)
	common := 0
	for j, x := range blocks {
		if j == 0 {
			common = len(x.suffix)
		}
		common = min(common, ikey.CommonPrefix(blocks[0].suffix, x.suffix))
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(blocks)))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t.prefix)+common)), t.prefix...)
	if len(blocks) > 0 {
		b = append(b, blocks[0].suffix[:common]...)
	}
	data, sep := 0, 0
	for _, x := range blocks {
		data += len(x.payload) + forgeTrailer
		sep += len(x.suffix) - common
		for _, v := range [...]uint32{uint32(data), x.decoded, uint32(sep)} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, x := range blocks {
		b = append(b, x.suffix[common:]...)
	}
	return b
}

// setPart replaces the payload of part i of the index.
func (t *forgedTable) setPart(i int, payload []byte) {
	if t.parts == nil {
		t.parts = map[int][]byte{}
	}
	t.parts[i] = payload
}

// topPayload returns the top of the current parts.
func (t *forgedTable) topPayload() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(t.cuts)))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t.prefix))), t.prefix...)
	var seps []byte
	for i := range t.cuts {
		data, last := 0, []byte(nil)
		blocks := t.blocksOf(i)
		for _, x := range blocks {
			data, last = data+len(x.payload)+forgeTrailer, x.suffix
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.partPayload(i))))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(blocks)))
		b = binary.LittleEndian.AppendUint64(b, uint64(data))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(last)))
		seps = append(seps, last...)
	}
	return append(b, seps...)
}

// extraPayload returns what is in front of the footer.
func (t *forgedTable) extraPayload() []byte {
	if t.extra != nil {
		return t.extra
	}
	b := make([]byte, forgeExtraSize-4)
	b[0] = 1 // the index is in parts
	return b
}
