package storetest

import (
	"slices"
	"strings"
	"sync"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A FileLog is a file system that records the operations on it.
type FileLog struct {
	vfs.FS

	silent vfs.FS // the same without a record

	mu  sync.Mutex
	ops []LoggedOp
}

// A LoggedOp is an operation. Compaction runs in the background of a test: what it opens and reads is marked.
type LoggedOp struct {
	vfstest.Op

	Compacting bool
}

// LogFiles returns a file system that records the operations on fsys.
func LogFiles(fsys vfs.FS) *FileLog {
	l := &FileLog{silent: fsys}
	l.FS = vfstest.NewHook(fsys, func(op vfstest.Op) error {
		compacting := (op.Kind == vfstest.OpOpen || op.Kind == vfstest.OpReadAt) && Inside(CompactLoop)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ops = append(l.ops, LoggedOp{op, compacting})
		return nil
	})
	return l
}

// Take returns the operations since the last call.
func (l *FileLog) Take() []LoggedOp {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := l.ops
	l.ops = nil
	return ops
}

// Reads takes the recorded operations and returns the number of data blocks read and the bytes of filters and tails
// read, in the current tables of the store "db" and without the reads of compactions.
func (l *FileLog) Reads() (blocks, tails int) {
	ops := l.Take()
	if len(ops) == 0 {
		return 0, 0
	}
	recorded, err := manifest.Load(l.silent, "db")
	if err != nil {
		panic(err)
	}
	data := map[string]int64{} // the size of the data blocks
	for _, t := range recorded.Version.Tables() {
		end := t.Size - t.TailLen - t.FilterLen
		data[filename.Make("db", filename.Table, t.Number)] = int64(end) //nolint:gosec // tests have small tables
	}
	for _, op := range ops {
		switch end, ok := data[op.Name]; {
		case op.Kind != vfstest.OpReadAt || !ok || op.Compacting:
		case op.Offset < end:
			blocks++
		default:
			tails += op.Size
		}
	}
	return blocks, tails
}

// Touched takes the recorded operations and counts those that opened or read tables, by table number.
func (l *FileLog) Touched() map[uint64]int { return touched(l.Take()) }

// Compacted does the same as Touched for the operations of compactions.
func (l *FileLog) Compacted() map[uint64]int {
	return touched(slices.DeleteFunc(l.Take(), func(op LoggedOp) bool { return !op.Compacting }))
}

func touched(ops []LoggedOp) map[uint64]int {
	n := map[uint64]int{}
	for _, op := range ops {
		if kind, number := filename.Parse(strings.TrimPrefix(op.Name, "db/")); kind == filename.Table &&
			(op.Kind == vfstest.OpOpen || op.Kind == vfstest.OpReadAt) {
			n[number]++
		}
	}
	return n
}
