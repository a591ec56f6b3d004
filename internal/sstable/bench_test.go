package sstable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

const (
	benchKeys   = 1_000_000
	benchTables = 14
)

// benchKey returns a random key of 16 bytes. The tables have the keys of the present indexes below benchKeys.
func benchKey(i uint64, absent bool) (k [16]byte) {
	if absent {
		i += benchKeys
	}
	x := i * 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>29) * 0x94d049bb133111eb
	binary.BigEndian.PutUint64(k[:], x^x>>32)
	binary.BigEndian.PutUint64(k[8:], x)
	return k
}

type benchStore struct {
	d      *epoch.Domain
	parts  *PartPool
	tables []*Reader
	fences [][16]byte
}

// A benchShape is a run of tables of one million keys.
type benchShape struct {
	tables   int
	capacity int64 // of the cache
	parts    int64 // bytes of the indexes; 0: all
	mapped   bool  // the files are mapped
	codec    Codec
	prefix   string              // of every key
	value    func(i int) (n int) // length of each; nil is 100 bytes
}

func newBenchStore(b *testing.B, shape benchShape) *benchStore {
	b.Helper()
	keys := make([][16]byte, benchKeys)
	for i := range keys {
		keys[i] = benchKey(uint64(i), false)
	}
	slices.SortFunc(keys, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	params, err := bloomblock.ParamsFor(0.01)
	must(b, err)
	s := &benchStore{d: new(epoch.Domain), parts: NewPartPool(cmp.Or(shape.parts, 1<<30))}
	c := cache.New(shape.capacity, s.d)
	value := make([]byte, 4096)
	for part := range slices.Chunk(keys, benchKeys/shape.tables) {
		var buf bytes.Buffer
		w := NewWriter(&buf, WriterOptions{ID: uint64(len(s.tables)), Filter: params, Codec: shape.codec})
		for i := range part {
			copy(value, part[i][:])
			n := 100
			if shape.value != nil {
				n = shape.value(i)
			}
			must(b, w.Add(ikey.Key{User: append([]byte(shape.prefix), part[i][:]...), Trailer: plainSet},
				value[:n]))
		}
		info, err := w.Finish()
		must(b, err)
		r := NewReader(bytes.NewReader(buf.Bytes()), metaOf(info), c, s.parts, s.d)
		if shape.mapped {
			f := &mappedFile{Reader: bytes.NewReader(buf.Bytes()), content: buf.Bytes()}
			r.file, r.mapped = f, f
		}
		must(b, r.Load(0))
		s.tables, s.fences = append(s.tables, r), append(s.fences, part[0])
	}
	return s
}

// warm reads every block once.
func (s *benchStore) warm() {
	for _, r := range s.tables {
		it := r.Iter(IterOptions{})
		for ok := it.First(); ok; ok = it.Next() {
		}
		_ = it.Close()
	}
}

func (s *benchStore) table(key []byte) *Reader {
	i := 0
	for n := len(s.fences); n > 1; {
		half := n >> 1
		if bytes.Compare(s.fences[i+half][:], key) <= 0 {
			i += half
		}
		n -= half
	}
	return s.tables[i]
}

func benchGet(b *testing.B, s *benchStore, absent, filter bool) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	lookup := func(st *Stats) bool {
		k := benchKey(rng.Uint64N(benchKeys), absent)
		r := s.table(k[:])
		if filter {
			if maybe, _ := r.Keys.MayContain(bloomblock.HashKey(k[:])); !maybe {
				return false
			}
		}
		g := s.d.Enter()
		hit, ok, err := r.Get(k[:], ikey.MaxSeq, st)
		if err != nil || ok && !bytes.Equal(hit.value[:16], k[:]) {
			b.Fatal("wrong value")
		}
		g.Leave()
		return ok
	}
	var st Stats
	for range 100_000 {
		lookup(&st)
	}
	s.warm()
	st = Stats{}
	b.ReportAllocs()
	for b.Loop() {
		if lookup(&st) == absent {
			b.Fatal("wrong answer")
		}
	}
	b.ReportMetric(float64(st.Blocks)/float64(b.N), "blocks/op")
	b.ReportMetric(float64(st.FileReads)/float64(b.N), "reads/op")
}

func BenchmarkGetPresentCached(b *testing.B) {
	benchGet(b, newBenchStore(b, benchShape{tables: benchTables, capacity: 512 << 20, codec: None}), false, false)
}

