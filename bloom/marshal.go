package bloom

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// header returns the header of a filter without the checksum of its contents.
func (f *Filter) header(kind uint8) header {
	h := headerOf(kind, f.options)
	h.Added, h.Parts = f.added, uint8(len(f.units)) //nolint:gosec // ≤ 30
	if f.mul == mulProbe {
		h.Version = independentVersion
	}
	for i := range f.units[:min(len(f.units), maxUnits)] {
		if i == 0 || f.options.Layout == LayoutBlocked {
			u := &h.Units[i]
			u.Words, u.Probes = uint64(len(f.units[i].words)), uint8(f.units[i].probes) //nolint:gosec // ≤ 30
		}
	}
	return h
}

// shell returns a filter whose units have no words yet, and how many each will have.
func (h *header) shell() (f *Filter, words []uint64) {
	f = &Filter{options: h.options(), added: h.Added}
	switch {
	case h.Version == independentVersion:
		f.mul = mulProbe
	case h.Layout != LayoutBlocked:
		f.mul = mulProgression
	}
	for i := range h.Parts {
		u := h.Units[0]
		if h.Layout == LayoutBlocked {
			u = h.Units[i]
		}
		f.units = append(f.units, unit{blocks: u.Words / blockWords, probes: int(u.Probes)})
		words = append(words, u.Words)
	}
	return f, words
}

// A sink writes encoded sets and counts the bytes. After an error it writes nothing.
type sink struct {
	w   io.Writer
	n   int64
	err error
}

func (s *sink) bytes(b []byte) {
	if s.err == nil {
		var n int
		n, s.err = s.w.Write(b)
		s.n += int64(n)
	}
}

// words writes words, a chunk at a time.
func (s *sink) words(words []uint64) {
	buf := make([]byte, 0, min(chunk, 8*len(words)))
	for part := range slices.Chunk(words, chunk/8) {
		buf = buf[:0]
		for _, x := range part {
			buf = binary.LittleEndian.AppendUint64(buf, x)
		}
		s.bytes(buf)
	}
}

// A source reads encoded sets and counts the bytes.
type source struct {
	r io.Reader
	n int64
}

// header reads a header. The error is io.EOF only if there is no byte to read.
func (s *source) header(kind uint8) (header, error) {
	b := make([]byte, headerSize)
	n, err := io.ReadFull(s.r, b)
	s.n += int64(n)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return header{}, damaged("%d bytes, want %d for the header", n, headerSize)
	case err != nil:
		return header{}, err
	}
	return parseHeader(b, kind)
}

// contents calls each with successive parts of the contents that follow a header: size bytes for each word of a unit.
func (s *source) contents(h *header, words []uint64, size uint64, each func(unit int, part []byte)) error {
	sum, buf := uint32(0), make([]byte, min(chunk, size*slices.Max(words)))
	for i := range words {
		for n := size * words[i]; n > 0; {
			part := buf[:min(chunk, n)]
			m, err := io.ReadFull(s.r, part)
			s.n += int64(m)
			switch {
			case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
				return damaged("%d bytes are missing at the end", n-uint64(m)) //nolint:gosec // ≥ 0
			case err != nil:
				return err
			}
			sum = crc32.Update(sum, castagnoli, part)
			each(i, part)
			n -= uint64(len(part))
		}
	}
	if sum != h.Contents {
		return damaged("checksum of the contents %08x, want %08x", sum, h.Contents)
	}
	return nil
}

// readFrom reads a set, and returns the bytes that this took.
func readFrom(r io.Reader, read func(s *source) error) (int64, error) {
	s := &source{r: r}
	err := read(s)
	return s.n, err
}

// unmarshal reads a set that is all of data.
func unmarshal(data []byte, read func(s *source) error) error {
	s := &source{r: bytes.NewReader(data)}
	if err := read(s); err != nil {
		if errors.Is(err, io.EOF) {
			return damaged("no bytes")
		}
		return err
	}
	if s.n != int64(len(data)) {
		return damaged("%d bytes, want %d", len(data), s.n)
	}
	return nil
}

// appendTo appends what write writes.
func appendTo(dst []byte, write func(w io.Writer) (int64, error)) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	_, err := write(b)
	return b.Bytes(), err
}

func noBits(kind string) error {
	return fmt.Errorf("%w: a zero %s, want one of a constructor or one that was read", ErrNoBits, kind)
}

// Texts are the encoded bytes in base 64. Their methods have value receivers: encoding/json passes by the methods of a
// pointer where it has a value, writes "{}", and reports no error.

func marshalText(write func(w io.Writer) (int64, error)) ([]byte, error) {
	b, err := appendTo(nil, write)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

func unmarshalText(text []byte, read func(s *source) error) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return damaged("%w", err)
	}
	return unmarshal(b, read)
}

// WriteTo writes the encoded filter: 128 bytes and the bits. It implements io.WriterTo.
func (f *Filter) WriteTo(w io.Writer) (int64, error) {
	if len(f.units) == 0 {
		return 0, noBits("Filter")
	}
	to := sink{w: w}
	f.write(&to)
	return to.n, to.err
}

func (f *Filter) write(to *sink) {
	h, sum := f.header(kindFilter), crc32.New(castagnoli)
	hashed := sink{w: sum}
	for i := range f.units {
		hashed.words(f.units[i].words)
	}
	h.Contents = sum.Sum32()
	to.bytes(h.encode())
	for i := range f.units {
		to.words(f.units[i].words)
	}
}

