// Package tree holds the current tree of one store: the state that readers load, the manifest, the memtables that wait
// for a flush, the references that keep tables on the disk, and the reason why no more writes are taken. Writers,
// readers and background work meet here.
package tree

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/vfs"
)

var (
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("bloomkv: closed")
	// ErrReadOnly is matched by the reason why a tree takes no writes.
	ErrReadOnly = errors.New("read-only")
)

// A Tree is the current tree of one store. Readers load its state, writers freeze memtables into it, and background
// work flushes these and installs tables. It is safe for concurrent use.
//
// Locks are taken in this order: editMu, mu, then the lock of the snapshots or of the calls.
type Tree struct {
	calls
	snapshots
	removals

	Config                  // constant after New
	memory *memtable.Memory // of the memtables

	state atomic.Pointer[State] // nil before Begin and after End; swapped under mu
	published

	refusal atomic.Pointer[error] // what Writable returns; stored under mu, loaded without it by each write
	grown   chan struct{}         // capacity 1; holds an element after the memtable has grown by a step

	// SpaceTaken rises whenever background work takes disk space: then writers do not know any more how much is free.
	SpaceTaken atomic.Uint64

	next     atomic.Uint64 // next file number
	reserved atomic.Uint64 // the manifest covers the numbers below

	// inTables is no less than the sequence of any write in a table. It is stored before the state that has the table.
	inTables atomic.Uint64

	editMu   step.Mutex    // orders edits; guards the fields down to mu
	manifest *manifest.Log // nil until the first edit
	recorded manifest.State

	measured      *manifest.Version // a snapshot with it, then recorded, had measuredBytes: see ManifestSpace
	measuredBytes int64

	mu       step.Mutex // guards what follows, and the swap of state
	changed  step.Cond  // broadcast after each change of what mu guards: see notify
	changes  uint64     // number of broadcasts
	flushing Frozen     // its Mem is nil if no memtable waits for a flush
	dead     []*Table   // tables in no state: to be removed from the disk
	failed   error      // once set, no more writes are taken
	drained  bool       // set after the last memtable was frozen
	putOff   PutOff
	active   Log // the log that takes writes, or nil
}

// A Config holds the parameters of New.
type Config struct {
	Shared
	FS       vfs.FS
	Dir      string
	Lock     vfs.Lock // of the directory; nil if nobody else may take it
	Filters  manifest.Filters
	Failed   func(cause error) // is called when the tree stops taking writes
	ReadOnly error             // if not nil, the tree never takes writes, for this reason
}

// A Log is the write-ahead log of a memtable.
type Log interface {
	Number() uint64
	Mark() *manifest.LogMark // how much of the log is durable; nil while its name, or an older log, is not
	Remove()                 // called once its memtable is durable in tables
}

// A Frozen is a frozen memtable that waits to be flushed to level 0.
type Frozen struct {
	Mem  *memtable.Table
	Log  Log        // nil if its writes are in no log
	Last ikey.Seq   // its newest sequence
	Mark batch.Mark // the newest of its marks, none if its Seq is 0
}

// New returns a tree without a state.
func New(c Config) *Tree {
	t := &Tree{
		Config: c, memory: memtable.NewMemory(), failed: c.ReadOnly, grown: make(chan struct{}, 1),
	}
	t.changed.L = &t.mu
	t.life, t.stop = context.WithCancel(context.Background())
	if t.failed != nil {
		t.refusal.Store(new(t.failed))
	}
	return t
}

// Load returns the current state, nil before Begin and after End. A reader that uses versions of memtables, files or
// cached blocks must be inside a guard of t.Domain when it loads the state, or hold a reference: see Hold.
func (t *Tree) Load() *State { return t.state.Load() }

// Hold returns the current state with a reference, for long readers, or nil before Begin and after End. Release drops
// the reference.
func (t *Tree) Hold() *State {
	g := t.Domain.Enter()
	defer g.Leave()
	s := t.state.Load()
	step.At("tree: hold")
	if s != nil {
		s.Hold()
	}
	return s
}

// A Moment is a state of a tree and a sequence number that was visible in it. While the state is held, nothing that a
// reader at Seq sees in it changes, whatever is flushed and compacted meanwhile: no snapshot is needed for that.
type Moment struct {
	State *State // has all writes up to Seq
	Seq   ikey.Seq
}

