package tests

import (
	"cmp"
	"errors"
	"fmt"
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
	"github.com/bloomkv/bloomkv/vfs"
)

// openMapped returns a store in files of the operating system whose blocks are looked at in mapped files, the value of
// key i for each of n keys, and the path of its largest table.
func openMapped(t *testing.T, n int) (db *bloomkv.DB, value func(i int) string, table string) {
	t.Helper()
	if runtime.GOOS != "linux" || strconv.IntSize < 64 {
		t.Skip("no mapped files here")
	}
	o := storetest.Tiny(vfs.OS)
	o.Compression, o.MemtableSize, o.Durability = bloomkv.CompressionNone, 1<<20, bloomkv.NoSync
	dir := t.TempDir()
	db, err := bloomkv.Open(dir, o)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	value = func(i int) string { return strings.Repeat(strconv.Itoa(i), 20) }
	for i := range n {
		must(t, db.Put(mappedKey(i), []byte(value(i))))
	}
	must(t, db.Flush(t.Context()))
	must(t, db.Compact(t.Context(), nil, nil))
	largest := slices.MaxFunc(db.Tables(), func(a, b bloomkv.TableMetrics) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return db, value, filepath.Join(dir, largest.File)
}

func mappedKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

func TestLookupsUseMappedFiles(t *testing.T) {
	const n = 20_000
	db, value, _ := openMapped(t, n)
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

// TestATableTruncatedUnderItsReadersIsAnErrorForThem truncates a table whose blocks goroutines look at in the mapped
// file at that moment. Each call must then return the right value, or an error that names the file and an offset.
func TestATableTruncatedUnderItsReadersIsAnErrorForThem(t *testing.T) {
	const n = 20_000
	db, value, table := openMapped(t, n)
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
			for i := range n - 1 {
				got, err := read(i)
				check(i, got, err)
			}
			warm.Done()
			for last := false; !last; {
				last = truncated.Load()
				for i := range n - 1 {
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
