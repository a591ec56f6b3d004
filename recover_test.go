package bloomkv

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestALogCutShortBelowWhatTheManifestKnowsIsDamage truncates a log by complete records, or replaces them by zeros so
// that the file keeps its size: the log itself shows no damage.
func TestALogCutShortBelowWhatTheManifestKnowsIsDamage(t *testing.T) {
	mem := vfs.NewMem()
	fs, open := gated(mem, createsTable)
	opts := small(fs)
	db, err := Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put([]byte("first"), nil); err != nil {
		t.Fatal(err)
	}
	// The flush of the old log waits until the next log has grown.
	if _, err := db.writer.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ends []int64
	for _, key := range []string{"second", "third"} {
		if err := db.Put([]byte(key), nil); err != nil {
			t.Fatal(err)
		}
		log := db.tree.View().Log
		soon(t, "the log has a name", func() bool { return log.Mark() != nil })
		ends = append(ends, log.Mark().Synced)
	}
	number := db.tree.View().Log.Number()
	open()
	soon(t, "the flush is done", func() bool { return db.Metrics().Writes.Flushes == 1 })
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
		if err != nil {
			t.Fatal(err)
		}
		clear(b[c.end:])
		if !c.zeros {
			b = b[:c.end]
		}
		if err := vfs.WriteFileAtomic(fs, "db", "cut", filepath.Base(path), b); err != nil {
			t.Fatal(err)
		}
		db, err := Open("db", small(fs))
		if errors.Is(err, ErrCorruption) != c.damaged || err != nil && !c.damaged {
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
