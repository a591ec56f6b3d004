package tests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// skipUnmapped skips a test on systems that map no files.
func skipUnmapped(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" || strconv.IntSize < 64 {
		t.Skip("no mapped files here")
	}
}

// mappedKeys is the number of keys in a store of openMapped.
const mappedKeys = 20_000

// openMapped returns a store in files of the operating system whose blocks are looked at in mapped files, the value of
// key i for each of mappedKeys keys, and the path of its largest table. limit sets limits of the store.
func openMapped(
	t *testing.T, limit ...func(*bloomkv.Options),
) (db *bloomkv.DB, value func(i int) string, table string) {
	t.Helper()
	skipUnmapped(t)
	o := storetest.Tiny(vfs.OS)
	o.Compression, o.MemtableSize, o.Durability = bloomkv.CompressionNone, 1<<20, bloomkv.DurabilityNoSync
	for _, limit := range limit {
		limit(o)
	}
	dir := t.TempDir()
	db = storetest.Open(t, dir, o)
	t.Cleanup(func() { _ = db.Close() })
	value = func(i int) string { return strings.Repeat(strconv.Itoa(i), 20) }
	for i := range mappedKeys {
		must(t, db.Put(mappedKey(i), []byte(value(i))))
	}
	must(t, db.Flush(t.Context()))
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	largest := slices.MaxFunc(db.Tables(), func(a, b bloomkv.TableMetrics) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return db, value, filepath.Join(dir, largest.File)
}

func mappedKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

func TestLookupsUseMappedFiles(t *testing.T) {
	testkit.Long(t)
	const n = 20_000
	db, value, _ := openMapped(t)
	for range 2 {
		for i := range n {
			got, err := db.Get(mappedKey(i))
			must(t, err)
			if string(got) != value(i) {
				t.Fatalf("key %d: %q, want %q", i, got, value(i))
			}
		}
	}
	l := db.Metrics().Lookups
	if l.BlocksMapped < n || l.BlocksMapped > l.BlocksRead || l.BlocksRead > l.Blocks {
		t.Errorf("%d blocks used, %d of them not in the cache, %d of these mapped; want most mapped",
			l.Blocks, l.BlocksRead, l.BlocksMapped)
	}
}

// systemMapped returns the bytes of table files in dirs that the system says are mapped, in whole pages.
func systemMapped(t *testing.T, dirs ...string) (bytes int64) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		path := strings.TrimSuffix(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), " (deleted)")
		if !strings.HasSuffix(path, ".sst") || !slices.Contains(dirs, filepath.Dir(path)) {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			t.Fatal(err)
		}
		bytes += to - from
	}
	return bytes
}

// wantMapped checks that stores, which share their resources if there are several, have mapped as many bytes as the
// system says, within their bound, and that all figures agree.
func wantMapped(t *testing.T, stores ...*bloomkv.DB) (mapped int64) {
	t.Helper()
	var dirs []string
	tables, sum := 0, int64(0)
	for _, db := range stores {
		m := db.Metrics()
		dirs, tables, sum = append(dirs, db.Dir()), tables+m.Files.Tables, sum+m.Memory.Mapped
		text, err := json.Marshal(m)
		must(t, err)
		if want := fmt.Sprintf(`"mapped":%d,"max_mapped":%d`, m.Memory.Mapped, m.Memory.MaxMapped); !strings.Contains(
			string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
		page := strings.Join(strings.Fields(m.String()), " ")
		if shown := strings.Contains(page, ", mapped "+words.Size(m.Memory.Mapped)); shown != (m.Memory.Mapped > 0) {
			t.Errorf("%d bytes are mapped, in text: %v", m.Memory.Mapped, m)
		}
	}
	all := stores[0].Metrics().Resources.Memory
	system := systemMapped(t, dirs...)
	if all.Mapped != sum || system < sum || system > sum+int64(tables*os.Getpagesize()) || sum > all.MaxMapped {
		t.Errorf("%d bytes are mapped, by all stores %d of at most %d, by the system %d in %d tables", sum, all.Mapped,
			all.MaxMapped, system, tables)
	}
	return sum
}

func TestMappedBytesAreBoundedAndCounted(t *testing.T) {
	testkit.Long(t)
	const n, bound = 20_000, 512 << 10
	for _, tt := range []struct {
		name      string
		limit     int64
		least, up int64 // bytes mapped
	}{
		{"by default all tables are mapped", 0, 2 << 20, 16 << 20},
		{"a bound holds", bound, bound / 2, bound},
		{"a negative bound maps nothing", -1, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, value, _ := openMapped(t, func(o *bloomkv.Options) { o.MaxMappedBytes = tt.limit })
			for range 2 {
				for i := range n {
					got, err := db.Get(mappedKey(i * 7919 % n))
					if must(t, err); string(got) != value(i*7919%n) {
						t.Fatalf("key %d: %q", i, got)
					}
					if i%1000 == 0 {
						if m := db.Metrics().Memory; m.Mapped > max(m.MaxMapped, 0) {
							t.Fatalf("%d bytes are mapped, want at most %d", m.Mapped, m.MaxMapped)
						}
					}
				}
			}
			if got := wantMapped(t, db); got < tt.least || got > tt.up {
				t.Errorf("%d bytes are mapped, want %d to %d", got, tt.least, tt.up)
			}
			if l := db.Metrics().Lookups; (l.BlocksMapped > 0) != (tt.up > 0) {
				t.Errorf("%d blocks were used in mapped files", l.BlocksMapped)
			}
			must(t, db.Close())
			if m := db.Metrics().Memory; m.Mapped != 0 || systemMapped(t, db.Dir()) != 0 {
				t.Errorf("after Close %d bytes are mapped, by the system %d", m.Mapped, systemMapped(t, db.Dir()))
			}
		})
	}
}

