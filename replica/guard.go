package replica

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// guardedLog is the log as raft uses it: the first error stops the node, so that another one can lead. raft panics if
// it cannot store its term or read an entry. Here the goroutine of raft that has asked ends instead, as if by a return
// from all of its functions; it never continues with a term or an entry that it does not have.
//
// The newest entries are in memory, within bounds: followers are mostly sent these. The cache of raft has a bound for
// their number alone, and an entry may have 9 MiB.
type guardedLog struct {
	*storeLog

	snapshots *snapshots
	fail      func(error)

	mu     sync.Mutex
	newest []*raft.Log // guarded by mu; their indexes ascend without a gap
}

const (
	newestEntries = 512
	newestBytes   = 32 << 20 // of data; the newest entry stays, however large it is
)

func (g *guardedLog) check(err error) error {
	if err != nil {
		g.fail(err)
	}
	return err
}

// FirstIndex returns the index of the first entry, 0 without one. raft only logs an error.
func (g *guardedLog) FirstIndex() (uint64, error) {
	first, err := g.storeLog.FirstIndex()
	return first, g.check(err)
}

// LastIndex returns the index of the last entry, 0 without one.
func (g *guardedLog) LastIndex() (uint64, error) {
	last, err := g.storeLog.LastIndex()
	return last, g.check(err)
}

// inMemory returns an entry, nil if it is not in memory.
func (g *guardedLog) inMemory(index uint64) *raft.Log {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.newest) == 0 || index < g.newest[0].Index || index-g.newest[0].Index >= uint64(len(g.newest)) {
		return nil
	}
	return g.newest[index-g.newest[0].Index]
}

// GetLog returns raft.ErrLogNotFound for an entry before the log, and no other error. The last entry of the snapshot is
// there, too, as a no-op: raft looks only whether a leader has it with the same term, and asks for it if the log begins
// after it and a leader differs from then on. It never sends it or applies it, since the entry before it is not there;
// the first entry of all has none, and is excepted.
//
// With a snapshot, there is an entry everywhere after the log. A snapshot from a leader may have replaced a log that
// went on after it with entries that were never committed. raft has deleted that log, and still compares what it gets
// with it up to its end. Of this entry it only learns that it is another one than any leader's. It commits only what
// it has compared (see incoming), so never this one; its type and term are such that no node takes it.
func (g *guardedLog) GetLog(index uint64, to *raft.Log) error {
	if e := g.inMemory(index); e != nil {
		*to = *e
		return nil
	}
	err := g.storeLog.GetLog(index, to)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		g.fail(err)
		runtime.Goexit()
	}
	own := g.snapshots.latest()
	switch {
	case err != nil && index > 1 && index == own.Index:
		*to, err = raft.Log{Index: index, Term: own.Term, Type: raft.LogNoop}, nil
	case err != nil && own.Index > 0 && index > own.Index: // after the log, which begins before, or has no entry
		*to, err = raft.Log{Index: index, Term: maxTerm + 1, Type: math.MaxUint8}, nil
	}
	return err
}

// SetUint64 returns nil.
func (g *guardedLog) SetUint64(key []byte, value uint64) error {
	if err := g.storeLog.SetUint64(key, value); err != nil {
		g.fail(err)
		runtime.Goexit()
	}
	return nil
}

// Set stores a value beside the log.
func (g *guardedLog) Set(key, value []byte) error { return g.check(g.storeLog.Set(key, value)) }

// StoreLog appends an entry.
func (g *guardedLog) StoreLog(entry *raft.Log) error { return g.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries.
func (g *guardedLog) StoreLogs(entries []*raft.Log) error {
	if err := g.check(g.storeLog.StoreLogs(entries)); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range entries {
		if n := len(g.newest); n > 0 && g.newest[n-1].Index+1 != e.Index {
			g.newest = nil
		}
		g.newest = append(g.newest, e)
	}
	kept, bytes := 0, 0
	for _, e := range slices.Backward(g.newest) {
		if bytes += len(e.Data); kept == newestEntries || kept > 0 && bytes > newestBytes {
			break
		}
		kept++
	}
	g.newest = slices.Delete(g.newest, 0, len(g.newest)-kept)
	return nil
}

// DeleteRange deletes entries.
func (g *guardedLog) DeleteRange(first, last uint64) error {
	g.mu.Lock()
	g.newest = nil
	g.mu.Unlock()
	return g.check(g.storeLog.DeleteRange(first, last))
}

// IsMonotonic makes raft delete the whole log when a snapshot replaces it, so that no gap is left.
func (g *guardedLog) IsMonotonic() bool { return true }

// startRaft starts raft. It does so in another goroutine, which a guardedLog may end.
func (n *Node) startRaft(config *raft.Config) error {
	log := &guardedLog{storeLog: n.log, snapshots: n.snapshots, fail: n.end}
	var err error
	received := newIncoming(n)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.raft, err = raft.NewRaft(config, n.fsm, log, log, n.snapshots, received)
	}()
	<-ended
	close(n.started)
	if n.raft == nil && err == nil {
		err = n.failure
	}
	return err
}
