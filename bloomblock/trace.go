package bloomblock

import (
	"fmt"
	"runtime"
)

// A UnitTrace describes a lookup in one unit. Its names in JSON do not change.
type UnitTrace struct {
	Kind  string `json:"kind"`  // "bloom" or "ribbon"
	Maybe bool   `json:"maybe"` // the unit does not deny the key
	Hash  string `json:"hash"`  // hexadecimal: the key's hash, mixed with the seed, and mixed further for later units

	// Bloom units only, except Offset.
	Block  uint64  `json:"block"`            // index of the block, in memory
	Offset uint64  `json:"offset"`           // from the start of the unit; of a Ribbon unit's first segment
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

// Trace shows how MayContain computes its answer, unit by unit, for those in memory in their order in the block. All
// units are asked, also those after one that denies the key. MayContain returns true if all units answer maybe.
func (f *Filter) Trace(h Hash) []UnitTrace {
	defer runtime.KeepAlive(f)
	h = f.seed.Mix(h)
	traces := make([]UnitTrace, 0, MaxUnits)
	if r := f.ribbon; r != nil {
		t := UnitTrace{Kind: "ribbon", Maybe: r.mayContain(h)}
		t.Hash = hexHash(h.Next().Next().Next())
		start, lo, hi := h.band(r.starts)
		segment, shift := start/segmentSlots, start%segmentSlots
		m0, m1, m2 := lo<<shift, hi<<shift|lo>>1>>(63-shift), hi>>1>>(63-shift)
		t.Start, t.Offset = start, r.at(segment)*wordBytes
		for c := range r.of(segment) {
			at := func(s uint64) []byte { return r.bits[(r.at(s)+c)*wordBytes:] }
			t.Columns = append(t.Columns, parity(m0, m1, m2, at(segment), at(segment+1), at(segment+2))&1 == 0)
		}
		traces = append(traces, t)
	}
	part, after := uint64(0), h.Block(f.parts)
	for i := range f.n {
		u := &f.units[i]
		if i > 0 {
			part, h = after, h.Next()
		}
		if u.absent {
			continue
		}
		t := UnitTrace{Kind: "bloom", Maybe: true, Hash: hexHash(h), Block: u.at(h, part) / blockBytes}
		t.Offset = t.Block * blockBytes
		line := u.bits[t.Offset:][:blockBytes]
		a, b := h.Fields()
		for p := range int(u.probes) {
			field := a >> (fieldBits * p)
			if p >= wordFields {
				field = b >> (fieldBits * (p - wordFields))
			}
			probe := Probe{Bit: int(field & (blockBits - 1))}
			probe.Word, probe.Set = probe.Bit/64, line[probe.Bit>>3]>>(probe.Bit&7)&1 != 0
			t.Probes = append(t.Probes, probe)
			t.Maybe = t.Maybe && probe.Set
		}
		traces = append(traces, t)
	}
	return traces
}

func hexHash(h Hash) string { return fmt.Sprintf("%016x", uint64(h)) }
