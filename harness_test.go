package bloomkv

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// long multiplies the duration of the model and crash tests, with further seeds.
var long = flag.Int("long", 1, "how many times as many model sequences and random crashes")

// scarceCache is the capacity of the block caches in most tests, in bytes. It is so small that blocks are evicted
// often, and an evicted block is overwritten as soon as no reader may see it.
const scarceCache = 24 << 10

// roomy gives the stores that the test opens from now on a block cache of normal size.
func roomy(t *testing.T) {
	t.Helper()
	cache.PoisonPools(0)
	t.Cleanup(func() { cache.PoisonPools(scarceCache) })
}

// TestMain ends the run if a test hangs, and fails it if goroutines of a store outlive Close.
//
// The tests create thousands of small stores. A garbage collection after every few megabytes would double the processor
// time, so collections are rarer while memory is not scarce. Benchmarks use the default.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.memprofile").Value.String() == "" {
		runtime.MemProfileRate = 0
	}
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(childMain(child))
	}
	if flag.Lookup("test.bench").Value.String() == "" {
		cache.PoisonPools(scarceCache)
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
	if left := leakedGoroutines(5 * time.Second); code == 0 && left != "" {
		fmt.Printf("goroutines outlive the tests:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leakedGoroutines waits until the only goroutines inside this module are those that run tests, and returns the stacks
// of the others that remain.
func leakedGoroutines(patience time.Duration) string {
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

// atStride returns n, or a small part of it under the race detector, which is slow.
func atStride(n int) int {
	if raceEnabled || testing.Short() {
		return max(1, n/20)
	}
	return n
}

// tiny returns options with which a hundred writes flush, compact and move tables.
func tiny(fsys vfs.FS) *Options {
	return &Options{
		FS: fsys, FilterSeed: 1, MemoryBudget: 8 << 20, MemtableSize: 16 << 10, TableSize: 16 << 10,
		BaseLevelSize: 64 << 10, LevelRatio: 2, BlockSize: 512,
	}
}

// within fails the test with the stacks of all goroutines if f takes too long, so that a hang does not look like a slow
// machine.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	if raceEnabled {
		limit *= 4
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s did not return within %v\n%s", what, limit, buf[:runtime.Stack(buf, true)])
	}
}

// contents reads a whole store by one scan.
func contents(db *DB) (map[string]string, error) {
	all := map[string]string{}
	var last []byte
	for kv, err := range db.Scan(IterOptions{}) {
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && bytes.Compare(last, kv.Key) >= 0 {
			return nil, fmt.Errorf("scan: %q after %q", kv.Key, last)
		}
		last = append(last[:0], kv.Key...)
		all[string(kv.Key)] = string(kv.Value)
	}
	return all, nil
}

// diff describes how two contents differ, or returns "".
func diff(got, want map[string]string) string {
	if maps.Equal(got, want) {
		return ""
	}
	var b strings.Builder
	n := 0
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[k]; !ok || v != want[k] {
			if n++; n <= 5 {
				fmt.Fprintf(&b, "key %.40q: got %.40q (there: %v), want %.40q\n", k, v, ok, want[k])
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			if n++; n <= 5 {
				fmt.Fprintf(&b, "key %.40q: got %.40q, want none\n", k, got[k])
			}
		}
	}
	return fmt.Sprintf("%d of %d keys differ:\n%s", n, len(want), b.String())
}

// lookupsAgree compares Get, Has and AppendGet with the expected contents, for present and some absent keys.
func lookupsAgree(db *DB, want map[string]string) error {
	for k, v := range want {
		if got, err := db.Get([]byte(k)); err != nil || string(got) != v {
			return fmt.Errorf("get %.40q: got %.40q, %w, want %.40q", k, got, err, v)
		}
		absent := k + "\x00"
		if _, there := want[absent]; there {
			continue
		}
		if got, err := db.Get([]byte(absent)); !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("get absent %.40q: got %.40q, %w", absent, got, err)
		}
	}
	return nil
}

// recordedOf returns the state in the manifest of an open store.
func recordedOf(db *DB) manifest.State {
	recorded, s := db.tree.Recorded()
	db.tree.Release(s)
	return recorded
}