// AppendBinary appends the encoded filter to dst. The error matches ErrNoBits for a zero value.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) { return appendTo(dst, f.WriteTo) }

// MarshalBinary returns the encoded filter. The error matches ErrNoBits for a zero value.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// MarshalText returns the encoded filter in base 64, for encoding/json and others. The error is that of MarshalBinary.
func (f Filter) MarshalText() ([]byte, error) { return marshalText(f.WriteTo) }

// ReadFrom replaces the filter by the encoded one that follows in r, and reads no further. It implements io.ReaderFrom.
// The error is io.EOF if nothing follows, that of r if r fails, and otherwise matches ErrDamaged or ErrUnknownVersion.
// The filter is unchanged if there is one. Memory grows with the bytes read, not with a size that they claim.
func (f *Filter) ReadFrom(r io.Reader) (int64, error) { return readFrom(r, f.read) }

// UnmarshalBinary replaces the filter by the encoded one. Errors are those of ReadFrom.
func (f *Filter) UnmarshalBinary(data []byte) error { return unmarshal(data, f.read) }

// UnmarshalText replaces the filter by the one that MarshalText encoded. Errors are those of ReadFrom.
func (f *Filter) UnmarshalText(text []byte) error { return unmarshalText(text, f.read) }

func (f *Filter) read(s *source) error {
	g, err := s.filter()
	if err == nil {
		*f = *g
	}
	return err
}

func (s *source) filter() (*Filter, error) {
	h, err := s.header(kindFilter)
	if err != nil {
		return nil, err
	}
	f, words := h.shell()
	err = s.contents(&h, words, 8, func(i int, part []byte) {
		u := &f.units[i]
		for u.words = slices.Grow(u.words, len(part)/8); len(part) > 0; part = part[8:] {
			u.words = append(u.words, binary.LittleEndian.Uint64(part))
		}
	})
	if err != nil {
		return nil, err
	}
	if bits := f.setBits(); f.added > bits { // or a full stage of a Scalable could ask for any memory for the next
		return nil, damaged("%d added keys have set %d bits", f.added, bits)
	}
	return f, nil
}

// WriteTo writes the encoded set: 128 bytes and the counters. It implements io.WriterTo.
func (c *Counting) WriteTo(w io.Writer) (int64, error) {
	if len(c.bits.units) == 0 {
		return 0, noBits("Counting")
	}
	h, sum := c.bits.header(kindCounting), uint32(0)
	h.Added, h.Refused = c.keys, c.refused
	for _, counters := range c.counters {
		sum = crc32.Update(sum, castagnoli, counters)
	}
	h.Contents = sum
	to := sink{w: w}
	to.bytes(h.encode())
	for _, counters := range c.counters {
		to.bytes(counters)
	}
	return to.n, to.err
}

// AppendBinary appends the encoded set to dst. The error matches ErrNoBits for a zero value.
func (c *Counting) AppendBinary(dst []byte) ([]byte, error) { return appendTo(dst, c.WriteTo) }

// MarshalBinary returns the encoded set. The error matches ErrNoBits for a zero value.
func (c *Counting) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// MarshalText returns the encoded set in base 64, for encoding/json and others. The error is that of MarshalBinary.
func (c Counting) MarshalText() ([]byte, error) { return marshalText(c.WriteTo) }

// ReadFrom replaces the set by the encoded one that follows in r: see Filter.ReadFrom.
func (c *Counting) ReadFrom(r io.Reader) (int64, error) { return readFrom(r, c.read) }

// UnmarshalBinary replaces the set by the encoded one. Errors are those of Filter.ReadFrom.
func (c *Counting) UnmarshalBinary(data []byte) error { return unmarshal(data, c.read) }

// UnmarshalText replaces the set by the one that MarshalText encoded. Errors are those of Filter.ReadFrom.
func (c *Counting) UnmarshalText(text []byte) error { return unmarshalText(text, c.read) }

func (c *Counting) read(s *source) error {
	h, err := s.header(kindCounting)
	if err != nil {
		return err
	}
	f, words := h.shell()
	d := &Counting{bits: *f, counters: make([][]byte, len(words)), keys: h.Added, refused: h.Refused}
	err = s.contents(&h, words, wordBits/2, func(i int, part []byte) { d.counters[i] = append(d.counters[i], part...) })
	if err != nil {
		return err
	}
	for i, n := range words {
		bits := make([]uint64, n)
		for at := range n * wordBits {
			if counter, shift := d.counter(i, at); *counter>>shift&maxCount != 0 {
				bits[at/wordBits] |= 1 << (at % wordBits)
			}
		}
		d.bits.units[i].words = bits
	}
	*c = *d
	return nil
}

// MarshalText always fails, with an error that matches errors.ErrUnsupported: encode the Snapshot. Without it,
// encoding/json would drop the keys and report no error.
func (a Atomic) MarshalText() ([]byte, error) { return nil, errAtomic }

// UnmarshalText always fails, as MarshalText does.
func (a *Atomic) UnmarshalText([]byte) error { return errAtomic }

var errAtomic = fmt.Errorf("an Atomic is not encoded, its Snapshot is: %w", errors.ErrUnsupported)
