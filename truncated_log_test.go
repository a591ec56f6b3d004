package bloomkv_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestALogCutShortBelowWhatTheManifestKnowsIsDamage truncates a log by complete records, or replaces them by zeros so
// that the file keeps its size: the log itself shows no damage.
func TestALogCutShortBelowWhatTheManifestKnowsIsDamage(t *testing.T) {
	mem := vfstest.NewMem()
	fs, open := storetest.Gated(mem, storetest.CreatesTable)
	opts := storetest.Small(fs)
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	must(t, db.Put([]byte("first"), nil))
	// The flush of the old log waits until the next log has grown.
	if _, err := db.Writer().Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ends []int64
	for _, key := range []string{"second", "third"} {
		must(t, db.Put([]byte(key), nil))
		log := db.Tree().View().Log
		storetest.Soon(t, "the log has a name", func() bool { return log.Mark() != nil })
		ends = append(ends, log.Mark().Synced)
	}
	number := db.Tree().View().Log.Number()
	open()
	storetest.Soon(t, "the flush is done", func() bool { return db.Metrics().Writes.Flushes == 1 })
	left := mem.Kill()
	if err := db.Close(); err != nil {
		t.Error(err)
	}

	for _, c := range []struct {
		name    string
		end     int64
		zeros   bool
		damaged bool
	}{
		{"whole", ends[1], false, false},
		{"whole, with its reserved space", ends[1], true, false},
		{"without its last record", ends[0], false, true},
		{"with zeros in place of its last record", ends[0], true, true},
		{"empty", 0, false, true},
		{"all zeros", 0, true, true},
	} {
		fs := left.Kill()
		path := filename.Make("db", filename.Log, number)
		b, err := vfs.ReadFile(fs, path, 1<<20)
		must(t, err)
		clear(b[c.end:])
		if !c.zeros {
			b = b[:c.end]
		}
		must(t, vfs.WriteFileAtomic(fs, "db", "cut", filepath.Base(path), b))
		db, err := bloomkv.Open("db", storetest.Small(fs))
		if errors.Is(err, bloomkv.ErrCorruption) != c.damaged || err != nil && !c.damaged {
			t.Errorf("%s: got %v, want damage: %v", c.name, err, c.damaged)
		}
		if err == nil {
			for _, key := range []string{"first", "second", "third"} {
				if ok, err := db.Has([]byte(key)); !ok || err != nil {
					t.Errorf("%s: key %s: %v, %v", c.name, key, ok, err)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestALogWithoutItsBeginningIsDamage removes or overwrites the beginning of a log that the manifest names, whether or
// not a write asked for a sync: the manifest names a log once its first record is durable.
func TestALogWithoutItsBeginningIsDamage(t *testing.T) {
	for name, durability := range map[string]bloomkv.Durability{
		"synced": bloomkv.DurabilitySync, "not synced": bloomkv.DurabilityNoSync,
	} {
		mem := vfstest.NewMem()
		db, err := bloomkv.Open("db", storetest.Small(mem))
		must(t, err)
		must(t, db.Put([]byte("flushed"), nil))
		must(t, db.Flush(t.Context()))
		must(t, storetest.PutWith(db, durability, []byte("first"), nil))
		log := db.Tree().View().Log
		storetest.Soon(t, "the log has a name", func() bool { return log.Mark() != nil })
		must(t, storetest.PutWith(db, durability, []byte("second"), nil))
		left, lost := mem.Kill(), mem.Crash(vfstest.KeepNothing)
		must(t, db.Close())

		crashed, err := bloomkv.Open("db", storetest.Small(lost))
		must(t, err)
		if ok, err := crashed.Has([]byte("first")); !ok || err != nil {
			t.Errorf("%s: the first record of a named log after a power cut: %v, %v", name, ok, err)
		}
		must(t, crashed.Close())
		for _, c := range []struct {
			name   string
			change func(b []byte) []byte
			want   string
		}{
			{"empty", func(b []byte) []byte { return b[:0] }, "offset 0: ends here, want at least "},
			{"all zeros", func(b []byte) []byte { clear(b); return b }, "offset 0: ends here, want at least "},
			{
				"no header of a log", func(b []byte) []byte {
					for i := range b {
						b[i] = byte(i*131 + 7)
					}
					return b
				},
				"offset 0: ends here, want at least ",
			},
			{
				"its header alone", func(b []byte) []byte { return b[:wal.FirstRecord] },
				"offset 32: ends here, want at least ",
			},
			{
				"its header, then zeros", func(b []byte) []byte { clear(b[wal.FirstRecord:]); return b },
				"offset 32: ends here, want at least ",
			},
		} {
			t.Run(fmt.Sprintf("%s, %s", c.name, name), func(t *testing.T) {
				fsys := left.Kill()
				path := filename.Make("db", filename.Log, log.Number())
				storetest.Rewrite(t, fsys, path, c.change)
				base := filepath.Base(path)
				_, checked := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys})
				_, opened := bloomkv.Open("db", storetest.Small(fsys))
				for call, err := range map[string]error{"Check": checked, "Open": opened} {
					if !errors.Is(err, bloomkv.ErrCorruption) || !strings.Contains(err.Error(), base+": "+c.want) {
						t.Errorf("%s: %v, want damage: %s: %s", call, err, base, c.want)
					}
				}
				report, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: storetest.Small(fsys)})
				must(t, err)
				if !slices.ContainsFunc(report.Lost, func(l salvage.Loss) bool {
					return l.File == base && !l.Harmless
				}) {
					t.Errorf("Salvage lost %v, want a loss in %s that may have held keys", report.Lost, base)
				}
				db, err := bloomkv.Open("new", storetest.Small(fsys))
				must(t, err)
				if ok, err := db.Has([]byte("flushed")); !ok || err != nil {
					t.Errorf("the key in a table after Salvage: %v, %v", ok, err)
				}
				must(t, db.Close())
			})
		}
	}
}
