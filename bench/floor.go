package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// A floor is the least work that a lookup of an absent key needs in a tree of a given form: hash the key once, search
// one flat array of fences, and probe one filter per run. It has no memtables, versions, counters or files, and so
// cannot replace a store; it is what a store's lookup is compared with.
//
// It has a fence for each table of the last run and a filter for each table of the tree. The filters have the sizes of
// the store's, but a single unit each, filled as usual for their size. The tables of the other runs are found by the
// index in the last run.
type floor struct {
	prefix int // bytes that all fences have in common
	// for each table of the last run, in order: the eight bytes of its last key after the prefix
	fences []uint64
	// for each table of the last run: its filter, and that of the table above it in each other run
	probes []bloomblock.Filter
	runs   int // number of filters per table of the last run

	filterBytes int64 // of all tables
}

// A layer is the part of a level that a floor depends on.
type layer struct {
	runs, tables int    // tables of all runs together
	filterBytes  int64  // in memory, of all tables
	entries      uint64 // in all tables
}

// layers returns the levels of a store that hold tables, the newest first.
func layers(m bloomkv.Metrics) []layer {
	var all []layer
	for _, l := range m.Levels {
		if l.Tables > 0 {
			all = append(all, layer{l.Runs, l.Tables, l.FilterBytesInMemory, l.Entries})
		}
	}
	return all
}

// fencesFrom is the number of sampled keys per fence. If the keys of a set are not sorted, fences are quantiles of a
// sample.
const fencesFrom = 16

// newFloor returns the floor of a tree that holds a set.
func newFloor(tree []layer, set workload.Set, seed uint64) (*floor, error) {
	if len(tree) == 0 || set.Len() == 0 {
		return nil, fmt.Errorf("%d levels and %d keys, want at least one of each for a floor", len(tree), set.Len())
	}
	last := tree[len(tree)-1]
	tables := tablesPerRun(last)
	f := &floor{}
	f.setFences(set, tables, seed)
	columns := make([][]bloomblock.Filter, 0, len(tree)) // one per run
	for _, l := range tree {
		for range l.runs {
			seed++
			filters, err := oneUnit(l, tablesPerRun(l), seed)
			if err != nil {
				return nil, err
			}
			columns = append(columns, filters)
		}
	}
	f.runs = len(columns)
	f.probes = make([]bloomblock.Filter, 0, tables*f.runs)
	for i := range tables {
		for _, filters := range columns {
			f.probes = append(f.probes, filters[i*len(filters)/tables])
		}
	}
	for _, filters := range columns {
		for i := range filters {
			f.filterBytes += int64(filters[i].Bytes())
		}
	}
	return f, nil
}

func tablesPerRun(l layer) int { return max(1, (l.tables+l.runs/2)/l.runs) }

// setFences divides the keys of a set into tables of equal size.
func (f *floor) setFences(set workload.Set, tables int, seed uint64) {
	n := min(set.Len(), tables*fencesFrom)
	order := workload.NewPermutation(set.Len(), seed)
	keys := make([][]byte, n)
	for i := range keys {
		if set.Sorted() {
			keys[i] = set.AppendKey(nil, int(int64(i)*int64(set.Len()-1)/int64(max(n-1, 1))))
		} else {
			keys[i] = set.AppendKey(nil, order.At(i))
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	f.prefix = commonPrefix(keys[0], keys[n-1])
	f.fences = make([]uint64, tables)
	for i := range f.fences {
		f.fences[i] = head(keys[max((i+1)*n/tables, 1)-1], f.prefix)
	}
}

// commonPrefix returns the number of bytes that two keys have in common, and so all keys between them.
func commonPrefix(first, last []byte) (n int) {
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	return n
}

// oneUnit returns the filters of one run of a layer, next to each other in memory.
func oneUnit(l layer, tables int, seed uint64) ([]bloomblock.Filter, error) {
	size := max(64, int(l.filterBytes/int64(l.tables)+63)&^63)
	unit := bestUnit(float64(l.filterBytes) * 8 / float64(max(l.entries, 1)))
	params, err := bloomblock.NewParams(unit)
	if err != nil {
		return nil, err
	}
	keys := int(float64(size) * 8 / unit.BitsPerKey)
	var b bloomblock.Builder
	blocks := make([]byte, 0, tables*(bloomblock.HeaderSize+size))
	filters := make([]bloomblock.Filter, tables)
	order := workload.NewPermutation(math.MaxInt32, seed)
	var key [8]byte
	for i := range filters {
		b.Reset()
		for j := range keys {
			n := order.At((i*keys + j) % math.MaxInt32)
			binary.LittleEndian.PutUint64(key[:], uint64(n)) //nolint:gosec // never negative
			b.Add(bloomblock.HashKey(key[:]))
		}
		start := len(blocks)
		blocks = b.AppendBlock(blocks, params)
		if filters[i], err = bloomblock.Parse(blocks[start:]); err != nil {
			return nil, err
		}
	}
	return filters, nil
}

// bestUnit returns the unit with the lowest rate among those with at most the given number of bits per key, or the
// smallest one.
func bestUnit(bits float64) bloomblock.Unit {
	rows := bloomblock.Table()
	best := rows[0].Unit
	for _, r := range rows {
		if r.BitsPerKey <= bits+0.25 {
			best = r.Unit
		}
	}
	return best
}

// head returns the eight bytes of a key after a prefix, padded with zeros.
func head(key []byte, prefix int) uint64 {
	key = key[prefix:]
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var padded [8]byte
	copy(padded[:], key)
	return binary.BigEndian.Uint64(padded[:])
}

// find returns the index of the first fence that is not below key, or of the last fence.
func (f *floor) find(key []byte) int { return search(f.fences, head(key, f.prefix)) }

// search returns the index of the first of the sorted heads that is not below head, or of the last one. It has no
// branch that depends on the head, because half of these would be mispredicted.
func search(heads []uint64, head uint64) int {
	base, n := 0, len(heads)
	for n > 1 {
		half := n >> 1
		_, before := bits.Sub64(heads[base+half-1], head, 0)
		base += half & -int(before) //nolint:gosec // 0 or 1
		n -= half
	}
	return base
}

// mayContain probes one filter of each run. It probes all of them before it answers, so that their cache misses
// overlap.
func (f *floor) mayContain(key []byte) bool {
	h := bloomblock.HashKey(key)
	at := f.find(key) * f.runs
	maybe := false
	for i := range f.probes[at : at+f.runs] {
		maybe = f.probes[at+i].MayContain(h) || maybe
	}
	return maybe
}
