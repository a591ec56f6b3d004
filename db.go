// Package bloomkv is an embedded, ordered key-value store: an LSM tree whose tables each carry a Bloom filter block, asked
// before any read, so that a lookup of an absent key costs next to no disk reads: how many is Options.FilterFPR.
//
//	db, err := bloomkv.Open("data", nil)
//	…
//	defer db.Close()
//	err = db.Put([]byte("key"), []byte("value"))
//	value, err := db.Get([]byte("key")) // bloomkv.ErrNotFound where there is none
//
// Keys are bytes in bytewise order, 0 to 64 KiB, values 0 to 256 MiB; the empty key is legal and nil is the empty key.
// Writes are durable when they return, unless asked otherwise ([NoSync]). A store is open to one [DB] that writes, or to any
// number with Options.ReadOnly, in this process and others. All methods of [DB] are safe for concurrent use. Iterators,
// snapshots, conditional writes, bulk loads and copies have examples. The library never panics on damaged files, never exits,
// and logs only to Options.Logger.
package bloomkv

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/memtable"
)

// What is not an option. Level 0 holds one run for each flush.
const (
	triggerRuns = 4  // runs of level 0 that start a compaction
	slowRuns    = 8  // above this, each further run slows writers more
	stopRuns    = 12 // writers wait
	maxFrozen   = 1  // memtables that wait to be written out
)

// DB is an open store, made by [Open] and ended by [DB.Close]. All methods are safe for concurrent use. After Close each
// that can say so answers [ErrClosed].
type DB struct {
	// Order of locks: queue.mu alone; commitMu, then editMu, then mu. A table's loading mutex may be taken under the first two.
	// Resources, the reporter and the rooms below own private mutexes that are never held over a call out of them. What may
	// belong to another store, its tables' mutexes and Resources.balancing, is only ever tried.

	// constant after Open
	dir          string
	opts         Options
	policy       compaction.Policy
	lock         io.Closer
	plans        atomic.Pointer[filterplan.Plans] // changed under editMu, and only with Options.FilterMemory
	res          *Resources                       // shared with other stores, or this store's own
	share        share                            // of res
	cache        *cache.Cache
	files        *tablefile.Dir
	domain       *epoch.Domain
	retired      chan struct{} // holds one: what is retired in domain must not wait for more to be
	opened       time.Time
	stop         context.CancelFunc // of the background work
	filters      manifest.Filters   // of opts
	naming       bool               // somebody hears who left an iterator open
	samplingBits uint               // a lookup in two to the power of it is a sample; all are in tests that count exactly
	ctx          context.Context    //nolint:containedctx // the lifetime of the background goroutines, ended by Close

	state   atomic.Pointer[state] // nil after Close; swapped under mu
	visible atomic.Uint64         // the newest sequence that readers see; they ask newestSeq

	// seqGate is set by tests alone, and stands around each reading of visible: a reader's state and its sequence are two loads
	// with nothing between them, and only here can a test bring something there. nil costs a lookup one load beside that of the
	// state, and a branch.
	seqGate func(read func() uint64) uint64
	// holdGate is set by tests alone too, and called by hold between its two steps.
	holdGate atomic.Pointer[func()]

	warm  atomic.Bool // what Open reads ahead is read, and the plan is made for it
	pacer pacer       // of the compaction goroutine

	snapshots snapshots // open ones
	iterators iterators // open ones
	deadKeys  deadRanges
	report    reporter

	lookups  lookupCounts
	prefixes prefixCounts
	writes   writeCounts
	tails    struct{ loads, bytes atomic.Uint64 }

	queue commitQueue

	seed bloomblock.Seed // of memtables and new filters; constant after Open

	commitMu  sync.Mutex // the order of writes; guards the fields down to the next blank line
	log       *logFile   // nil until the next write
	base      *logBase   // what the next log stands on
	lastSeq   ikey.Seq
	framed    []byte // the record of the last group, behind room for its header; reused
	group     []*commit
	slowDebt  time.Duration
	slowSpell StallInfo // since writes are slowed

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
	calls      sync.WaitGroup // calls that last: see begin
}

// begin is the start of a call that may last and uses files: Close ends its context and waits for it. end takes the call's
// error, and makes ErrClosed of what Close was the cause of.
func (db *DB) begin(ctx context.Context) (_ context.Context, end func(error) error, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closing {
		return nil, nil, ErrClosed
	}
	db.calls.Add(1)
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(db.ctx, cancel)
	return ctx, func(err error) error {
		stop()
		cancel()
		db.mu.Lock()
		closing := db.closing // what waits learns of it before db.ctx does
		db.mu.Unlock()
		if err != nil && closing && caller.Err() == nil {
			err = ErrClosed
		}
		db.calls.Done()
		return err
	}, nil
}

// A frozen memtable waits to become tables of level 0.
type frozen struct {
	mem  *memtable.Table
	log  *logFile
	last ikey.Seq // its newest sequence
}

// Close ends the store's work: it waits for calls in flight, writes out what is in memory, so that the next Open reads no
// log, and lets go of files, memory and the lock. It returns nil, and then all writes are durable, or what went wrong, if
// only that a write had failed before; what was acknowledged is as durable as it was promised in either case. Iterators
// and scans that are open stop with ErrClosed, and what View and GetMany have handed out stays readable until their function
// returns. It may be called at any time, also from such a function. A second Close, as every other call from now on, returns ErrClosed.
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
	db.stop() // compaction, and calls that last; a flush goes on
	db.calls.Wait()

	db.commitMu.Lock() // a commit that was under way has ended; later ones see closing
	defer db.commitMu.Unlock()
	var errs []error
	switch {
	case db.opts.ReadOnly:
	case failed != nil:
		errs = append(errs, failed) // what is in memory can't be written out then
	default:
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
	errs = append(errs, db.closeFiles(s), db.removeDead(), db.res.leave(db, s), db.lock.Close())
	db.report.leftOpen(db.iterators.leaked())
	db.report.closed()
	return errors.Join(errs...)
}