func BenchmarkGetAbsentCached(b *testing.B) {
	benchGet(b, newBenchStore(b, benchShape{tables: benchTables, capacity: 512 << 20, codec: None}), true, false)
}

func BenchmarkGetAbsentFiltered(b *testing.B) {
	benchGet(b, newBenchStore(b, benchShape{tables: benchTables, capacity: 512 << 20, codec: None}), true, true)
}

func BenchmarkGetPresentSmallCache(b *testing.B) {
	benchGet(b, newBenchStore(b, benchShape{tables: benchTables, capacity: 8 << 20, codec: None}), false, false)
}

func BenchmarkGetPresentSmallCacheS2(b *testing.B) {
	benchGet(b, newBenchStore(b, benchShape{tables: benchTables, capacity: 8 << 20, codec: S2}), false, false)
}

// The parts of the indexes do not fit: they are searched in place, in mapped files or read into a buffer.
func BenchmarkGetPresentInPlace(b *testing.B) {
	for name, mapped := range map[string]bool{"mapped": true, "read": false} {
		b.Run(name, func(b *testing.B) {
			benchGet(b, newBenchStore(b, benchShape{
				tables: benchTables, capacity: 8 << 20, codec: None, parts: 1, mapped: mapped,
			}), false, false)
		})
	}
}

func BenchmarkSeekInPlace(b *testing.B) {
	for name, mapped := range map[string]bool{"mapped": true, "read": false} {
		b.Run(name, func(b *testing.B) {
			benchSeek(b, newBenchStore(b, benchShape{
				tables: benchTables, capacity: 8 << 20, codec: None, parts: 1, mapped: mapped,
			}))
		})
	}
}

func BenchmarkScanCached(b *testing.B) {
	s := newBenchStore(b, benchShape{tables: benchTables, capacity: 512 << 20, codec: None})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		it := s.tables[0].Iter(IterOptions{})
		for ok := it.First(); ok; ok = it.Next() {
			n += len(it.Key().User) & 1
		}
		_ = it.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(benchKeys/benchTables), "ns/entry")
}

func BenchmarkSeekCached(b *testing.B) {
	benchSeek(b, newBenchStore(b, benchShape{tables: benchTables, capacity: 512 << 20, codec: None}))
}

func benchSeek(b *testing.B, s *benchStore) {
	b.Helper()
	its := make([]*Iter, len(s.tables))
	for i, r := range s.tables {
		its[i] = r.Iter(IterOptions{})
	}
	b.ReportAllocs()
	rng := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		k := benchKey(rng.Uint64N(benchKeys), false)
		r := s.table(k[:])
		it := its[slices.Index(s.tables, r)]
		if !it.SeekGE(ikey.Key{User: k[:], Trailer: ^ikey.Trailer(0)}) {
			b.Fatal("not found")
		}
		for range 10 {
			it.Next()
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, c := range []Codec{None, S2, Zstd} {
		b.Run(c.String(), func(b *testing.B) {
			keys := make([][16]byte, 100_000)
			for i := range keys {
				keys[i] = benchKey(uint64(i), false)
			}
			slices.SortFunc(keys, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
			params, err := bloomblock.ParamsFor(0.01)
			must(b, err)
			value := bytes.Repeat([]byte("0123456789"), 10)
			var size uint64
			b.ReportAllocs()
			for b.Loop() {
				w := NewWriter(discard{}, WriterOptions{Filter: params, Codec: c})
				for i := range keys {
					must(b, w.Add(ikey.Key{User: keys[i][:], Trailer: ikey.Trailer(i)<<8 | 1}, value))
				}
				info, err := w.Finish()
				must(b, err)
				size = info.Size
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/entry")
			b.ReportMetric(float64(size)/float64(len(keys)), "B/entry")
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkLoadPart loads a part of an index into memory that is used again, and into new memory.
func BenchmarkLoadPart(b *testing.B) {
	s := newBenchStore(b, benchShape{tables: benchTables, capacity: 8 << 20, codec: None, parts: 1, mapped: true})
	r := s.tables[3]
	t := r.top.Load()
	for name, again := range map[string]bool{"again": true, "new": false} {
		b.Run(name, func(b *testing.B) {
			var x *index
			b.ReportAllocs()
			for b.Loop() {
				if !again {
					x = nil
				}
				var err error
				x, err = r.loadPart(t, 3, x)
				must(b, err)
			}
			b.ReportMetric(float64(x.blocks()), "blocks")
		})
	}
}
