package bloomkv_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
)

// loaded returns a settled store of n ascending keys of 8 bytes, with values of 100 bytes.
func loaded(b *testing.B, n int, o *bloomkv.Options) *bloomkv.DB {
	b.Helper()
	db, err := bloomkv.Open(b.TempDir(), o)
	must(b, err)
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	value := make([]byte, 100)
	if err := db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
		key := make([]byte, 8)
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range n {
			binary.BigEndian.PutUint64(key, uint64(i))
			binary.LittleEndian.PutUint64(value, rng.Uint64())
			if !yield(bloomkv.KV{key, value}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{}); err != nil {
		b.Fatal(err)
	}
	return db
}

// BenchmarkDeleteRange deletes ranges of n keys, one after the other. Each costs one small write, independent of n.
func BenchmarkDeleteRange(b *testing.B) {
	const keys = 1_000_000
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			db := loaded(b, keys, &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
			lo, hi := make([]byte, 8), make([]byte, 8)
			i := 0
			for b.Loop() {
				from := i * n % keys
				i++
				binary.BigEndian.PutUint64(lo, uint64(from))
				binary.BigEndian.PutUint64(hi, uint64(from+n))
				must(b, db.DeleteRange(bloomkv.KeyRange{Lower: lo, Upper: hi}))
			}
		})
	}
}

// BenchmarkIngest compares two ways to load a million keys: ingested in order, and put in random order in batches of
// 100 and then flushed. Both are durable at the end.
//
//	go test -run '^$' -bench Ingest -benchtime 3x .
func BenchmarkIngest(b *testing.B) {
	const n = 1_000_000
	b.Run("ingest", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			db, err := bloomkv.Open(b.TempDir(), nil)
			must(b, err)
			b.StartTimer()
			value, key := make([]byte, 100), make([]byte, 8)
			if err := db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
				for i := range n {
					binary.BigEndian.PutUint64(key, uint64(i))
					binary.LittleEndian.PutUint64(value, uint64(i)*0x9e3779b97f4a7c15)
					if !yield(bloomkv.KV{key, value}, nil) {
						return
					}
				}
			}, bloomkv.IngestOptions{}); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			must(b, db.Close())
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
	})
	b.Run("random", func(b *testing.B) {
		order := rand.New(rand.NewPCG(1, 1)).Perm(n)
		for b.Loop() {
			b.StopTimer()
			db, err := bloomkv.Open(b.TempDir(), nil)
			must(b, err)
			b.StartTimer()
			value, key := make([]byte, 100), make([]byte, 8)
			var batch bloomkv.Batch
			for i, k := range order {
				binary.BigEndian.PutUint64(key, uint64(k))
				binary.LittleEndian.PutUint64(value, uint64(k)*0x9e3779b97f4a7c15)
				batch.Put(key, value)
				if i%100 == 99 {
					must(b, db.ApplyWith(&batch, bloomkv.DurabilityNoSync))
					batch.Reset()
				}
			}
			must(b, db.Flush(context.Background()))
			b.StopTimer()
			must(b, db.Close())
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
	})
}

// BenchmarkPutBesideIterators measures how much slower Put gets if an iterator is opened, moved and closed after each
// one: the time of the iterator is not counted. Series of puts with and without iterators alternate on one store.
//
//	go test -run '^$' -bench PutBesideIterators -benchtime 1000000x .
func BenchmarkPutBesideIterators(b *testing.B) {
	db, err := bloomkv.Open(b.TempDir(), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
	must(b, err)
	defer func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}()
	rng := rand.New(rand.NewPCG(1, 1))
	key, value := make([]byte, 8), make([]byte, 100)
	var took [2][]time.Duration // without and with iterators
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(key, rng.Uint64())
		began := time.Now()
		err := db.Put(key, value)
		with := i >> 12 & 1
		took[with] = append(took[with], time.Since(began))
		must(b, err)
		if with == 1 {
			it := db.Iter(bloomkv.IterOptions{})
			it.SeekGE(key)
			must(b, it.Close())
		}
	}
	if len(took[1]) > 0 {
		without, with := medianOf(took[0]), medianOf(took[1])
		b.ReportMetric(float64(without), "ns/put-without")
		b.ReportMetric(float64(with), "ns/put-with")
		b.ReportMetric(float64(with)/float64(without), "with/without")
	}
}
