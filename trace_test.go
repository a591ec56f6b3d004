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
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

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
		if maybe, filtered := t.Reader.MayContain(h.Hash); maybe && t.Meta.Entries > 0 {
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
