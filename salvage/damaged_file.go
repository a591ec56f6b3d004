package salvage

import (
	"context"
	"errors"
	"io"
)

// A damagedFile is a file that may be partly unreadable: unreadable parts read as zeros, which no checksum accepts.
// Once its context has ended, all parts are unreadable.
type damagedFile struct {
	ctx  context.Context //nolint:containedctx // read is called in many places
	file io.ReaderAt
	size uint64

	ahead   []byte // what bytes has read
	aheadAt uint64
	failed  error // the first of the file in ahead
}

// chunk is the number of bytes of a file that are read at once.
const chunk = 256 << 10

// page is the unit that is readable or not, in bytes: one sector of a disk, or several.
const page = 4 << 10

var errShorter = errors.New("the file became shorter")

// openDamaged returns the file f of size bytes, at most 2⁶³-1, to be read until ctx ends.
func openDamaged(ctx context.Context, f io.ReaderAt, size uint64) *damagedFile {
	return &damagedFile{ctx: ctx, file: f, size: size}
}

// read fills b with the bytes from offset on, and with zeros behind the end of the file. It returns the first error of
// the file, after reading everything else.
func (r *damagedFile) read(b []byte, offset uint64) (err error) {
	if left := r.size - min(r.size, offset); uint64(len(b)) > left {
		clear(b[left:])
		b = b[:left]
	}
	if err := r.ctx.Err(); err != nil {
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

// bytes returns n bytes from offset on, as read fills them, valid until the next call. It reads ahead.
func (r *damagedFile) bytes(offset uint64, n int) []byte {
	if offset < r.aheadAt || offset+uint64(n) > r.aheadAt+uint64(len(r.ahead)) { //nolint:gosec // not negative
		m := max(n, int(min(chunk, r.size-min(offset, r.size))))
		if cap(r.ahead) < m {
			r.ahead = make([]byte, m)
		}
		r.ahead, r.aheadAt = r.ahead[:m], offset
		r.failed = r.read(r.ahead, offset)
	}
	return r.ahead[offset-r.aheadAt:][:n]
}

func (r *damagedFile) readAt(b []byte, offset uint64) error {
	n, err := r.file.ReadAt(b, int64(offset)) //nolint:gosec // below the file's size
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = errShorter
	}
	return err
}
