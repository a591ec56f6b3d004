package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A Reader reads a stream, and no byte behind its end. Damage is an error matching corrupt.Err with the offset in the
// stream; other errors of the stream's source are wrapped.
//
//	NewReader Table* End
type Reader struct {
	Header *Header

	r       io.Reader
	off     int64
	prelude prelude
	frame   []byte // of up to frameSize bytes and the checksum
}

// NewReader reads the beginning of a stream, up to the end of its header. It allocates what the header needs as it
// comes, and one frame.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{r: r}
	b := make([]byte, preludeSize)
	if err := in.full(b); err != nil {
		return nil, err
	}
	return in, in.begin(b)
}

// begin parses the prelude and reads the header.
func (in *Reader) begin(b []byte) (err error) {
	if in.prelude, err = parsePrelude(b); err != nil {
		return corrupt.At(name, 0, err)
	}
	var header []byte
	err = in.Table(uint64(in.prelude.header), func(payload []byte) error { //nolint:gosec // not negative
		header = append(header, payload...)
		return nil
	})
	if err != nil {
		return err
	}
	if got := idOf(header); got != in.prelude.id {
		return corrupt.Newf(name, 16, "id %016x, want %016x", in.prelude.id, got)
	}
	if in.Header, err = parseHeader(header); err != nil {
		return corrupt.At(name, preludeSize, err)
	}
	size, err := in.Header.size(len(header))
	if err == nil && size != in.prelude.size {
		err = fmt.Errorf("%d bytes, want %d", in.prelude.size, size)
	}
	return corrupt.At(name, 32, err)
}

// Size returns the length of the whole stream in bytes.
func (in *Reader) Size() int64 { return in.prelude.size }

// Offset returns the number of bytes read.
func (in *Reader) Offset() int64 { return in.off }

// End reads the end of the stream.
func (in *Reader) End() error {
	return in.Table(uint64(len(end)), func(payload []byte) error {
		if string(payload) != end {
			return corrupt.Newf(name, in.off-int64(len(payload))-sumSize, "end %s, want %s",
				words.Quoted(payload), words.Quoted(end))
		}
		return nil
	})
}

// Table reads the next table that travels, of the given size, and passes it to each in order, in slices that are valid
// until each returns. It returns the error of each as it is. The other parts of a stream are read in the same way.
func (in *Reader) Table(size uint64, each func(payload []byte) error) error {
	for size > 0 {
		length := min(size, frameSize)
		if uint64(cap(in.frame)) < length+sumSize {
			in.frame = make([]byte, length+sumSize)
		}
		b, at := in.frame[:length+sumSize], in.off
		if err := in.full(b); err != nil {
			return err
		}
		payload := b[:length]
		got, want := sum(in.prelude.id, at, payload), binary.LittleEndian.Uint32(b[length:])
		if got != want {
			return corrupt.Newf(name, at, "frame of %d bytes: checksum %08x, want %08x", length, got, want)
		}
		if err := each(payload); err != nil {
			return err
		}
		size -= length
	}
	return nil
}

// full reads len(b) bytes.
func (in *Reader) full(b []byte) error {
	n, err := io.ReadFull(in.r, b)
	in.off += int64(n)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return corrupt.At(name, in.off, fmt.Errorf("%w: %d bytes here, want %d", io.ErrUnexpectedEOF, n, len(b)))
	default:
		return fmt.Errorf("%s: offset %d: %w", name, in.off, err)
	}
}