func TestStoresShareTheBoundOfMappedBytes(t *testing.T) {
	testkit.Long(t)
	const n = 20_000
	shared, err := bloomkv.NewResources(bloomkv.ResourcesOptions{MemoryBudget: 8 << 20, MaxMappedBytes: 3 << 20})
	must(t, err)
	share := func(o *bloomkv.Options) { o.Resources, o.MemoryBudget = shared, 0 }
	one, value, _ := openMapped(t, share)
	other, _, _ := openMapped(t, share)
	read := func(db *bloomkv.DB) {
		for i := range n {
			got, err := db.Get(mappedKey(i * 7919 % n))
			if must(t, err); string(got) != value(i*7919%n) {
				t.Fatalf("key %d: %q", i, got)
			}
		}
	}
	read(one)
	first := one.Metrics().Memory.Mapped
	for range 5 { // the other one's mappings are out of use
		read(other)
	}
	all := wantMapped(t, one, other)
	if own := other.Metrics().Memory.Mapped; own <= all/2 || first <= all/2 {
		t.Errorf("first one store had mapped %d bytes, then the other %d of %d, want most of them", first, own, all)
	}
	must(t, other.Close())
	if got := wantMapped(t, one); got != one.Metrics().Memory.Mapped {
		t.Errorf("%d bytes are mapped after the other store was closed", got)
	}
	must(t, one.Close())
	if m := shared.Metrics().Memory; m.Mapped != 0 {
		t.Errorf("%d bytes stay mapped", m.Mapped)
	}
}

// TestATableTruncatedUnderItsReadersIsAnErrorForThem truncates a table whose blocks goroutines look at in the mapped
// file at that moment. Each call must then return the right value, or an error that names the file and an offset. They
// read every fifth key, several of each block.
func TestATableTruncatedUnderItsReadersIsAnErrorForThem(t *testing.T) {
	const n = 20_000
	db, value, table := openMapped(t)
	base := filepath.Base(table)
	known := func(err error) bool {
		return strings.Contains(err.Error(), base) && strings.Contains(err.Error(), "offset ")
	}
	check := func(i int, got []byte, err error) (failed bool) {
		switch {
		case err != nil && !known(err):
			t.Errorf("key %d: %v; want an error that names %s and an offset", i, err, base)
		case err == nil && string(got) != value(i):
			t.Errorf("key %d: %q, want %q", i, got, value(i))
		}
		return err != nil
	}
	reads := []func(i int) ([]byte, error){
		func(i int) ([]byte, error) { return db.Get(mappedKey(i)) },
		func(i int) (got []byte, err error) {
			err = db.View(mappedKey(i), func(v []byte) error { got = slices.Clone(v); return nil })
			return got, err
		},
		func(i int) (got []byte, err error) {
			err = db.GetMany([][]byte{mappedKey(i), mappedKey(i + 1)}, func(k int, v []byte, found bool) error {
				if k == 0 && found {
					got = slices.Clone(v)
				}
				return nil
			})
			return got, err
		},
		func(i int) ([]byte, error) {
			for item, err := range db.Scan(bloomkv.IterOptions{Lower: mappedKey(i)}) {
				return slices.Clone(item.Value), err
			}
			return nil, errors.New("nothing found")
		},
	}
	var warm, done sync.WaitGroup
	var truncated atomic.Bool
	var failures [4]int
	for g, read := range reads {
		warm.Add(1)
		done.Go(func() {
			for i := 0; i < n-1; i += 5 {
				got, err := read(i)
				check(i, got, err)
			}
			warm.Done()
			for last := false; !last; {
				last = truncated.Load()
				for i := 0; i < n-1; i += 5 {
					if got, err := read(i); check(i, got, err) {
						failures[g]++
					}
				}
			}
		})
	}
	warm.Wait()
	must(t, os.Truncate(table, 8192))
	truncated.Store(true)
	done.Wait()
	for g, n := range failures {
		if n == 0 {
			t.Errorf("reader %d never met the end of the truncated file", g)
		}
	}
}

