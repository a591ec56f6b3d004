package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// smallBlock is a filter of a few keys, two units.
func smallBlock(t *testing.T, keys int) []byte {
	t.Helper()
	p, err := bloomblock.NewParams(bloomblock.Unit{BitsPerKey: 8, Probes: 5}, bloomblock.Unit{BitsPerKey: 4, Probes: 2})
	if err != nil {
		t.Fatal(err)
	}
	var b bloomblock.Builder
	for i := range keys {
		b.Add(bloomblock.HashKey([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	return b.AppendBlock(nil, p)
}

func TestAFilterIsDrawn(t *testing.T) {
	var out bytes.Buffer
	block := smallBlock(t, 1000)
	if err := drawFilter(&out, block, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"blocked Bloom, 2 units, 1000 keys, ",
		"unit 0: 5 probes, 16 blocks of 512 bits, fill ",
		"unit 1: 2 probes, 8 blocks of 512 bits, fill ",
		"a cell is 1 block, the darker the fuller",
		"the first 4 blocks of unit 0",
		"  " + dots(block[bloomblock.HeaderSize:][:lineBytes]) + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture lacks %q:\n%s", want, &out)
		}
	}
}

func TestPicturesStaySmall(t *testing.T) {
	for _, keys := range []int{1, 3, 100, 5_000, 300_000} {
		block := smallBlock(t, keys)
		for _, color := range []bool{false, true} {
			var out bytes.Buffer
			if err := drawFilter(&out, block, color); err != nil {
				t.Fatal(err)
			}
			if lines := strings.Count(out.String(), "\n"); lines > 2*(mapRows+3)+zoomLines+5 {
				t.Errorf("%d keys, color %v: %d lines", keys, color, lines)
			}
			if strings.Contains(out.String(), "\x1b") != color {
				t.Errorf("%d keys, color %v: the picture is\n%q", keys, color, &out)
			}
		}
	}
}

func TestADamagedFilterIsNotDrawn(t *testing.T) {
	block := smallBlock(t, 100)
	block[len(block)-1] ^= 1
	var out bytes.Buffer
	if err := drawFilter(&out, block, false); !errors.Is(err, bloomblock.ErrDamaged) || out.Len() > 0 {
		t.Errorf("%v, drawn %q", err, &out)
	}
	if err := drawFilter(&out, nil, false); !errors.Is(err, bloomblock.ErrDamaged) {
		t.Errorf("of nothing: %v", err)
	}
}

func TestDotsAreTheBits(t *testing.T) {
	if got, want := dots([]byte{0x00, 0x01, 0xff, 0x80}), "⠀⠁⣿⢀"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAFilterBlockIsCutOutOfItsFile(t *testing.T) {
	file := bytes.NewReader([]byte("data-filter-tail"))
	if b, err := filterBlock(file, 16, 4, 7); err != nil || string(b) != "filter-" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := filterBlock(file, 16, 4, 0); err != nil || b != nil {
		t.Errorf("without a filter: %q, %v", b, err)
	}
	for _, c := range [][3]uint64{{16, 17, 1}, {16, 4, 13}, {16, 0, 1 << 63}, {1 << 63, 0, 1 << 62}, {100, 4, 50}} {
		if b, err := filterBlock(file, c[0], c[1], c[2]); err == nil {
			t.Errorf("size %d, tail %d, filter %d: %q, want an error", c[0], c[1], c[2], b)
		}
	}
}
