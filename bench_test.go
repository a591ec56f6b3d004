package bloomkv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// benchKeys is the number of keys in the benchmarks' store.
const benchKeys = 1_000_000

// benchKey appends 16 bytes that look random and have no order; keys of odd numbers are never stored.
func benchKey(dst []byte, i uint64) []byte {
	h := i * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	dst = binary.BigEndian.AppendUint64(dst[:0], h)
	return binary.BigEndian.AppendUint64(dst, i)
}

func benchOptions() *bloomkv.Options {
	return &bloomkv.Options{
		Durability: bloomkv.DurabilityNoSync, MemoryBudget: 512 << 20, MemtableSize: 64 << 20,
		Compression: bloomkv.CompressionNone,
	}
}

// benchStore returns a compacted store of benchKeys pairs, completely cached.
func benchStore(b *testing.B) *bloomkv.DB {
	b.Helper()
	return benchStoreOf(b, benchKeys, 100)
}

// benchStoreOf returns a store like benchStore's, with the given number of keys and size of values.
func benchStoreOf(b *testing.B, keys uint64, valueBytes int) *bloomkv.DB {
	b.Helper()
	o := benchOptions()
	o.MemoryBudget = max(o.MemoryBudget, 64*int64(keys))
	db, err := bloomkv.Open(b.TempDir(), o)
	must(b, err)
	b.Cleanup(func() { _ = db.Close() })
	var key []byte
	value := make([]byte, valueBytes)
	for i := range keys {
		key = benchKey(key, 2*(i*7919%keys))
		must(b, db.Put(key, value))
	}
	must(b, db.Compact(context.Background(), bloomkv.CompactOptions{}))
	for _, err := range db.Scan(bloomkv.IterOptions{}) {
		must(b, err)
	}
	return db
}

