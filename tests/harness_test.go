// Package tests holds the tests of whole stores that need only the public API, by subject.
package tests

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
)

// The shape of a tree, as ARCHITECTURE describes it.
const (
	lastLevel   = 6
	triggerRuns = 8  // runs of level 0 that start a compaction
	stopRuns    = 16 // runs of level 0 at which writers wait
)

var partSize = flag.Int("parts", 200, "bytes of the parts of indexes, 0 for the default")

// setPartSize cuts the indexes of tables that the test writes from now on into parts of the given number of bytes; 0
// stands for the default.
func setPartSize(t *testing.T, n int) {
	t.Helper()
	sstable.SetPartSize(n)
	t.Cleanup(func() { sstable.SetPartSize(*partSize) })
}

// TestMain runs the tests, or is the main function of a process that a test has started. The indexes of tables of some
// ten blocks and more are in parts, so that all tests have tables with parts and without.
func TestMain(m *testing.M) {
	flag.Parse()
	sstable.SetPartSize(*partSize)
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(childMain(child))
	}
	storetest.Main(m)
}

var must = testkit.Must

// runsOf returns the number of runs of the tree.
func runsOf(db *bloomkv.DB) (n int) {
	for _, level := range db.Metrics().Levels {
		n += level.Runs
	}
	return n
}

// numberOf returns the number of a table.
func numberOf(table bloomkv.TableMetrics) uint64 {
	_, number := filename.Parse(table.File)
	return number
}

// endsBefore reports whether all keys and range tombstones of a table are less than key.
func endsBefore(table bloomkv.TableMetrics, key []byte) bool {
	c := bytes.Compare(table.Largest, key)
	return table.Largest != nil && (c < 0 || c == 0 && table.LargestExclusive)
}

// newestTable returns a table of the newest run of the store "db", as the manifest describes it.
func newestTable(t *testing.T, fsys vfs.FS) *manifest.Table {
	t.Helper()
	for _, runs := range storetest.Recorded(t, fsys, "db").Version.Levels {
		if len(runs) > 0 {
			return runs[0].Tables[0]
		}
	}
	t.Fatal("no table")
	return nil
}

// readerOf returns a reader of a table of the store in dir.
func readerOf(t *testing.T, fsys vfs.FS, dir, file string) *sstable.Reader {
	t.Helper()
	name := filepath.Join(dir, file)
	info, err := fsys.Stat(name)
	must(t, err)
	f, err := fsys.Open(name)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	r, err := sstable.Open(f, info.Size(), file)
	must(t, err)
	return r
}

// lookupsAgree compares Get with the expected contents, for present and some absent keys.
func lookupsAgree(db *bloomkv.DB, want map[string]string) error {
	for k, v := range want {
		if got, err := db.Get([]byte(k)); err != nil || string(got) != v {
			return fmt.Errorf("get %.40q: got %.40q, %w, want %.40q", k, got, err, v)
		}
		absent := k + "\x00"
		if _, there := want[absent]; there {
			continue
		}
		if got, err := db.Get([]byte(absent)); !errors.Is(err, bloomkv.ErrNotFound) {
			return fmt.Errorf("get absent %.40q: got %.40q, %w", absent, got, err)
		}
	}
	return nil
}
