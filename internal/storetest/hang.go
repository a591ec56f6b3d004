package storetest

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A hanging test ends the run with its name and the stacks of all goroutines, minutes before the timeout of go test. A
// hanging test either waits, and the process uses no processor time, or it uses processor time without progress. A slow
// or busy machine causes neither.

const (
	hangTime = time.Minute           // of processor time: a test that makes no progress for this long hangs
	idleTime = 60 * time.Millisecond // of processor time: a process that uses less in each of two minutes waits forever
)

// Progress counts the work of the long tests: sequences, crashes, damaged stores.
var Progress atomic.Int64

// watchForHangs ends the process if a test hangs, until stop is closed.
func watchForHangs(stop <-chan struct{}) {
	if flag.Lookup("test.fuzz").Value.String() != "" { // one target runs for as long as the user wants
		return
	}
	limit := hangTime
	if testkit.RaceEnabled || *Long > 1 {
		limit *= 10
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var minuteAgo, looked time.Duration // processor time
	var last []string                   // the tests that ran at the time of looked
	var done int64                      // the progress at that time
	ticks, idle := 0, 0
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		used, ok := processorTime()
		if !ok {
			return
		}
		if ticks++; ticks%60 == 0 {
			if idle++; used-minuteAgo > idleTime {
				idle = 0
			}
			minuteAgo = used
		}
		if idle == 2 {
			hung(runningTests(), "the process has been idle for two minutes")
		}
		if used-looked < limit {
			continue
		}
		now := runningTests()
		if Progress.Load() == done {
			still := slices.DeleteFunc(slices.Clone(now),
				func(name string) bool { return !slices.Contains(last, name) })
			if len(still) > 0 {
				hung(still, fmt.Sprintf("no progress within %v of processor time", limit))
			}
		}
		last, done, looked = now, Progress.Load(), used
	}
}

// hung ends the process. What it says comes after the stacks, since the end of a long log is what is read.
func hung(tests []string, why string) {
	buf := make([]byte, 8<<20)
	fmt.Fprintf(os.Stderr, "%s\nhangs: %s: %s\n", buf[:runtime.Stack(buf, true)], strings.Join(tests, ", "), why)
	os.Exit(2)
}

var testName = regexp.MustCompile(
	`(?m)^github\.com/bloomkv/bloomkv(?:_test|/tests|/replica/internal/history)?\.((?:Test|Example|Fuzz)\w*)`)

// runningTests returns the running tests, each with the number of its goroutine, except for those that wait for a
// subtest.
func runningTests() (tests []string) {
	buf := make([]byte, 8<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		has := func(function string) bool { return strings.Contains(stack, "\ntesting."+function+"(") }
		if has("(*T).Run") || has("(*T).Parallel") || !has("tRunner") && !has("runExample") {
			continue
		}
		goroutine, _, _ := strings.Cut(stack, " [")
		for _, name := range testName.FindAllStringSubmatch(stack, -1) {
			if name[1] != "TestMain" {
				tests = append(tests, fmt.Sprintf("%s (%s)", name[1], goroutine))
				break
			}
		}
	}
	return tests
}
