package bloomkv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/vfs"
)

// A hostileKind is a way to make a small store, and the options to open it with.
type hostileKind struct {
	compression Compression
	filter      FilterKind
	fpr         float64 // 1: without filters
	prefix      bool    // filters of prefixes too
	ranges      bool    // range deletes
	large       bool    // tables enough for runs of several
	killed      bool    // with logs, as the death of a process leaves it

	once  sync.Once
	built *forgedStore
	keys  [][]byte // that were written, deleted ones too
}

var hostileKinds = []*hostileKind{
	{compression: S2, filter: BloomFilter, fpr: 0.05, ranges: true},
	{compression: ZstdBottom, filter: RibbonFilter, fpr: 0.05, prefix: true, ranges: true, killed: true},
	{compression: NoCompression, filter: BloomFilter, fpr: 0.05, prefix: true, large: true},
	{compression: S2, filter: RibbonFilter, fpr: 0.05, large: true, ranges: true, killed: true},
	{compression: ZstdBottom, filter: BloomFilter, fpr: 1, ranges: true},
	{compression: NoCompression, filter: RibbonFilter, fpr: 0.3, prefix: true, killed: true},
}

func (k *hostileKind) String() string {
	return fmt.Sprintf("compression %d, filter %d of rate %v, prefixes %v, range deletes %v, large %v, killed %v",
		k.compression, k.filter, k.fpr, k.prefix, k.ranges, k.large, k.killed)
}

func (k *hostileKind) options(fsys vfs.FS) *Options {
	o := tiny(fsys)
	o.BlockSize = 256
	o.Compression, o.FilterKind, o.FilterFPR = k.compression, k.filter, k.fpr
	if k.prefix {
		o.FilterPrefix = PrefixLen(2)
	}
	return o
}

// store is a store of the kind, taken apart; the caller may change it. Its tree is the same in each process, its random ids are not.
func (k *hostileKind) store(tb testing.TB) *forgedStore {
	tb.Helper()
	k.once.Do(func() {
		fsys, err := k.build()
		if err == nil {
			k.built, err = openForged(fsys, "db")
		}
		if err != nil {
			tb.Fatalf("%v: %v", k, err)
		}
	})
	if k.built == nil {
		tb.Fatalf("%v: no store", k)
	}
	return k.built.clone()
}

// build writes a last level, versions over it that a snapshot held, tombstones, and an ingested run on top.
func (k *hostileKind) build() (*vfs.Mem, error) {
	mem := vfs.NewMem()
	db, err := Open("db", k.options(mem))
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
	settle := func() {
		for err == nil && !db.Metrics().Settled {
			time.Sleep(100 * time.Microsecond)
		}
	}
	var b Batch
	put := func(from, to, step int) {
		b.Reset()
		for i := from; i < to; i += step {
			b.Put(key(i), value(i))
			k.keys = append(k.keys, key(i))
		}
		must(db.Apply(&b, NoSync))
	}
	put(0, 60, 1)
	b.Reset()
	b.Put(nil, []byte("the empty key"))
	must(db.Apply(&b, NoSync))
	k.keys = append(k.keys, []byte{})
	must(db.Compact(context.Background(), nil, nil))
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
		must(db.DeleteRange(key(30), key(33)))
		must(db.DeleteRange(key(50), nil))
	}
	must(db.Flush(context.Background()))
	settle()
	if k.ranges {
		must(db.DeleteRange(key(1), key(4)))
		must(db.DeleteRange(key(31), key(42)))
	}
	put(5, 58, 9)
	must(db.Delete(key(14)))
	must(db.Flush(context.Background()))
	settle()
	opts := IngestOptions{}
	if k.ranges {
		opts.Replace = &KeyRange{Lower: key(6), Upper: key(9)}
	}
	must(db.Ingest(context.Background(), func(yield func(KV, error) bool) {
		for i := 120; i < 130; i++ {
			k.keys = append(k.keys, fmt.Appendf(nil, "b%03d", i))
			if !yield(KV{fmt.Appendf(nil, "b%03d", i), value(i)}, nil) {
				return
			}
		}
	}, opts))
	settle()
	if err != nil {
		return nil, err
	}
	if k.killed {
		put(3, 60, 13)
		if k.ranges {
			must(db.DeleteRange(key(8), key(9)))
		}
		must(db.Put(key(40), value(40)))
		left := mem.Kill()
		must(snap.Close())
		must(second.Close())
		must(db.Close())
		return left, err
	}
	must(snap.Close())
	must(second.Close())
	must(db.Close())
	return mem, err
}
