package workload

import "encoding/binary"

// Values is the form of generated values.
type Values struct {
	Bytes        int  // length of every value
	Compressible bool // the second half repeats the first, so that a value compresses to half its size
}

// Append appends the value that is determined by seed.
func (v Values) Append(dst []byte, seed uint64) []byte {
	fresh := v.Bytes
	if v.Compressible {
		fresh = (v.Bytes + 1) / 2
	}
	start := len(dst)
	var last [8]byte
	for left := fresh; left > 0; left -= 8 {
		seed += golden
		word := mix(seed)
		if left < 8 {
			binary.LittleEndian.PutUint64(last[:], word)
			dst = append(dst, last[:left]...)
			break
		}
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	return append(dst, dst[start:start+v.Bytes-fresh]...)
}
