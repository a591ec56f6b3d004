package bloomkv

import (
	"runtime"
	"strings"
	"testing"
	"time"
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

// waiting reports whether a goroutine inside the named function waits for a mutex.
func waiting(function string) bool {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, function) && strings.Contains(stack, "[sync.Mutex.Lock") {
			return true
		}
	}
	return false
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

// A gate blocks the goroutines that pass it until it is opened.
type gate struct{ come, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 64), make(chan struct{})} }

func (g *gate) pass() {
	select {
	case g.come <- struct{}{}:
	default:
	}
	<-g.open
}

// wait returns when a goroutine has reached the gate.
func (g *gate) wait(t *testing.T, what string) {
	t.Helper()
	select {
	case <-g.come:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: not reached within 30 s", what)
	}
}
