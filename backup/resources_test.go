package backup_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestNoErrorLeavesAFileOpen fails each operation of a backup, of its verification and of a restore in turn.
func TestNoErrorLeavesAFileOpen(t *testing.T) {
	db, write := written(t)
	write()
	must(t, db.Flush(t.Context()))
	write() // two tables
	fault := errors.New("fault")
	for at, struck := 0, true; struck; at++ {
		ops, closes := 0, false
		files := storetest.TrackOpen(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
			if ops++; ops == at+1 {
				closes = op.Kind == vfstest.OpClose // of a file that was only read: all of it is here
				return fault
			}
			return nil
		}))
		err := func() error {
			d, err := backup.OpenDir(files, "backups")
			if err != nil {
				return err
			}
			_, err = backup.Make(t.Context(), db, d)
			if err == nil {
				err = backup.Verify(t.Context(), d, nil)
			}
			if err == nil {
				err = backup.Restore(t.Context(), d, 1, "new", bloomkv.NewStoreOptions{FS: vfstest.NewMem()})
			}
			return errors.Join(err, d.Close())
		}()
		struck = ops > at
		if left := files.Left(); left != nil || struck != (err != nil) && !closes {
			t.Errorf("operation %d: %v; %v", at, err, left)
		}
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	testkit.Soon(t, "no export keeps a table", func() bool { return db.Metrics().Files.Obsolete == 0 })
}

func TestAReportCountsWhatIsStored(t *testing.T) {
	db, write := written(t)
	write()
	must(t, db.Flush(t.Context()))
	write()
	d := open(t, vfstest.NewMem())
	r, err := backup.Make(t.Context(), db, d)
	must(t, err)
	names, err := d.List(t.Context(), "tables/")
	must(t, err)
	bytes := 0
	for _, name := range names {
		bytes += len(content(t, d, name)) - 4 // its checksum
	}
	if r.Stored != 2 || len(names) != 2 || r.Bytes != int64(bytes) {
		t.Errorf("%+v, want 2 tables of %d bytes", r, bytes)
	}
	var seen []uint64
	must(t, backup.Verify(t.Context(), d, func(done, total uint64) { seen = append(seen, done, total) }))
	if len(seen) != 4 || seen[0] != 0 || seen[2] != 1 || seen[1] != 2 || seen[3] != 2 {
		t.Errorf("progress %v, want 0 and then 1 of 2", seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Put(ctx, "tables/x", strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v, want that it was canceled", err)
	}
	if _, err := d.Get(t.Context(), "tables/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of what was not put: %v, want fs.ErrNotExist", err)
	}
	must(t, d.Close())
}
