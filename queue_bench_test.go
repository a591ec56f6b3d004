package bloomkv_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
)

// BenchmarkQueue pushes n items at the tail and then pops them all from the head, each by an iterator and a Delete. It
// reports the median of the pops, and how much longer the last tenth of them takes than the first.
//
//	go test -run '^$' -bench Queue -benchtime 1x .
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(map[int]string{1_000: "1k", 1_000_000: "1M"}[n], func(b *testing.B) {
			for b.Loop() {
				db, err := bloomkv.Open(b.TempDir(), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
				must(b, err)
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
				db, err := bloomkv.Open("db", o)
				must(b, err)
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
