package bloomkv_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestALogCutShortBelowWhatTheManifestKnowsIsDamage truncates a log by complete records, or replaces them by zeros so
// that the file keeps its size: the log itself shows no damage.
func TestALogCutShortBelowWhatTheManifestKnowsIsDamage(t *testing.T) {
	mem := vfs.NewMem()
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
