package commit

import (
	"cmp"
	"context"
	"time"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Freeze freezes the memtable, unless it is empty, so that background work flushes it, and returns the newest
// sequence number. It waits until a memtable can be frozen, or until ctx ends.
func (w *Writer) Freeze(ctx context.Context) (ikey.Seq, error) {
	// First wait without the lock until a memtable can be frozen. A writer that waits for this holds the lock and
	// ignores ctx, so a wait for the lock would ignore ctx too. Once this wait is over, such a writer soon releases
	// the lock.
	err := w.Tree.Wait(ctx, func(v tree.View) bool {
		if v.State == nil || w.empty(v.State.Mem) {
			return true
		}
		_, full := full(v, w.Policy)
		return !full || v.PutOff.Flush != nil
	})
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := cmp.Or(w.Tree.Writable(), ctx.Err()); err != nil {
		return 0, err
	}
	if !w.empty(w.Tree.Load().Mem) {
		if err := w.waitToFreeze(ctx); err != nil {
			return 0, err
		}
		w.rotate()
	}
	return w.lastSeq, nil
}

// empty reports whether neither the memtable nor its log has anything to flush.
func (w *Writer) empty(mem *memtable.Table) bool { return mem.Len() == 0 && w.marked.Load() == 0 }

// waitToFreeze returns once no memtable waits for a flush and level 0 is below its stop limit. While a flush waits for
// disk space, it returns that error. It counts and reports how long it has waited for each reason. mu is held.
func (w *Writer) waitToFreeze(ctx context.Context) error {
	var noSpace error
	var waited [Reasons]time.Duration
	var since time.Time
	reason, stopped := Reason(0), false
	err := w.Tree.Wait(ctx, func(v tree.View) bool {
		if stopped {
			waited[reason] += step.Since(since)
		}
		if v.State == nil {
			return true
		}
		if reason, stopped = full(v, w.Policy); stopped {
			since, noSpace = step.Now(), v.PutOff.Flush
		}
		return !stopped || noSpace != nil
	})
	for reason := range Reason(Reasons) {
		if d := waited[reason]; d > 0 {
			w.stall(reason, d)
			w.Stalled(Stall{Reason: reason, Writes: 1, Duration: d})
		}
	}
	return cmp.Or(err, noSpace)
}

// full reports whether no memtable can be frozen now, and why. Level 0 may grow beyond its stop limit while its
// compaction waits for disk space: a range delete, which makes space, must not wait for it.
func full(v tree.View, p compaction.Policy) (Reason, bool) {
	switch {
	case len(v.State.Frozen) > 0:
		return StoppedByMemtable, true
	case v.PutOff.Compaction == nil && p.Pressure(v.State.Version).Stop:
		return StoppedByLevel0, true
	default:
		return 0, false
	}
}

// rotate freezes the memtable and its log; the next write begins new ones. mu is held, and a memtable can be frozen:
// see waitToFreeze.
func (w *Writer) rotate() {
	log := w.log
	w.log = nil
	var frozen tree.Log // nil if log is nil, not an interface of a nil *logFile
	if log != nil {
		frozen = log
		w.base, w.frozen = log.retire(), log
	}
	step.At("commit: freeze")
	w.Tree.Freeze(frozen, w.lastSeq, w.mark, w.MemtableSize)
	w.mark = batch.Mark{}
	w.marked.Store(0)
	w.pace.rotated()
	w.grown = 0
	w.Tree.Grow()
}

// Alone calls install while no writer writes, once everything that was written is in tables, with the next sequence
// number, or with above if that is larger. If install returns nil, the number is in use. Alone returns the error of
// install, or why it was not called.
func (w *Writer) Alone(ctx context.Context, above ikey.Seq, install func(seq ikey.Seq) error) error {
	last, err := w.Freeze(ctx) // most of what is in memory is written out before writers have to wait
	if err == nil {
		err = w.Tree.WaitFlushed(ctx, last)
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.writeOut(ctx); err != nil {
		return err
	}
	next := max(w.lastSeq+1, above)
	err = cmp.Or(w.Tree.Writable(), ctx.Err(), manifest.CheckWrite(next), w.Tree.CheckNumbers())
	if err == nil {
		err = install(next)
	}
	if err == nil {
		w.lastSeq = next
	}
	return err
}

// writeOut returns once a memtable can be frozen and everything that was written is in tables. mu is held.
func (w *Writer) writeOut(ctx context.Context) error {
	if err := w.waitToFreeze(ctx); err != nil {
		return err
	}
	if !w.empty(w.Tree.Load().Mem) {
		w.rotate()
	}
	return w.Tree.WaitFlushed(ctx, w.lastSeq)
}

// Drain freezes what is in memory and lets background work end once that is flushed. The tree must be closed, so that
// no more writes come. If the tree has failed, what is in memory cannot be flushed, and stays there.
func (w *Writer) Drain() {
	w.mu.Lock() // a commit in progress has ended; later ones are refused
	defer w.mu.Unlock()
	failed := false
	w.Tree.Await(func(v tree.View) bool {
		failed = v.Failed != nil
		return failed || v.Flushing.Mem == nil
	})
	if !failed && !w.empty(w.Tree.Load().Mem) {
		w.rotate()
	}
	w.Tree.Drain()
}

// Close waits for the work on logs and closes the last one. No more commits may come.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs.Wait()
	w.framed = nil
	log := w.log
	w.log, w.base = nil, nil
	if log == nil {
		return nil
	}
	return log.w.Close()
}
