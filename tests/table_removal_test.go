package tests

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// tablesOnDisk counts the tables in a store's directory.
func tablesOnDisk(t *testing.T, fsys vfs.FS) (n int) {
	t.Helper()
	names, err := fsys.List("db")
	must(t, err)
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind == filename.Table {
			n++
		}
	}
	return n
}

// TestTablesGoWhenTheLastLookupInThemEnds has a lookup read tables while a compaction replaces them. Nothing uses the
// store afterwards.
func TestTablesGoWhenTheLastLookupInThemEnds(t *testing.T) {
	mem := vfstest.NewMem()
	var reading atomic.Bool
	slow, open := storetest.Gated(mem, func(op vfstest.Op) bool {
		waits := op.Kind == vfstest.OpReadAt && storetest.Inside(storetest.DBGet)
		if waits {
			reading.Store(true)
		}
		return waits
	})
	opts := storetest.Tiny(slow)
	opts.Durability, opts.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	storetest.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
	fillTables(t, db)
	done := make(chan error)
	go func() {
		_, err := db.Get([]byte("0500"))
		done <- err
	}()
	storetest.Soon(t, "the lookup reads a block", reading.Load)
	fillTables(t, db)
	want := db.Metrics().Files.Tables
	if n := tablesOnDisk(t, mem); n == want {
		t.Fatalf("%d tables on the disk, want some more, kept by the lookup", n)
	}
	open()
	must(t, <-done)
	storetest.Soon(t, "only the tables of the tree are left", func() bool { return tablesOnDisk(t, mem) == want })
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// fillTables writes the same keys at each call, into new tables of the last level.
func fillTables(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	for i := range 1000 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte{byte(i)}, 100)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.Settle(t, db)
}
