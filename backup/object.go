package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/bloomkv/bloomkv/internal/check"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/stream"
)

// An object reads one stored table after another, each from its beginning to its end.
type object struct {
	reading

	ctx  context.Context //nolint:containedctx // of one Restore or Verify
	s    Storage
	name string // of the object
	left uint64
	crc  uint32
}

// A reading is what Get has returned, of which some bytes were read.
type reading struct {
	r    io.ReadCloser // nil if nothing is open
	at   int64
	last []byte // that were read, up to at; of a table alone
}

// reaches reports whether a table is read on from an offset.
func (x *reading) reaches(off int64) bool { return x.r != nil && x.at-int64(len(x.last)) <= off }

// readAt reads at an offset that is reached.
func (x *reading) readAt(b []byte, off int64) (int, error) {
	n := 0
	if off < x.at {
		n = copy(b, x.last[int64(len(x.last))-(x.at-off):])
	}
	if n == len(b) {
		return n, nil
	}
	skipped, err := io.CopyN(io.Discard, x.r, max(0, off-x.at))
	x.at += skipped
	if err == nil {
		var more int
		more, err = io.ReadFull(x.r, b[n:])
		x.at += int64(more)
		n += more
	}
	x.last = append(x.last[:0], b[:n]...)
	return n, err
}

func (x *reading) close() error {
	if x.r == nil {
		return nil
	}
	r := x.r
	x.r = nil
	return r.Close()
}

// next opens the object of a table.
func (o *object) next(t *stream.Table) (err error) {
	if err := o.close(); err != nil {
		return err
	}
	o.name, o.left, o.crc, o.at = tableName(t.Identity()), t.Size, 0, 0
	o.r, err = o.s.Get(o.ctx, o.name)
	return err
}

// ReadAt implements io.ReaderAt for calls in order. The last one verifies the checksum of the whole.
func (o *object) ReadAt(b []byte, off int64) (int, error) {
	if off != o.at || uint64(len(b)) > o.left {
		return 0, fmt.Errorf("%s: offset %d of %d bytes, want %d: out of order", o.name, off, len(b), o.at)
	}
	n, err := io.ReadFull(o.r, b)
	o.at += int64(n)
	if err == nil {
		o.crc = crc32.Update(o.crc, castagnoli, b)
		o.left -= uint64(n) //nolint:gosec // not negative
	}
	if err == nil && o.left == 0 {
		var sum [sumSize]byte
		if _, err = io.ReadFull(o.r, sum[:]); err == nil {
			if want := binary.LittleEndian.Uint32(sum[:]); o.crc != want {
				return 0, corrupt.Newf(o.name, 0, "checksum %08x, want %08x", o.crc, want)
			}
			err = ends(o.r, o.name, o.at+sumSize)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = corrupt.Newf(o.name, o.at, "the object ends here, %d bytes and a checksum are left", o.left)
	}
	if err != nil {
		return 0, err // a reader that has all bytes may ignore an error, as that of a checksum that cannot be read
	}
	return n, nil
}

// A table is a stored table, read at any offset. A check alternates between the data blocks and the parts of the index
// behind them. It reads both in order, and may read the last bytes again. With one reader, each part would begin the
// object anew; with two, it begins a few times.
type table struct {
	*object

	open [2]reading // the one that was used last is the first
}

// ReadAt implements io.ReaderAt.
func (t *table) ReadAt(b []byte, off int64) (int, error) {
	if r, ok := t.open[0].r.(io.ReaderAt); ok {
		return r.ReadAt(b, off)
	}
	x, other := &t.open[0], &t.open[1]
	if !x.reaches(off) || other.reaches(off) && other.at > x.at {
		*x, *other = *other, *x
	}
	if !x.reaches(off) {
		err := x.close()
		if err == nil {
			x.r, err = t.s.Get(t.ctx, t.name)
		}
		if err != nil {
			return 0, err
		}
		x.at, x.last = 0, x.last[:0]
	}
	return x.readAt(b, off)
}

// check checks the stored table by itself and against its record.
func (o *object) check(t *stream.Table) (err error) {
	from := &table{object: o, open: [2]reading{o.reading}}
	o.reading = reading{}
	defer func() { err = errors.Join(err, from.open[0].close(), from.open[1].close()) }()
	sum, err := stream.Fingerprint(from, o.name, t.Table)
	if err == nil && sum != t.Sum {
		err = corrupt.Newf(o.name, 0, "fingerprint %016x, want %016x", sum, t.Sum)
	}
	if err != nil {
		return err
	}
	return check.Table(o.ctx, from, o.name, t.Table)
}

// ends returns an error unless the object of r, which was read up to offset at, ends there.
func ends(r io.Reader, name string, at int64) error {
	var b [1]byte
	n, err := io.ReadFull(r, b[:])
	if n > 0 {
		return corrupt.Newf(name, at, "the object goes on behind its last checksum")
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
