package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A hostileKind is a way to build a small store, with the options to open it.
type hostileKind struct {
	compression bloomkv.Compression
	filter      bloomkv.FilterKind
	fpr         float64 // 1 for no filters
	prefix      bool    // with prefix filters
	ranges      bool    // with range deletes
	large       bool    // with runs of several tables
	killed      bool    // with logs, as left by a process death
	parts       bool    // with indexes in parts
	short       int64   // bytes that are too few for its filters of several pages, beside all else; 0 for enough

	once   sync.Once
	built  *forgedStore
	keys   [][]byte           // most keys written, deleted ones included
	little *bloomkv.Resources // if short, while a test uses the kind
}

var hostileKinds = []*hostileKind{
	{compression: bloomkv.CompressionS2, filter: bloomkv.FilterBloom, fpr: 0.05, ranges: true},
	{
		compression: bloomkv.CompressionZstdBottom, filter: bloomkv.FilterRibbon, fpr: 0.05, prefix: true, ranges: true,
		killed: true,
	},
	{compression: bloomkv.CompressionNone, filter: bloomkv.FilterBloom, fpr: 0.05, prefix: true, large: true},
	{
		compression: bloomkv.CompressionS2, filter: bloomkv.FilterRibbon, fpr: 0.05, large: true, ranges: true,
		killed: true,
	},
	{compression: bloomkv.CompressionZstdBottom, filter: bloomkv.FilterBloom, fpr: 1, ranges: true},
	{compression: bloomkv.CompressionNone, filter: bloomkv.FilterRibbon, fpr: 0.3, prefix: true, killed: true},
	{compression: bloomkv.CompressionS2, filter: bloomkv.FilterBloom, fpr: 0.05, ranges: true, parts: true},
	{
		compression: bloomkv.CompressionNone, filter: bloomkv.FilterRibbon, fpr: 0.05, prefix: true, large: true,
		killed: true, parts: true,
	},
	{compression: bloomkv.CompressionZstdBottom, filter: bloomkv.FilterBloom, fpr: 0.01, parts: true, short: 24 << 10},
	{compression: bloomkv.CompressionS2, filter: bloomkv.FilterRibbon, fpr: 0.01, ranges: true, short: 4 << 10},
}

func (k *hostileKind) String() string {
	return fmt.Sprintf("compression %d, filter %d of rate %v, prefixes %v, range deletes %v, large %v, killed %v, "+
		"parts %v, short %d",
		k.compression, k.filter, k.fpr, k.prefix, k.ranges, k.large, k.killed, k.parts, k.short)
}

func (k *hostileKind) options(fsys vfs.FS) *bloomkv.Options {
	o := storetest.Tiny(fsys)
	o.BlockSize = 256
	o.Compression, o.FilterKind, o.FilterFPR = k.compression, k.filter, k.fpr
	if k.prefix {
		o.FilterPrefix = bloomkv.PrefixLen(2)
	}
	if k.short > 0 {
		o.MemoryBudget, o.Resources, o.MemtableSize, o.TableSize = 0, k.little, 64<<10, 256<<10
		o.BaseLevelSize = 256 << 10
	}
	return o
}

// store returns a decoded store of the kind, which the caller may change. It is the same in each process, random ids
// included, so that a seed reproduces a failure, except in the rare case of another order of background work.
func (k *hostileKind) store(t *testing.T) *forgedStore {
	t.Helper()
	if k.short > 0 && k.little == nil {
		k.little = littleMemory(t, k.short)
		t.Cleanup(func() { k.little = nil })
	}
	k.once.Do(func() {
		sstable.SetPartSize(0)
		if k.parts {
			sstable.SetPartSize(64)
		}
		defer sstable.SetPartSize(*partSize)
		cryptotest.SetGlobalRandom(t, uint64(slices.Index(hostileKinds, k)))
		fsys, err := k.build()
		if err == nil {
			k.built, err = openForged(fsys, "db")
		}
		if err == nil {
			k.built.edit(func(e *manifest.Edit) { // fields that depend on scheduling
				if e.NextFile != 0 {
					e.NextFile = 1 << 10
				}
				if e.Log != nil {
					e.Log.Synced = min(e.Log.Synced, wal.FirstRecord)
				}
			})
		}
		if err != nil {
			t.Fatalf("%v: %v", k, err)
		}
	})
	if k.built == nil {
		t.Fatalf("%v: no store", k)
	}
	return k.built.clone()
}

