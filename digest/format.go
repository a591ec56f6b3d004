package digest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A digest, or a patch of one, is a header, a directory, and the units of filters. All numbers are little-endian.
//
//	+--------------+-----------+----------------------------------------------------+
//	| header, 56 B | directory | units of the filters in the directory, in its order |
//	+--------------+-----------+----------------------------------------------------+
//
// The header:
//
//	 0  magic      8 bytes "bloomdig" in a digest, "bloompch" in a patch
//	 8  version    u8      1
//	 9  reserved   7 bytes, zero
//	16  seed       u64     of the store
//	24  id         u64     of the digest, or of the digest that the patch leads to
//	32  base       u64     of a patch: the id of the digest that it applies to; 0 in a digest
//	40  directory  u64     bytes
//	48  checksum   u32     CRC-32C of the directory
//	52  checksum   u32     CRC-32C of bytes 0..51
//
// If the store has a mark, the directory begins with it, and a patch has the mark that it leads to:
//
//	0  flags      u8      0x40
//	1  length     u16     1 to 256
//	3  mark
//
// Each other entry of the directory is a part:
//
//	 0  flags      u8      1 it begins a run, 2 the upper bound is exclusive
//	 1  id         u64     of the table, 0 if the part may change
//	 9  keys       u64
//	17  bounds     length u32, lower bound; length u32, upper bound
//	    filter     128 bytes: the header of its block, which has the checksums of its units
//	    ranges     u32, and for each range tombstone: length u32, start; length u32, end
//
// An upper bound or end of length 2³²−1 has no bytes and is infinite. In a patch an entry may also be parts of the
// older digest that stay, in their order there:
//
//	0  flags      u8      0x80, and 1 if the first of them begins a run; each other one does if it did
//	1  from       u32     index of the first in the older digest
//	5  parts      u32     number of parts; none of the older digest is named twice
//	9  units      u8      number of units of each that stay
//
// The id of a digest is the XXH64 of its seed and directory, which covers the units by their checksums.
const (
	magicDigest = "bloomdig"
	magicPatch  = "bloompch"
	version     = 1
	headerSize  = 56

	beginsRun = 1
	exclusive = 2
	stays     = 0x80
	isMark    = 0x40

	infinite = math.MaxUint32
	maxMark  = 256 // bytes

	// name is the file in errors.
	name = "digest"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func identity(seed bloomblock.Seed, directory []byte) uint64 {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(directory)), uint64(seed))
	return uint64(bloomblock.HashKey(append(b, directory...)))
}

// A header describes a directory.
type header struct {
	magic     string
	seed      bloomblock.Seed
	id, base  uint64
	directory uint64 // bytes
	checksum  uint32 // of the directory
}

func (h *header) append(dst []byte) []byte {
	start := len(dst)
	dst = append(append(dst, h.magic...), version, 0, 0, 0, 0, 0, 0, 0)
	for _, n := range []uint64{uint64(h.seed), h.id, h.base, h.directory} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	dst = binary.LittleEndian.AppendUint32(dst, h.checksum)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

func parseHeader(b []byte, magic string) (h header, err error) {
	switch got, want := checksum(b[:52]), binary.LittleEndian.Uint32(b[52:]); {
	case string(b[:8]) != magic:
		return h, fmt.Errorf("magic %q, want %q", b[:8], magic)
	case got != want:
		return h, fmt.Errorf("header checksum %08x, want %08x", got, want)
	case b[8] != version:
		return h, fmt.Errorf("%w: version %d, want %d", corrupt.ErrUnsupportedVersion, b[8], version)
	case [7]byte(b[9:]) != [7]byte{}:
		return h, errors.New("reserved bytes are not zero")
	}
	h = header{
		magic: magic,
		seed:  bloomblock.Seed(binary.LittleEndian.Uint64(b[16:])),
		id:    binary.LittleEndian.Uint64(b[24:]), base: binary.LittleEndian.Uint64(b[32:]),
		directory: binary.LittleEndian.Uint64(b[40:]), checksum: binary.LittleEndian.Uint32(b[48:]),
	}
	if magic == magicDigest && h.base != 0 {
		return h, fmt.Errorf("base %016x in a digest, want 0", h.base)
	}
	return h, nil
}

// appendKey appends a key with its length.
func appendKey(dst, key []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(key))) //nolint:gosec // a bound of a table: 128 KiB at most
	return append(dst, key...)
}

// appendEnd appends an upper bound, infinite if it is nil.
func appendEnd(dst, key []byte) []byte {
	if key == nil {
		return binary.LittleEndian.AppendUint32(dst, infinite)
	}
	return appendKey(dst, key)
}

// appendPart appends the entry of a part.
func appendPart(dst []byte, first bool, p *Part) []byte {
	flags := byte(0)
	if first {
		flags |= beginsRun
	}
	if p.Exclusive {
		flags |= exclusive
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, flags), p.ID)
	dst = binary.LittleEndian.AppendUint64(dst, p.Keys)
	dst = appendEnd(appendKey(dst, p.Lo), p.Hi)
	dst = p.Header.Append(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.Deleted))) //nolint:gosec // below what memory holds
	for _, r := range p.Deleted {
		dst = appendEnd(appendKey(dst, r.Start), r.End)
	}
	return dst
}

// appendMark appends the entry of a mark, unless it is empty.
func appendMark(dst, mark []byte) []byte {
	if len(mark) == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint16(append(dst, isMark), uint16(len(mark))) //nolint:gosec // at most MaxMark
	return append(dst, mark...)
}

// A source reads the fields of a directory. After an error it returns zeros.
type source struct {
	b    []byte // not read yet
	read uint64 // bytes
	err  error
}