func BenchmarkGet(b *testing.B) {
	db := benchStore(b)
	for _, absent := range []uint64{1, 0} {
		b.Run(fmt.Sprintf("present=%v", absent == 0), func(b *testing.B) {
			var key, value []byte
			before := db.Metrics().Lookups
			i := uint64(0)
			for b.Loop() {
				i++
				n, _ := bits.Mul64(i*0x9e3779b97f4a7c15, benchKeys)
				key = benchKey(key, 2*n+absent)
				var err error
				value, err = db.AppendGet(value[:0], key)
				if (err == nil) != (absent == 0) {
					b.Fatal(err)
				}
			}
			l := db.Metrics().Lookups
			b.ReportMetric(float64(l.Blocks-before.Blocks)/float64(b.N), "blocks/op")
			b.ReportMetric(float64(l.WastedReads-before.WastedReads)/float64(b.N), "wasted/op")
		})
	}
	b.Run("scan", func(b *testing.B) {
		n := 0
		for b.Loop() {
			for kv, err := range db.Scan(bloomkv.IterOptions{}) {
				if _ = kv; err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
	})
}

// BenchmarkGetParallel looks up keys on as many goroutines as processors. Its profile shows what they share; for absent
// keys that is no memory that is written to:
//
//	go test -run '^$' -bench GetParallel/present=false -benchtime 100000000x -cpuprofile cpu.prof .
//	go tool pprof -top bloomkv.test cpu.prof
func BenchmarkGetParallel(b *testing.B) {
	db := benchStore(b)
	for _, absent := range []uint64{1, 0} {
		b.Run(fmt.Sprintf("present=%v", absent == 0), func(b *testing.B) {
			var seeds atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				var key, value []byte
				for i := seeds.Add(1) << 32; pb.Next(); i++ {
					n, _ := bits.Mul64(i*0x9e3779b97f4a7c15, benchKeys)
					key = benchKey(key, 2*n+absent)
					var err error
					value, err = db.AppendGet(value[:0], key)
					if (err == nil) != (absent == 0) {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkLoad puts keys singly and in batches of 100, each variant into its own store; an op is one key.
//
//	go test -run '^$' -bench Load -benchtime 1000000x .
func BenchmarkLoad(b *testing.B) {
	for _, order := range []struct {
		name string
		key  func(dst []byte, i uint64) []byte
	}{
		{"random", benchKey},
		{"ascending", func(dst []byte, i uint64) []byte {
			return binary.BigEndian.AppendUint64(append(dst[:0], "ascending"...), i)
		}},
	} {
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/batch=%d", order.name, size), func(b *testing.B) {
				db, err := bloomkv.Open(b.TempDir(), benchOptions())
				must(b, err)
				var key []byte
				var batch bloomkv.Batch
				value := make([]byte, 100)
				i := uint64(0)
				for b.Loop() {
					i++
					key = order.key(key, i)
					if size == 1 {
						err = db.Put(key, value)
					} else if batch.Put(key, value); batch.Len() == size {
						err = db.ApplyWith(&batch, bloomkv.DurabilityNoSync)
						batch.Reset()
					}
					must(b, err)
				}
				must(b, db.Close())
			})
		}
	}
}

// BenchmarkPutSync puts keys singly, each durable when Put returns.
func BenchmarkPutSync(b *testing.B) {
	o := benchOptions()
	o.Durability = bloomkv.DurabilitySync
	db, err := bloomkv.Open(b.TempDir(), o)
	must(b, err)
	var key []byte
	value := make([]byte, 100)
	i := uint64(0)
	for b.Loop() {
		i++
		key = benchKey(key, i)
		must(b, db.Put(key, value))
	}
	must(b, db.Close())
}

// BenchmarkGetMany compares GetMany of 64 keys with 64 calls of AppendGet, at a million cached keys and, without
// -short, at twenty million, whose filters and blocks exceed any processor cache.
func BenchmarkGetMany(b *testing.B) {
	const group = 64
	for _, store := range []struct {
		keys       uint64
		valueBytes int
	}{{1_000_000, 100}, {20_000_000, 8}} {
		if testing.Short() && store.keys > benchKeys {
			continue
		}
		db := benchStoreOf(b, store.keys, store.valueBytes)
		for _, absent := range []uint64{0, 1} {
			name := fmt.Sprintf("keys=%d/%s", store.keys, map[uint64]string{0: "present", 1: "absent"}[absent])
			var keys [group][]byte
			i := uint64(0)
			pick := func() {
				for j := range keys {
					i += 7919
					keys[j] = benchKey(keys[j], i*0x9e3779b97f4a7c15%store.keys*2+absent)
				}
			}
			perKey := func(b *testing.B) {
				b.Helper()
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/group, "ns/key")
			}
			var dst []byte
			b.Run(name+"/one by one", func(b *testing.B) {
				for b.Loop() {
					pick()
					for _, k := range keys {
						var err error
						if dst, err = db.AppendGet(dst[:0], k); err != nil && absent == 0 {
							b.Fatal(err)
						}
					}
				}
				perKey(b)
			})
			b.Run(name+"/many", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					pick()
					must(b, db.GetMany(keys[:], func(_ int, v []byte, found bool) error {
						if found == (absent == 1) {
							return bloomkv.ErrNotFound
						}
						dst = append(dst[:0], v...)
						return nil
					}))
				}
				perKey(b)
			})
		}
	}
}

// BenchmarkSeek opens an iterator, seeks a key, makes a few steps and closes it.
func BenchmarkSeek(b *testing.B) {
	db := benchStore(b)
	for _, steps := range []int{0, 10} {
		for _, back := range []bool{false, true} {
			b.Run(fmt.Sprintf("steps=%d/back=%v", steps, back), func(b *testing.B) {
				b.ReportAllocs()
				var key []byte
				i := uint64(0)
				for b.Loop() {
					i += 7919
					key = benchKey(key, i*0x9e3779b97f4a7c15%benchKeys*2)
					it := db.Iter(bloomkv.IterOptions{})
					if back {
						it.SeekLT(key)
					} else {
						it.SeekGE(key)
					}
					for range steps {
						if back {
							it.Prev()
						} else {
							it.Next()
						}
					}
					must(b, it.Close())
				}
			})
		}
	}
}

// BenchmarkScan reads all pairs of a store of one run or four, whose blocks are all cached or a tenth of them. An op is
// one pair.
func BenchmarkScan(b *testing.B) {
	for _, runs := range []int{1, 4} {
		dir := b.TempDir()
		db, err := bloomkv.Open(dir, benchOptions())
		must(b, err)
		var key []byte
		value := make([]byte, 100)
		for run := range runs {
			for i := range uint64(benchKeys) {
				if own := int(i % 16); own == run || run == 0 && own >= runs { // the first run has the most
					key = benchKey(key, 2*i)
					must(b, db.Put(key, value))
				}
			}
			if run == 0 {
				must(b, db.Compact(context.Background(), bloomkv.CompactOptions{}))
			}
			must(b, db.Flush(context.Background())) // fewer than begin a compaction
		}
		must(b, db.Close())
		for _, budget := range []int64{512 << 20, 16 << 20} {
			db, err := bloomkv.Open(dir, &bloomkv.Options{MemoryBudget: budget})
			must(b, err)
			for _, back := range []bool{false, true} {
				b.Run(fmt.Sprintf("runs=%d/memory=%d/back=%v", runs, budget, back), func(b *testing.B) {
					it := db.Iter(bloomkv.IterOptions{})
					defer it.Close()
					begin, move := it.First, it.Next
					if back {
						begin, move = it.Last, it.Prev
					}
					for ok := begin(); ok; ok = move() { // from a warm cache
					}
					for b.Loop() {
						if !move() && !begin() {
							b.Fatal(it.Err())
						}
					}
				})
			}
			must(b, db.Close())
		}
	}
}

// BenchmarkUpdate compares transactions that read and write one key with a Get and a Put, in turns of 64 keys, of keys
// that are in the store and of keys that are not. It reports the times of each, the ratio, and the time of a
// transaction with a Put of another key in it, so that the memtable is asked whether the key has changed.
//
//	go test -run '^$' -bench Update -benchtime 5000x -count 6 .
func BenchmarkUpdate(b *testing.B) {
	const keys, turn = 200_000, 64
	for _, kind := range []struct {
		name string
		from uint64
	}{{"present", 0}, {"absent", keys}} {
		b.Run(kind.name, func(b *testing.B) {
			o := benchOptions()
			o.FS, o.Durability = vfstest.NewMem(), bloomkv.DurabilityNoSync
			db, err := bloomkv.Open("db", o)
			must(b, err)
			value := make([]byte, 100)
			var key, got []byte
			for i := range uint64(keys) {
				key = benchKey(key, i)
				must(b, db.Put(key, value))
			}
			must(b, db.Compact(b.Context(), bloomkv.CompactOptions{}))
			next := kind.from
			step := func() []byte {
				if next++; next == keys {
					next = 0
				}
				key = benchKey(key, next)
				return key
			}
			check := func(err error) {
				if err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
					b.Fatal(err)
				}
			}
			ctx := context.Background()
			other := []byte("written meanwhile")
			ways := []func(){
				func() {
					k := step()
					got, err = db.AppendGet(got[:0], k)
					check(err)
					check(db.Put(k, value))
				},
				func() {
					k := step()
					check(db.Update(ctx, func(tx *bloomkv.Tx) (err error) {
						got, err = tx.AppendGet(got[:0], k)
						check(err)
						return tx.Put(k, value)
					}))
				},
				func() {
					k := step()
					check(db.Put(other, value))
					check(db.Update(ctx, func(tx *bloomkv.Tx) (err error) {
						got, err = tx.AppendGet(got[:0], k)
						check(err)
						return tx.Put(k, value)
					}))
				},
				func() {
					k := step()
					check(db.Update(ctx, func(tx *bloomkv.Tx) (err error) {
						got, err = tx.AppendGet(got[:0], k)
						check(err)
						check(db.Put(other, value))
						return tx.Put(k, value)
					}))
				},
			}
			took := make([][]time.Duration, len(ways))
			for b.Loop() {
				for i, way := range ways {
					began := time.Now()
					for range turn {
						way()
					}
					took[i] = append(took[i], time.Since(began)/turn)
				}
			}
			b.ReportMetric(0, "ns/op")
			median := func(i int) float64 { return float64(medianOf(took[i]).Nanoseconds()) }
			b.ReportMetric(median(0), "ns/get+put")
			b.ReportMetric(median(1), "ns/update")
			b.ReportMetric(median(1)/median(0), "ratio")
			b.ReportMetric(median(3)-median(2), "ns/check")
			must(b, db.Close())
		})
	}
}
