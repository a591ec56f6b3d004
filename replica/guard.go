package replica

import (
	"errors"
	"math"
	"runtime"

	"github.com/hashicorp/raft"
)

// guardedLog is the log as raft uses it: the first error stops the node, so that another one can lead. raft panics if
// it cannot store its term or read an entry. Here the goroutine of raft that has asked ends instead, as if by a return
// from all of its functions; it never continues with a term or an entry that it does not have.
type guardedLog struct {
	*storeLog

	snapshots *snapshots
	fail      func(error)
}

func (g guardedLog) check(err error) error {
	if err != nil {
		g.fail(err)
	}
	return err
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
func (g guardedLog) GetLog(index uint64, to *raft.Log) error {
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
func (g guardedLog) SetUint64(key []byte, value uint64) error {
	if err := g.storeLog.SetUint64(key, value); err != nil {
		g.fail(err)
		runtime.Goexit()
	}
	return nil
}

func (g guardedLog) Set(key, value []byte) error    { return g.check(g.storeLog.Set(key, value)) }
func (g guardedLog) StoreLog(entry *raft.Log) error { return g.check(g.storeLog.StoreLog(entry)) }
func (g guardedLog) StoreLogs(entries []*raft.Log) error {
	return g.check(g.storeLog.StoreLogs(entries))
}

func (g guardedLog) DeleteRange(first, last uint64) error {
	return g.check(g.storeLog.DeleteRange(first, last))
}

// IsMonotonic makes raft delete the whole log when a snapshot replaces it, so that no gap is left.
func (g guardedLog) IsMonotonic() bool { return true }

// startRaft starts raft. It does so in another goroutine, which a guardedLog may end.
func (n *Node) startRaft(config *raft.Config) error {
	log := guardedLog{n.log, n.snapshots, n.end}
	var err error
	received := newIncoming(n)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.raft, err = raft.NewRaft(config, n.fsm, &recentLog{guardedLog: log}, log, n.snapshots, received)
	}()
	<-ended
	close(n.started)
	if n.raft == nil && err == nil {
		err = n.failure
	}
	return err
}
