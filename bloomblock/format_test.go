package bloomblock

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
)

// sign corrects the header's checksum, so that a damaged field is judged and not the checksum.
func sign(block []byte) {
	binary.LittleEndian.PutUint32(block[offChecksum:], checksum(block[:offChecksum]))
}

func TestEachHeaderFieldDamagedAloneIsRefused(t *testing.T) {
	good := blockOf(paramsOf(t, Unit{10, 6}, Unit{5, 3}), hashesOf(numbered, 0, 100))
	const unit0, unit1, unit2 = offUnit, offUnit + unitSize, offUnit + 2*unitSize
	for _, tt := range []struct {
		name string
		at   int
		set  []byte
		want error
	}{
		{"magic", 0, []byte("bloomkvt"), ErrDamaged},
		{"version 0", offVersion, []byte{0}, ErrUnknownKind},
		{"version 1", offVersion, []byte{1}, ErrUnknownKind},
		{"version 3 without pages and parts", offVersion, []byte{3}, ErrDamaged},
		{"version 4", offVersion, []byte{4}, ErrUnknownKind},
		{"parts in version 2", offParts, []byte{2}, ErrDamaged},
		{"a checksum of pages in version 2", offSums, []byte{2}, ErrDamaged},
		{"pages in version 2", offPage, []byte{pageShift}, ErrDamaged},
		{"kind none with units", offKind, []byte{0}, ErrDamaged},
		{"kind Ribbon, of a Bloom unit", offKind, []byte{2}, ErrDamaged},
		{"kind 3", offKind, []byte{3}, ErrUnknownKind},
		{"hash 0", offHash, []byte{0}, ErrUnknownKind},
		{"hash 2", offHash, []byte{2}, ErrUnknownKind},
		{"no units", offUnits, []byte{0}, ErrDamaged},
		{"one unit of two", offUnits, []byte{1}, ErrDamaged},
		{"three units of two", offUnits, []byte{3}, ErrDamaged},
		{"four units", offUnits, []byte{4}, ErrDamaged},
		{"a block of 128 bytes", offLine, []byte{7}, ErrUnknownKind},
		{"first reserved byte", 13, []byte{1}, ErrDamaged},
		{"last reserved byte of the start", 15, []byte{1}, ErrDamaged},
		{"no blocks", unit0, make([]byte, 8), ErrDamaged},
		{"one block more", unit0, []byte{3}, ErrDamaged},
		{"blocks beyond all memory", unit0, []byte{255, 255, 255, 255, 255, 255, 255, 255}, ErrDamaged},
		{"blocks whose bytes wrap to few", unit0, []byte{2, 0, 0, 0, 0, 0, 0, 4}, ErrDamaged},
		{"the most blocks", unit0, []byte{0, 0, 0, 0, 0, 1, 0, 0}, ErrDamaged},
		{"rate 0", unit0 + unitRate, make([]byte, 8), ErrDamaged},
		{"rate above 1", unit0 + unitRate, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.01)), ErrDamaged},
		{
			"rate not a number", unit0 + unitRate,
			binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN())), ErrDamaged,
		},
		{"rate negative", unit1 + unitRate, binary.LittleEndian.AppendUint64(nil, math.Float64bits(-0.01)), ErrDamaged},
		{"checksum of the first unit", unit0 + unitCRC, []byte{1, 2, 3, 4}, ErrDamaged},
		{"checksum of the second unit", unit1 + unitCRC, []byte{1, 2, 3, 4}, ErrDamaged},
		{"no probes", unit0 + unitProbes, []byte{0}, ErrDamaged},
		{"15 probes", unit1 + unitProbes, []byte{15}, ErrDamaged},
		{"255 probes", unit1 + unitProbes, []byte{255}, ErrDamaged},
		{"reserved byte of a unit", unit0 + unitOverhead, []byte{1}, ErrDamaged},
		{"last reserved byte of a unit", unit2 - 1, []byte{1}, ErrDamaged},
		{"blocks of an absent unit", unit2, []byte{1}, ErrDamaged},
		{"probes of an absent unit", unit2 + unitProbes, []byte{1}, ErrDamaged},
		{"reserved byte at the end", offUnit + MaxUnits*unitSize, []byte{1}, ErrDamaged},
		{"last reserved byte at the end", 123, []byte{1}, ErrDamaged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			block := slices.Clone(good)
			copy(block[tt.at:], tt.set)
			if _, err := Parse(block); !errors.Is(err, ErrDamaged) {
				t.Errorf("error %v, want ErrDamaged from the checksum", err)
			}
			sign(block)
			f, err := Parse(block)
			if !errors.Is(err, tt.want) {
				t.Errorf("signed: error %v, want %v", err, tt.want)
			}
			if !f.MayContain(HashKey(numbered(1))) {
				t.Error("a refused block denies a key")
			}
		})
	}
	block := slices.Clone(good)
	block[offKeys]++
	if _, err := Parse(block); !errors.Is(err, ErrDamaged) {
		t.Errorf("keys: error %v, want ErrDamaged", err)
	}
}

func TestAHeaderHasNoMoreBlocksThanItsKeysNeed(t *testing.T) {
	block := blockOf(paramsOf(t, Unit{10, 6}), hashesOf(numbered, 0, 100))
	for _, c := range []struct {
		blocks byte
		want   error
	}{{pageBlocks + 100/8, nil}, {pageBlocks + 100/8 + 1, ErrDamaged}} {
		block[offUnit] = c.blocks
		sign(block)
		if _, err := ParseHeader(block); !errors.Is(err, c.want) {
			t.Errorf("%d blocks for 100 keys: %v, want %v", c.blocks, err, c.want)
		}
	}
}

