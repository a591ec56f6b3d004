package tree

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
)

// A View is what a tree holds at one moment. Wait conditions depend on it.
type View struct {
	State    *State
	Flushing Frozen // the memtable that waits for a flush; its Mem is nil if none does
	Log      Log    // of the memtable that takes writes; nil if there is none
	Dead     int    // tables that TakeDead would return
	Failed   error  // why no more writes are taken, or nil
	Closing  bool   // after Close
	Drained  bool   // no more memtables will be frozen
	PutOff   PutOff // work that waits for disk space
	Next     uint64 // the next file number
	Changes  uint64 // the number of changes so far, of the tree or announced by Wake
}

// PutOff tells why background work waits: errors for lack of disk space, or nil.
type PutOff struct{ Flush, Compaction error }

func (t *Tree) view() View {
	return View{
		t.state.Load(), t.flushing, t.active, len(t.dead), t.failed, t.life.Err() != nil, t.drained, t.putOff,
		t.next.Load(), t.changes,
	}
}

// PutOff records why a flush or a compaction waits, or with nil that it waits no more.
func (t *Tree) PutOff(flush bool, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if flush {
		t.putOff.Flush = why
	} else {
		t.putOff.Compaction = why
	}
	t.notify()
}

// View returns what the tree holds now.
func (t *Tree) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.view()
}

// Wait returns nil once done returns true. If the tree takes no writes or ctx is done, Wait returns that error. It
// calls done with the tree locked, after each change; done must be quick and must not call the tree.
func (t *Tree) Wait(ctx context.Context, done func(View) bool) error {
	defer step.AfterContext(ctx, t.Wake)()
	var err error
	t.Await(func(v View) bool {
		if done(v) {
			return true
		}
		err = cmp.Or(t.Writable(), ctx.Err())
		return err != nil
	})
	return err
}

// WaitFlushed returns nil once a memtable that was frozen with the sequence number last is in tables. While its
// flush waits for disk space, it returns that error; otherwise it returns the errors of Wait.
func (t *Tree) WaitFlushed(ctx context.Context, last ikey.Seq) error {
	var noSpace error
	err := t.Wait(ctx, func(v View) bool {
		if v.Flushing.Mem == nil || v.Flushing.Last > last {
			noSpace = nil
			return true
		}
		noSpace = v.PutOff.Flush
		return noSpace != nil
	})
	return cmp.Or(err, noSpace)
}

// Await returns once done returns true. It calls done as Wait does.
func (t *Tree) Await(done func(View) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !done(t.view()) {
		t.changed.Wait()
	}
}

// Wake makes Wait and Await check their conditions again, after a change outside the tree that they depend on.
func (t *Tree) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notify()
}

// notify makes Wait and Await check their conditions again. mu is held.
func (t *Tree) notify() {
	t.changes++
	t.changed.Broadcast()
}

// Writable returns the reason why the tree takes no writes, or nil. It takes no lock: each write calls it, and must not
// wait for a goroutine that has lost its processor while it held mu.
func (t *Tree) Writable() error {
	if p := t.refusal.Load(); p != nil {
		return *p
	}
	return nil
}

// Fail makes the tree read-only and returns the error for writers. After a failed write or sync, the contents of the
// log or the manifest are unknown, and a later successful sync proves nothing. Only the first cause is kept.
func (t *Tree) Fail(cause error) error {
	t.mu.Lock()
	first := t.failed == nil
	if first {
		t.failed = fmt.Errorf("bloomkv: %s: %w: %w", t.Dir, ErrReadOnly, cause)
		if t.life.Err() == nil {
			t.refusal.Store(new(t.failed))
		}
		t.notify()
	}
	failed := t.failed
	t.mu.Unlock()
	if first {
		t.Failed(cause)
	}
	return failed
}

// CheckLock makes the tree read-only, and returns the error for writers, if the lock of the directory was lost: then
// another process may have the store open, and what this one writes would be no part of it (I40).
func (t *Tree) CheckLock() error {
	if t.Lock == nil {
		return nil
	}
	if err := t.Lock.Check(); err != nil {
		return t.Fail(err)
	}
	return nil
}

// Drain records that no more memtables will be frozen.
func (t *Tree) Drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drained = true
	t.notify()
}
