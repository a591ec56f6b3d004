package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// numbers returns one version of each key from lo up to hi.
func numbers(lo, hi int) (kvs []kv) {
	for i := lo; i < hi; i++ {
		kvs = append(kvs, set(fmt.Sprintf("key%07d", i), 0, "v"))
	}
	return kvs
}

func TestATableHasASampleOfItsKeys(t *testing.T) {
	for _, keys := range []int{1, 64, 1000, 20_000} {
		kvs := numbers(0, keys)
		var b bloomblock.Builder
		for _, v := range kvs {
			b.Add(bloomblock.HashKey([]byte(v.key)))
		}
		want := b.AppendSample(nil)
		file, info := build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, kvs)
		r := newReader(file, info, 0)
		s, err := r.Sample()
		must(t, err)
		again, err := bloomblock.ParseSample(want)
		if err != nil || !slices.Equal(slices.Collect(s.Hashes()), slices.Collect(again.Hashes())) ||
			s.Keys() != uint64(keys) {
			t.Errorf("%d keys: %d hashes of %d keys, want %d; %v", keys, s.Len(), s.Keys(), again.Len(), err)
		}
		if !bytes.Contains(file[:info.filterOff()], want) {
			t.Errorf("%d keys: the sample is not in front of the filter", keys)
		}
		if r.Keys.Bytes() != 0 {
			t.Errorf("%d keys: the filter was loaded", keys)
		}
	}
}

func TestNoSampleIsNoError(t *testing.T) {
	old, err := os.ReadFile("testdata/unsampled.sst") // from before there were samples
	must(t, err)
	plain, _ := build(t, WriterOptions{ID: 1}, numbers(0, 10))
	empty, _ := buildWith(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, nil, smallDels)
	for name, file := range map[string][]byte{
		"an old table": old, "a table without a filter": plain,
		"a table without versions": empty,
	} {
		r, err := Open(bytes.NewReader(file), int64(len(file)), name)
		must(t, err)
		if s, err := r.Sample(); err != nil || s != nil {
			t.Errorf("%s: sample %v, %v; want none", name, s, err)
		}
		if err := r.Verify(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestASampleOfOtherKeysIsSeen replaces the sample by another one, with right checksums. Lookups have no use for it.
func TestASampleOfOtherKeysIsSeen(t *testing.T) {
	kvs := numbers(0, 2010)
	file, info := build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, kvs)
	p := partsOf(t, file)
	whole, err := newReader(file, info, 0).Sample()
	must(t, err)
	var others bloomblock.Builder // without the key of hash 7, so that its sample has one more hash at the end
	for _, v := range kvs {
		if h := bloomblock.HashKey([]byte(v.key)); h != slices.Collect(whole.Hashes())[7] {
			others.Add(h)
		}
	}
	hash := func(b []byte, i int) []byte { return b[24+8*i:][:8] }
	for name, change := range map[string]func(b []byte){
		"another hash": func(b []byte) { hash(b, 7)[0] ^= 1 },
		"a last hash of no key": func(b []byte) {
			last := hash(b, 124)
			binary.LittleEndian.PutUint64(last, binary.LittleEndian.Uint64(last)-1)
		},
		"a first hash of no key": func(b []byte) {
			copy(b[24+8:], b[24:24+8*124])
			binary.LittleEndian.PutUint64(hash(b, 0), binary.LittleEndian.Uint64(hash(b, 1))-1)
		},
		"another last hash":     func(b []byte) { copy(hash(b, 124), bytes.Repeat([]byte{0xff}, 8)) },
		"a hash is left out":    func(b []byte) { copy(b[24:], others.AppendSample(nil)[24:]) },
		"another count of keys": func(b []byte) { b[16]++ },
	} {
		damaged := bytes.Clone(file)
		change(damaged[p.sample:])
		r := newReader(damaged, info, 1<<20)
		if _, err := r.Sample(); !errors.Is(err, corrupt.Err) {
			t.Errorf("%s: %v, want damage by the checksum", name, err)
		}
		fixSums(damaged)
		if _, err := r.Sample(); err != nil {
			t.Errorf("%s: %v, with right checksums", name, err)
		}
		if !mustBeHonest(t, name, damaged, info, kvs, nil) {
			t.Errorf("%s: not seen", name)
		}
	}
	future := bytes.Clone(file)
	future[p.sample+8]++
	fixSums(future)
	r := newReader(future, info, 1<<20)
	if _, err := r.Sample(); !errors.Is(err, bloomblock.ErrUnknownKind) || errors.Is(err, corrupt.Err) {
		t.Errorf("a version of the future: %v", err)
	}
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Errorf("a version of the future: Verify: %v", err)
	}
}

func TestTheLengthOfASampleIsChecked(t *testing.T) {
	for name, f := range map[string]footer{
		"longer than any":       {filterOff: 1 << 20, filterLen: 64, sampleLen: maxSample + 1},
		"longer than the front": {filterOff: 1 << 10, filterLen: 64, sampleLen: 1<<10 - trailerSize + 1},
		"without a filter":      {filterOff: 1 << 20, sampleLen: 100},
	} {
		f.version, f.indexOff = 1, f.filterOff+f.filterLen
		size := f.propsOff() + f.propsLen + trailerSize + footerSize
		if _, err := parseFooter(f.append(nil, 0), size); err == nil || !strings.Contains(err.Error(), "sample of") {
			t.Errorf("%s: %v, want an error", name, err)
		}
		if f.sampleLen = 0; f.filterLen > 0 {
			f.sampleLen = 1<<10 - trailerSize
		}
		if _, err := parseFooter(f.append(nil, 0), size); err != nil {
			t.Errorf("%s: with another length: %v", name, err)
		}
	}
}

func TestASampleBelongsToItsTableAndPlace(t *testing.T) {
	a, info := build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, numbers(0, 100))
	b, _ := build(t, WriterOptions{ID: 2, Filter: filterParams(t, 0.01)}, numbers(0, 100))
	from, to := partsOf(t, a).sample, info.filterOff()
	copy(a[from:to], b[from:to])
	if _, err := newReader(a, info, 0).Sample(); !errors.Is(err, corrupt.Err) {
		t.Errorf("the sample of another table: %v, want damage", err)
	}
	// The trailer is kept: its checksum covers the content of the block.
	a, _ = build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, numbers(0, 100))
	c, _ := build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, numbers(100, 200))
	copy(a[from:to-trailerSize], c[from:])
	if _, err := newReader(a, info, 0).Sample(); !errors.Is(err, corrupt.Err) {
		t.Errorf("the sample of other keys: %v, want damage", err)
	}
}

