package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// An encoded set is a header and its contents. All numbers are little-endian.
//
//	  0  magic      8 bytes "bloomset"
//	  8  version    u8      1
//	  9  kind       u8      1 Filter, 2 Counting, 3 Scalable, 4 Window
//	 10  hash       u8      1 = XXH64, seed 0, and then mixed with the seed below
//	 11  layout     u8      0 blocked, 1 classic, 2 partitioned; 0 for Counting
//	 12  parts      u8      units: blocked 1..3, classic 1, partitioned 1..30; or stages, 1..48, or generations, 2..64
//	 13  reserved   3 bytes
//	 16  keys       u64     that the set is made for, at most 2⁴⁰
//	 24  rate       f64     promised for that number of keys, 1e-9 to below 1
//	 32  seed       u64     see bloomblock.Seed.Mix; not 0 for Scalable and Window
//	 40  added      u64     keys: Filter, those that set a bit; Counting, calls of Add less those of Remove; else 0
//	 48  refused    u64     Counting; else 0
//	 56  unit 0     16 bytes
//	 72  unit 1     16 bytes
//	 88  unit 2     16 bytes
//	104  reserved   16 bytes
//	120  contents   u32     CRC-32C of the contents of a Filter or Counting; else 0
//	124  header     u32     CRC-32C of bytes 0..123
//
// A unit of a Filter or Counting; absent ones are all zero. Unit 0 stands for all units of a Partitioned filter.
//
//	  0  words      u64     at least 1, a multiple of 8 if blocked
//	  8  probes     u8      blocked 1..14, classic 1..30, partitioned 1
//	  9  reserved   7 bytes
//
// The contents of a Filter are the words of its units, 8 bytes each. Those of a Counting are, for each unit, 4 bits for
// each counter: that of bit i is in byte i/2, in the low half if i is even. A bit is set if its counter is not 0.
// Those of a Scalable or Window are its stages or generations, oldest first, encoded as Filters; they have the layout
// and seed of the whole, and the generations are equal in shape. Reserved bytes are zero.

const (
	magic         = "bloomset"
	formatVersion = 1
	hashXXH64     = 1
	headerSize    = 128

	kindFilter   = 1
	kindCounting = 2
	kindScalable = 3
	kindWindow   = 4

	offVersion, offKind, offHash, offLayout, offParts, offReserved = 8, 9, 10, 11, 12, 13
	offKeys, offRate, offSeed, offAdded, offRefused                = 16, 24, 32, 40, 48
	offUnits, unitHeaderSize, maxUnits                             = 56, 16, bloomblock.MaxUnits
	unitProbes                                                     = 8
	offReserved2                                                   = offUnits + maxUnits*unitHeaderSize
	offContents, offHeader                                         = 120, 124

	// chunk is the number of bytes that are read or written at once: an encoded set that claims to be large costs no
	// more memory than the bytes that follow.
	chunk = 64 << 10
)

