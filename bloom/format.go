package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// An encoded set is a header and its contents. All numbers are little-endian.
//
//	  0  magic      8 bytes "bloomset"
//	  8  version    u8      2 for a Filter that is not blocked, which older programs must not read; 1 for all others
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
//
// A classic or partitioned Filter of version 1 has its bits at other positions: see progression.go.

const (
	magic              = "bloomset"
	formatVersion      = 1
	independentVersion = 2 // of a classic or partitioned Filter
	hashXXH64          = 1
	headerSize         = 128

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

// Errors of UnmarshalBinary, UnmarshalText and ReadFrom; and of their counterparts that encode.
var (
	// ErrDamaged is returned for bytes that are not an encoded set of this kind: a checksum or a field is wrong.
	ErrDamaged = errors.New("encoded set damaged")
	// ErrUnknownVersion is returned for an intact set of a version or hash that this package does not know.
	ErrUnknownVersion = errors.New("encoded set of unknown version")
	// ErrNoBits is returned if a zero value is to be encoded. No constructor returns one.
	ErrNoBits = errors.New("set without bits")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// A header has the fields of an encoded set that its Options do not have.
type header struct {
	options        Options
	kind, parts    uint8
	version        uint8
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
	b[offVersion], b[offKind], b[offHash] = h.version, h.kind, hashXXH64
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
	newest := uint8(formatVersion)
	if b[offKind] == kindFilter && Layout(b[offLayout]) != LayoutBlocked {
		newest = independentVersion
	}
	switch {
	case b[offVersion] < formatVersion || b[offVersion] > newest:
		return h, fmt.Errorf("%w: version %d, want %d..%d", ErrUnknownVersion, b[offVersion], formatVersion, newest)
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
		kind: b[offKind], parts: b[offParts], version: b[offVersion],
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
	case h.options.Layout == LayoutBlocked:
		units, mostParts = int(h.parts), maxUnits
	case h.options.Layout == LayoutClassic:
		units, mostParts = 1, 1
	default:
		units, mostParts = 1, maxHashes
	}
	switch {
	case int(h.parts) < leastParts || int(h.parts) > mostParts:
		return damaged("%d parts, want %d..%d", h.parts, leastParts, mostParts)
	case h.kind == kindCounting && h.options.Layout != LayoutBlocked:
		return damaged("Counting with layout %v, want %v", h.options.Layout, LayoutBlocked)
	case h.kind != kindCounting && h.refused != 0, units == 0 && (h.added != 0 || h.contents != 0):
		return damaged("fields of another kind are not zero")
	}
	if units == 0 && h.options.Seed == 0 { // a set that grows would give its next filter a random seed
		return damaged("seed 0")
	}
	left := uint64(maxWords)
	multiple := uint64(1)
	if h.options.Layout == LayoutBlocked {
		multiple = blockWords
	}
	for i, u := range h.units {
		if i >= units {
			if u != (unitHeader{}) {
				return damaged("unit %d is not zero", i)
			}
			continue
		}
		most := map[Layout]uint8{
			LayoutBlocked: bloomblock.MaxProbes, LayoutClassic: maxHashes, LayoutPartitioned: 1,
		}[h.options.Layout]
		if u.probes < 1 || u.probes > most {
			return damaged("unit %d: %d probes, want 1..%d", i, u.probes, most)
		}
		if u.words < 1 || u.words > left || u.words%multiple != 0 {
			return damaged("unit %d: %d words, want a multiple of %d up to %d", i, u.words, multiple, left)
		}
		left -= u.words
	}
	if h.options.Layout == LayoutPartitioned && units > 0 && h.units[0].words > maxWords/uint64(h.parts) {
		return damaged("%d arrays of %d words", h.parts, h.units[0].words)
	}
	return nil
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
