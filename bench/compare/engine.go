package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/workload"
)

// The settings of all engines. Everything fits in the cache.
const (
	memtableBytes  = 64 << 20 // of two: one fills while the other is written out
	cacheBytes     = 1 << 30
	levelZeroRuns  = 4 // start a compaction
	baseLevelBytes = 64 << 20
	levelRatio     = 10
	tableBytes     = 8 << 20
	blockBytes     = 4 << 10
	filterBits     = 10 // per key
	background     = 2  // compactions at once, where it can be said
)

// engine is an open store. Its log is on, and nobody waits for the disk.
type engine interface {
	workload.Store
	// lookups are the ways to look a key up, the best first; the others' AppendGet is all that is called of them.
	lookups() []lookup
}

// lookup is a way to look keys up, and a column of the table.
type lookup struct {
	name  string
	store workload.Store
}

// engines are all of them, in the order of the table.
var engines = []struct {
	name string
	open func(dir string) (engine, error)
}{
	{"bloomkv", openBloomkv},
	{"pebble", openPebble},
	{"goleveldb", openGoleveldb},
}

// columns are the lookups of all engines, in the order of the table.
var columns = []string{"bloomkv", pebbleL6, "pebble", "goleveldb"}

func openEngine(name, dir string) (engine, error) {
	for _, e := range engines {
		if e.name == name {
			return e.open(dir)
		}
	}
	return nil, fmt.Errorf("no engine %q", name)
}

func engineNames() []string {
	var names []string
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

// oneByOne is GetMany of engines that have none.
func oneByOne(s workload.Store, keys [][]byte, each func(i int, value []byte, found bool) error) error {
	var value []byte
	for i, key := range keys {
		out, found, err := s.AppendGet(value[:0], key)
		if err == nil {
			err = each(i, out, found)
		}
		if err != nil {
			return err
		}
		value = out
	}
	return nil
}

// checkAndPut is PutIfAbsent of engines that have none: two steps, which is right for one writer alone.
func checkAndPut(s workload.Store, key, value []byte) (bool, error) {
	_, found, err := s.AppendGet(nil, key)
	if found || err != nil {
		return false, err
	}
	return true, s.Put(key, value)
}

// quiet returns once the figures that look returns have stood still for half a second, and ready is true. Engines that
// don't say when they have settled are asked so.
func quiet(ctx context.Context, look func() (figures []int64, ready bool)) error {
	const step, still = 25 * time.Millisecond, 20
	var last []int64
	for n := 0; n < still; n++ {
		figures, ready := look()
		if !ready || !slices.Equal(figures, last) {
			n = 0
		}
		last = figures
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(step):
		}
	}
	return nil
}
