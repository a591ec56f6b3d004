package tests

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// readersOf returns a store with versions of a small number of keys in a memtable and in several runs of several
// tables, with tombstones of both kinds, ingested keys and snapshots. The model holds the expected contents.
func readersOf(tb testing.TB, seed uint64) *modelRun {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 71))
	m := &modelRun{
		next: func(n int) int { return rng.IntN(n) }, fs: vfstest.NewMem(), now: map[string]string{},
		durable: map[string]string{},
	}
	m.opts = storetest.Tiny(m.fs)
	var fileReads atomic.Int64
	m.opts.FS = vfstest.NewHook(m.fs, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt {
			fileReads.Add(1)
		}
		return nil
	})
	m.opts.FilterPrefix = modelRules[seed%uint64(len(modelRules))]
	m.opts.Durability, m.opts.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	m.opts.MemtableSize, m.opts.BlockSize = 256<<10, 256<<(seed%3)
	var err error
	if m.db, err = bloomkv.Open("db", m.opts); err != nil {
		tb.Fatal(err)
	}
	must := func(what string, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("seed %d, %s: %v", seed, what, err)
		}
	}
	for layer := range 7 {
		writes := 700
		if layer > 0 {
			writes = 150
		}
		for range writes {
			var w modelWrite
			switch n := rng.IntN(100); {
			case n < 75 || layer == 0:
				w = modelWrite{{key: string(m.key()), value: strings.Repeat(fmt.Sprint(layer, "."), rng.IntN(300))}}
			case n < 94:
				w = modelWrite{deleteOp(m.key())}
			case n < 99: // a few adjacent keys
				k := m.key()
				end := append([]byte{}, k...)
				if len(end) > 0 && end[len(end)-1] < 0xf8 {
					end[len(end)-1] += 3
				} else {
					end = append(end, 1)
				}
				w = modelWrite{{key: string(k), ranged: true, end: end}}
			default:
				w = modelWrite{m.rangeOp(), putOp(m.key(), nil)}
				if w[0].end == nil || w[0].key == "" {
					w = w[1:]
				}
			}
			must("write", m.wrote(m.db.ApplyWith(w.batch(), bloomkv.DurabilityNoSync), bloomkv.DurabilityNoSync, w))
		}
		if layer%2 == 1 || layer == 6 {
			snap, err := m.db.Snapshot()
			must("snapshot", err)
			m.snaps = append(m.snaps, &modelSnap{snap, maps.Clone(m.now)})
		}
		switch layer {
		case 1:
			must("compact", m.db.Compact(context.Background(), bloomkv.CompactOptions{}))
		case 4:
			must("ingest", m.ingest())
		case 6: // stays in memory
		default:
			must("flush", m.db.Flush(context.Background()))
		}
		for !m.db.Metrics().Settled {
			time.Sleep(100 * time.Microsecond)
		}
	}
	// Iterators have visited a row of dead keys: they have recorded it.
	for i := range 100 {
		k := fmt.Appendf(nil, "key%03d", 100+i)
		must("delete", m.wrote(m.db.Delete(k), bloomkv.DurabilityNoSync, modelWrite{deleteOp(k)}))
	}
	reads := func(r bloomkv.Reader) int64 { // of files, by a scan over the row
		before := fileReads.Load()
		for _, err := range r.Scan(bloomkv.IterOptions{Lower: []byte("key100"), Upper: []byte("key200")}) {
			must("scan", err)
		}
		return fileReads.Load() - before
	}
	snap, err := m.db.Snapshot()
	must("snapshot", err)
	for i := range 3 {
		must("compare", m.agree())
		k := fmt.Appendf(nil, "row%d", i)
		must("write", m.wrote(m.db.Put(k, nil), bloomkv.DurabilityNoSync, modelWrite{putOp(k, nil)}))
	}
	if walked, jumped := reads(snap), reads(m.db); 4*jumped > walked {
		tb.Fatalf("seed %d: %d reads by a scan over the dead keys, %d in a snapshot older than the record of them",
			seed, jumped, walked)
	}
	must("close", snap.Close())
	return m
}

// FuzzIterators interprets bytes as a program that opens iterators on a store and its snapshots, moves them in every
// order, and closes them: see modelRun.iterate.
func FuzzIterators(f *testing.F) {
	var stores []*modelRun
	f.Cleanup(func() {
		for _, m := range stores {
			if err := errors.Join(m.agree(), m.db.Close(), m.dropReaders()); err != nil {
				f.Error(err)
			}
		}
	})
	for seed := range uint64(6) {
		stores = append(stores, readersOf(f, seed))
	}
	for seed := range uint64(40) {
		program := make([]byte, 1500)
		rng := rand.New(rand.NewPCG(seed, 72))
		for i := range program {
			program[i] = byte(rng.Uint32())
		}
		f.Add(program)
	}
	f.Add([]byte{3, 1, 0, 255, 128, 0, 0, 0, 10, 0, 10, 0, 20})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 {
			return
		}
		store := stores[int(program[0])%len(stores)]
		m := &modelRun{db: store.db, opts: store.opts, now: store.now, snaps: store.snaps}
		m.next = func(n int) int {
			wide := 1
			if n > 256 {
				wide = 2
			}
			var b [2]byte
			program = program[copy(b[:wide], program):]
			return int(binary.LittleEndian.Uint16(b[:])) % n
		}
		for done := 0; len(program) > 0 && done < 2000; done++ {
			if err := m.iterate(); err != nil {
				t.Fatalf("%v\nafter: %s", err, m.tail())
			}
		}
		for _, i := range m.iters {
			if err := i.it.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
