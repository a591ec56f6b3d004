package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
	pebblebloom "github.com/cockroachdb/pebble/v2/bloom"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// A filterMaker builds an engine's filter of keys with the given number of bits per key.
type filterMaker struct {
	name  string
	build func(keys [][]byte, bits int) (mayContain func(key []byte) bool, bytes int, err error)
}

var filterMakers = []filterMaker{
	{"bloomkv", func(keys [][]byte, bits int) (func([]byte) bool, int, error) {
		p, err := bloomblock.NewParams(bestUnit(float64(bits)))
		return blockFilter(keys, p, err)
	}},
	{"bloomkv, two units", func(keys [][]byte, bits int) (func([]byte) bool, int, error) {
		half := bestUnit(float64(bits) / 2)
		p, err := bloomblock.NewParams(half, half)
		return blockFilter(keys, p, err)
	}},
	{"bloomkv, Ribbon", func(keys [][]byte, bits int) (func([]byte) bool, int, error) {
		rate := 0.4 // the lowest rate with this number of bits, within one percent
		for {
			p, err := bloomblock.ParamsRibbon(max(rate, bloomblock.BestRibbonRate))
			if err != nil || p.BitsPerKey() > float64(bits) || rate < bloomblock.BestRibbonRate {
				p, err = bloomblock.ParamsRibbon(max(rate/0.99, bloomblock.BestRibbonRate))
				return blockFilter(keys, p, err)
			}
			rate *= 0.99
		}
	}},
	{"Pebble", func(keys [][]byte, bits int) (func([]byte) bool, int, error) {
		policy := pebblebloom.FilterPolicy(bits)
		w := policy.NewWriter(pebble.TableFilter)
		for _, key := range keys {
			w.AddKey(key)
		}
		block := w.Finish(nil)
		return func(key []byte) bool { return policy.MayContain(pebble.TableFilter, block, key) }, len(block), nil
	}},
	{"goleveldb", func(keys [][]byte, bits int) (func([]byte) bool, int, error) {
		policy := filter.NewBloomFilter(bits)
		g := policy.NewGenerator()
		for _, key := range keys {
			g.Add(key)
		}
		var b util.Buffer
		g.Generate(&b)
		return func(key []byte) bool { return policy.Contains(b.Bytes(), key) }, b.Len(), nil
	}},
	{"Badger", func(keys [][]byte, bits int) (func([]byte) bool, int, error) {
		hashes := make([]uint32, len(keys))
		for i, key := range keys {
			hashes[i] = y.Hash(key)
		}
		f := y.NewFilter(hashes, bits)
		return f.MayContainKey, len(f), nil
	}},
}

// bestUnit returns the unit with the lowest rate among those with the given number of bits per key.
func bestUnit(bits float64) (best bloomblock.Unit) {
	lowest := 1.0
	for u := (bloomblock.Unit{BitsPerKey: bits, Probes: 1}); u.Probes <= bloomblock.MaxProbes; u.Probes++ {
		if rate := u.Rate(); rate < lowest {
			best, lowest = u, rate
		}
	}
	return best
}

// blockFilter wraps a filter of package bloomblock, unless there is an error of its parameters.
func blockFilter(keys [][]byte, p bloomblock.Params, err error) (func([]byte) bool, int, error) {
	if err != nil {
		return nil, 0, err
	}
	var b bloomblock.Builder
	for _, key := range keys {
		b.Add(bloomblock.HashKey(key))
	}
	block := b.AppendBlock(nil, p)
	f, err := bloomblock.Parse(block)
	return func(key []byte) bool { return f.MayContain(bloomblock.HashKey(key)) }, len(block), err
}

// filterKeys are the shapes of keys for measuring filters: even numbers are added, odd ones are looked up.
var filterKeys = []struct {
	name string
	key  func(dst []byte, n uint64) []byte
}{
	{"integers", binary.BigEndian.AppendUint64},
	{"decimal", func(dst []byte, n uint64) []byte { return fmt.Appendf(dst, "%016d", n) }},
	{"random", func(dst []byte, n uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, n*0x9e3779b97f4a7c15),
			n*0xbf58476d1ce4e5b9)
	}},
	{"long prefix", func(dst []byte, n uint64) []byte { return fmt.Appendf(dst, "/tenants/1/documents/%015d", n) }},
	{"groups of 128", func(dst []byte, n uint64) []byte {
		return append(binary.BigEndian.AppendUint64(dst, n>>8*0x9e3779b97f4a7c15), byte(n))
	}},
}

// compareFilters measures the filters of all engines at equal bits per key: the rate for each shape of keys, the
// memory, and the time of a negative answer.
func compareFilters(out io.Writer, keys int) error {
	t := cli.Table{
		Intro: fmt.Sprintf("False positives for %d absent keys between %d present ones, in percent, and the time of a "+
			"negative answer in ns\n\n", keys, keys),
		Head: []string{"bits per key", "filter", "takes"},
	}
	for _, shape := range filterKeys {
		t.Head = append(t.Head, shape.name)
	}
	t.Head = append(t.Head, "ns")
	for _, bits := range []int{10, 16, 20} {
		for _, m := range filterMakers {
			var rates []string
			times, bytes := []float64{}, 0
			for _, shape := range filterKeys {
				present, absent := make([][]byte, keys), make([][]byte, keys)
				for i := range present {
					present[i], absent[i] = shape.key(nil, 2*uint64(i)), shape.key(nil, 2*uint64(i)+1)
				}
				mayContain, size, err := m.build(present, bits)
				if err != nil {
					return fmt.Errorf("%s, %d bits: %w", m.name, bits, err)
				}
				for _, key := range present {
					if !mayContain(key) {
						return fmt.Errorf("%s, %d bits, %s: %w: a present key %x is denied",
							m.name, bits, shape.name, errWrong, key)
					}
				}
				found := 0
				from := time.Now()
				for _, key := range absent {
					if mayContain(key) {
						found++
					}
				}
				times = append(times, float64(time.Since(from))/float64(keys))
				rates = append(rates, fmt.Sprintf("%.3g", 100*float64(found)/float64(keys)))
				bytes = size
			}
			cells := append([]string{strconv.Itoa(bits), m.name, fmt.Sprintf("%.2f", 8*float64(bytes)/float64(keys))},
				rates...)
			t.Add(append(cells, fmt.Sprintf("%.1f", workload.Median(times)))...)
		}
	}
	return t.Print(out)
}
