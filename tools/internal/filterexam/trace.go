package filterexam

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A UnitTrace describes a lookup in one unit. Its names in JSON do not change.
type UnitTrace struct {
	Kind  string `json:"kind"`  // "bloom" or "ribbon"
	Maybe bool   `json:"maybe"` // the unit does not deny the key
	Hash  string `json:"hash"`  // hexadecimal: the key's hash, mixed with the seed, and mixed further for later units

	// Bloom units only, except Offset.
	Block  uint64  `json:"block"`            // index of the block
	Offset uint64  `json:"offset"`           // from the start of the filter block; of a Ribbon unit's first segment
	Probes []Probe `json:"probes,omitempty"` // in the order in which they are made

	// Ribbon units only.
	Start   uint64 `json:"slot,omitempty"`    // at which the band begins
	Columns []bool `json:"columns,omitempty"` // whether each adds up to an even number, as it does for every added key
}

// A Probe is one probe of a Bloom unit: one bit of a block.
type Probe struct {
	Bit  int  `json:"bit"`  // 0..511
	Word int  `json:"word"` // 0..7, of 64 bits: Bit is bit Bit%64 of it
	Set  bool `json:"set"`
}

// Trace shows how a filter block answers for a key, unit by unit in their order in the block. All units are asked, also
// those after one that denies the key. maybe is the answer of the filter: it is true if all units answer maybe. The
// error is that of Parse.
func Trace(block []byte, key bloomblock.Hash) (maybe bool, traces []UnitTrace, err error) {
	f, err := bloomblock.Parse(block)
	if err != nil {
		return true, nil, err
	}
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		return true, nil, err
	}
	mixed, parts := h.Seed.Mix(key), h.Parts()
	hash, part := mixed, mixed.Block(parts) // of the next Bloom unit; the part of the key, of units side by side
	for i, unit := range h.Split(block[bloomblock.HeaderSize:][:h.UnitsSize()]) {
		u := &h.Units[i]
		if u.Columns > 0 {
			traces = append(traces, traceRibbon(&h, unit, mixed))
			continue
		}
		at := hash.Block(u.Blocks)
		if i > 0 && parts > 0 {
			at = part*(u.Blocks/parts) + hash.Block(u.Blocks/parts)
		}
		t := traceBloom(unit[at*blockBytes:][:blockBytes], u.Probes, hash)
		t.Block, t.Offset = at, BlockOffset(&h, i, at)
		traces = append(traces, t)
		hash = hash.Next()
	}
	return f.MayContain(key), traces, nil
}

func traceBloom(line []byte, probes int, h bloomblock.Hash) UnitTrace {
	const fieldBits, wordFields = 9, 7
	t := UnitTrace{Kind: "bloom", Maybe: true, Hash: hexHash(h)}
	a, b := h.Fields()
	for p := range probes {
		field := a >> (fieldBits * p)
		if p >= wordFields {
			field = b >> (fieldBits * (p - wordFields))
		}
		probe := Probe{Bit: int(field & (blockBits - 1))}
		probe.Word, probe.Set = probe.Bit/64, line[probe.Bit>>3]>>(probe.Bit&7)&1 != 0
		t.Probes = append(t.Probes, probe)
		t.Maybe = t.Maybe && probe.Set
	}
	return t
}

// traceRibbon traces a Ribbon unit, which is the first unit of h. The hash is that of the key, mixed with the seed.
func traceRibbon(h *bloomblock.Header, unit []byte, mixed bloomblock.Hash) UnitTrace {
	for range bloomblock.MaxUnits {
		mixed = mixed.Next()
	}
	s := shapeOf(h.Keys, &h.Units[0])
	lo, hi := mixed.Fields()
	lo |= 1
	start := mixed.Block(s.slots)
	segment, shift := start/segmentSlots, start%segmentSlots
	// The band, aligned to the words of three segments.
	band := [...]uint64{lo << shift, hi<<shift | lo>>1>>(63-shift), hi >> 1 >> (63 - shift)}
	t := UnitTrace{Kind: "ribbon", Maybe: true, Hash: hexHash(mixed), Start: start}
	offset := s.at(segment) * wordBytes
	t.Offset = BlockOffset(h, 0, offset/blockBytes) + offset%blockBytes
	for c := range s.of(segment) {
		odd := 0
		for i, mask := range band {
			word := unit[(s.at(segment+uint64(i))+c)*wordBytes:]
			odd ^= bits.OnesCount64(mask & binary.LittleEndian.Uint64(word))
		}
		t.Columns = append(t.Columns, odd&1 == 0)
		t.Maybe = t.Maybe && odd&1 == 0
	}
	return t
}

const segmentSlots = 64 // of a Ribbon unit

// A ribbonShape describes the matrix of a Ribbon unit; see the drawing in bloomblock/ribbon.go.
type ribbonShape struct {
	slots    uint64 // at which a band may begin
	segments uint64
	columns  uint64
	wide     uint64 // segments at the front with one more column
}

// shapeOf returns the shape of the Ribbon unit that u describes, in a filter of the given number of keys.
func shapeOf(keys uint64, u *bloomblock.UnitHeader) ribbonShape {
	s := ribbonShape{columns: uint64(u.Columns)}           //nolint:gosec // at least 1
	s.slots = max(1, (keys*uint64(100+u.Overhead)+99)/100) //nolint:gosec // at least 1
	s.segments = (s.slots-1)/segmentSlots + 3              // a band reaches into the next two
	s.wide = min(u.Bytes()/wordBytes-s.segments*s.columns, s.segments)
	return s
}

// at returns the index of the first word of a segment.
func (s *ribbonShape) at(segment uint64) uint64 { return segment*s.columns + min(segment, s.wide) }

// of returns the number of columns that count for a band that begins in a segment: those of the last segment it may
// reach.
func (s *ribbonShape) of(segment uint64) uint64 {
	if segment+2 < s.wide {
		return s.columns + 1
	}
	return s.columns
}

func hexHash(h bloomblock.Hash) string { return fmt.Sprintf("%016x", uint64(h)) }
