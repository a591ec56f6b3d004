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

// A handle is the place of a block in a file, without its trailer.
type handle struct{ offset, size uint64 }

// A file is read in parts that its own contents name, so each part is checked against the size of the file.
type file struct {
	r    io.ReaderAt
	size uint64
	name string
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
	at := int64(min(offset, math.MaxInt64)) //nolint:gosec // bounded
	return corrupt.Newf(f.name, at, format, args...)
}

// unknown returns an error matching ErrUnknown.
func (f *file) unknown(offset uint64, format string, args ...any) error {
	return fmt.Errorf("%s: offset %d: %s: %w", filepath.Base(f.name), offset, fmt.Sprintf(format, args...), ErrUnknown)
}
