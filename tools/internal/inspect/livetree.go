package inspect

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// TreeOf returns the chart of the tree of an open store by the figures of its tables, or nil if there are none. It
// reads no files, so where a table lies among the keys is estimated from its bounds. The tables for which shown is true
// have a section of their own on the page.
func TreeOf(tables []bloomkv.TableMetrics, shown map[string]bool) *picture.Chart {
	s := &Store{}
	places := spreadTables(tables)
	if places == nil {
		return nil
	}
	for i := range tables {
		m := &tables[i]
		t := Table{
			File: m.File, Level: &m.Level, Run: &m.Run, Bytes: m.Bytes, Entries: m.Entries, Place: &places[i],
			Smallest: words.Escaped(m.Smallest, words.KeyLimit), Largest: words.Escaped(m.Largest, words.KeyLimit),
		}
		t.Place.FPR = m.FPRPredicted
		if shown[m.File] {
			t.Filter = &Filter{}
		}
		if m.FilterDamaged {
			t.Damage = &Damage{}
		}
		s.Tables = append(s.Tables, t)
	}
	c := s.treeChart()
	c.Caption += " Where a table lies is estimated from its bounds."
	return c
}

// spreadTables estimates where tables lie among the keys of a store: the entries of each are assumed to lie evenly
// between its bounds, as numbers.
func spreadTables(tables []bloomkv.TableMetrics) (places []Place) {
	var prefix []byte // of all bounds
	for i := range tables {
		for _, key := range [][]byte{tables[i].Smallest, tables[i].Largest} {
			if i == 0 && prefix == nil {
				prefix = key
			}
			for key != nil && !bytes.HasPrefix(key, prefix) {
				prefix = prefix[:len(prefix)-1]
			}
		}
	}
	number := func(key []byte) float64 {
		var digits [8]byte
		copy(digits[:], key[min(len(prefix), len(key)):])
		return float64(binary.BigEndian.Uint64(digits[:]))
	}
	type edge struct{ at, density, mass float64 }
	var edges []edge
	end := 0.0
	for i := range tables {
		end = max(end, number(tables[i].Smallest), number(tables[i].Largest))
	}
	bounds := func(t *bloomkv.TableMetrics) (low, high float64) {
		if low, high = number(t.Smallest), end; t.Largest != nil {
			high = number(t.Largest)
		}
		return low, max(low, high)
	}
	for i := range tables {
		low, high := bounds(&tables[i])
		if n := float64(tables[i].Entries); high > low {
			edges = append(edges, edge{at: low, density: n / (high - low)}, edge{at: high, density: -n / (high - low)})
		} else {
			edges = append(edges, edge{at: low, mass: n})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	before, after := map[float64]float64{}, map[float64]float64{} // entries up to a place, without and with those on it
	sum, density, last := 0.0, 0.0, 0.0
	for _, e := range edges {
		sum += density * (e.at - last)
		if _, known := before[e.at]; !known {
			before[e.at] = sum
		}
		sum += e.mass
		after[e.at], density, last = sum, density+e.density, e.at
	}
	if !(sum > 0) {
		return nil
	}
	for i := range tables {
		low, high := bounds(&tables[i])
		from := min(max(before[low]/sum, 0), 1)
		places = append(places, Place{From: from, To: min(max(after[high]/sum, from), 1)})
	}
	return places
}
