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
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/tree"
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
	// Order of locks: queue.mu alone; commitMu, then installMu, then those of the tree, then manualMu. A table's loading mutex
	// may be taken under the first two.
	// Resources, the reporter and the rooms below own private mutexes that are never held over a call out of them. What may
	// belong to another store, its tables' mutexes and Resources.balancing, is only ever tried.

	// constant after Open
	dir    string
	opts   Options
	tree   *tree.Tree
	policy compaction.Policy
	lock   io.Closer
	pool   *budget.Pool // of the store alone, or of Options.Resources
	share  *budget.Share
	read   read.Reader
	opened time.Time
	stop   context.CancelFunc // of the background work
	ctx    context.Context    //nolint:containedctx // the lifetime of the background goroutines, ended by Close

	warm  atomic.Bool // what Open reads ahead is in memory, and the filter plan follows from it
	pacer pacer       // of the compaction goroutine

	report reporter

	writes writeCounts

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

	installMu sync.Mutex // held while the tree changes and the filter plan follows it

	manualMu   sync.Mutex
	manual     []*manualCompaction // guarded by manualMu
	compacting bool                // guarded by manualMu: a compaction runs

	workers sync.WaitGroup
}

// begin is the start of a call that may last and uses files: Close ends its context and waits for it. end takes the call's
// error, and makes ErrClosed of what Close was the cause of.
func (db *DB) begin(ctx context.Context) (_ context.Context, end func(error) error, err error) {
	if err := db.tree.BeginCall(); err != nil {
		return nil, nil, err
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(db.ctx, cancel)
	return ctx, func(err error) error {
		stop()
		cancel()
		// A waiting call learns that the store closes before db.ctx ends.
		if closing := db.tree.EndCall(); err != nil && closing && caller.Err() == nil {
			err = ErrClosed
		}
		return err
	}, nil
}

// Close ends the store's work: it waits for calls in flight, writes out what is in memory, so that the next Open reads no
// log, and lets go of files, memory and the lock. It returns nil, and then all writes are durable, or what went wrong, if
// only that a write had failed before; what was acknowledged is as durable as it was promised in either case. Iterators
// and scans that are open stop with ErrClosed, and what View and GetMany have handed out stays readable until their function
// returns. It may be called at any time, also from such a function. A second Close, as every other call from now on, returns ErrClosed.
func (db *DB) Close() error {
	failed, first := db.tree.Close()
	if !first {
		return ErrClosed
	}
	db.stop() // compaction, and calls that last; a flush goes on
	db.tree.WaitForCalls()

	db.commitMu.Lock() // a commit that was under way has ended; later ones are refused
	defer db.commitMu.Unlock()
	var errs []error
	switch {
	case db.opts.ReadOnly:
	case failed != nil:
		errs = append(errs, failed) // what is in memory can't be written out then
	default:
		errs = append(errs, db.flushAll())
	}
	db.tree.Drain()
	db.workers.Wait()
	s := db.tree.End()
	if db.log != nil {
		errs = append(errs, db.log.w.Close())
	}
	// What is dead goes while the state still has this reference: a scan that lets go of the last one after it makes tables
	// of the tree look dead.
	errs = append(errs, db.tree.CloseManifest(s), db.removeDead(), db.share.Leave(s), db.lock.Close())
	db.report.leftOpen(db.read.Leaked())
	db.report.closed()
	return errors.Join(errs...)
}