// TestReadersAndWritersMeetEvictedParts looks up and scans keys of a store in several goroutines while a writer changes
// it, and memory has few parts of its indexes and no filters. Its files are read, or mapped.
func TestReadersAndWritersMeetEvictedParts(t *testing.T) {
	read := vfstest.NewHook(vfstest.NewMem(), func(vfstest.Op) error { return nil }) // has no mapped files
	for name, fsys := range map[string]vfs.FS{"read": read, "mapped": vfs.OS} {
		t.Run(name, func(t *testing.T) {
			dir := "db"
			if fsys == vfs.OS {
				skipUnmapped(t)
				dir = t.TempDir()
			}
			meetEvictedParts(t, fsys, dir)
		})
	}
}

func meetEvictedParts(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	const left = 96 << 10
	setPartSize(t, 100)
	o := storetest.Small(fsys)
	o.MemoryBudget, o.Resources, o.BlockSize, o.Durability = 0, littleMemory(t, left), 256,
		bloomkv.DurabilityNoSync
	db, err := bloomkv.Open(dir, o)
	must(t, err)
	const keys = 20_000
	key := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }
	for i := range keys {
		must(t, db.Put(key(i), fmt.Appendf(nil, "%d of the first round", i)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	before := db.Metrics()

	var errs atomic.Pointer[error]
	fail := func(format string, args ...any) {
		err := fmt.Errorf(format, args...)
		errs.CompareAndSwap(nil, &err)
	}
	right := func(what string, i int, value []byte) {
		if !strings.HasPrefix(string(value), fmt.Sprint(i, " of ")) {
			fail("%s of %s: %q", what, key(i), value)
		}
	}
	n := 800 + storetest.AtStride(3200)
	var wg sync.WaitGroup
	worker := func(seed uint64, do func(i int)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 7))
			for range n {
				if errs.Load() == nil {
					do(rng.IntN(keys - 20))
				}
			}
		})
	}
	for seed := range uint64(3) {
		worker(seed, func(i int) {
			value, err := db.Get(key(i))
			if err != nil {
				fail("get: %w", err)
			}
			right("get", i, value)
			if _, err := db.Get(append(key(i), '?')); !errors.Is(err, bloomkv.ErrNotFound) {
				fail("get of an absent key: %w", err)
			}
		})
	}
	worker(3, func(i int) {
		if err := db.GetMany([][]byte{key(i), key(i + 7), key(i + 19)}, func(at int, value []byte, found bool) error {
			right("GetMany", i+[]int{0, 7, 19}[at], value)
			return nil
		}); err != nil {
			fail("GetMany: %w", err)
		}
	})
	worker(4, func(i int) {
		it := db.Iter(bloomkv.IterOptions{Lower: key(i), Upper: key(i + 20)})
		at := i
		for ok := it.First(); ok; ok = it.Next() {
			right("scan", at, it.Value())
			at++
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			at--
			right("scan backward", at, it.Value())
		}
		if err := it.Close(); err != nil || at != i {
			fail("a scan of 20 keys misses %d: %w", at-i, err)
		}
	})
	worker(5, func(i int) {
		if err := db.Put(key(i), fmt.Appendf(nil, "%d of a later round", i)); err != nil {
			fail("put: %w", err)
		}
		if i%1000 == 0 {
			o := bloomkv.CompactOptions{Range: bloomkv.KeyRange{Lower: key(i), Upper: key(i + 2000)}}
			if err := db.Compact(context.Background(), o); err != nil {
				fail("compact: %w", err)
			}
		}
	})
	wg.Wait()
	if err := errs.Load(); err != nil {
		t.Error(*err)
	}
	l, m := db.Metrics().Since(before).Lookups, db.Metrics().Memory
	t.Logf("%d lookups used %d parts of indexes and %d pages of filters outside of memory; %v",
		l.Gets, l.IndexParts, l.FilterParts, m)
	if l.IndexParts < uint64(n) || l.FilterParts < uint64(n) {
		t.Errorf("%d parts of indexes and %d pages of filters were read in %d lookups, want %d",
			l.IndexParts, l.FilterParts, l.Gets, n)
	}
	if m.Indexes+m.Filters > left {
		t.Errorf("%v, and %d bytes were left", m, left)
	}
	if mapped := m.Mapped > 0; mapped != (fsys == vfs.OS) {
		t.Errorf("files are mapped: %v", mapped)
	}
	must(t, db.Close())
	_, err = bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: fsys})
	must(t, err)
}