// Errors of UnmarshalBinary and ReadFrom.
var (
	// ErrDamaged is returned for bytes that are not an encoded set of this kind: a checksum or a field is wrong.
	ErrDamaged = errors.New("encoded set damaged")
	// ErrUnknownVersion is returned for an intact set of a version or hash that this package does not know.
	ErrUnknownVersion = errors.New("encoded set of unknown version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// A header has the fields of an encoded set that its Options do not have.
type header struct {
	options        Options
	kind, parts    uint8
	added, refused uint64
	units          [maxUnits]unitHeader
	contents       uint32
}

type unitHeader struct {
	words  uint64
	probes uint8
}

func (h *header) append(dst []byte) []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	b[offVersion], b[offKind], b[offHash] = formatVersion, h.kind, hashXXH64
	b[offLayout], b[offParts] = byte(h.options.Layout), h.parts
	binary.LittleEndian.PutUint64(b[offKeys:], uint64(h.options.Keys)) //nolint:gosec // ≥ 0
	binary.LittleEndian.PutUint64(b[offRate:], math.Float64bits(h.options.Rate))
	binary.LittleEndian.PutUint64(b[offSeed:], uint64(h.options.Seed))
	binary.LittleEndian.PutUint64(b[offAdded:], h.added)
	binary.LittleEndian.PutUint64(b[offRefused:], h.refused)
	for i, u := range h.units {
		binary.LittleEndian.PutUint64(b[offUnits+i*unitHeaderSize:], u.words)
		b[offUnits+i*unitHeaderSize+unitProbes] = u.probes
	}
	binary.LittleEndian.PutUint32(b[offContents:], h.contents)
	binary.LittleEndian.PutUint32(b[offHeader:], crc32.Checksum(b[:offHeader], castagnoli))
	return append(dst, b...)
}

// parseHeader reads the header of a set of the given kind and checks every field.
func parseHeader(b []byte, kind uint8) (h header, err error) {
	if got := string(b[:len(magic)]); got != magic {
		return h, damaged("magic %q, want %q", got, magic)
	}
	if got, want := crc32.Checksum(b[:offHeader], castagnoli), binary.LittleEndian.Uint32(b[offHeader:]); got != want {
		return h, damaged("header checksum %08x, want %08x", got, want)
	}
	switch {
	case b[offVersion] != formatVersion:
		return h, fmt.Errorf("%w: version %d, want %d", ErrUnknownVersion, b[offVersion], formatVersion)
	case b[offHash] != hashXXH64:
		return h, fmt.Errorf("%w: hash %d, want %d", ErrUnknownVersion, b[offHash], hashXXH64)
	case b[offKind] != kind:
		return h, damaged("kind %d, want %d", b[offKind], kind)
	case !zero(b[offReserved:offKeys]) || !zero(b[offReserved2:offContents]):
		return h, damaged("reserved bytes are not zero")
	}
	keys := binary.LittleEndian.Uint64(b[offKeys:])
	if keys > maxKeys {
		return h, damaged("%d keys, want at most %d", keys, uint64(maxKeys))
	}
	h = header{
		options: Options{
			Keys:   int(keys),
			Rate:   math.Float64frombits(binary.LittleEndian.Uint64(b[offRate:])),
			Seed:   bloomblock.Seed(binary.LittleEndian.Uint64(b[offSeed:])),
			Layout: Layout(b[offLayout]),
		},
		kind: b[offKind], parts: b[offParts],
		added: binary.LittleEndian.Uint64(b[offAdded:]), refused: binary.LittleEndian.Uint64(b[offRefused:]),
		contents: binary.LittleEndian.Uint32(b[offContents:]),
	}
	if err := h.options.check(); err != nil {
		return h, damaged("%w", err)
	}
	for i := range h.units {
		u := b[offUnits+i*unitHeaderSize:][:unitHeaderSize]
		if !zero(u[unitProbes+1:]) {
			return h, damaged("reserved bytes are not zero")
		}
		h.units[i] = unitHeader{binary.LittleEndian.Uint64(u), u[unitProbes]}
	}
	return h, h.check()
}

// check checks the fields that are not of every kind.
func (h *header) check() error {
	var units, mostParts int
	leastParts := 1
	switch {
	case h.kind == kindScalable:
		mostParts = maxStages
	case h.kind == kindWindow:
		leastParts, mostParts = 2, maxGenerations
	case h.options.Layout == Blocked:
		units, mostParts = int(h.parts), maxUnits
	case h.options.Layout == Classic:
		units, mostParts = 1, 1
	default:
		units, mostParts = 1, maxHashes
	}
	switch {
	case int(h.parts) < leastParts || int(h.parts) > mostParts:
		return damaged("%d parts, want %d..%d", h.parts, leastParts, mostParts)
	case h.kind == kindCounting && h.options.Layout != Blocked:
		return damaged("Counting with layout %v, want %v", h.options.Layout, Blocked)
	case h.kind != kindCounting && h.refused != 0, units == 0 && (h.added != 0 || h.contents != 0):
		return damaged("fields of another kind are not zero")
	}
	if units == 0 && h.options.Seed == 0 { // a set that grows would give its next filter a random seed
		return damaged("seed 0")
	}
	left := uint64(maxWords)
	multiple := uint64(1)
	if h.options.Layout == Blocked {
		multiple = blockWords
	}
	for i, u := range h.units {
		if i >= units {
			if u != (unitHeader{}) {
				return damaged("unit %d is not zero", i)
			}
			continue
		}
		most := map[Layout]uint8{Blocked: bloomblock.MaxProbes, Classic: maxHashes, Partitioned: 1}[h.options.Layout]
		if u.probes < 1 || u.probes > most {
			return damaged("unit %d: %d probes, want 1..%d", i, u.probes, most)
		}
		if u.words < 1 || u.words > left || u.words%multiple != 0 {
			return damaged("unit %d: %d words, want a multiple of %d up to %d", i, u.words, multiple, left)
		}
		left -= u.words
	}
	if h.options.Layout == Partitioned && units > 0 && h.units[0].words > maxWords/uint64(h.parts) {
		return damaged("%d arrays of %d words", h.parts, h.units[0].words)
	}
	return nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// header returns the header of a filter without the checksum of its contents.
func (f *Filter) header(kind uint8) header {
	h := header{options: f.options, kind: kind, parts: uint8(len(f.units)), added: f.added} //nolint:gosec // ≤ 30
	for i := range f.units[:min(len(f.units), maxUnits)] {
		if i == 0 || f.options.Layout == Blocked {
			h.units[i] = unitHeader{uint64(len(f.units[i].words)), uint8(f.units[i].probes)} //nolint:gosec // ≤ 30
		}
	}
	return h
}

// shell returns a filter whose units have no words yet, and how many each will have.
func (h *header) shell() (f *Filter, words []uint64) {
	f = &Filter{options: h.options, added: h.added}
	for i := range h.parts {
		u := h.units[0]
		if h.options.Layout == Blocked {
			u = h.units[i]
		}
		f.units = append(f.units, unit{probes: int(u.probes)})
		words = append(words, u.words)
	}
	return f, words
}

// writeWords writes words to w, a chunk at a time.
func writeWords(w io.Writer, words []uint64) (n int64, err error) {
	buf := make([]byte, 0, min(chunk, 8*len(words)))
	for len(words) > 0 {
		part := words[:min(len(words), chunk/8)]
		words = words[len(part):]
		buf = buf[:0]
		for _, x := range part {
			buf = binary.LittleEndian.AppendUint64(buf, x)
		}
		m, err := w.Write(buf)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
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

// bytes calls each with successive parts of the next n bytes, and updates a checksum.
func (s *source) bytes(n uint64, sum *uint32, each func(part []byte)) error {
	buf := make([]byte, min(chunk, n))
	for n > 0 {
		part := buf[:min(chunk, n)]
		m, err := io.ReadFull(s.r, part)
		s.n += int64(m)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return damaged("%d bytes are missing at the end", n-uint64(m)) //nolint:gosec // ≥ 0
		case err != nil:
			return err
		}
		*sum = crc32.Update(*sum, castagnoli, part)
		each(part)
		n -= uint64(len(part))
	}
	return nil
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

// WriteTo writes the encoded filter: 128 bytes and the bits. It implements io.WriterTo.
func (f *Filter) WriteTo(w io.Writer) (int64, error) {
	h, sum := f.header(kindFilter), crc32.New(castagnoli)
	for i := range f.units {
		_, _ = writeWords(sum, f.units[i].words) // a hash never fails
	}
	h.contents = sum.Sum32()
	m, err := w.Write(h.append(nil))
	n := int64(m)
	for i := range f.units {
		if err != nil {
			break
		}
		var written int64
		written, err = writeWords(w, f.units[i].words)
		n += written
	}
	return n, err
}

// AppendBinary appends the encoded filter to dst. It never fails.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) { return appendTo(dst, f.WriteTo) }

// MarshalBinary returns the encoded filter. It never fails.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// ReadFrom replaces the filter by the encoded one that follows in r, and reads no further. It implements io.ReaderFrom.
// The error is io.EOF if nothing follows, that of r if r fails, and otherwise matches ErrDamaged or ErrUnknownVersion.
// The filter is unchanged if there is one. Memory grows with the bytes read, not with a size that they claim.
func (f *Filter) ReadFrom(r io.Reader) (int64, error) {
	s := &source{r: r}
	g, err := s.filter()
	if err == nil {
		*f = *g
	}
	return s.n, err
}

// UnmarshalBinary replaces the filter by the encoded one. Errors are those of ReadFrom.
func (f *Filter) UnmarshalBinary(data []byte) error {
	return unmarshal(data, func(s *source) error {
		g, err := s.filter()
		if err == nil {
			*f = *g
		}
		return err
	})
}

func (s *source) filter() (*Filter, error) {
	h, err := s.header(kindFilter)
	if err != nil {
		return nil, err
	}
	f, words := h.shell()
	sum := uint32(0)
	for i, n := range words {
		read := make([]uint64, 0, min(n, chunk/8))
		err := s.bytes(8*n, &sum, func(part []byte) {
			for ; len(part) > 0; part = part[8:] {
				read = append(read, binary.LittleEndian.Uint64(part))
			}
		})
		if err != nil {
			return nil, err
		}
		f.units[i] = newUnit(read, f.units[i].probes)
	}
	if sum != h.contents {
		return nil, damaged("checksum of the contents %08x, want %08x", sum, h.contents)
	}
	if bits := f.setBits(); f.added > bits { // or a full stage of a Scalable could ask for any memory for the next
		return nil, damaged("%d added keys have set %d bits", f.added, bits)
	}
	return f, nil
}

// WriteTo writes the encoded set: 128 bytes and the counters. It implements io.WriterTo.
func (c *Counting) WriteTo(w io.Writer) (int64, error) {
	h, sum := c.bits.header(kindCounting), uint32(0)
	h.added, h.refused = c.keys, c.refused
	for _, counters := range c.counters {
		sum = crc32.Update(sum, castagnoli, counters)
	}
	h.contents = sum
	m, err := w.Write(h.append(nil))
	n := int64(m)
	for _, counters := range c.counters {
		if err != nil {
			break
		}
		m, err = w.Write(counters)
		n += int64(m)
	}
	return n, err
}

// AppendBinary appends the encoded set to dst. It never fails.
func (c *Counting) AppendBinary(dst []byte) ([]byte, error) { return appendTo(dst, c.WriteTo) }

// MarshalBinary returns the encoded set. It never fails.
func (c *Counting) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// ReadFrom replaces the set by the encoded one that follows in r: see Filter.ReadFrom.
func (c *Counting) ReadFrom(r io.Reader) (int64, error) {
	s := &source{r: r}
	err := c.read(s)
	return s.n, err
}

// UnmarshalBinary replaces the set by the encoded one. Errors are those of Filter.ReadFrom.
func (c *Counting) UnmarshalBinary(data []byte) error { return unmarshal(data, c.read) }

func (c *Counting) read(s *source) error {
	h, err := s.header(kindCounting)
	if err != nil {
		return err
	}
	f, words := h.shell()
	d := &Counting{bits: f, keys: h.added, refused: h.refused}
	sum := uint32(0)
	for i, n := range words {
		counters := make([]byte, 0, min(n*wordBits/2, chunk))
		err := s.bytes(n*wordBits/2, &sum, func(part []byte) { counters = append(counters, part...) })
		if err != nil {
			return err
		}
		bits := make([]uint64, n)
		for at := range n * wordBits {
			if counters[at/2]>>(at%2*4)&maxCount != 0 {
				bits[at/wordBits] |= 1 << (at % wordBits)
			}
		}
		f.units[i], d.counters = newUnit(bits, f.units[i].probes), append(d.counters, counters)
	}
	if sum != h.contents {
		return damaged("checksum of the contents %08x, want %08x", sum, h.contents)
	}
	*c = *d
	return nil
}

// writeParts writes a header and filters.
func writeParts(w io.Writer, kind uint8, o Options, parts ...[]*Filter) (int64, error) {
	h := header{options: o, kind: kind}
	for _, filters := range parts {
		h.parts += uint8(len(filters)) //nolint:gosec // ≤ maxGenerations
	}
	m, err := w.Write(h.append(nil))
	n := int64(m)
	for _, filters := range parts {
		for _, f := range filters {
			if err != nil {
				return n, err
			}
			var written int64
			written, err = f.WriteTo(w)
			n += written
		}
	}
	return n, err
}

// parts reads the filters that follow a header. Each must have the options that want returns, for its index.
func (s *source) parts(h header, want func(i int) Options) (filters []*Filter, err error) {
	for i := range int(h.parts) {
		f, err := s.filter()
		if errors.Is(err, io.EOF) {
			err = damaged("%d filters, want %d", i, h.parts)
		}
		if err != nil {
			return nil, err
		}
		if f.options != want(i) {
			return nil, damaged("filter %d has other options than the set gives it", i)
		}
		filters = append(filters, f)
	}
	return filters, nil
}

// WriteTo writes the encoded set: 128 bytes and its stages. It implements io.WriterTo.
func (s *Scalable) WriteTo(w io.Writer) (int64, error) {
	return writeParts(w, kindScalable, s.options, s.stages)
}

// AppendBinary appends the encoded set to dst. It never fails.
func (s *Scalable) AppendBinary(dst []byte) ([]byte, error) { return appendTo(dst, s.WriteTo) }

// MarshalBinary returns the encoded set. It never fails.
func (s *Scalable) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// ReadFrom replaces the set by the encoded one that follows in r: see Filter.ReadFrom.
func (s *Scalable) ReadFrom(r io.Reader) (int64, error) {
	from := &source{r: r}
	err := s.read(from)
	return from.n, err
}

// UnmarshalBinary replaces the set by the encoded one. Errors are those of Filter.ReadFrom.
func (s *Scalable) UnmarshalBinary(data []byte) error { return unmarshal(data, s.read) }

func (s *Scalable) read(from *source) error {
	h, err := from.header(kindScalable)
	if err != nil {
		return err
	}
	t := &Scalable{options: h.options}
	t.stages, err = from.parts(h, t.stage)
	if err == nil {
		*s = *t
	}
	return err
}

// WriteTo writes the encoded window: 128 bytes and its generations. It implements io.WriterTo.
func (w *Window) WriteTo(to io.Writer) (int64, error) {
	return writeParts(to, kindWindow, w.options, w.generations[w.newest+1:], w.generations[:w.newest+1])
}

// AppendBinary appends the encoded window to dst. It never fails.
func (w *Window) AppendBinary(dst []byte) ([]byte, error) { return appendTo(dst, w.WriteTo) }

// MarshalBinary returns the encoded window. It never fails.
func (w *Window) MarshalBinary() ([]byte, error) { return w.AppendBinary(nil) }

// ReadFrom replaces the window by the encoded one that follows in r: see Filter.ReadFrom.
func (w *Window) ReadFrom(r io.Reader) (int64, error) {
	s := &source{r: r}
	err := w.read(s)
	return s.n, err
}

// UnmarshalBinary replaces the window by the encoded one. Errors are those of Filter.ReadFrom.
func (w *Window) UnmarshalBinary(data []byte) error { return unmarshal(data, w.read) }

func (w *Window) read(s *source) error {
	h, err := s.header(kindWindow)
	if err != nil {
		return err
	}
	v := &Window{options: h.options, newest: int(h.parts) - 1}
	v.generations, err = s.parts(h, func(int) Options { return v.generation(int(h.parts)) })
	if err != nil {
		return err
	}
	for i, f := range v.generations[1:] {
		if err := f.sameShape(v.generations[0]); err != nil {
			return damaged("generation %d: %w", i+1, err)
		}
	}
	*w = *v
	return nil
}
