package stream

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A Writer writes the stream of one store, any number of times. It is safe for concurrent use.
type Writer struct {
	header  *Header
	encoded []byte
	prelude prelude
}

// NewWriter returns a writer of a stream that begins with h.
func NewWriter(h *Header) (*Writer, error) {
	w := &Writer{header: h, encoded: h.encoded()}
	size, err := h.size(len(w.encoded))
	w.prelude = prelude{idOf(w.encoded), int64(len(w.encoded)), size}
	return w, err
}

// Size returns the number of bytes that Write writes.
func (w *Writer) Size() int64 { return w.prelude.size }

// Write writes the stream and returns the number of bytes written. open returns the file of a table that travels, by
// its index in the header, and its name for errors. Write calls to.Write with at most one frame at a time.
func (w *Writer) Write(to io.Writer, open func(i int) (f io.ReaderAt, file string, err error)) (int64, error) {
	out := output{w: to, id: w.prelude.id, frame: make([]byte, 0, frameSize+sumSize)}
	if err := out.write(w.prelude.encoded()); err != nil {
		return out.off, err
	}
	if err := out.part(strings.NewReader(string(w.encoded)), name, uint64(len(w.encoded))); err != nil {
		return out.off, err
	}
	for i, t := range w.header.Tables {
		if !t.Travels {
			continue
		}
		f, file, err := open(i)
		if err == nil {
			err = out.part(f, file, t.Size)
		}
		if err != nil {
			return out.off, err
		}
	}
	err := out.part(strings.NewReader(end), name, uint64(len(end)))
	return out.off, err
}

// An output writes frames.
type output struct {
	w     io.Writer
	id    uint64
	off   int64 // in the stream
	frame []byte
}

func (o *output) write(b []byte) error {
	n, err := o.w.Write(b)
	o.off += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// part writes the first n bytes of a file in frames.
func (o *output) part(f io.ReaderAt, file string, n uint64) error {
	for at := uint64(0); at < n; {
		b := o.frame[:min(n-at, frameSize)]
		off := int64(at)
		got, err := f.ReadAt(b, off)
		if got < len(b) {
			if errors.Is(err, io.EOF) {
				err = corrupt.Newf(file, off+int64(got), "the file ends here, want %d bytes", n)
			}
			return err
		}
		at += uint64(len(b))
		if err := o.write(binary.LittleEndian.AppendUint32(b, sum(o.id, o.off, b))); err != nil {
			return err
		}
	}
	return nil
}
