// Package bloomkv is an embedded, ordered key-value store: an LSM tree whose tables each carry a Bloom filter block, asked
// before any read, so that a lookup of an absent key costs next to no disk reads: how many is Options.FilterFPR.
//
//	db, err := bloomkv.Open("data", nil)
//	…
//	defer db.Close()
//	err = db.Put([]byte("key"), []byte("value"))
//	value, err := db.Get([]byte("key")) // bloomkv.ErrNotFound where there is none
//
// Keys are bytes in bytewise order, 0 to 64 KiB; the empty key is legal and nil is the empty key. Writes are durable when
// they return, unless asked otherwise ([NoSync]). A store belongs to one process at a time. All methods of [DB] are safe
// for concurrent use. The library never panics on damaged files, never exits, and logs only to Options.Logger.
package bloomkv

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/memtable"
)

// The shape of the tree that is not an option. Level 0 holds one run for each flush.
const (
	triggerRuns = 4  // runs of level 0 that start a compaction
	slowRuns    = 8  // above this, each further run slows writers more
	stopRuns    = 12 // writers wait
	maxFrozen   = 1  // memtables that wait to be written out
)

// DB is an open store, made by [Open] and ended by [DB.Close]. All methods are safe for concurrent use. After Close each
// that can say so answers [ErrClosed].
type DB struct {
	// Order of locks: queue.mu alone; commitMu, then editMu, then mu. The rooms below own private mutexes that are never held
	// over a call out of their room.

	// constant after Open
	dir    string
	opts   Options
	lock   io.Closer
	plan   filterPlan
	cache  *cache.Cache
	budget budget
	files  *descriptors
	domain *epoch.Domain
	stop   context.CancelFunc // of the background work
	ctx    context.Context    //nolint:containedctx // the lifetime of the background goroutines, ended by Close

	state   atomic.Pointer[state] // nil after Close; swapped under mu
	visible atomic.Uint64         // the newest sequence that readers see
	warm    atomic.Bool           // warmUp has ended

	lookups lookupCounts
	writes  writeCounts
	tails   struct{ loads, bytes atomic.Uint64 }

	queue commitQueue

	commitMu sync.Mutex // the order of writes; guards the fields down to the next blank line
	log      *logFile   // nil until the next write
	base     *logBase   // what the next log stands on
	lastSeq  ikey.Seq
	record   []byte // of the last group, reused
	group    []*commit
	slowDebt time.Duration

	editMu   sync.Mutex    // the order of edits; guards the fields down to the next blank line
	manifest *manifest.Log // nil until the first edit
	recorded manifest.State
	snapshot int64 // the manifest's size when it was begun

	mu         sync.Mutex // guards what follows, and the swap of state
	changed    sync.Cond  // flushes, compactions and failures wake who waits for them
	flushing   []frozen   // what state.frozen holds, oldest first
	failed     error      // once set, no more writes
	closing    bool
	drained    bool     // Close has written out all there was: nothing more will be frozen
	next       uint64   // the next file number
	reserved   uint64   // the numbers below are covered by the manifest
	active     *logFile // the log that takes writes, for the manifest to name
	manual     []*manualCompaction
	dead       []*table // in no state any more: to be removed from the disk
	compacting bool     // a compaction runs
	workers    sync.WaitGroup
}

// writeCounts are the counters behind WriteMetrics.
type writeCounts struct {
	operations, groups, logBytes, logSyncs, flushes, flushBytes, compactions, compactedRead, compactedBytes, moves atomic.Uint64
	slowed, stopped                                                                                                atomic.Int64
}

// A frozen memtable waits to become tables of level 0.
type frozen struct {
	mem  *memtable.Table
	log  *logFile
	last ikey.Seq // its newest sequence
}

// Close ends the store's work: it waits for calls in flight, writes out what is in memory, so that the next Open reads no
// log, and lets go of files, memory and the lock. It returns nil, and then all writes are durable, or what went wrong, if
// only that the store was read-only already; what was acknowledged is as durable as it was promised in either case. Scans
// that are open stop with ErrClosed. A second Close, as every other call from now on, returns ErrClosed.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closing {
		db.mu.Unlock()
		return ErrClosed
	}
	db.closing = true
	failed := db.failed
	db.changed.Broadcast()
	db.mu.Unlock()
	db.stop() // compaction; a flush goes on

	db.commitMu.Lock() // a commit that was under way has ended; later ones see closing
	defer db.commitMu.Unlock()
	errs := []error{failed} // what is in memory can't be written out then
	if failed == nil {
		errs = append(errs, db.flushAll())
	}
	db.mu.Lock()
	db.drained = true
	db.changed.Broadcast()
	db.mu.Unlock()
	db.workers.Wait()
	s := db.state.Swap(nil)
	db.domain.Wait() // lookups in flight have left, or see that there is no state
	// What is dead goes while the state still has this reference: a scan that lets go of the last one after it makes tables
	// of the tree look dead.
	errs = append(errs, db.closeFiles(), db.removeDead())
	if s.refs.Add(-1) == 0 {
		s.tables(func(_ int, t *table) { t.reader.Close() })
	}
	errs = append(errs, db.files.close(), db.lock.Close())
	db.opts.Logger.Info("closed", slog.String("dir", db.dir))
	return errors.Join(errs...)
}
