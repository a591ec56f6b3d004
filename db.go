// Package bloomkv is an embedded, ordered key-value store. It is an LSM tree whose tables each have a Bloom filter
// block, which is checked before any read. So a lookup of an absent key needs almost no disk reads; Options.FilterFPR
// sets how many.
//
//	db, err := bloomkv.Open("data", nil)
//	…
//	defer db.Close()
//	err = db.Put([]byte("key"), []byte("value"))
//	value, err := db.Get([]byte("key")) // bloomkv.ErrNotFound if the key is absent
//
// Keys are bytes in bytewise order, 0 to 64 KiB long; values are 0 to 64 MiB long. The empty key is legal, and nil
// is the empty key. Writes are durable when they return, unless asked otherwise ([DurabilityNoSync]). A store can be
// open in one [DB] that writes, or in any number of DBs with Options.ReadOnly, in this process and in others. All
// methods of [DB] are safe for concurrent use. There are examples of iterators, snapshots, conditional writes, bulk
// loads and copies. The library never panics on damaged files, never exits the process, and logs only to
// Options.Logger.
package bloomkv

import (
	"errors"
	"time"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/scheduler"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// Constants that are not options. Each flush adds one run to level 0.
const (
	triggerRuns = 8  // runs of level 0 that start a compaction
	slowRuns    = 12 // each run above this slows writers more
)

// DB is an open store. [Open] returns one and [DB.Close] ends it. All methods are safe for concurrent use. After
// Close, all methods that can return an error return [ErrClosed].
type DB struct {
	// Order of locks: those of the writer, then of the scheduler, then of the tree. The mutex for loading a table may
	// be taken while holding the first two. Resources, the reporter and the packages below have private mutexes, which
	// they never hold while calling out. Mutexes that may belong to another store (those of its tables, and that of its
	// pool for balancing) are only taken with TryLock.

	// constant after Open
	dir    string
	opts   Options
	opened time.Time
	home   *recovery.Dir
	closed chan struct{} // closed when the first Close is about to return
	report reporter
	pool   *budget.Pool         // of this store alone, or of Options.Resources
	share  *budget.Share        // of pool
	tree   *tree.Tree           // the state; readers, writers and background work meet here
	read   read.Reader          // reads from tree
	writer commit.Writer        // writes into tree
	work   *scheduler.Scheduler // flushes and compacts tree
}

// Dir returns the directory of the store, as given to [Open]. It is a directory of FS.
func (db *DB) Dir() string { return db.dir }

// FS returns the file system of the store: Options.FS, or the operating system's.
func (db *DB) FS() vfs.FS { return db.opts.FS }

// Options returns a copy of the options that the store was opened with, where a field that was 0 or nil has a default.
// MemoryBudget, MaxMappedBytes and MaxOpenFiles stay 0 with Resources, and FilterSeed if it was not set.
func (db *DB) Options() Options { return db.opts }

// Close closes the store. It waits for calls in progress, writes out what is in memory, so that the next Open reads
// no log, and releases files, memory and the lock. If Close returns nil, all writes are durable. Otherwise it returns
// what went wrong, which may only be that an earlier write failed. In either case, acknowledged writes are as durable
// as promised. Open iterators and scans stop with ErrClosed. Values that View and GetMany have passed to a function
// stay readable until the function returns. Close may be called at any time, even from such a function. A second Close
// waits for the first, so that the store may be opened again, and returns ErrClosed. Every other call returns ErrClosed
// from then on.
func (db *DB) Close() error {
	if !db.tree.Close() { // ends compactions and long calls; a flush continues
		step.Take(db.closed)
		return ErrClosed
	}
	defer close(db.closed)
	step.At("close: refused")
	db.tree.WaitForCalls()
	db.writer.Drain()
	db.work.Wait()
	var errs []error
	if !db.opts.ReadOnly {
		errs = append(errs, db.tree.View().Failed) // then what is in memory was not written out
	}
	s := db.tree.End()
	db.read.End()
	errs = append(errs, db.writer.Close())
	errs = append(errs, db.tree.CloseManifest(s), db.work.RemoveDead(), db.share.Leave(s), db.home.Close())
	db.report.leftOpen(db.read.Leaked())
	db.report.closed()
	return errors.Join(errs...)
}
