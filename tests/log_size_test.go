package tests

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A lengths keeps the lengths of logs, and not their contents.
type lengths struct {
	vfs.FS
	logs    int
	longest atomic.Int64
}

func (l *lengths) Create(name string) (vfs.File, error) {
	f, err := l.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	l.logs++
	return &length{File: f, of: l}, nil
}

type length struct {
	vfs.File
	of   *lengths
	size int64
}

func (l *length) Write(b []byte) (int, error) {
	l.size += int64(len(b))
	l.of.longest.Store(max(l.of.longest.Load(), l.size))
	return len(b), nil
}

// TestALogEndsBeforeItsLargestSize deletes a range between long bounds so often that its records, of which a memtable
// keeps little, are longer than a log may be.
func TestALogEndsBeforeItsLargestSize(t *testing.T) {
	fsys := &lengths{FS: vfstest.NewMem()}
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: fsys, Durability: bloomkv.DurabilityNoSync})
	must(t, err)
	var b bloomkv.Batch
	lower, upper := bytes.Repeat([]byte("a"), bloomkv.MaxKeySize), bytes.Repeat([]byte("b"), bloomkv.MaxKeySize)
	for range 100 {
		b.DeleteRange(bloomkv.KeyRange{Lower: lower, Upper: upper})
	}
	n := wal.MaxSize/int64(b.Size()) + 1
	for range n {
		must(t, db.Apply(&b))
	}
	if longest := fsys.longest.Load(); longest > wal.MaxSize || longest < wal.MaxSize/2 || fsys.logs != 2 {
		t.Errorf("%d logs, the longest of %d bytes; want 2 of at most %d", fsys.logs, longest, int64(wal.MaxSize))
	}
	must(t, db.Close())
}
