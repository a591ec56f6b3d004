package replica

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/machine"
)

// served is a node with a server on a port of its own.
type served struct {
	*Node
	server *http.Server
}

// serve starts three nodes of this process, on the real file system, that talk over loopback.
func serve(b *testing.B) []served {
	b.Helper()
	dir := b.TempDir()
	var all []served
	for i, id := range []string{"a", "b", "c"} {
		l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		n, err := Open(b.Context(), Options{
			ID: id, Address: l.Addr().String(), Dir: filepath.Join(dir, id), Bootstrap: i == 0,
		})
		if err != nil {
			b.Fatal(err)
		}
		s := &http.Server{Handler: n.Handler(), ReadHeaderTimeout: time.Minute}
		go func() { _ = s.Serve(l) }() // until it is closed
		all = append(all, served{n, s})
		if i > 0 {
			if err := all[0].Join(b.Context(), id, l.Addr().String()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Cleanup(func() {
		for _, s := range all {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
			_ = s.server.Close() // nothing is left to lose
		}
	})
	return all
}

// BenchmarkPut measures writes of 16-byte keys and 100-byte values by concurrent clients at the leader, all three nodes
// in one process: the processor time is that of all. "alone" is one store without Raft that syncs each group of writes.
// With 100 operations in each batch, the figures are per operation.
func BenchmarkPut(b *testing.B) {
	for name, open := range map[string]func(*testing.B) func(context.Context, *bloomkv.Batch) error{
		"alone": alone, "three": three,
	} {
		b.Run("nodes="+name, func(b *testing.B) {
			apply := open(b)
			for _, run := range []struct{ clients, operations int }{{1, 1}, {16, 1}, {64, 1}, {256, 1}, {16, 100}} {
				b.Run(fmt.Sprintf("clients=%d/batch=%d", run.clients, run.operations), func(b *testing.B) {
					puts(b, run.clients, run.operations, apply)
				})
			}
		})
	}
}

// three returns Apply of the leader of three nodes.
func three(b *testing.B) func(context.Context, *bloomkv.Batch) error {
	b.Helper()
	leader := serve(b)[0]
	if leader.raft.State() != raft.Leader {
		b.Fatal("the first node does not lead")
	}
	return leader.Apply
}

// alone returns Apply of one store.
func alone(b *testing.B) func(context.Context, *bloomkv.Batch) error {
	b.Helper()
	db, err := bloomkv.Open(filepath.Join(b.TempDir(), "alone"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return func(_ context.Context, batch *bloomkv.Batch) error { return db.Apply(batch) }
}

func puts(b *testing.B, clients, operations int, apply func(context.Context, *bloomkv.Batch) error) {
	b.Helper()
	var next atomic.Uint64
	var running sync.WaitGroup
	before, counted := machine.Read()
	b.ResetTimer()
	for range clients {
		running.Go(func() {
			var batch bloomkv.Batch
			key, value := make([]byte, 16), make([]byte, 100)
			for {
				batch.Reset()
				for range operations {
					i := next.Add(1)
					if i > uint64(b.N) {
						break
					}
					binary.BigEndian.PutUint64(key, i*0x9e3779b97f4a7c15) // in random order
					batch.Put(key, value)
				}
				if batch.Len() == 0 {
					return
				}
				if err := apply(b.Context(), &batch); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
	if after, ok := machine.Read(); counted && ok {
		used := after.Sub(before)
		b.ReportMetric(float64((used.User+used.System).Microseconds())/float64(b.N), "cpu-us/put")
	}
}
