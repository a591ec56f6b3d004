package bloomblock

import (
	"fmt"
	"testing"
)

// The queries are many and distinct, since a branch predictor learns a few thousand by heart.
const benchQueries = 1 << 20

func benchParams(b *testing.B, units ...Unit) Params {
	b.Helper()
	p, err := NewParams(units...)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkMayContain(b *testing.B) {
	queries := make([]Hash, benchQueries)
	for _, keys := range []uint64{1e4, 1e6} {
		for _, units := range [][]Unit{{{5, 3}}, {{10, 6}}, {{16, 8}}, {{22.5, 10}}, {{8, 5}, {8, 5}}, {{10, 6}, {10, 6}}} {
			f := filterOf(b, benchParams(b, units...), func(yield func(Hash) bool) {
				for i := range keys {
					yield(HashKey(numbered(i)))
				}
			})
			for _, kind := range []string{"absent", "present"} {
				for i := range queries {
					n := uint64(i) + 1<<40
					if kind == "present" {
						n = uint64(i) * 7919 % keys
					}
					queries[i] = HashKey(numbered(n))
				}
				b.Run(fmt.Sprintf("keys=%d/units=%v/%s", keys, units, kind), func(b *testing.B) {
					b.ReportAllocs()
					i, found := 0, 0
					for b.Loop() {
						if f.MayContain(queries[i&(benchQueries-1)]) {
							found++
						}
						i++
					}
					b.ReportMetric(float64(found)/float64(i), "maybe/op")
				})
			}
		}
	}
}

// Dependent lookups: the next query waits for the answer, as a reader does who acts on it.
func BenchmarkMayContainLatency(b *testing.B) {
	queries := make([]Hash, benchQueries)
	for i := range queries {
		queries[i] = HashKey(numbered(uint64(i) + 1<<40))
	}
	for _, keys := range []uint64{1e4, 1e6} {
		f := filterOf(b, benchParams(b, Unit{10, 6}), func(yield func(Hash) bool) {
			for i := range keys {
				yield(HashKey(numbered(i)))
			}
		})
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			i := 0
			for b.Loop() {
				i++
				if f.MayContain(queries[i&(benchQueries-1)]) {
					i++
				}
			}
		})
	}
}

func BenchmarkHashKey(b *testing.B) {
	for _, size := range []int{8, 16, 40, 100} {
		key := make([]byte, size)
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			for b.Loop() {
				key[0]++
				HashKey(key)
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, keys := range []int{1e4, 1e6} {
		for _, units := range [][]Unit{{{10, 6}}, {{8, 5}, {8, 5}}} {
			b.Run(fmt.Sprintf("keys=%d/units=%v", keys, units), func(b *testing.B) {
				p := benchParams(b, units...)
				var builder Builder
				var block []byte
				for b.Loop() {
					builder.Reset()
					h := Hash(1)
					for range keys {
						h = h.Next() + 1
						builder.Add(h)
					}
					block = builder.AppendBlock(block[:0], p)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*keys), "ns/key")
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	var builder Builder
	for i := range uint64(1e5) {
		builder.Add(HashKey(numbered(i)))
	}
	block := builder.AppendBlock(nil, benchParams(b, Unit{10, 6}))
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		if _, err := Parse(block); err != nil {
			b.Fatal(err)
		}
	}
}
