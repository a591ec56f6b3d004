package bloomkv_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// uncached disables the block cache, so that each use of a block is a read.
func uncached(db *bloomkv.DB) { db.Pool().Blocks.SetCapacity(0) }

// shapedStore fills a store with the even ones of n keys of a shape, and rewrites some, so that there are several runs
// that overlap. It returns the options to open it again with.
func shapedStore(t *testing.T, fsys vfs.FS, key func(uint64) []byte, n int) *bloomkv.Options {
	t.Helper()
	o := storetest.Tiny(fsys)
	o.Durability, o.BlockSize, o.MemtableSize, o.TableSize, o.LevelRatio = bloomkv.DurabilityNoSync, 1024, 64<<10,
		32<<10, 4
	db, err := bloomkv.Open("db", o)
	must(t, err)
	rng := rand.New(rand.NewPCG(11, 12))
	put := func(i int) {
		t.Helper()
		must(t, db.Put(key(uint64(i)*2), []byte("0123456789abcdef")))
	}
	for _, i := range rng.Perm(n) {
		put(i)
	}
	for runs, rewritten := 0, 0; runs < 3; rewritten++ {
		if rewritten > 20 {
			t.Fatalf("fewer than three runs:\n%v", db.Metrics())
		}
		for range n / 20 {
			put(rng.IntN(n))
		}
		must(t, db.Flush(t.Context()))
		storetest.Settle(t, db)
		runs = 0
		for _, l := range db.Metrics().Levels {
			runs += l.Runs
		}
	}
	must(t, db.Close())
	return o
}

func TestMayContainTouchesNoFile(t *testing.T) {
	const n = 3000
	key := storetest.KeyShapes[0].Key
	mem := vfstest.NewMem()
	o := shapedStore(t, mem, key, n)
	db, err := bloomkv.Open("db", o)
	must(t, err)
	// a table of range tombstones
	if err := db.DeleteRange(bloomkv.KeyRange{Lower: key(1000), Upper: key(1400)}); err != nil {
		t.Fatal(err)
	}
	must(t, db.Close())
	files := storetest.LogFiles(mem)
	o.FS = files
	db = storetest.OpenCold(t, o)
	defer db.Close()
	// From here on, no log is written in the background.
	must(t, errors.Join(db.Put(key(5), nil), db.Sync()))
	ask := func(state string, leastNo, mostNo float64) {
		t.Helper()
		files.Take()
		no, absent := 0.0, 0.0
		for i := range uint64(2 * n) {
			there := i%2 == 0 && (i < 1000 || i >= 1400) || i == 5
			maybe := db.MayContain(key(i))
			if there && !maybe {
				t.Fatalf("%s: key %d is stored, but MayContain returned false", state, i)
			}
			if i%2 == 1 && !there {
				absent++
				if !maybe {
					no++
				}
			}
		}
		if ops := files.Take(); len(ops) > 0 {
			t.Errorf("%s: %d operations on files, the first: %v", state, len(ops), ops[0])
		}
		if share := no / absent; share < leastNo || share > mostNo {
			t.Errorf("%s: MayContain returned false for %.3f of the absent keys, want %g to %g", state, share,
				leastNo, mostNo)
		}
	}
	ask("nothing is loaded", 0, 0.02) // false only for keys outside of every table
	db.Tree().Load().EachTable(func(_ int, table *tree.Table) {
		must(t, db.Share().Load(table))
	})
	ask("all is loaded", 0.97, 1)
	for _, shed := range []struct {
		what string
		drop func(*tree.Table) error
	}{
		{"filters are dropped", func(t *tree.Table) error {
			t.Reader.Keys.Reduce(t.Reader.Keys.Forms(1))
			return nil
		}},
		{"indexes too", func(t *tree.Table) error { t.Reader.DropIndex(); return nil }},
	} {
		db.Tree().Load().EachTable(func(_ int, table *tree.Table) {
			must(t, shed.drop(table))
		})
		ask(shed.what, 0.06, 0.1) // the tombstones stay loaded: 200 of 3000
	}
	must(t, db.Close())
	if files.Take(); !db.MayContain(key(1)) || len(files.Take()) > 0 {
		t.Error("after Close: want true, and no file read")
	}
}

// TestLookupsOfAbsentKeysReadFilesOnlyWhereAFilterSaysMaybe counts reads of files, while
// TestAbsentKeysWasteNoMoreReadsThanPromised uses the store's own metrics.
func TestLookupsOfAbsentKeysReadFilesOnlyWhereAFilterSaysMaybe(t *testing.T) {
	const n = 12000
	lookups := max(storetest.AtStride(100)*1500, 3*n) // with fewer, chance alone could exceed the limit
	for _, shape := range storetest.KeyShapes {
		t.Run(shape.Name, func(t *testing.T) {
			mem := vfstest.NewMem()
			o := shapedStore(t, mem, shape.Key, n)
			files := storetest.LogFiles(mem)
			o.FS = files
			o.MemoryBudget, o.MemtableSize = 64<<20, 16<<20 // so that nothing is flushed from here on
			db, err := bloomkv.Open("db", o)
			must(t, err)
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			storetest.Soon(t, "it is warm and settled", func() bool { m := db.Metrics(); return m.Warm && m.Settled })
			uncached(db)
			promise := db.Metrics().FPRPromised
			rng := rand.New(rand.NewPCG(13, 14))
			files.Take()

			read := 0
			for i := range lookups {
				k := shape.Key(rng.Uint64N(n)*2 + 1)
				maybe := db.MayContain(k)
				if i%2 == 0 {
					if ok, err := db.Has(k); ok || err != nil {
						t.Fatalf("has %q: %v, %v", k, ok, err)
					}
				} else if v, err := db.Get(k); !errors.Is(err, bloomkv.ErrNotFound) {
					t.Fatalf("get %q: %q, %v", k, v, err)
				}
				blocks, tails := files.Reads()
				if blocks > 0 {
					read++
				}
				if blocks > 0 && !maybe || tails > 0 {
					t.Fatalf("lookup %d: %d blocks read, a filter said maybe: %v; %d bytes of tails read", i, blocks,
						maybe, tails)
				}
			}
			if limit := 1.15 * promise * float64(lookups); float64(read) > limit || read == 0 &&
				!storetest.RaceEnabled {
				t.Errorf("%d of %d lookups read a file, want at least one and at most %.0f", read, lookups, limit)
			}

			puts := 0
			for i := range uint64(n) {
				if i%8 == 0 && storetest.RaceEnabled {
					continue
				}
				if ok, err := db.PutIfAbsent(shape.Key(i*2+1), []byte("new")); !ok || err != nil {
					t.Fatalf("put %d if absent: %v, %v", i, ok, err)
				}
				puts++
			}
			blocks, tails := files.Reads()
			if limit := 1.15 * promise * float64(puts); float64(blocks) > limit || tails > 0 {
				t.Errorf("%d puts of new keys read %d blocks and %d bytes of tails, want at most %.0f", puts, blocks,
					tails, limit)
			}
			t.Logf("%.5f of the lookups read a file, a put of a new key read %.5f blocks; promised %g",
				float64(read)/float64(lookups), float64(blocks)/float64(puts), promise)
			if got := files.Take(); len(got) > 0 {
				t.Errorf("unexpected operation: %v", got[0])
			}
			if ok, err := db.PutIfAbsent(shape.Key(0), nil); ok || err != nil {
				t.Errorf("put of a stored key: %v, %v", ok, err)
			}
			if b, _ := files.Reads(); b == 0 {
				t.Error("a stored key was found without a read: the counting is wrong")
			}
		})
	}
}
