package sstable

import (
	"errors"
	"io"
)

// A lenientReader reads what can be read of a file, and zeros where that fails, which no checksum takes for a block.
type lenientReader struct {
	file io.ReaderAt
	size uint64
}

// lenientPage is the smallest part that is read or not, in bytes: a sector of a disk, or several.
const lenientPage = 4 << 10

// read fills b with the bytes from offset on. It returns the first error of the file; the file's end is none.
func (l *lenientReader) read(b []byte, offset uint64) (err error) {
	if offset+uint64(len(b)) > l.size {
		n := l.size - min(l.size, offset)
		clear(b[n:])
		b = b[:n]
	}
	if l.readAt(b, offset) == nil {
		return nil
	}
	for len(b) > 0 {
		n := min(lenientPage-offset%lenientPage, uint64(len(b)))
		if e := l.readAt(b[:n], offset); e != nil {
			clear(b[:n])
			if err == nil {
				err = e
			}
		}
		b, offset = b[n:], offset+n
	}
	return err
}

func (l *lenientReader) readAt(b []byte, offset uint64) error {
	n, err := l.file.ReadAt(b, int64(offset)) //nolint:gosec // an offset in a file
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = errShort // it became shorter
	}
	return err
}