// Now returns the present moment, whose state the caller must Release: the state has all writes up to Seq, and no later
// ones visible at it. A long reader must not load the two separately, as a lookup may: between the loads, a rotation
// may have sent writes to a memtable that the state does not have, and an ingest may have added tables that it does not
// have. The error is ErrClosed.
func (t *Tree) Now() (Moment, error) {
	for {
		s := t.Hold()
		if s == nil {
			return Moment{}, ErrClosed
		}
		step.At("tree: now")
		seq := t.NewestSeq() // after the state
		if t.state.Load() == s {
			return Moment{s, seq}, nil
		}
		t.Release(s)
	}
}

// Grow records that the memtable has grown by a step, or that another one began. It never waits.
func (t *Tree) Grow() {
	select {
	case t.grown <- struct{}{}:
	default: // it was recorded, and not received yet
	}
}

// Grown returns a channel that receives after Grow.
func (t *Tree) Grown() <-chan struct{} { return t.grown }

// MemtableSteps is the number of steps in which a memtable grows that writers record: see Grow.
const MemtableSteps = 8

// Release drops a reference to a state. The last one also drops a reference to each table and memtable of the state. A
// table that no state names any more is dead: see TakeDead.
func (t *Tree) Release(s *State) {
	left := s.refs.Add(-1)
	step.Assert(left >= 0, "a state is released twice")
	if left > 0 {
		return
	}
	if s.Mem.Release() {
		t.trim()
	}
	for _, m := range s.Frozen {
		if m.Release() {
			t.trim()
		}
	}
	var dead []*Table
	s.EachTable(func(_ int, table *Table) {
		left := table.refs.Add(-1)
		step.Assert(left >= 0, "a table is released twice")
		if left == 0 {
			dead = append(dead, table)
		}
	})
	if len(dead) > 0 {
		step.At("tree: dead")
		t.mu.Lock()
		defer t.mu.Unlock()
		t.dead = append(t.dead, dead...)
		t.notify()
	}
}

// trim is called after memory of memtables was given back. It keeps what one memtable takes: a store that is written
// without a pause needs it for the rest of the current memtable and the beginning of the next.
func (t *Tree) trim() {
	if s := t.state.Load(); s != nil {
		t.memory.Trim(s.Mem.Size())
	} else {
		t.memory.Drop()
	}
}

// TakeDead returns the tables that no state names any more, each once. No reader can see them.
func (t *Tree) TakeDead() []*Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	dead := t.dead
	t.dead = nil
	return dead
}

// swap installs a changed copy of the state and retires the old one. With mu held, it calls change before, and then, if
// it is not nil, after readers can load the copy.
func (t *Tree) swap(change func(*State), then func()) {
	t.mu.Lock()
	old := t.state.Load()
	s := &State{
		Mem: old.Mem, Frozen: old.Frozen, Version: old.Version, Runs: old.Runs,
		Ingests: old.Ingests, Freezes: old.Freezes,
	}
	change(s)
	step.At("tree: swap")
	t.set(s)
	if then != nil {
		then()
	}
	t.notify()
	t.mu.Unlock()
	step.At("tree: swapped")
	t.retire(old)
}

// retire drops a reference to a state once no reader inside a guard can use it without one. Readers do not signal when
// they leave, which would cost them time, and if the store is idle, nothing else would release the state: so a
// goroutine waits for them.
func (t *Tree) retire(s *State) {
	t.Domain.Retire(func() { t.Release(s) })
	t.Domain.WaitLater()
}

// set makes s the current state, which adds a reference to s and to each of its tables and memtables.
func (t *Tree) set(s *State) {
	s.refs.Store(1)
	s.Mem.Hold()
	for _, m := range s.Frozen {
		m.Hold()
	}
	s.EachTable(func(_ int, table *Table) { table.refs.Add(1) })
	t.state.Store(s)
}

// End removes the state and returns it, or nil if there was no state. When it returns, all lookups that had loaded
// the state have left, and later ones load nil. The tables of the state stay; its memtables go with the last reader
// that holds a reference to it.
func (t *Tree) End() *State {
	s := t.state.Swap(nil)
	t.Domain.Wait()
	if s != nil {
		s.EachTable(func(_ int, table *Table) { table.refs.Add(1) }) // for ever: they are not dead
		t.Release(s)
	}
	return s
}
