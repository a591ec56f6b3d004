package foreign

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// ErrUnknown is matched by errors for something that this package does not know: a format version, a filter policy, a
// compression, an order of keys, or an encrypted table. It is not damage.
var ErrUnknown = errors.New("not known here")

// maxRead is the maximum length of a part of a file that is read at once: that of a filter of about 800 million keys.
const maxRead = 1 << 30

// workRatio bounds the work of a walk over a table: it decompresses blocks and builds keys of at most maxDecoded bytes,
// and workRatio more for each byte of the file. Tables of stores rarely take a tenth of that. A table can be made to
// take millions of times its length: by zstd, or by entries that share a long key and add one byte.
const workRatio = 128

// A handle is the place of a block in a file, without its trailer.
type handle struct{ offset, size uint64 }

// A file is read in parts that its own contents name, so each part is checked against the size of the file.
type file struct {
	r    io.ReaderAt
	size uint64
	name string
	left uint64 // bytes that the current walk may still decompress, or build of keys
}

// budget returns the number of bytes that a walk may decompress and build.
func (f *file) budget() uint64 { return maxDecoded + workRatio*min(f.size, 1<<48) }

// begin begins a walk over blocks.
func (f *file) begin() { f.left = f.budget() }

// spend takes n bytes from those of the current walk. The error has the offset of the block that took them.
func (f *file) spend(offset uint64, n int) error {
	if uint64(n) > f.left { //nolint:gosec // a length
		f.left = 0
		return f.unknown(offset, "blocks and keys of more than %d bytes in a file of %d", f.budget(), f.size)
	}
	f.left -= uint64(n) //nolint:gosec // a length
	return nil
}

// read returns the n bytes at offset. What they are is named in errors.
func (f *file) read(offset, n uint64, what string) ([]byte, error) {
	if offset > f.size || n > f.size-offset {
		return nil, f.damaged(offset, "%s of %d bytes in a file of %d", what, n, f.size)
	}
	if n > maxRead {
		return nil, f.unknown(offset, "%s of %d bytes, want at most %d", what, n, maxRead)
	}
	b := make([]byte, n)
	got, err := f.r.ReadAt(b, int64(offset)) //nolint:gosec // below the size of the file
	switch {
	case got == len(b):
		return b, nil
	case err == nil || errors.Is(err, io.EOF):
		return nil, f.damaged(offset, "%s of %d bytes, want %d: the file has become shorter", what, got, n)
	default:
		return nil, fmt.Errorf("%s: offset %d: %w", filepath.Base(f.name), offset, err)
	}
}

// damaged returns an error matching corrupt.Err.
func (f *file) damaged(offset uint64, format string, args ...any) error {
	at := int64(min(offset, math.MaxInt64))
	return corrupt.Newf(f.name, at, format, args...)
}

// unknown returns an error matching ErrUnknown.
func (f *file) unknown(offset uint64, format string, args ...any) error {
	return fmt.Errorf("%s: offset %d: %s: %w", filepath.Base(f.name), offset, fmt.Sprintf(format, args...), ErrUnknown)
}