func TestOverlapsOfTables(t *testing.T) {
	var tables []*Reader
	bounds := [][2]int{{0, 20_000}, {10_000, 30_000}, {0, 2000}, {100_000, 120_000}}
	for i, b := range bounds {
		file, info := build(t, WriterOptions{ID: uint64(i + 1), Filter: filterParams(t, 0.01, 0.001)},
			numbers(b[0], b[1]))
		tables = append(tables, newReader(file, info, 0))
	}
	for _, rate := range []float64{0.01, 0.001} {
		for _, r := range tables {
			must(t, r.Load(rate))
		}
		for i, a := range bounds {
			s, err := tables[i].Sample()
			must(t, err)
			for j, b := range bounds {
				want := float64(max(min(a[1], b[1])-max(a[0], b[0]), 0)) / float64(a[1]-a[0])
				got := s.Overlap(tables[j].Filter())
				if !got.Known || math.Abs(got.Share-want) > 4*got.Err+1e-9 || got.Err > 0.05 {
					t.Errorf("share of table %d in table %d: %+v, want %.3f", i, j, got, want)
				}
			}
		}
	}
	tables[1].Keys.Reduce(tables[1].Keys.Forms(1))
	s, err := tables[0].Sample()
	must(t, err)
	if o := s.Overlap(tables[1].Filter()); o.Known {
		t.Errorf("without the filter of table 1: %+v", o)
	}
}

func TestTheChecksumOfASampleIsNotTheSameForAll(t *testing.T) {
	// A CRC over a block followed by its own CRC would be.
	s := NewSeal(1)
	sums := map[uint32]bool{}
	for i := range 10 {
		var b bloomblock.Builder
		b.Add(bloomblock.Hash(i))
		block := b.AppendSample(nil)
		if binary.LittleEndian.Uint32(block[12:]) != crc32.Update(crc32.Checksum(block[:12], castagnoli), castagnoli,
			block[16:]) {
			t.Fatal("the checksum of a sample is another one than this test takes it for")
		}
		sums[s.sum(KindSample, 64, append(block, byte(None)))] = true
	}
	if len(sums) != 10 {
		t.Errorf("%d checksums of 10 samples", len(sums))
	}
}
