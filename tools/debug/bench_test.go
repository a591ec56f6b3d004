package debug_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/debug"
	"github.com/bloomkv/bloomkv/tools/machine"
)

const (
	benchKeys = 200_000
	viewers   = 10
)

// BenchmarkViewers measures operations, 95 lookups for 5 puts, on all processors: in turns without viewers and while
// ten watch the live figures. Half of the looked-up keys are absent. An iteration is a turn of each kind, so that
//
//	go test -run '^$' -bench Viewers -benchtime 11x ./debug
//
// measures eleven. It reports the medians of the turns, in nanoseconds per operation, and the median of the ratios, of
// processor time too, which other programs disturb less, and which includes the viewers themselves. With pages, the
// viewers also load the page when they come, which reads the files of the store. A turn takes two seconds, or with
// -short a fifth of one.
func BenchmarkViewers(b *testing.B) {
	for _, c := range []struct {
		name  string
		pages bool
	}{{"events", false}, {"pages", true}} {
		b.Run(c.name, func(b *testing.B) {
			db := benchStore(b)
			defer db.Close()
			server := httptest.NewServer(debug.Handler(db, debug.Options{}))
			defer server.Close()
			operate(b, db) // warm
			var without, with, ratios, processor []float64
			for b.Loop() {
				var ns [2]cost // without viewers, and with
				for i := range ns {
					if watched := (i+len(ratios))%2 == 1; watched { // the order alternates
						ns[1] = beside(b, server.URL, c.pages, func() cost { return operate(b, db) })
					} else {
						ns[0] = operate(b, db)
					}
				}
				without, with = append(without, ns[0].clock), append(with, ns[1].clock)
				ratios = append(ratios, ns[1].clock/ns[0].clock)
				processor = append(processor, ns[1].processor/ns[0].processor)
			}
			b.ReportMetric(0, "ns/op") // of an iteration
			b.ReportMetric(median(without), "ns-without")
			b.ReportMetric(median(with), "ns-with")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(processor), "cpu-ratio")
		})
	}
}

// A cost is the time of an operation, in nanoseconds.
type cost struct{ clock, processor float64 }

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

// benchKey returns a key; the even ones are in the store.
func benchKey(dst []byte, i uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, i*0x9e3779b97f4a7c15)
}

func benchStore(b *testing.B) *bloomkv.DB {
	b.Helper()
	db, err := bloomkv.Open(filepath.Join(b.TempDir(), "store"), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
	must(b, err)
	value := make([]byte, 100)
	for i := range uint64(benchKeys) {
		must(b, db.Put(benchKey(nil, 2*i), value))
	}
	must(b, db.Compact(b.Context(), bloomkv.CompactOptions{}))
	return db
}

// operate works on the store for a turn, on all processors.
func operate(b *testing.B, db *bloomkv.DB) cost {
	b.Helper()
	var wg sync.WaitGroup
	var ops atomic.Uint64
	workers := uint64(runtime.GOMAXPROCS(0))
	turn := 2 * time.Second
	if testing.Short() {
		turn /= 10
	}
	before, _ := machine.Read() // zeros on systems that do not count
	began := time.Now()
	for w := range workers {
		wg.Go(func() {
			value, key, dst := make([]byte, 100), make([]byte, 0, 8), []byte(nil)
			n := w * benchKeys
			operation := func() (err error) {
				if n++; n%20 == 0 {
					return db.Put(benchKey(key, 2*(n/20%benchKeys)), value)
				}
				dst, err = db.AppendGet(dst[:0], benchKey(key, n%(2*benchKeys)))
				if errors.Is(err, bloomkv.ErrNotFound) {
					return nil
				}
				return err
			}
			for ; time.Since(began) < turn; ops.Add(1000) {
				for range 1000 {
					if err := operation(); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	took, n := time.Since(began), float64(max(ops.Load(), 1))
	now, _ := machine.Read()
	spent := now.Sub(before)
	return cost{
		clock:     float64(took.Nanoseconds()) * float64(workers) / n,
		processor: float64((spent.User + spent.System).Nanoseconds()) / n,
	}
}

// beside runs body while viewers watch.
func beside(b *testing.B, address string, pages bool, body func() cost) cost {
	b.Helper()
	ctx, leave := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for range viewers {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/events?page", http.NoBody)
		must(b, err)
		answer, err := http.DefaultClient.Do(r)
		must(b, err)
		wg.Go(func() {
			if pages {
				if r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/", http.NoBody); err != nil {
					b.Error(err)
				} else if page, err := http.DefaultClient.Do(r); err == nil {
					read(page)
				}
			}
			read(answer)
		})
	}
	ns := body()
	leave()
	wg.Wait()
	return ns
}

// read reads an answer until it ends.
func read(answer *http.Response) {
	defer answer.Body.Close()
	for b := bufio.NewReader(answer.Body); ; {
		if _, err := b.Discard(1 << 10); err != nil {
			return
		}
	}
}
