package storetest

import (
	"errors"
	"runtime"
	"strings"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Inside reports whether f is among the caller's callers.
func Inside(f Function) bool {
	var pc [64]uintptr
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, string(f)) {
			return true
		}
		if !more {
			return false
		}
	}
}

// Running reports whether a goroutine is inside f.
func Running(f Function) bool { return anyStack(string(f)+"(", "") }

// Blocked reports whether a goroutine inside f is blocked in the given way, as stacks name it, for example "select".
func Blocked(f Function, how string) bool { return anyStack(string(f), "["+how) }

// Waiting reports whether a goroutine inside f waits for a mutex.
func Waiting(f Function) bool { return Blocked(f, "sync.Mutex.Lock") }

// anyStack reports whether the stack of some goroutine contains both strings.
func anyStack(a, b string) bool {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, a) && strings.Contains(stack, b) {
			return true
		}
	}
	return false
}

// WritesStopped reports whether a writer, of any open store, waits until a memtable can be frozen.
func WritesStopped() bool { return Blocked(waitToFreeze, "sync.Cond.Wait") }

// Gated returns a file system on which the operations selected by waits block until open is called, once.
func Gated(fsys vfs.FS, waits func(vfstest.Op) bool) (gatedFS vfs.FS, open func()) {
	gate := make(chan struct{})
	return vfstest.NewHook(fsys, func(op vfstest.Op) error {
		if waits(op) {
			<-gate
		}
		return nil
	}), func() { close(gate) }
}

// CreatesTable selects the first operation of a flush or compaction on a new table.
func CreatesTable(op vfstest.Op) bool {
	return op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst")
}

// ErrCold is the error of a read on a file system of Cold.
var ErrCold = errors.New("no reading ahead")

// Cold returns a file system on which Open loads no table: the first operation that needs a table has to load it.
func Cold(fsys vfs.FS) vfs.FS {
	return vfstest.NewHook(fsys, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && strings.HasSuffix(op.Name, ".sst") && Inside(WarmUp) {
			return ErrCold
		}
		return nil
	})
}

// Writers reports whether a writer leads a group, and how many wait in the queue, of all open stores.
func Writers() (leading bool, waiting int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		switch {
		case strings.Contains(stack, string(lead)+"("):
			leading = true
		case strings.Contains(stack, string(commitOps)+"(") && strings.Contains(stack, "[chan receive"):
			waiting++
		}
	}
	return leading, waiting
}
