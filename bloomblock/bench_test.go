package bloomblock

import (
	"fmt"
	"testing"
)

// There are many distinct queries, since a branch predictor memorizes a few thousand.
const benchQueries = 1 << 20

func benchParams(b *testing.B, units ...Unit) Params {
	b.Helper()
	p, err := NewParams(units...)
	must(b, err)
	return p
}

func BenchmarkMayContain(b *testing.B) {
	queries := make([]Hash, benchQueries)
	for _, keys := range []uint64{1e4, 1e6} {
		for _, units := range [][]Unit{
			{{5, 3}}, {{10, 6}}, {{16, 8}}, {{22.5, 10}}, {{8, 5}, {8, 5}}, {{10, 6}, {10, 6}},
		} {
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

// BenchmarkMayContainLatency makes each query depend on the answer before, as in a reader that acts on it.
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

// BenchmarkKeyToAnswer looks up an absent key in one filter, including its hash, and computes the hash alone.
func BenchmarkKeyToAnswer(b *testing.B) {
	const queries = 1 << 16
	keys := make([]byte, 16*queries)
	for i := range queries {
		copy(keys[16*i:], fmt.Sprintf("%016d", 2*i+1))
	}
	at := func(i int) []byte { return keys[i%queries*16:][:16:16] }
	b.Run("hash", func(b *testing.B) {
		i, sum := 0, Hash(0)
		for b.Loop() {
			sum |= HashKey(at(i))
			i++
		}
		_ = sum
	})
	for _, n := range []int{1e4, 1e5} {
		f := filterOf(b, paramsFor(b, 0.01), func(yield func(Hash) bool) {
			for i := range n {
				if !yield(HashKey(fmt.Appendf(nil, "%016d", 2*i))) {
					return
				}
			}
		})
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			i, found := 0, 0
			for b.Loop() {
				if f.MayContain(HashKey(at(i))) {
					found++
				}
				i++
			}
			b.ReportMetric(float64(found)/float64(i), "maybe/op")
		})
	}
}

// BenchmarkUnits compares one unit with two of the same size at 20 million keys, where each is a miss of the
// processor's caches: once with a branch on the answer, once with the next key made from it. 15.5 bits are those of
// the level above the last one at a promise of 0.01, 20 those of ParamsFor(0.0001); with fewer bits a store builds one
// unit, and the two here show why.
func BenchmarkUnits(b *testing.B) {
	if testing.Short() {
		b.Skip("20 million keys")
	}
	all := [][]Unit{
		{{10, 6}},
		{{7, 5}, {3, 2}},
		{{11, 7}},
		{{7, 4}, {4, 3}},
		{{15.5, 8}},
		{{10.5, 6}, {5, 3}},
		{{20, 10}},
		{{10.5, 6}, {9.5, 5}},
	}
	var filters []*Filter
	for _, units := range all {
		filters = append(filters, filterOf(b, benchParams(b, units...), hashesOf(numbered, 0, 20_000_000)))
	}
	for _, loop := range []string{"branch", "chain"} {
		for i, f := range filters {
			b.Run(fmt.Sprintf("%s/units=%v", loop, all[i]), func(b *testing.B) {
				h, found, n := Hash(1), 0, 0
				for b.Loop() {
					n++
					h += 0x9e3779b97f4a7c15
					if loop == "branch" {
						if f.MayContain(h.Next()) {
							found++
						}
						continue
					}
					if f.MayContain(h.Next()) {
						found++
						h++
					}
					h ^= Hash(f.units[0].line(h)[0] & 1) // waits for memory as an answer would
				}
				b.ReportMetric(100*float64(found)/float64(n), "%maybe")
			})
		}
	}
}

// BenchmarkEight asks eight filters for absent keys: hashing the key for each; with one hash and one bitmap of
// answers, as a lookup does; and one after the other, each waiting for the answer before.
func BenchmarkEight(b *testing.B) {
	nothing := Hash(len(b.Name()) >> 20) // zero, but not known to the compiler
	if testing.Short() {
		b.Skip("100 million keys")
	}
	for _, n := range []uint64{1e5, 12_000_000} {
		var filters [8]*Filter
		for i := range filters {
			filters[i] = filterOf(b, benchParams(b, Unit{10, 6}), hashesOf(numbered, uint64(i)<<32, n))
		}
		key := make([]byte, 8)
		next := func(i uint64) []byte {
			i = i * 0x9e3779b97f4a7c15 >> 8
			for k := range key {
				key[k] = byte(i >> (8 * k))
			}
			return key
		}
		b.Run(fmt.Sprintf("keys=%d/hashed each", n), func(b *testing.B) {
			i, found := uint64(0), 0
			for b.Loop() {
				i++
				k := next(i)
				for _, f := range filters {
					if f.MayContain(HashKey(k)) {
						found++
					}
				}
			}
			b.ReportMetric(float64(found)/float64(i), "maybe/op")
		})
		b.Run(fmt.Sprintf("keys=%d/bitmap", n), func(b *testing.B) {
			i, found := uint64(0), 0
			for b.Loop() {
				i++
				h := Seed(0).Hash(HashKey(next(i)))
				answers := MayContainEach(filters[:], h)
				if answers != 0 {
					found++
				}
			}
			b.ReportMetric(float64(found)/float64(i), "maybe/op")
		})
		b.Run(fmt.Sprintf("keys=%d/one after the other", n), func(b *testing.B) {
			i, found := uint64(0), 0
			for b.Loop() {
				i++
				h := HashKey(next(i))
				for _, f := range filters {
					u := &f.units[0]
					if f.MayContain(h) {
						found++
					}
					h ^= Hash(u.line(h)[0]) & nothing
				}
			}
			b.ReportMetric(float64(found)/float64(i), "maybe/op")
		})
	}
}

// BenchmarkEach asks ten filters for an absent key with one bitmap of answers, as a lookup does, with one unit, with
// three, and with few probes. Filters of 1,000,000 keys do not fit into the caches of most processors together.
func BenchmarkEach(b *testing.B) {
	for _, keys := range []uint64{10_000, 1_000_000} {
		for _, units := range [][]Unit{{{10, 6}}, {{3.5, 2}, {3.5, 2}, {3.5, 2}}, {{5, 3}, {5, 3}}} {
			var filters [10]*Filter
			for i := range filters {
				filters[i] = filterOf(b, benchParams(b, units...), hashesOf(numbered, uint64(i)<<32, keys))
			}
			b.Run(fmt.Sprintf("keys=%d/units=%v", keys, units), func(b *testing.B) {
				i, found := uint64(0), 0
				for b.Loop() {
					i++
					h := Hash(i * mulNext).Next()
					if MayContainEach(filters[:], Seed(0).Hash(h)) != 0 {
						found++
					}
				}
				b.ReportMetric(float64(found)/float64(i), "maybe/op")
			})
		}
	}
}

// BenchmarkAppendSample measures the cost of a table's sample when the table is finished. Compare ns/key with five to
// nine for the filter's bits, and with writing the key.
func BenchmarkAppendSample(b *testing.B) {
	for _, keys := range []uint64{1000, 35_000, 1e6} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			var builder Builder
			for h := range hashesOf(numbered, 0, keys) {
				builder.Add(h)
			}
			var block []byte
			for b.Loop() {
				block = builder.AppendSample(block[:0])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(keys), "ns/key")
		})
	}
}

// BenchmarkOverlap estimates the overlap of one pair of tables.
func BenchmarkOverlap(b *testing.B) {
	s := sampleOf(b, hashesOf(numbered, 0, 35_000))
	f := filterOf(b, benchParams(b, Unit{10, 6}), hashesOf(numbered, 17_500, 35_000))
	for b.Loop() {
		s.Overlap(f)
	}
}