var (
	errShort = errors.New("the directory ends within an entry")
	errNoRun = errors.New("the first part begins no run")
)

func (s *source) take(n uint64) []byte {
	if n > uint64(len(s.b)) {
		s.b, s.err = nil, errShort
		return nil
	}
	b := s.b[:n:n]
	s.b = s.b[n:]
	s.read += n
	return b
}

// number reads a number of the given size in bytes.
func (s *source) number(size uint64) (n uint64) {
	for i, b := range s.take(size) {
		n |= uint64(b) << (8 * i)
	}
	return n
}

// key reads what appendKey wrote.
func (s *source) key() []byte { return s.take(s.number(4)) }

// end reads what appendEnd wrote.
func (s *source) end() []byte {
	n := s.number(4)
	if n == infinite {
		return nil
	}
	return s.take(n)
}

// mark reads what appendMark wrote.
func (s *source) mark() ([]byte, error) {
	if len(s.b) == 0 || s.b[0] != isMark {
		return nil, nil
	}
	s.take(1)
	n := s.number(2)
	if s.err == nil && (n == 0 || n > maxMark) {
		return nil, fmt.Errorf("mark of %d bytes, want 1 to %d", n, maxMark)
	}
	return s.take(n), s.err
}

// part reads a part whose flags were read. The part refers to the bytes of the directory and has no units yet.
func (s *source) part(flags uint64) (p *Part, err error) {
	if flags&^(beginsRun|exclusive) != 0 {
		return nil, fmt.Errorf("flags %#x", flags)
	}
	p = &Part{ID: s.number(8), Keys: s.number(8), Lo: s.key(), Hi: s.end(), Exclusive: flags&exclusive != 0}
	if b := s.take(bloomblock.HeaderSize); b != nil {
		if p.Header, err = bloomblock.ParseHeader(b); err != nil {
			return nil, err
		}
	}
	for range s.number(4) {
		p.Deleted = append(p.Deleted, Range{s.key(), s.end()})
		if s.err != nil {
			break
		}
	}
	return p, s.err
}

// step reads an entry: a part, or in a patch parts that stay.
func (s *source) step(magic string) (next step, err error) {
	flags := s.number(1)
	next.first = flags&beginsRun != 0
	switch {
	case magic == magicDigest || flags&stays == 0:
		next.part, err = s.part(flags)
		return next, err
	case flags != stays && flags != stays|beginsRun:
		return next, fmt.Errorf("flags %#x", flags)
	}
	next.from, next.parts = uint32(s.number(4)), uint32(s.number(4)) //nolint:gosec // of four bytes each
	next.units = uint8(s.number(1))                                  //nolint:gosec // of one
	return next, s.err
}

// readChunk is the memory that is allocated before any byte of a piece has arrived.
const readChunk = 1 << 20

// readPiece reads n bytes. It allocates at most a few times what has arrived, and readChunk, whatever n is.
func readPiece(r io.Reader, n uint64) ([]byte, error) {
	if n > math.MaxInt {
		return nil, fmt.Errorf("%d bytes do not fit in memory", n)
	}
	b := make([]byte, min(n, readChunk))
	for at := 0; ; {
		got, err := io.ReadFull(r, b[at:])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("ends after %d bytes, want %d", at+got, n)
		}
		if err != nil {
			return nil, readError{err}
		}
		if uint64(len(b)) == n {
			return b, nil
		}
		at = len(b)
		grown := make([]byte, min(n, 2*uint64(at)))
		copy(grown, b)
		b = grown
	}
}

// A readError is an error of the reader, and no damage.
type readError struct{ error }

// located returns the error for the piece at offset.
func located(offset uint64, err error) error {
	if e, ok := errors.AsType[readError](err); ok {
		return fmt.Errorf("%s: %w", name, e.error)
	}
	if errors.Is(err, bloomblock.ErrUnknownKind) {
		err = fmt.Errorf("%w: %w", corrupt.ErrUnsupportedVersion, err)
	}
	return corrupt.At(name, int64(offset), err) //nolint:gosec // bytes that were read
}

// read reads a digest or a patch.
func read(r io.Reader, magic string) (*Patch, error) {
	p := new(Patch)
	b, err := readPiece(r, headerSize)
	if err == nil {
		p.header, err = parseHeader(b, magic)
	}
	if err != nil {
		return nil, located(0, err)
	}
	directory, err := readPiece(r, p.directory)
	if got := checksum(directory); err == nil && got != p.checksum {
		err = fmt.Errorf("directory checksum %08x, want %08x", got, p.checksum)
	}
	s := source{b: directory}
	if err == nil {
		p.mark, err = s.mark()
	}
	if err != nil {
		return nil, located(headerSize, err)
	}
	var parts []*Part
	for len(s.b) > 0 {
		at := headerSize + s.read
		next, err := s.step(magic)
		if err == nil && len(p.steps) == 0 && !next.first {
			err = errNoRun
		}
		if err != nil {
			return nil, located(at, err)
		}
		if next.part != nil {
			parts = append(parts, next.part)
		}
		p.steps = append(p.steps, next)
	}
	if err := p.readUnits(r, parts); err != nil {
		return nil, err
	}
	return p, nil
}

// readUnits reads the units of parts, behind the directory that h describes. It verifies their checksums.
func (h *header) readUnits(r io.Reader, parts []*Part) error {
	offset := headerSize + h.directory
	for _, p := range parts {
		for _, u := range p.Header.Units {
			b, err := readPiece(r, u.Bytes())
			if err != nil {
				return located(offset, err)
			}
			p.Units = append(p.Units, b)
		}
		if err := p.init(); err != nil {
			return located(offset, err)
		}
		offset += p.Header.UnitsSize()
	}
	return nil
}
