package tests

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestErrorsAboutLongKeysAreShort damages a table whose keys have 60,000 bytes and differ in the last ones.
func TestErrorsAboutLongKeysAreShort(t *testing.T) {
	const most = 2 << 10 // bytes of an error
	key := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte{0}, 60_000), "%03d", i) }
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: mem, Durability: bloomkv.DurabilityNoSync, BlockSize: 256})
	must(t, err)
	for i := range 5 {
		must(t, db.Put(key(i), nil))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	must(t, db.Close())
	built, err := openForged(mem, "db")
	must(t, err)
	for _, damage := range []struct {
		name   string
		change func(s *forgedStore, number uint64)
	}{
		{"blocks in the wrong order", func(s *forgedStore, n uint64) {
			s.change(n, func(t *forgedTable) { t.swapBlocks(1, 3) })
		}},
		{"a last separator that is not the largest key", func(s *forgedStore, n uint64) {
			s.change(n, func(t *forgedTable) { t.blocks[len(t.blocks)-1].suffix = []byte("5") })
		}},
		{"bounds that the manifest does not have", func(s *forgedStore, _ uint64) {
			s.eachTable(func(a *manifest.Added) { a.Table.Largest = key(7) })
		}},
		{"a largest key below the smallest", func(s *forgedStore, _ uint64) {
			s.eachTable(func(a *manifest.Added) { a.Table.Smallest = key(7) })
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			s := built.clone()
			damage.change(s, s.bottom(0))
			fsys := vfstest.NewMem()
			must(t, writeFiles(fsys, "db", s.join()))
			short := func(call string, err error) {
				t.Helper()
				if n := len(err.Error()); !errors.Is(err, bloomkv.ErrCorruption) || n > most {
					t.Errorf("%s: error of %d bytes, want damage in at most %d: %.300v", call, n, most, err)
				}
			}
			_, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys})
			short("Check", err)
			db, err := bloomkv.Open("db", &bloomkv.Options{FS: fsys, ReadOnly: true})
			if err != nil {
				short("Open", err)
				return
			}
			defer db.Close()
			failed := 0
			for i := range 5 {
				if _, err := db.Get(key(i)); err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
					short("Get", err)
					failed++
				}
			}
			if failed == 0 {
				t.Error("no Get failed")
			}
		})
	}
}
