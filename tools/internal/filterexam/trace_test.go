package filterexam

import (
	"bytes"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
)

func TestATraceIsTheAnswer(t *testing.T) {
	nested, err := bloomblock.ParamsNested(0.1, 0.03, 0.00004)
	must(t, err)
	for _, p := range []bloomblock.Params{
		{},
		paramsFor(t, 0.2), paramsOf(t, unit(20, 14)), nested, ribbonOf(t, 0.2), ribbonOf(t, 0.3, 0.1),
		paramsOf(t, unit(6, 4), unit(6, 9)).SideBySide(),
	} {
		block := blockOf(p, seededHashes(2, 3000))
		f, err := bloomblock.Parse(block)
		must(t, err)
		maybes := 0
		for h := range seededHashes(9, 3000) {
			maybe, units, err := Trace(block, h)
			must(t, err)
			all := true
			for _, u := range units {
				all = all && u.Maybe
				each := true
				for _, probe := range u.Probes {
					each = each && probe.Set
				}
				for _, even := range u.Columns {
					each = each && even
				}
				if each != u.Maybe {
					t.Fatalf("hash %x: %+v", h, u)
				}
			}
			if all != maybe || all != f.MayContain(h) {
				t.Fatalf("hash %x: %v, and the trace is %+v", h, !all, units)
			}
			if all {
				maybes++
			}
		}
		for h := range seededHashes(2, 3000) {
			_, units, err := Trace(block, h)
			must(t, err)
			for _, u := range units {
				if !u.Maybe {
					t.Fatalf("hash %x was added: %+v", h, u)
				}
			}
		}
		t.Logf("%v: %d of 3000", p.Units(), maybes)
	}
}

// TestAllBlocksOfAKeyAreInItsPart finds the blocks of a trace in the block of the filter.
func TestAllBlocksOfAKeyAreInItsPart(t *testing.T) {
	block := blockOf(paramsOf(t, unit(3.5, 2), unit(3.5, 2), unit(3, 2)).SideBySide(), seededHashes(1, 60_000))
	h, units := partsOf(t, block)
	used := map[uint64]bool{}
	for key := range seededHashes(1, 5000) {
		offset, size := h.StepPages(0, key)
		_, trace, err := Trace(block, key)
		must(t, err)
		for i, u := range trace {
			at := u.Offset
			used[at] = true
			if at < offset || at+blockBytes > offset+size {
				t.Fatalf("hash %x: unit %d at %d, outside the page at %d", key, i, at, offset)
			}
			if !bytes.Equal(block[at:][:blockBytes], units[i][u.Block*blockBytes:][:blockBytes]) {
				t.Fatalf("hash %x: unit %d at %d is another block than in memory", key, i, at)
			}
		}
	}
	if len(used) < 1000 {
		t.Errorf("%d blocks used, want most of %d", len(used), h.UnitsSize()/blockBytes)
	}
}
