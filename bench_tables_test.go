package bloomkv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// exportKeys is the number of keys, of 16 bytes, with values of 100 bytes.
const exportKeys = 1_000_000

// exportStore returns an open, settled store on the disk. Its keys are a tenth of the possible ones.
func exportStore(b *testing.B) (db *bloomkv.DB, dir string) {
	b.Helper()
	dir = filepath.Join(b.TempDir(), "store")
	db, err := bloomkv.Open(dir, &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
	must(b, err)
	b.Cleanup(func() { _ = db.Close() })
	put(b, db, 0, exportKeys, func(i int) int { return 10 * i })
	must(b, db.Compact(b.Context(), bloomkv.CompactOptions{}))
	return db, dir
}

// put stores keys with random values.
func put(b *testing.B, db *bloomkv.DB, from, to int, key func(i int) int) {
	b.Helper()
	value, rng := make([]byte, 100), rand.NewChaCha8([32]byte{byte(from)})
	var batch bloomkv.Batch
	for i := from; i < to; i++ {
		_, _ = rng.Read(value)
		batch.Put(fmt.Appendf(nil, "%016d", key(i)), value)
		if batch.Len() == 1000 || i == to-1 {
			must(b, db.Apply(&batch))
			batch.Reset()
		}
	}
}

// BenchmarkExportImport compares an export through a pipe into a new store, and into an open one, with copying and
// syncing the same files.
func BenchmarkExportImport(b *testing.B) {
	db, dir := exportStore(b)
	b.Run("copy and sync the files", func(b *testing.B) {
		for b.Loop() {
			copyFiles(b, dir, b.TempDir())
		}
	})
	piped := func(b *testing.B, take func(r io.Reader) error) {
		b.Helper()
		x, err := db.Export(b.Context(), bloomkv.ExportOptions{})
		must(b, err)
		r, w := io.Pipe()
		go func() {
			_, err := x.WriteTo(w)
			w.CloseWithError(err)
		}()
		b.SetBytes(x.Size())
		must(b, errors.Join(take(r), x.Close()))
	}
	b.Run("into a new store", func(b *testing.B) {
		for b.Loop() {
			piped(b, func(r io.Reader) error {
				return bloomkv.Import(b.Context(), r, filepath.Join(b.TempDir(), "new"), bloomkv.NewStoreOptions{})
			})
		}
	})
	b.Run("into an open store", func(b *testing.B) {
		other, err := bloomkv.Open(filepath.Join(b.TempDir(), "open"), nil)
		must(b, err)
		defer other.Close()
		for b.Loop() {
			piped(b, func(r io.Reader) error {
				return other.Import(b.Context(), r, bloomkv.ImportOptions{Replace: true})
			})
		}
	})
}

// copyFiles copies the tables of a directory, and syncs each copy and the directory.
func copyFiles(b *testing.B, from, to string) {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(from, "*.sst"))
	if err != nil || len(names) == 0 {
		b.Fatal(names, err)
	}
	for _, name := range names {
		in, err := os.Open(name)
		must(b, err)
		out, err := os.Create(filepath.Join(to, filepath.Base(name)))
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 256<<10))
			err = errors.Join(err, out.Sync(), out.Close(), in.Close())
		}
		must(b, err)
	}
	d, err := os.Open(to)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	must(b, err)
}

// BenchmarkIncrementalExport reports the size of an export of 1 % new keys, in percent of the whole.
func BenchmarkIncrementalExport(b *testing.B) {
	for _, c := range []struct {
		name string
		key  func(i int) int
	}{
		{"keys in order", func(i int) int { return 10 * i }},
		{"random keys", func(int) int { return 10*rand.IntN(exportKeys) + 1 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			db, _ := exportStore(b)
			ctx := context.Background()
			for b.Loop() {
				has, err := db.Inventory(ctx)
				must(b, err)
				put(b, db, exportKeys, exportKeys+exportKeys/100, c.key)
				for _, when := range []string{"at_once", "compacted"} {
					if when == "compacted" {
						must(b, db.Compact(ctx, bloomkv.CompactOptions{}))
					}
					x, err := db.Export(ctx, bloomkv.ExportOptions{Since: has})
					must(b, err)
					whole, err := db.Export(ctx, bloomkv.ExportOptions{})
					must(b, err)
					b.ReportMetric(100*float64(x.Size())/float64(whole.Size()), "%_"+when)
					must(b, errors.Join(x.Close(), whole.Close()))
				}
			}
		})
	}
}

// manyTables returns a closed store of the given number of tables, as small as possible, in the last level.
func manyTables(b *testing.B, fsys vfs.FS, dir string, tables int) *bloomkv.Options {
	b.Helper()
	o := &bloomkv.Options{
		FS: fsys, Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone, TableSize: 16 << 10,
	}
	db := storetest.Open(b, dir, o)
	value := make([]byte, 16<<10)
	err := db.Ingest(b.Context(), func(yield func(bloomkv.KV, error) bool) {
		for i := range uint64(tables) {
			if !yield(bloomkv.KV{binary.BigEndian.AppendUint64(nil, 2*i), nil}, nil) ||
				!yield(bloomkv.KV{binary.BigEndian.AppendUint64(nil, 2*i+1), value}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{})
	must(b, err)
	for !db.Metrics().Settled {
		must(b, db.Compact(b.Context(), bloomkv.CompactOptions{}))
	}
	if got := db.Metrics().Files.Tables; got < tables*9/10 || got > tables*11/10 {
		b.Fatalf("%d tables, want about %d", got, tables)
	}
	must(b, db.Close())
	return o
}

const tablesForOpen = 10_000

// BenchmarkOpenManyTables opens a store of many tables: it reads only the manifest and the directory.
func BenchmarkOpenManyTables(b *testing.B) {
	for _, place := range []string{"memory", "disk"} {
		b.Run(place, func(b *testing.B) {
			fsys, dir, tables := vfs.FS(vfstest.NewMem()), "db", tablesForOpen
			if place == "disk" {
				fsys, dir = vfs.OS, filepath.Join(b.TempDir(), "db")
				if testing.Short() {
					tables /= 20
				}
			}
			o := manyTables(b, fsys, dir, tables)
			b.ReportAllocs()
			for b.Loop() {
				db := storetest.Open(b, dir, o)
				b.StopTimer()
				must(b, db.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tables), "ns/table")
		})
	}
}

// BenchmarkFlushManyTables flushes one key in a store of many tables and, with memory for filters, measures its part
// that makes the plans.
func BenchmarkFlushManyTables(b *testing.B) {
	for _, memory := range []int64{0, 1 << 20} {
		mem := vfstest.NewMem()
		o := manyTables(b, mem, "db", tablesForOpen)
		o.FilterMemory, o.MemoryBudget = memory, 256<<20
		db := storetest.Open(b, "db", o)
		for !db.Metrics().Warm {
			if _, err := db.Get(nil); !errors.Is(err, bloomkv.ErrNotFound) {
				b.Fatal(err)
			}
		}
		n := uint64(0)
		b.Run(fmt.Sprintf("flush, FilterMemory %d", memory), func(b *testing.B) {
			for b.Loop() {
				n++
				must(b, db.Put(binary.BigEndian.AppendUint64(nil, n), nil))
				must(b, db.Flush(b.Context()))
			}
		})
		b.Run(fmt.Sprintf("replan, FilterMemory %d", memory), func(b *testing.B) {
			for b.Loop() {
				err := db.Share().Replan(db.Tree().Load())
				must(b, err)
			}
		})
		must(b, db.Close())
	}
}
