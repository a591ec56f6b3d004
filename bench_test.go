package bloomkv

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"testing"
)

// benchKeys is how many keys the benchmarks' store holds.
const benchKeys = 1_000_000

// benchKey is 16 bytes that look random and are in no order; odd numbers are never stored.
func benchKey(dst []byte, i uint64) []byte {
	h := i * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	dst = binary.BigEndian.AppendUint64(dst[:0], h)
	return binary.BigEndian.AppendUint64(dst, i)
}

func benchOptions() *Options {
	return &Options{
		Durability: NoSync, MemoryBudget: 512 << 20, MemtableSize: 64 << 20, Compression: NoCompression,
	}
}

func benchStore(b *testing.B, compact bool) *DB {
	b.Helper()
	db, err := Open(b.TempDir(), benchOptions())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	var key []byte
	value := make([]byte, 100)
	for i := range uint64(benchKeys) {
		key = benchKey(key, 2*(i*7919%benchKeys))
		if err := db.Put(key, value); err != nil {
			b.Fatal(err)
		}
	}
	if compact {
		err = db.Compact(context.Background(), nil, nil)
	} else {
		err = db.Flush(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	return db
}

func BenchmarkGet(b *testing.B) {
	db := benchStore(b, true)
	for kv, err := range db.Scan(ScanOptions{}) { // fills the cache
		if _ = kv; err != nil {
			b.Fatal(err)
		}
	}
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
			for kv, err := range db.Scan(ScanOptions{}) {
				if _ = kv; err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
	})
}

func BenchmarkLoad(b *testing.B) {
	db, err := Open(b.TempDir(), benchOptions())
	if err != nil {
		b.Fatal(err)
	}
	var key []byte
	value := make([]byte, 100)
	i := uint64(0)
	b.Run("random", func(b *testing.B) {
		for b.Loop() {
			i++
			key = benchKey(key, i)
			if err := db.Put(key, value); err != nil {
				b.Fatal(err)
			}
		}
	})
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
