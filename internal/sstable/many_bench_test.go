package sstable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// BenchmarkGetMany looks up present keys whose blocks are all cached and copies the values: one by one with Get, and
// with GetMany in batches of several sizes, all taking turns. It reports the medians of the turns, in ns for each key,
// for Get and for each batch size. Hashing keys and asking filters and fences come before, as in a store, and are
// included. With -short, only the first two shapes.
func BenchmarkGetMany(b *testing.B) {
	for i, c := range []struct {
		name  string
		shape benchShape
	}{
		{"one table", benchShape{tables: 1}},
		{"four tables", benchShape{tables: 4}},
		{"fourteen tables", benchShape{tables: 14}},
		{"short values", benchShape{tables: 4, value: func(int) int { return 8 }}},
		{"values of 0 to 199 bytes", benchShape{tables: 4, value: func(i int) int { return i * 7919 % 200 }}},
		{"values of 400 bytes", benchShape{tables: 4, value: func(int) int { return 400 }}},
		{"keys with a long prefix", benchShape{tables: 4, prefix: "tenant/0123456789/object/"}},
	} {
		if i > 1 && testing.Short() {
			break
		}
		b.Run(c.name, func(b *testing.B) {
			c.shape.capacity = 1 << 30
			benchGetMany(b, newBenchStore(b, c.shape), c.shape.prefix)
		})
	}
}

func benchGetMany(b *testing.B, s *benchStore, prefix string) {
	b.Helper()
	const n = 1024
	m := manyBench{b: b, s: s, prefix: len(prefix), ls: make([]Lookup, n)}
	widths := []int{0, 8, 32, 64} // 0 is Get
	took := make([][]time.Duration, len(widths))
	rng := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, n)
	s.warm()
	for b.Loop() {
		for w, width := range widths {
			for i := range keys {
				k := benchKey(rng.Uint64N(benchKeys), false)
				keys[i] = append(append(keys[i][:0], prefix...), k[:]...)
			}
			start := time.Now()
			if width == 0 {
				m.oneByOne(keys)
			} else {
				for batch := range slices.Chunk(keys, width) {
					m.together(batch)
				}
			}
			took[w] = append(took[w], time.Since(start))
		}
	}
	for w, width := range widths {
		slices.Sort(took[w])
		name := "get-ns"
		if width > 0 {
			name = fmt.Sprintf("many%d-ns", width)
		}
		b.ReportMetric(float64(took[w][len(took[w])/2].Nanoseconds())/n, name)
	}
}

type manyBench struct {
	b      *testing.B
	s      *benchStore
	prefix int
	ls     []Lookup
	st     Stats
	dst    []byte
}

func (m *manyBench) oneByOne(keys [][]byte) {
	for _, key := range keys {
		r := m.s.table(key[m.prefix:])
		maybe, _ := r.Keys.MayContain(bloomblock.HashKey(key))
		g := m.s.d.Enter()
		hit, ok, err := r.Get(key, ikey.MaxSeq, &m.st)
		if !maybe || !ok || err != nil {
			m.b.Fatal(maybe, ok, err)
		}
		m.dst = append(m.dst[:0], hit.value...)
		g.Leave()
	}
}

func (m *manyBench) together(keys [][]byte) {
	ls := m.ls[:len(keys)]
	for i, key := range keys {
		ls[i].Reader, ls[i].Key, ls[i].Seq = m.s.table(key[m.prefix:]), key, ikey.MaxSeq
	}
	for i, key := range keys {
		if maybe, _ := ls[i].Reader.Keys.MayContain(bloomblock.HashKey(key)); !maybe {
			m.b.Fatal("a filter denies a key")
		}
	}
	g := m.s.d.Enter()
	GetMany(ls, &m.st)
	for i := range ls {
		if !ls[i].OK {
			m.b.Fatal(ls[i].Err)
		}
		m.dst = append(m.dst[:0], ls[i].Hit.value...)
	}
	g.Leave()
}
