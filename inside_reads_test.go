package bloomkv_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
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
	db := storetest.Open(t, "db", o)
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
	db := storetest.Open(t, "db", o)
	// a table of range tombstones
	must(t, db.DeleteRange(bloomkv.KeyRange{Lower: key(1000), Upper: key(1400)}))
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
		{"indexes too", func(*tree.Table) error { db.Pool().Parts.SetLimit(0); return nil }},
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
	testkit.Long(t)
	const n = 12000
	const lookups = 150_000 // with fewer, chance alone could exceed the limit
	for _, shape := range storetest.KeyShapes {
		t.Run(shape.Name, func(t *testing.T) {
			mem := vfstest.NewMem()
			o := shapedStore(t, mem, shape.Key, n)
			files := storetest.LogFiles(mem)
			o.FS = files
			o.MemoryBudget, o.MemtableSize = 64<<20, 16<<20 // so that nothing is flushed from here on
			db := storetest.Open(t, "db", o)
			defer func() {
				must(t, db.Close())
			}()
			storetest.Settle(t, db)
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
			if limit := 1.15 * promise * float64(lookups); float64(read) > limit || read == 0 {
				t.Errorf("%d of %d lookups read a file, want at least one and at most %.0f", read, lookups, limit)
			}

			for i := range uint64(n) {
				if ok, err := db.PutIfAbsent(shape.Key(i*2+1), []byte("new")); !ok || err != nil {
					t.Fatalf("put %d if absent: %v, %v", i, ok, err)
				}
			}
			must(t, db.Sync()) // the name of the log is durable, and no goroutine works on it any more
			blocks, tails := files.Reads()
			if limit := 1.15 * promise * n; float64(blocks) > limit || tails > 0 {
				t.Errorf("%d puts of new keys read %d blocks and %d bytes of tails, want at most %.0f", n, blocks,
					tails, limit)
			}
			t.Logf("%.5f of the lookups read a file, a put of a new key read %.5f blocks; promised %g",
				float64(read)/float64(lookups), float64(blocks)/n, promise)
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

// sumOfLookups returns a + sign·b, field by field.
func sumOfLookups(a bloomkv.LookupMetrics, sign uint64, b bloomkv.LookupMetrics) bloomkv.LookupMetrics {
	to, from := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + sign*from.Field(i).Uint())
	}
	return a
}

// touchedTables returns the tables that a lookup should search. The result does not depend on fences, the order of
// probes or the loading of tails.
func touchedTables(db *bloomkv.DB, key []byte) (tables []bloomkv.TableTrace) {
	s, h := db.Tree().Load(), db.Reads().Hash(key)
	for _, m := range append([]*memtable.Table{s.Mem}, s.Frozen...) {
		if _, _, found := m.Get(key, h.Mixed, ikey.MaxSeq); found || m.RangeDels().Covering(key, ikey.MaxSeq) > 0 {
			return nil
		}
	}
	for _, r := range s.Runs {
		i := slices.IndexFunc(r.Tables, func(t *tree.Table) bool {
			return bytes.Compare(t.Meta.Smallest, key) <= 0 && !t.Meta.EndsBefore(key)
		})
		if i < 0 {
			continue
		}
		t := r.Tables[i]
		deleted := t.Reader.RangeDels().Covering(key, ikey.MaxSeq)
		if maybe, filtered := t.Reader.Keys.MayContain(h.Hash); maybe && t.Meta.Entries > 0 {
			var st sstable.Stats
			g := db.Tree().Domain.Enter()
			hit, ok, err := t.Reader.Get(key, ikey.MaxSeq, &st)
			g.Leave()
			if err != nil {
				return nil
			}
			tables = append(tables, bloomkv.TableTrace{
				Level: r.Level, File: t.File.Name, Filtered: filtered, Present: ok,
			})
			if ok && hit.Trailer.Seq() >= deleted {
				return tables
			}
		}
		if deleted > 0 {
			return tables
		}
	}
	return tables
}

// A traced adds up the traces of lookups and their actual reads.
type traced struct {
	db    *bloomkv.DB
	files *storetest.FileLog
	want  map[string]string

	sum                                          bloomkv.LookupMetrics
	searched, wasted, reads, readBytes           uint64
	memory, present, deleted, absent, mostTables int
}

// get looks up one key and compares the trace with the files and the tables.
func (s *traced) get(k []byte) error {
	s.files.Take()
	v, trace, err := s.db.GetTraced(k)
	blocks, tails := s.files.Reads()
	if w, there := s.want[string(k)]; there != (err == nil) || string(v) != w ||
		!there && !errors.Is(err, bloomkv.ErrNotFound) {
		return fmt.Errorf("%q, %w, want %q, %v", v, err, w, there)
	}
	tables := slices.Clone(trace.Tables)
	filtered := uint64(0)
	for i := range tables {
		t := &tables[i]
		s.searched++
		s.reads += t.BlocksRead
		s.readBytes += t.BytesRead
		if !t.Present {
			s.wasted++
		}
		if t.Filtered {
			filtered++
		}
		if t.Blocks == 0 && t.Present || t.BlocksRead > t.Blocks || (t.BytesRead > 0) != (t.BlocksRead > 0) {
			return fmt.Errorf("%+v: no block, or more read than touched", *t)
		}
		t.Blocks, t.BlocksRead, t.BytesRead = 0, 0, 0
	}
	if want := touchedTables(s.db, k); !slices.Equal(tables, want) {
		return fmt.Errorf("searched %+v, want %+v", tables, want)
	}
	if trace.Gets != 1 || trace.BlocksRead != uint64(blocks) || trace.TailBytes != uint64(tails) {
		return fmt.Errorf("%+v, want one lookup, %d blocks and %d bytes of tails read", trace, blocks, tails)
	}
	if trace.FilterNegatives+filtered > trace.FilterProbes || trace.TruePositives+trace.FalsePositives != filtered {
		return fmt.Errorf("%+v, want each filter answer counted once", trace)
	}
	s.sum = sumOfLookups(s.sum, 1, trace.LookupMetrics)
	s.mostTables = max(s.mostTables, len(tables))
	switch {
	case trace.MemtableHits > 0:
		s.memory++
	case err == nil:
		s.present++
	case len(tables) > 0 && tables[len(tables)-1].Present:
		s.deleted++
	default:
		s.absent++
	}
	return nil
}

// TestTracesAddUpToTheMetrics looks up keys of all kinds in stores that were just opened, in loaded stores, without a
// cache, and without filters.
func TestTracesAddUpToTheMetrics(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	options, want := storetest.Layered(t, mem)
	var memory bloomkv.Batch
	memory.Put([]byte("key00100"), []byte("sixth"))
	memory.Delete([]byte("key00102"))
	memory.DeleteRange(bloomkv.KeyRange{Lower: []byte("key01600"), Upper: []byte("key01620")})
	memory.Put([]byte("key01604"), []byte("kept"))
	want["key00100"] = "sixth"
	delete(want, "key00102")
	maps.DeleteFunc(want, func(k, _ string) bool { return k >= "key01600" && k < "key01620" })
	want["key01604"] = "kept"
	for _, how := range []struct {
		name           string
		opened, each   int // number of stores, and lookups in each
		cold           bool
		noCache        bool
		filters        float64
		tailsAreLoaded bool
	}{
		{name: "just opened", opened: 60, each: 12, cold: true},
		{name: "opened, and then loaded by lookups", opened: 1, each: 4000, cold: true, tailsAreLoaded: true},
		{name: "loaded", opened: 1, each: 4000},
		{name: "without a cache", opened: 1, each: 4000, noCache: true},
		{name: "without filters", opened: 1, each: 4000, filters: 1},
	} {
		t.Run(how.name, func(t *testing.T) {
			var s traced
			rng := rand.New(rand.NewPCG(23, 24))
			for range how.opened {
				o := *options
				s.want, s.files = want, storetest.LogFiles(mem.Kill())
				o.FS, o.FilterFPR = s.files, cmp.Or(how.filters, o.FilterFPR)
				s.db = storetest.OpenCold(t, &o)
				must(t, s.db.ApplyWith(&memory, bloomkv.DurabilitySync))
				tables := uint64(0)
				s.db.Tree().Load().EachTable(func(_ int, table *tree.Table) {
					tables++
					if !how.cold {
						must(t, s.db.Share().Load(table))
					}
				})
				if how.noCache {
					uncached(s.db)
				}
				before, sum := s.db.Metrics().Lookups, s.sum
				for i := range how.each {
					k := fmt.Appendf(nil, "key%05d", rng.IntN(3000))
					switch i % 8 {
					case 0: // in the deleted ranges
						k = fmt.Appendf(nil, "key%05d", []int{390, 1198, 2980, 1598}[rng.IntN(4)]+rng.IntN(30))
					case 1:
						k = fmt.Append(k, "absent")
					}
					if err := s.get(k); err != nil {
						t.Fatalf("get %q: %v", k, err)
					}
				}
				got, sum := sumOfLookups(s.db.Metrics().Lookups, ^uint64(0), before),
					sumOfLookups(s.sum, ^uint64(0), sum)
				if got != sum {
					t.Fatalf("the metrics have counted %+v\nthe traces              %+v", got, sum)
				}
				if !how.cold && sum.TailLoads > 0 || how.cold && sum.TailLoads == 0 ||
					how.tailsAreLoaded && sum.TailLoads != tables {
					t.Errorf("%d tails of %d tables were loaded", sum.TailLoads, tables)
				}
				must(t, s.db.Close())
			}
			sum := s.sum
			if sum.TableSearches != s.searched || sum.WastedReads != s.wasted || sum.BlocksRead != s.reads ||
				sum.BytesRead != s.readBytes {
				t.Errorf("the numbers of the tables do not add up to %+v: %+v", sum, s)
			}
			if how.filters == 1 && (sum.FilterProbes > 0 || sum.TruePositives > 0) ||
				how.filters == 0 && (sum.FilterNegatives == 0 ||
					sum.FalsePositives+sum.TruePositives != sum.TableSearches) {
				t.Errorf("%+v, want each search preceded by a filter's maybe, if there are filters", sum)
			}
			if min(s.memory, s.present, s.deleted, s.absent) < 10 || s.mostTables < 2 || sum.WastedReads == 0 {
				t.Errorf("%+v: the test tests little", s)
			}
			t.Logf("%d in memory, %d in tables, %d deleted, %d absent, up to %d tables: %+v", s.memory, s.present,
				s.deleted, s.absent, s.mostTables, sum)
		})
	}
}
