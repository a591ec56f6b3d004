package bloomkv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

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
