package tests

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
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
	m.db = storetest.Open(tb, "db", m.opts)
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
	testkit.Long(f)
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
			must(t, i.it.Close())
		}
	})
}

// TestIteratorsOfSettledDataAgreeWithAMap walks at random over one compacted run, where most versions have no sequence
// number and iterators step from entry to entry without a merge, and over what can lie between and above them.
func TestIteratorsOfSettledDataAgreeWithAMap(t *testing.T) {
	testkit.Long(t)
	const keys = 2000
	for _, values := range []string{"equally long", "of many lengths"} {
		key := func(i int) []byte {
			k := fmt.Appendf(nil, "key/%06d", i)
			if values == "of many lengths" {
				k = append(k, "and more"[:i%9]...)
			}
			return k
		}
		value := func(i, round int) []byte {
			n := 60
			if values == "of many lengths" {
				n = i * 7 % 90
			}
			return fmt.Appendf(nil, "%d.%d%s", i, round, strings.Repeat("v", n))
		}
		db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem()})
		want := map[string]string{}
		put := func(i, round int) {
			must(t, db.Put(key(i), value(i, round)))
			want[string(key(i))] = string(value(i, round))
		}
		for i := range keys {
			put(2*i, 0)
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		check := func(what string, r bloomkv.Reader, want map[string]string) {
			t.Helper()
			if err := randomWalks(r, want, rand.New(rand.NewPCG(1, uint64(len(want))))); err != nil {
				t.Fatalf("keys and values %s, %s: %v", values, what, err)
			}
		}
		check("settled", db, want)
		for round := range 3 { // few enough that most keys between two of them are of one table
			for i := 10 * round; i < keys; i += 97 {
				put(2*i, 3)
				put(2*i+1, 3)
				must(t, db.Delete(key(2*i+20)))
				delete(want, string(key(2*i+20)))
			}
			check("a few written in memory", db, want)
			must(t, db.Flush(t.Context()))
			check("and in a table", db, want)
		}
		for i := range keys {
			put(2*i, 0)
		}
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		check("settled again", db, want)

		snap, err := db.Snapshot()
		must(t, err)
		before := maps.Clone(want)
		for i := range keys {
			switch i % 9 {
			case 0, 1:
				put(2*i, 1)
			case 2:
				must(t, db.Delete(key(2*i)))
				delete(want, string(key(2*i)))
			}
		}
		check("overwritten in memory", db, want)
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		check("compacted beside a snapshot", db, want)
		check("the snapshot", snap, before)

		added := map[string]string{}
		for i := range 300 {
			added[string(key(2*i+1))] = "ingested"
		}
		must(t, db.Ingest(t.Context(), storetest.PairsOf(added), bloomkv.IngestOptions{}))
		maps.Copy(want, added)
		check("ingested", db, want)
		check("the snapshot before", snap, before)
		must(t, snap.Close())

		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		must(t, db.DeleteRange(bloomkv.KeyRange{Lower: key(501), Upper: key(1502)}))
		maps.DeleteFunc(want, func(k, _ string) bool { return k >= string(key(501)) && k < string(key(1502)) })
		check("a range deleted in memory", db, want)
		put(4*keys, 2)
		must(t, db.Flush(t.Context()))
		check("and in a table", db, want)
		must(t, db.Close())
	}
}

// randomWalks compares iterators with random bounds, moved at random, with a map.
func randomWalks(r bloomkv.Reader, all map[string]string, random *rand.Rand) error {
	sorted := slices.Sorted(maps.Keys(all))
	somewhere := func() []byte {
		k := []byte(sorted[random.IntN(len(sorted))])
		switch random.IntN(3) {
		case 0:
			return append(k, 0) // after a key
		case 1:
			return k[:len(k)-1] // before ten keys
		}
		return k
	}
	for range 30 {
		o, keys := bloomkv.IterOptions{KeysOnly: random.IntN(5) == 0}, sorted
		if random.IntN(2) == 0 {
			o.Lower = somewhere()
			keys = keys[lowerBound(keys, o.Lower):]
		}
		if random.IntN(2) == 0 {
			o.Upper = somewhere()
			keys = keys[:lowerBound(keys, o.Upper)]
		}
		it := r.Iter(o)
		at := -1
		for range 60 {
			steps, move := 1, func() bool { return it.Next() }
			step := 1
			switch random.IntN(8) {
			case 0:
				move, step, steps = it.Prev, -1, 1+random.IntN(3)
			case 5, 6:
				move, step, steps = it.Prev, -1, 1+random.IntN(80)
			case 1:
				k := somewhere()
				move, step = func() bool { return it.SeekGE(k) }, 0
				at = lowerBound(keys, k)
			case 2:
				k := somewhere()
				move, step = func() bool { return it.SeekLT(k) }, 0
				at = lowerBound(keys, k) - 1
			case 3:
				k := bytes.Clone(it.Key()) // itself, or the first if it is at none
				move, step = func() bool { return it.SeekGE(k) }, 0
				at = lowerBound(keys, k)
			case 4:
				move, step, at = it.First, 0, 0
			default:
				steps = 1 + random.IntN(80)
			}
			for range steps {
				if step != 0 && (at < 0 || at >= len(keys)) {
					break // a move from the end depends on how it came there
				}
				ok := move()
				at += step
				inside := at >= 0 && at < len(keys)
				where := fmt.Sprintf("at %d of %d keys in [%q, %q)", at, len(keys), o.Lower, o.Upper)
				if ok != inside || it.Err() != nil {
					return fmt.Errorf("%s: %v, %w", where, ok, it.Err())
				}
				if inside && (string(it.Key()) != keys[at] || !o.KeysOnly && string(it.Value()) != all[keys[at]] ||
					o.KeysOnly && it.Value() != nil) {
					return fmt.Errorf("%s: %q = %.40q, want %q = %.40q", where, it.Key(), it.Value(), keys[at],
						all[keys[at]])
				}
			}
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	return nil
}

// lowerBound returns the index of the first key at or after k.
func lowerBound(keys []string, k []byte) int {
	i, _ := slices.BinarySearch(keys, string(k))
	return i
}
