package foreign

import (
	"encoding/binary"
	"errors"
)

var errLZ4 = errors.New("lz4: a sequence reaches outside of its block")

// unlz4 decompresses an LZ4 block to at most n bytes: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
func unlz4(b []byte, n int) ([]byte, error) {
	if n > 256*len(b) { // no byte stands for more than 255
		return nil, errDecodedSize
	}
	out := make([]byte, 0, n)
	for len(b) > 0 {
		token := b[0]
		b = b[1:]
		literals, rest, ok := lz4Length(b, token>>4)
		if !ok || literals > len(rest) || literals > n-len(out) {
			return nil, errLZ4
		}
		out, b = append(out, rest[:literals]...), rest[literals:]
		if len(b) == 0 {
			return out, nil // the last sequence has no match
		}
		if len(b) < 2 {
			return nil, errLZ4
		}
		distance := int(binary.LittleEndian.Uint16(b))
		length, rest, ok := lz4Length(b[2:], token&15)
		if !ok || distance == 0 || distance > len(out) || length+4 > n-len(out) {
			return nil, errLZ4
		}
		out, b = repeat(out, distance, length+4), rest
	}
	return out, nil
}

// lz4Length reads a length that begins with four bits of a token.
func lz4Length(b []byte, nibble byte) (n int, rest []byte, ok bool) {
	n = int(nibble)
	if nibble < 15 {
		return n, b, true
	}
	for i, c := range b {
		n += int(c)
		if n > maxDecoded {
			return 0, nil, false
		}
		if c < 255 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}

// repeat appends n bytes, each a copy of the byte that lies distance before it.
func repeat(out []byte, distance, n int) []byte {
	for n > 0 {
		from := len(out) - distance
		part := out[from:min(from+n, len(out))]
		out = append(out, part...)
		n -= len(part)
	}
	return out
}
