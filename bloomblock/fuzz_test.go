package bloomblock

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// FuzzParse expects one of the two errors, or a filter that answers every query, in its file as in memory and maybe in
// each of its forms if it does itself, and whose header encodes to itself.
func FuzzParse(f *testing.F) {
	for _, units := range [][]Unit{nil, {{10, 6}}, {{10, 6}, {5, 3}}, {{16, 9}, {3, 14}, {0.5, 1}}} {
		for _, keys := range []uint64{0, 1, 100} {
			f.Add(blockOf(paramsOf(f, units...), hashesOf(numbered, 0, keys)), uint64(1), true)
		}
	}
	side := paramsOf(f, Unit{3.5, 2}, Unit{3.5, 2}, Unit{3, 2}).SideBySide()
	for _, p := range []Params{paramsOf(f, Unit{10, 6}), side, ribbonOf(f, 0.01, 0.001)} {
		f.Add(blockOf(p, hashesOf(numbered, 0, 4000)), uint64(1), true)
	}
	f.Add([]byte(nil), uint64(0), false)
	f.Add([]byte(magic), uint64(0), false)
	f.Fuzz(func(t *testing.T, block []byte, query uint64, repair bool) {
		if repair && len(block) >= HeaderSize {
			block = bytes.Clone(block)
			sign(block) // gets the fuzzer past the checksum
		}
		h, err := ParseHeader(block)
		filter, parseErr := Parse(block)
		if err != nil || parseErr != nil {
			for _, err := range []error{err, parseErr} {
				if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownKind) {
					t.Fatalf("error %v is neither ErrDamaged nor ErrUnknownKind", err)
				}
			}
			if parseErr == nil {
				t.Fatalf("the block parses and its header does not: %v", err)
			}
			if !filter.MayContain(Hash(query)) {
				t.Fatal("a refused block says no")
			}
			return
		}
		again := make([]byte, HeaderSize)
		h.put(again)
		if !bytes.Equal(again, block[:HeaderSize]) {
			t.Fatalf("header %x is written as %x", block[:HeaderSize], again)
		}
		present := filter.MayContain(Hash(query))
		if got, _, _ := askInFile(t, h, sumsOf(t, h, block), block, Hash(query)); got != present {
			t.Fatalf("%x is %v in the file, %v in memory", query, got, present)
		}
		_, units := unitsOf(t, block)
		for _, form := range h.Forms(0) {
			f := in(t, h, form, units)
			if present && !f.MayContain(Hash(query)) {
				t.Fatalf("%+v denies %x, which the whole filter does not", form, query)
			}
			if r := f.FalsePositiveRate(); !(r >= 0 && r <= 1) || int64(f.Bytes()) != form.Bytes {
				t.Fatalf("%+v: rate %v, %d bytes", form, r, f.Bytes())
			}
		}
		if rate := rateOfBits(&filter); rate < 0 || rate > 1 {
			t.Fatalf("rate %v", rate)
		}
		if r := filter.FalsePositiveRate(); !(r >= 0 && r <= 1) {
			t.Fatalf("rate %v", r)
		}
	})
}

// FuzzBuild checks that no set of hashes has a member that is denied, in no form of the filter.
func FuzzBuild(f *testing.F) {
	f.Add([]byte("some bytes, eight at a time"), uint8(20), uint8(6), uint8(2))
	f.Add(make([]byte, 64), uint8(1), uint8(14), uint8(0))
	f.Add(bytes.Repeat([]byte("keys, eight bytes each"), 200), uint8(15), uint8(6), uint8(3))
	f.Add(bytes.Repeat([]byte("keys of a Ribbon, each its own. "), 200), uint8(15), uint8(6), uint8(11))
	f.Add(bytes.Repeat([]byte("keys of units side by side. "), 30), uint8(6), uint8(1), uint8(19))
	f.Fuzz(func(t *testing.T, data []byte, halfBits, probes, units uint8) {
		var p Params // its rates take long to compute and do not matter here
		for i := range units % (MaxUnits + 1) {
			p.add(Unit{float64(halfBits%16+1) / 2, int((probes+i)%MaxProbes) + 1}, 0.5)
		}
		var hashes []Hash
		for ; len(data) >= 8; data = data[8:] {
			h := Hash(0)
			for _, c := range data[:8] {
				h = h<<8 | Hash(c)
			}
			hashes = append(hashes, h)
		}
		if units&8 != 0 {
			p.ribbon, p.rates[0] = p.n > 0, 0.01
		}
		if units&16 != 0 { // more hashes than fit into a page
			for _, h := range hashes[:min(len(hashes), 64)] {
				for range 200 {
					h = h.Next() + 1
					hashes = append(hashes, h)
				}
			}
			p = p.SideBySide()
		}
		h, bits := unitsOf(t, blockOf(p, slices.Values(hashes)))
		for _, form := range h.Forms(0) {
			filter := in(t, h, form, bits)
			for _, h := range hashes {
				if !filter.MayContain(h) {
					t.Fatalf("%+v: hash %x was added and is denied", form, h)
				}
			}
		}
	})
}
