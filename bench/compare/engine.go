package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/workload"
)

// The settings of all engines.
const (
	memtableBytes  = 64 << 20 // of two: one fills while the other is written out
	largeCache     = 1 << 30  // holds everything
	levelZeroRuns  = 4        // start a compaction
	baseLevelBytes = 64 << 20
	levelRatio     = 10
	tableBytes     = 8 << 20
	blockBytes     = 4 << 10
	filterBits     = 10 // per key
	background     = 2  // compactions at once, where it can be said
)

// settings are those that differ from one state of a store to another.
type settings struct {
	cache     int64 // bytes for blocks, and for filters and indexes where they are not held apart
	durable   bool  // the store is asked with PutSync alone
	ascending bool  // keys are put in their order
}

// engine is an open store. Its log is on, and nobody waits for the disk but PutSync. All methods but those of a view from kept
// may be called by several goroutines at once.
type engine interface {
	workload.Store
	// lookups are the ways to look a key up, one for each column of the engine and in their order. An AppendGet sees
	// everything that was put before it, but for frozen columns.
	lookups() []view
	// kept is the store as a reader has it who keeps an iterator: Scan goes to its place with one that was made before. It is
	// for one goroutine, and need not see what is put later.
	kept() (view, error)
}

// view is a way to use a store. End releases what the view holds and leaves the store open; nothing may be called after it.
// AppendGet of the views from lookups, Put, Scan of those from kept and of the engine itself are all that phases call.
type view struct {
	workload.Store

	end func() error
}

// whole is the view that is the store itself.
func whole(s workload.Store) view { return view{s, func() error { return nil }} }

// entry is an engine before it is opened.
type engineEntry struct {
	name    string   // for --engines
	columns []string // of the table, one for each of its lookups; what has no lookups is in the first
	open    func(dir string, s settings) (engine, error)
	version func() string
	mapped  bool // it reads its files through the memory map, and the system counts no reads
}

// engines are all of them, in the order of the table.
var engines = append([]engineEntry{
	{name: ownName, columns: []string{ownName}, open: openBloomkv, version: func() string { return "this tree" }},
	{name: pebbleName, columns: []string{pebbleName, pebbleL6}, open: openPebble, version: module("github.com/cockroachdb/pebble/v2")},
	{name: pebbleTuned, columns: []string{pebbleTuned}, open: openPebbleTuned, version: module("github.com/cockroachdb/pebble/v2")},
	{name: "goleveldb", columns: []string{"goleveldb"}, open: openGoleveldb, version: module("github.com/syndtr/goleveldb")},
	{name: "badger", columns: []string{"badger", badgerTxn}, open: openBadger, version: module("github.com/dgraph-io/badger/v4"), mapped: true},
	{name: "bbolt", columns: []string{"bbolt", bboltTx}, open: openBbolt, version: module("go.etcd.io/bbolt"), mapped: true},
}, rocksdbEngines()...)

const (
	ownName     = "bloomkv"
	rocksdbName = "rocksdb" // of the engine and its column, where it is built
)

// Frozen columns keep a read transaction from lookup to lookup, and see the store as it was when that began. They have no
// figures of a changing store, and bars do not speak of them.
const (
	badgerTxn = "badger-txn"
	bboltTx   = "bbolt-tx"
)

func frozen(column string) bool { return column == badgerTxn || column == bboltTx }

// columns are the lookups of all engines, in the order of the table.
func columns() []string {
	var all []string
	for _, e := range engines {
		all = append(all, e.columns...)
	}
	return all
}

func findEngine(name string) (engineEntry, error) {
	i := slices.IndexFunc(engines, func(e engineEntry) bool { return e.name == name })
	if i < 0 {
		return engineEntry{}, fmt.Errorf("no engine %q", name)
	}
	return engines[i], nil
}

func engineNames() []string {
	var names []string
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

// module is the version of a module that the program was built with.
func module(path string) func() string {
	return func() string {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			return "unknown"
		}
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
		return "unknown"
	}
}

// getMany asks for one key after another: the way of engines that can't be asked for several.
func getMany(s workload.Store, keys [][]byte, each func(i int, value []byte, found bool) error) error {
	var value []byte
	for i, key := range keys {
		var found bool
		var err error
		if value, found, err = s.AppendGet(value[:0], key); err == nil {
			err = each(i, value, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putIfAbsent looks, then puts: the way of engines that have no better.
func putIfAbsent(s workload.Store, key, value []byte) (stored bool, err error) {
	_, found, err := s.AppendGet(nil, key)
	if found || err != nil {
		return false, err
	}
	return true, s.Put(key, value)
}

// reopened closes a store and times its opening alone.
func reopened(closing func() error, opening func() error) (time.Duration, error) {
	if err := closing(); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := opening()
	return time.Since(begin), err
}

// stillness is how long an engine stands still that has settled.
var stillness = 500 * time.Millisecond

// quiet returns once the figures that look returns have stood still for that long, and ready was true. Engines that
// don't say when they have settled are asked so.
func quiet(ctx context.Context, look func() (figures []int64, ready bool)) error {
	const step = 25 * time.Millisecond
	still := int(stillness / step)
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
