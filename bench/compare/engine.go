package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// The settings that all engines share.
const (
	memtableBytes  = 64 << 20 // of each of two: one is filled while the other is written
	busyMemtable   = 8 << 20  // the same in state "busy", so that its writer causes flushes and compactions
	largeCache     = 1 << 30  // large enough for everything
	levelZeroRuns  = 4        // number of runs that starts a compaction
	baseLevelBytes = 64 << 20
	levelRatio     = 10
	tableBytes     = 8 << 20
	blockBytes     = 4 << 10
	filterBits     = 10 // per key
	background     = 2  // parallel compactions, if that can be set
)

// settings are the settings that depend on the state of a store.
type settings struct {
	cache     int64 // bytes for blocks, and for filters and indexes unless these are held separately
	memtable  int64 // bytes
	durable   bool  // all writes are PutSync
	ascending bool  // keys are put in order
}

// engine is an open store. Its log is enabled, and only PutSync waits for the disk. All methods may be called by
// several goroutines, except those of a view from kept.
type engine interface {
	workload.Store
	// lookups returns the ways to look up a key, one for each column of the engine and in their order. An AppendGet
	// sees everything put before it, except in frozen columns.
	lookups() []view
	// kept returns the store as seen by a reader that keeps one iterator for all calls of Scan. It is for one goroutine
	// and need not see later writes.
	kept() (view, error)
}

// view is a way to use a store. end releases the resources of the view and leaves the store open; no other method may
// be called after it. Phases call AppendGet of the views from lookups, and Put and Scan of the views from kept and of
// the engine itself.
type view struct {
	workload.Store

	end func() error
}

// A scanner is a store whose scans use one iterator, or one cursor.
type scanner[I any] struct {
	workload.Store

	it   I
	scan func(it I, from []byte, limit int, each func(key, value []byte) error) error
}

func (s scanner[I]) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	return s.scan(s.it, from, limit, each)
}

// ownReads is an engine that counts the blocks, with filters and indexes, that it reads outside its cache.
type ownReads interface{ blockReads() uint64 }

// filterMemory is an engine that knows the size of its filters.
type filterMemory interface{ filterBytes() (int64, error) }

// looping is an engine that can run the operations of a chunk in a loop of its own, in the column nativeName.
type looping interface {
	// loops returns a view for one goroutine that implements workload.Looper, with one iterator for all seeks and scans
	// if keep is true.
	loops(keep bool) view
}

// whole returns the store itself as a view.
func whole(s workload.Store) view { return view{s, func() error { return nil }} }

// entry is an engine that is not open yet.
type engineEntry struct {
	name    string   // for --engines
	columns []string // of the table, one for each way to look up a key; other rows are in the first
	open    func(dir string, s settings) (engine, error)
	version func() string
	mapped  bool   // files are memory-mapped, so that the system counts no reads
	tenth   bool   // puts a tenth of the pairs in state "many puts", because each takes as long as ten of the others
	filters string // the source of the figure in row "filters"
	// computed: the engine has no figure, so filterBits are assumed for each key
	computed bool
}

// engines returns all engines in the order of the table.
var engines = append([]engineEntry{
	{
		name: ownName, columns: []string{ownName}, open: openBloomkv,
		version: func() string { return "this tree" }, filters: "in memory, by its metrics",
	},
	{
		name: pebbleName, columns: []string{pebbleName, pebbleL6}, open: openPebble,
		version: module("github.com/cockroachdb/pebble/v2"), filters: byProperties,
	},
	{
		name: pebbleTuned, columns: []string{pebbleTuned}, open: openPebbleTuned,
		version: module("github.com/cockroachdb/pebble/v2"), filters: byProperties,
	},
	{
		name: "goleveldb", columns: []string{"goleveldb"}, open: openGoleveldb,
		version: module("github.com/syndtr/goleveldb"),
		filters: fmt.Sprintf("computed, %d bits for each key", filterBits), computed: true,
	},
	{
		name: "badger", columns: []string{"badger", badgerTxn}, open: openBadger,
		version: module("github.com/dgraph-io/badger/v4"), mapped: true,
		filters: "in its tables, by their descriptions",
	},
	{
		name: bboltName, columns: []string{bboltName, bboltTx}, open: openBbolt,
		version: module("go.etcd.io/bbolt"), mapped: true, tenth: true, filters: "none",
	},
}, rocksdbEngines()...)

const (
	ownName     = "bloomkv"
	rocksdbName = "rocksdb" // name of the engine and of its column, if it is built
	bboltName   = "bbolt"
	nativeName  = "rocksdb-native" // column of RocksDB with loops in C
)

const byProperties = "on disk, by the properties of its tables"

// Frozen columns keep one read transaction for all lookups and see the store as it was when that began. They have no
// results for a changing store, and targets ignore them.
const (
	badgerTxn = "badger-txn"
	bboltTx   = "bbolt-tx"
)

func frozen(column string) bool { return column == badgerTxn || column == bboltTx }

// columns returns the columns of all engines in the order of the table.
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
		return engineEntry{}, fmt.Errorf("unknown engine %q", name)
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

// module returns the version of a module that the program was built with.
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

// reopened closes a store, opens it again, and returns the time of the opening.
func reopened(closing func() error, opening func() error) (time.Duration, error) {
	if err := closing(); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := opening()
	return time.Since(begin), err
}

// stillness is the time without changes after which an engine counts as settled.
var stillness = 500 * time.Millisecond

// quiet returns once the figures from look have not changed for that long and ready was true, or with its first error.
// It is for engines that do not report when they have settled.
func quiet(ctx context.Context, look func() (figures []int64, ready bool, err error)) error {
	const step = 25 * time.Millisecond
	still := int(stillness / step)
	var last []int64
	for n := 0; n < still; n++ {
		figures, ready, err := look()
		if err != nil {
			return err
		}
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

// A keeper is a store that looks keys up by resources, such as iterators, and keeps these for reuse. Each goroutine
// uses its own.
type keeper[T any] struct {
	workload.Store

	changes *atomic.Uint64 // of the store: what was opened before the last one is not used
	open    func() (T, error)
	close   func(T) error
	get     func(it T, dst, key []byte) (out []byte, found bool, err error)

	free sync.Pool // of *kept[T]

	mu   sync.Mutex
	made map[*kept[T]]struct{} // guarded by mu; all that are open
}

// kept is a resource with the number of changes of the store when it was opened.
type kept[T any] struct {
	it      T
	changes uint64
}

// view returns a view of the keeper, which closes all resources at its end.
func (k *keeper[T]) view() view {
	k.made = make(map[*kept[T]]struct{})
	return view{k, k.end}
}

func (k *keeper[T]) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	l, err := k.take(k.changes.Load())
	if err != nil {
		return dst, false, err
	}
	defer k.free.Put(l)
	return k.get(l.it, dst, key)
}

// take returns a free resource that is as new as changes, or opens one.
func (k *keeper[T]) take(changes uint64) (*kept[T], error) {
	if l, _ := k.free.Get().(*kept[T]); l != nil {
		if l.changes == changes {
			return l, nil
		}
		k.mu.Lock()
		delete(k.made, l)
		k.mu.Unlock()
		if err := k.close(l.it); err != nil {
			return nil, err
		}
	}
	it, err := k.open()
	if err != nil {
		return nil, err
	}
	l := &kept[T]{it, changes}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made[l] = struct{}{}
	return l, nil
}

// end closes all resources, including those that the pool has dropped. None may be in use.
func (k *keeper[T]) end() error {
	var errs []error
	for l := range k.made {
		errs = append(errs, k.close(l.it))
	}
	return errors.Join(errs...)
}
