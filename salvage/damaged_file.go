package corrupt

import (
	"context"
	"errors"
	"io"
)

// A Reader reads a file that may be partly unreadable: unreadable parts read as zeros, which no checksum accepts. Once
// its context has ended, all parts are unreadable.
type Reader struct {
	ctx  context.Context //nolint:containedctx // Read is called in many places
	file io.ReaderAt
	size uint64
}

// page is the unit that is readable or not, in bytes: one sector of a disk, or several.
const page = 4 << 10

var errShorter = errors.New("the file became shorter")

// NewReader returns a reader, until ctx ends, of a file of size bytes, at most 2⁶³-1.
func NewReader(ctx context.Context, f io.ReaderAt, size uint64) *Reader { return &Reader{ctx, f, size} }

// Err returns the error of the context. A long search in the file should then stop: it finds nothing more.
func (r *Reader) Err() error { return r.ctx.Err() }

// Size returns the length of the file in bytes.
func (r *Reader) Size() uint64 { return r.size }

// Read fills b with the bytes from offset on, and with zeros behind the end of the file. It returns the first error of
// the file, after reading everything else.
func (r *Reader) Read(b []byte, offset uint64) (err error) {
	if left := r.size - min(r.size, offset); uint64(len(b)) > left {
		clear(b[left:])
		b = b[:left]
	}
	if err := r.Err(); err != nil {
		clear(b)
		return err
	}
	if r.readAt(b, offset) == nil {
		return nil
	}
	for len(b) > 0 {
		n := min(page-offset%page, uint64(len(b)))
		if e := r.readAt(b[:n], offset); e != nil {
			clear(b[:n])
			if err == nil {
				err = e
			}
		}
		b, offset = b[n:], offset+n
	}
	return err
}

func (r *Reader) readAt(b []byte, offset uint64) error {
	n, err := r.file.ReadAt(b, int64(offset)) //nolint:gosec // below the file's size
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = errShorter
	}
	return err
}
