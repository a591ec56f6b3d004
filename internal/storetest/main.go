// Package storetest holds what tests of whole stores share: the main function of a test binary, stores, waiting, and
// file systems that record or block operations. It imports the root package, so tests inside that cannot use it.
package storetest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// Long multiplies the duration of the model and crash tests, with further seeds.
var Long = flag.Int("long", 1, "how many times as many model sequences and random crashes")

// scarceCache is the capacity of the block caches in most tests, in bytes. It is so small that blocks are evicted
// often, and an evicted block is overwritten as soon as no reader may see it.
const scarceCache = 24 << 10

// poison bounds the block caches of new stores, and has each block overwritten that no reader may see.
func poison(most int64) { cache.Testing.Store(&cache.TestMode{Most: most}) }

// Roomy gives the stores that the test opens from now on a block cache of normal size.
func Roomy(t *testing.T) {
	t.Helper()
	poison(0)
	t.Cleanup(func() { poison(scarceCache) })
}

// Uncached gives the stores that the test opens from now on no block cache, so that each use of a block is a read.
func Uncached(t *testing.T) {
	t.Helper()
	poison(1)
	t.Cleanup(func() { poison(scarceCache) })
}

// Main runs the tests and ends the process. It ends the run if a test hangs, and fails it if goroutines of a store
// outlive Close.
//
// The tests create thousands of small stores. A garbage collection after every few megabytes would double the processor
// time, so collections are rarer while memory is not scarce. Benchmarks use the default.
func Main(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.memprofile").Value.String() == "" {
		runtime.MemProfileRate = 0
	}
	if flag.Lookup("test.bench").Value.String() == "" {
		poison(scarceCache)
		pages.Strict()
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(400)
			debug.SetMemoryLimit(1 << 30)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		watchForHangs(stop)
	}()
	code := m.Run()
	close(stop)
	<-stopped
	if left := LeakedGoroutines(testkit.Patience); code == 0 && left != "" {
		fmt.Printf("goroutines outlive the tests:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// LeakedGoroutines waits until the only goroutines inside this module are those that run tests, and returns the stacks
// of the others that remain.
func LeakedGoroutines(patience time.Duration) string {
	deadline := time.Now().Add(patience)
	for {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var left []string
		for stack := range strings.SplitSeq(string(buf), "\n\n") {
			if strings.Contains(stack, "github.com/bloomkv/bloomkv") && !strings.Contains(stack, "testing.tRunner(") &&
				!strings.Contains(stack, "main.main(") && !strings.Contains(stack, ".watchForHangs(") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		time.Sleep(time.Millisecond)
	}
}