func TestAnyFlippedBitIsRefused(t *testing.T) {
	for _, p := range []Params{{}, paramsOf(t, Unit{10, 6}), paramsOf(t, Unit{10, 6}, Unit{5, 3}, Unit{2, 1})} {
		block := blockOf(p, hashesOf(numbered, 0, 60))
		for i := range len(block) * 8 {
			block[i/8] ^= 1 << (i % 8)
			f, err := Parse(block)
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%v: bit %d flipped: error %v, want ErrDamaged", p.Units(), i, err)
			}
			if f.Units() != 0 {
				t.Fatalf("%v: bit %d flipped: a filter came with the error", p.Units(), i)
			}
			block[i/8] ^= 1 << (i % 8)
		}
	}
}

func TestAnyOtherLengthIsRefused(t *testing.T) {
	block := blockOf(paramsOf(t, Unit{10, 6}, Unit{5, 3}), hashesOf(numbered, 0, 100))
	for n := range block {
		if _, err := Parse(block[:n:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d of %d bytes: error %v, want ErrDamaged", n, len(block), err)
		}
	}
	if _, err := Parse(append(slices.Clone(block), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too many: error %v, want ErrDamaged", err)
	}
	if _, err := Parse(nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("nothing: error %v, want ErrDamaged", err)
	}
}

func TestHeaderTellsWhereUnitsAre(t *testing.T) {
	p := paramsOf(t, Unit{10, 6}, Unit{5, 3}, Unit{2, 1})
	block := blockOf(p, hashesOf(numbered, 0, 1000))
	h, err := ParseHeader(block[:HeaderSize])
	must(t, err)
	if h.Keys != 1000 || h.BlockSize() != uint64(len(block)) || h.PrefixSize(0) != HeaderSize {
		t.Errorf("%d keys, %d bytes, prefix %d; want 1000, %d, %d",
			h.Keys, h.BlockSize(), h.PrefixSize(0), len(block), HeaderSize)
	}
	if h.Rate(3) != p.Rate() || h.Rate(0) != 1 {
		t.Errorf("rate %v, want %v; of no unit %v, want 1", h.Rate(3), p.Rate(), h.Rate(0))
	}
	for i, u := range h.Units {
		if u.Offset%blockBytes != 0 || u.Probes != p.units[i].Probes {
			t.Errorf("unit %d: offset %d, %d probes", i, u.Offset, u.Probes)
		}
	}
	unit0 := block[h.Units[0].Offset:][:h.Units[0].Bytes()]
	if _, err := h.Filter([][]byte{unit0[1:]}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a short unit: error %v, want ErrDamaged", err)
	}
	if _, err := h.Filter([][]byte{unit0, unit0}); !errors.Is(err, ErrDamaged) {
		t.Errorf("the wrong unit: error %v, want ErrDamaged", err)
	}
	if _, err := h.Filter(make([][]byte, 4)); !errors.Is(err, ErrParams) {
		t.Errorf("too many units: error %v, want ErrParams", err)
	}
	made := Header{Units: []UnitHeader{{Blocks: 0, Probes: 6}}}
	if _, err := made.Filter([][]byte{nil}); !errors.Is(err, ErrParams) {
		t.Errorf("a header made by hand: error %v, want ErrParams", err)
	}
}

// TestAHeaderWithFewerUnitsIsABlock cuts units off a block: what remains is a block with the same keys, and the header
// of all units is that of the block.
func TestAHeaderWithFewerUnitsIsABlock(t *testing.T) {
	for _, params := range []func(...float64) (Params, error){ParamsNested, ParamsRibbon} {
		p, err := params(0.1, 0.01, 0.001)
		if err != nil {
			t.Fatal(err)
		}
		b := Builder{Seed: 7}
		for i := range uint64(5000) {
			b.Add(Hash(i * 0x9e3779b97f4a7c15))
		}
		block := b.AppendBlock(nil, p)
		h, err := ParseHeader(block)
		if err != nil {
			t.Fatal(err)
		}
		if h.paged != (h.UnitsSize() > pageBytes) {
			t.Errorf("page checksums of %d bytes: %v", h.UnitsSize(), h.paged)
		}
		unpaged := h
		unpaged.paged = false
		old := append(unpaged.Append(nil), block[HeaderSize:][:h.UnitsSize()]...)
		if _, err := Parse(old); err != nil || old[offVersion] != version || unpaged.BlockSize() != uint64(len(old)) {
			t.Errorf("without page checksums: version %d, error %v", old[offVersion], err)
		}
		if got := h.Append([]byte("before")); string(got) != "before"+string(old[:HeaderSize]) {
			t.Errorf("header %x, want %x", got, old[:HeaderSize])
		}
		for n := range len(h.Units) {
			cut := h
			cut.Units = h.Units[:n+1]
			f, err := Parse(append(cut.Append(nil), block[HeaderSize:cut.PrefixSize(n+1)]...))
			if err != nil || f.Units() != n+1 || f.Keys() != h.Keys || f.Seed() != h.Seed {
				t.Fatalf("%d units of %d: %v", f.Units(), n+1, err)
			}
			for i := range uint64(5000) {
				if !f.MayContain(Hash(i * 0x9e3779b97f4a7c15)) {
					t.Fatalf("%d units: key %d is denied", n+1, i)
				}
			}
		}
	}
}
