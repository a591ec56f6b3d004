package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

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

	maxUnits = bloomblock.MaxUnits

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

// A header is the picture above. Fields without a name are reserved.
type header struct {
	Magic                 [8]byte
	Version, Kind, Hash   uint8
	Layout                Layout
	Parts                 uint8
	_                     [3]byte
	Keys                  uint64
	Rate                  float64
	Seed                  bloomblock.Seed
	Added, Refused        uint64
	Units                 [maxUnits]unitHeader
	_                     [16]byte
	Contents, OfTheHeader uint32
}

type unitHeader struct {
	Words  uint64
	Probes uint8
	_      [7]byte
}

// headerOf returns a header with the fields of every set.
func headerOf(kind uint8, o Options) header {
	return header{
		Magic: [8]byte([]byte(magic)), Version: formatVersion, Kind: kind, Hash: hashXXH64, Layout: o.Layout,
		Keys: uint64(o.Keys), Rate: o.Rate, Seed: o.Seed, //nolint:gosec // ≥ 0
	}
}

func (h *header) options() Options {
	return Options{Keys: int(h.Keys), Rate: h.Rate, Seed: h.Seed, Layout: h.Layout} //nolint:gosec // ≤ maxKeys
}

// encode returns the header with its checksum.
func (h *header) encode() []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, h) // all fields have a fixed size
	rest := b[:headerSize-4]
	return binary.LittleEndian.AppendUint32(rest, crc32.Checksum(rest, castagnoli))
}

// parseHeader reads the header of a set of the given kind and checks every field.
func parseHeader(b []byte, kind uint8) (h header, err error) {
	_, _ = binary.Decode(b, binary.LittleEndian, &h) // b has all of it
	if got := string(h.Magic[:]); got != magic {
		return h, damaged("magic %q, want %q", got, magic)
	}
	if want := crc32.Checksum(b[:headerSize-4], castagnoli); h.OfTheHeader != want {
		return h, damaged("header checksum %08x, want %08x", want, h.OfTheHeader)
	}
	newest := uint8(formatVersion)
	if h.Kind == kindFilter && h.Layout != LayoutBlocked {
		newest = independentVersion
	}
	switch {
	case h.Version < formatVersion || h.Version > newest:
		return h, fmt.Errorf("%w: version %d, want %d..%d", ErrUnknownVersion, h.Version, formatVersion, newest)
	case h.Hash != hashXXH64:
		return h, fmt.Errorf("%w: hash %d, want %d", ErrUnknownVersion, h.Hash, hashXXH64)
	case h.Kind != kind:
		return h, damaged("kind %d, want %d", h.Kind, kind)
	case !bytes.Equal(h.encode(), b):
		return h, damaged("reserved bytes are not zero")
	case h.Keys > maxKeys:
		return h, damaged("%d keys, want at most %d", h.Keys, uint64(maxKeys))
	}
	if err := h.options().check(); err != nil {
		return h, damaged("%w", err)
	}
	return h, h.check()
}

// check checks the fields that are not of every kind.
func (h *header) check() error {
	var units, mostParts int
	leastParts := 1
	switch {
	case h.Kind == kindScalable:
		mostParts = maxStages
	case h.Kind == kindWindow:
		leastParts, mostParts = 2, maxGenerations
	case h.Layout == LayoutBlocked:
		units, mostParts = int(h.Parts), maxUnits
	case h.Layout == LayoutClassic:
		units, mostParts = 1, 1
	default:
		units, mostParts = 1, maxHashes
	}
	switch {
	case int(h.Parts) < leastParts || int(h.Parts) > mostParts:
		return damaged("%d parts, want %d..%d", h.Parts, leastParts, mostParts)
	case h.Kind == kindCounting && h.Layout != LayoutBlocked:
		return damaged("Counting with layout %v, want %v", h.Layout, LayoutBlocked)
	case h.Kind != kindCounting && h.Refused != 0, units == 0 && (h.Added != 0 || h.Contents != 0):
		return damaged("fields of another kind are not zero")
	}
	if units == 0 && h.Seed == 0 { // a set that grows would give its next filter a random seed
		return damaged("seed 0")
	}
	left := uint64(maxWords)
	multiple := uint64(1)
	if h.Layout == LayoutBlocked {
		multiple = blockWords
	}
	for i, u := range h.Units {
		if i >= units {
			if u != (unitHeader{}) {
				return damaged("unit %d is not zero", i)
			}
			continue
		}
		most := map[Layout]uint8{
			LayoutBlocked: bloomblock.MaxProbes, LayoutClassic: maxHashes, LayoutPartitioned: 1,
		}[h.Layout]
		if u.Probes < 1 || u.Probes > most {
			return damaged("unit %d: %d probes, want 1..%d", i, u.Probes, most)
		}
		if u.Words < 1 || u.Words > left || u.Words%multiple != 0 {
			return damaged("unit %d: %d words, want a multiple of %d up to %d", i, u.Words, multiple, left)
		}
		left -= u.Words
	}
	if h.Layout == LayoutPartitioned && units > 0 && h.Units[0].Words > maxWords/uint64(h.Parts) {
		return damaged("%d arrays of %d words", h.Parts, h.Units[0].Words)
	}
	return nil
}
