package bloomkv_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
)

// loaded returns a settled store of n ascending keys of 8 bytes, with values of 100 bytes.
func loaded(b *testing.B, n int, o *bloomkv.Options) *bloomkv.DB {
	b.Helper()
	db := storetest.Open(b, b.TempDir(), o)
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	value := make([]byte, 100)
	must(b, db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
		key := make([]byte, 8)
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range n {
			binary.BigEndian.PutUint64(key, uint64(i))
			binary.LittleEndian.PutUint64(value, rng.Uint64())
			if !yield(bloomkv.KV{key, value}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{}))
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
			db := storetest.Open(b, b.TempDir(), nil)
			b.StartTimer()
			value, key := make([]byte, 100), make([]byte, 8)
			must(b, db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
				for i := range n {
					binary.BigEndian.PutUint64(key, uint64(i))
					binary.LittleEndian.PutUint64(value, uint64(i)*0x9e3779b97f4a7c15)
					if !yield(bloomkv.KV{key, value}, nil) {
						return
					}
				}
			}, bloomkv.IngestOptions{}))
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
			db := storetest.Open(b, b.TempDir(), nil)
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
	db := storetest.Open(b, b.TempDir(), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
	defer func() {
		must(b, db.Close())
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

// BenchmarkQueue pushes n items at the tail and then pops them all from the head, each by an iterator and a Delete. It
// reports the median of the pops, and how much longer the last tenth of them takes than the first. With -short, n is
// 1,000 and not a million.
//
//	go test -run '^$' -bench Queue -benchtime 1x .
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		if n > 1_000 && testing.Short() {
			continue
		}
		b.Run(map[int]string{1_000: "1k", 1_000_000: "1M"}[n], func(b *testing.B) {
			for b.Loop() {
				db := storetest.Open(b, b.TempDir(), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
				value := make([]byte, 100)
				key := make([]byte, 8)
				for i := range n {
					binary.BigEndian.PutUint64(key, uint64(i))
					must(b, db.Put(key, value))
				}
				pops := make([]time.Duration, n)
				for i := range pops {
					began := time.Now()
					it := db.Iter(bloomkv.IterOptions{KeysOnly: true})
					if !it.First() || binary.BigEndian.Uint64(it.Key()) != uint64(i) {
						b.Fatalf("pop %d: %x, %v", i, it.Key(), it.Err())
					}
					err := db.Delete(it.Key())
					must(b, cmp.Or(err, it.Close()))
					pops[i] = time.Since(began)
				}
				first, last := medianOf(pops[:n/10]), medianOf(pops[n-n/10:])
				b.ReportMetric(float64(medianOf(pops).Nanoseconds()), "ns/pop")
				b.ReportMetric(float64(sumOf(pops).Nanoseconds())/float64(n), "mean-ns/pop")
				b.ReportMetric(float64(last)/float64(first), "last/first")
				b.ReportMetric(float64(sumOf(pops[n-n/10:]))/float64(sumOf(pops[:n/10])), "mean-last/first")
				must(b, db.Close())
			}
		})
	}
}

// BenchmarkPoll polls a range of n deleted keys after a reopen, whose first poll is not measured: alone, with a write
// elsewhere before each poll, with a put and a delete in the range, and read-only.
func BenchmarkPoll(b *testing.B) {
	for _, n := range []int{1_000, 200_000} {
		for _, kind := range []string{"alone", "write", "put", "readonly"} {
			b.Run(fmt.Sprintf("%d/%s", n, kind), func(b *testing.B) {
				o := dead(b, n)
				o.ReadOnly = kind == "readonly"
				db := storetest.Open(b, "db", o)
				polls[0].poll(db)
				i := 0
				for b.Loop() {
					switch kind {
					case "write":
						must(b, db.Put([]byte("z"), nil))
					case "put":
						i++
						k := itemKey(i * 7919 % n)
						must(b, cmp.Or(db.Put(k, nil), db.Delete(k)))
					}
					if got, want := polls[0].poll(db), "<nil>"; got != want {
						b.Fatalf("got %q, want %q", got, want)
					}
				}
				must(b, db.Close())
			})
		}
	}
}

func medianOf(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

func sumOf(d []time.Duration) (sum time.Duration) {
	for _, x := range d {
		sum += x
	}
	return sum
}
