package bloomkv

import (
	"runtime"
	"strings"
)

// afterSeq calls f once, when a reader has read the newest sequence for the nth time, counted from 1, and has not used
// it yet. f may read too.
func afterSeq(db *DB, nth int, f func()) {
	calls := 0
	db.tree.SeqGate = func(read func() uint64) uint64 {
		seq := read()
		if calls++; calls == nth {
			f()
		}
		return seq
	}
}

// beforeSeq calls f once, just before a reader reads the newest sequence for the nth time.
func beforeSeq(db *DB, nth int, f func()) {
	calls := 0
	db.tree.SeqGate = func(read func() uint64) uint64 {
		if calls++; calls == nth {
			f()
		}
		return read()
	}
}

// writers reports whether a writer leads a group, and how many wait in the queue, of all open stores.
func writers() (leading bool, waiting int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		switch {
		case strings.Contains(stack, "commit.(*Writer).lead("):
			leading = true
		case strings.Contains(stack, "commit.(*Writer).commit(") && strings.Contains(stack, "[chan receive"):
			waiting++
		}
	}
	return leading, waiting
}
