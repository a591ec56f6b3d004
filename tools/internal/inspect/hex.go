package inspect

import (
	"fmt"
	"io"
	"math/bits"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
)

// labelColumns is the width that an offset and 16 bytes leave in a line.
const labelColumns = words.Width - 10 - 2 - 47 - 2

// annotate writes the bytes of a filter block in hexadecimal digits with their meaning: the fields of the header,
// then the blocks of each unit, 16 bytes per line. Offsets are those in the file.
func annotate(w io.Writer, r *Filter) {
	fmt.Fprintf(w, "%10s  %-47s  %s\n", "offset", "bytes", "what they are")
	end := 0
	for _, f := range r.Header {
		label := f.Name
		if s := label + " " + f.Value; len(s) <= labelColumns {
			label = s
		}
		hexLines(w, r.Offset+uint64(f.Offset), r.block[f.Offset:][:f.Bytes], label) //nolint:gosec // an index
		end = f.Offset + f.Bytes
	}
	h, err := bloomblock.ParseHeader(r.block)
	for i := range r.Units {
		u := &r.Units[i]
		if err != nil {
			break
		}
		need := h.PrefixSize(i + 1)
		if h.Parts() > 0 {
			need = h.BlockSize()
		}
		if need > uint64(len(r.block)) {
			break // the block is cut off
		}
		for b := range u.Blocks {
			at := filterexam.BlockOffset(&h, i, b)
			line := r.block[at:][:lineBytes]
			set := 0
			for _, c := range line {
				set += bits.OnesCount8(c)
			}
			fmt.Fprintf(w, "unit %d, block %d: %d of %d bits set\n", i, b, set, lineBits)
			hexLines(w, r.Offset+at, line, "")
		}
		end = int(h.PrefixSize(i + 1)) //nolint:gosec // within the block
	}
	label := "not of a unit"
	if at, size := h.SumsSpan(); err == nil && size > 0 && at == uint64(end) {
		label = "page checksums"
	}
	hexLines(w, r.Offset+uint64(end), r.block[end:], label)
}

// hexLines writes bytes, 16 per line, with the label in the first line.
func hexLines(w io.Writer, offset uint64, b []byte, label string) {
	for len(b) > 0 {
		n := min(16, len(b))
		line := fmt.Sprintf("%10d  % -47x  %s", offset, b[:n], label)
		fmt.Fprintln(w, trimRight(line))
		offset, b, label = offset+uint64(n), b[n:], ""
	}
}