// build writes a last level, newer versions above it that a snapshot kept, tombstones, and an ingested run on top.
func (k *hostileKind) build() (*vfstest.Mem, error) {
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", k.options(mem))
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	value := func(i int) []byte {
		if k.large {
			b := make([]byte, 900)
			for j := range b {
				b[j] = byte(rng.Uint32())
			}
			return b
		}
		return []byte(strings.Repeat(fmt.Sprint(i, "."), i%20))
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "%c%c/%02d-key-of-some-length", 'a'+i%3, 'a'+i/40, i%40) }
	must := func(e error) {
		if err == nil {
			err = e
		}
	}
	settle := func() { // waits for background work, so that random ids are always drawn in the same order
		for err == nil && !storetest.Rests(db, mem, "db") {
			time.Sleep(100 * time.Microsecond)
		}
	}
	flush := func() {
		settle()
		must(db.Flush(context.Background()))
		settle()
	}
	var b bloomkv.Batch
	put := func(from, to, step int) {
		b.Reset()
		for i := from; i < to; i += step {
			b.Put(key(i), value(i))
			k.keys = append(k.keys, key(i))
			if b.Size() > 8<<10 { // half a memtable
				must(db.ApplyWith(&b, bloomkv.DurabilityNoSync))
				b.Reset()
				flush()
			}
		}
		must(db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	}
	settle()
	put(0, 60, 1)
	b.Reset()
	b.Put(nil, []byte("the empty key"))
	must(db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	k.keys = append(k.keys, []byte{})
	if k.short > 0 {
		b.Reset()
		for i := range 4500 {
			b.Put(fmt.Appendf(nil, "bb%04d", i), nil)
		}
		must(db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	}
	settle()
	must(db.Compact(context.Background(), bloomkv.CompactOptions{}))
	settle()
	snap, e := db.Snapshot()
	must(e)
	put(10, 50, 4)
	second, e := db.Snapshot()
	must(e)
	for i := range 30 { // versions of one key over several blocks
		must(db.Put(key(20), value(i+5)))
		s, e := db.Snapshot()
		must(e)
		if e == nil {
			defer s.Close()
		}
	}
	must(db.Delete(key(11)))
	if k.ranges {
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(30), Upper: key(33)}))
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(50)}))
	}
	flush()
	if k.ranges {
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(1), Upper: key(4)}))
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(31), Upper: key(42)}))
	}
	put(5, 58, 9)
	must(db.Delete(key(14)))
	flush()
	opts := bloomkv.IngestOptions{}
	if k.ranges {
		opts.Replace = &bloomkv.KeyRange{Lower: key(6), Upper: key(9)}
	}
	must(db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
		for i := 120; i < 130; i++ {
			k.keys = append(k.keys, fmt.Appendf(nil, "b%03d", i))
			if !yield(bloomkv.KV{Key: fmt.Appendf(nil, "b%03d", i), Value: value(i)}, nil) {
				return
			}
		}
	}, opts))
	settle()
	if err != nil {
		return nil, err
	}
	must(snap.Close())
	must(second.Close())
	must(db.Close())
	if !k.killed || err != nil {
		return mem, err
	}
	if db, err = bloomkv.Open("db", k.options(mem)); err != nil {
		return nil, err
	}
	settle()
	put(3, 60, 13)
	flush()
	if k.ranges {
		must(db.DeleteRange(bloomkv.KeyRange{Lower: key(8), Upper: key(9)}))
	}
	must(db.Put(key(40), value(40)))
	put(4, 60, 17)
	settle()
	left := mem.Kill()
	must(db.Close())
	return left, err
}
