// Package commit takes batches into a store: one group of writers at a time writes its batches to the log, then to
// the memtable, then makes them visible. It freezes full memtables into the tree, delays writers while background work
// is behind, and gives transactions turns.
package commit

import (
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Writer commits the writes of one store. It is safe for concurrent use after Init.
//
// Locks are taken in this order: queue.mu alone; mu, then those of the tree, or countsMu.
type Writer struct {
	Config // constant after Init

	queue   queue
	commits sync.Pool      // of *commit; not shared with other stores, since channels must not leave a synctest bubble
	marked  atomic.Int64   // bytes of the marks in the log of the memtable; 0 without one. Stored with mu
	logs    step.WaitGroup // goroutines that make logs durable

	countsMu            step.Mutex // so that Counts waits for no write
	counts              Counts
	attempts, conflicts atomic.Uint64 // of Attempts: runs, and those that could not commit

	mu      step.Mutex // the order of writes; guards what follows
	log     *logFile   // nil until the next write
	base    *logBase   // what synced writes in the next log wait for
	frozen  *logFile   // the log before; nil if there was none
	lastSeq ikey.Seq
	mark    batch.Mark // the newest of the memtable's, none if its Seq is 0
	framed  []byte     // the record of the last group, after space for its header; reused
	group   []*commit
	grown   int64  // bytes of the memtable at the last call of Tree.Grow
	roomFor int64  // bytes that may be written before the free space is asked for again,
	taken   uint64 // unless Tree.SpaceTaken differs from this
	scarce  bool   // the disk has so little space to spare that logs reserve none
	pace    pace
}

// A Config holds the parameters of Init.
type Config struct {
	FS           vfs.FS
	Dir          string
	Tree         *tree.Tree
	Policy       compaction.Policy
	MemtableSize int64           // bytes
	Seed         bloomblock.Seed // of memtables
	Values       Values
	DeadKeys     *deadkeys.Ranges // which puts cut
	Stalled      func(Stall)      // is called when writes no longer wait for background work
}

// Values looks up the present values that conditional writes depend on.
type Values interface {
	// Compare reports whether the newest value of key equals old, or with a nil old whether key is absent.
	Compare(key, old []byte) (bool, error)
	// SameKey reports whether key has the same value at two moments, or none at both; SameRange whether the keys in
	// [lower, upper) and their values are the same. A nil upper means no end.
	SameKey(key []byte, a, b tree.Moment) (bool, error)
	SameRange(lower, upper []byte, a, b tree.Moment) (bool, error)
	// Hash returns the hash of key by which memtables find it.
	Hash(key []byte) bloomblock.SeededHash
}

// Init prepares the writer. Before its first use, Start must be called.
func (w *Writer) Init(c Config) {
	w.Config = c
	w.commits.New = func() any { return &commit{lead: make(chan bool, 1)} }
}

// Counts are figures of all writes so far.
type Counts struct {
	Operations, Groups  uint64
	LogBytes, LogSyncs  uint64
	Attempts, Conflicts uint64         // of transactions
	Stalls              [Reasons]Stall // Reason is not set
}

// Counts returns the present figures.
func (w *Writer) Counts() Counts {
	w.countsMu.Lock()
	defer w.countsMu.Unlock()
	c := w.counts
	c.Attempts, c.Conflicts = w.attempts.Load(), w.conflicts.Load()
	return c
}

// Start sets the newest sequence number in use.
func (w *Writer) Start(last ikey.Seq) { w.lastSeq = last }
