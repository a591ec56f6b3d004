package bloomkv_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// manyTables returns a closed store of the given number of tables, as small as possible, in the last level.
func manyTables(b *testing.B, fsys vfs.FS, dir string, tables int) *bloomkv.Options {
	b.Helper()
	o := &bloomkv.Options{
		FS: fsys, Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone, TableSize: 16 << 10,
	}
	db, err := bloomkv.Open(dir, o)
	must(b, err)
	value := make([]byte, 16<<10)
	err = db.Ingest(b.Context(), func(yield func(bloomkv.KV, error) bool) {
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
			fsys, dir := vfs.FS(vfstest.NewMem()), "db"
			if place == "disk" {
				fsys, dir = vfs.OS, filepath.Join(b.TempDir(), "db")
			}
			o := manyTables(b, fsys, dir, tablesForOpen)
			b.ReportAllocs()
			for b.Loop() {
				db, err := bloomkv.Open(dir, o)
				must(b, err)
				b.StopTimer()
				must(b, db.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tablesForOpen, "ns/table")
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
		db, err := bloomkv.Open("db", o)
		must(b, err)
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
