package tree

import (
	"context"
	"fmt"
)

// A View is what a tree holds at one moment, for conditions to wait for.
type View struct {
	State    *State
	Flushing []Frozen // memtables that wait to be written out, oldest first
	Dead     int      // tables that TakeDead would return
	Failed   error    // why no more writes are taken; nil while they are
	Closing  bool     // after Close
	Drained  bool     // no more memtables will be frozen
	Next     uint64   // the next file number
}

func (t *Tree) view() View {
	return View{t.state.Load(), t.flushing, len(t.dead), t.failed, t.closing, t.drained, t.next}
}

// View returns what the tree holds now.
func (t *Tree) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.view()
}

// Wait returns nil once done returns true, else the reason why it will not: the error of ctx, or that of Writable. done
// is called with the tree locked, after each change; it must not call the tree.
func (t *Tree) Wait(ctx context.Context, done func(View) bool) error {
	defer context.AfterFunc(ctx, t.Wake)()
	t.mu.Lock()
	defer t.mu.Unlock()
	for !done(t.view()) {
		if err := t.writableLocked(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		t.changed.Wait()
	}
	return nil
}

// Await returns once done, called as in Wait, returns true.
func (t *Tree) Await(done func(View) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !done(t.view()) {
		t.changed.Wait()
	}
}

// Wake has all conditions that are waited for looked at again, since something changed that they depend on.
func (t *Tree) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed.Broadcast()
}

// Writable returns the reason why the tree takes no writes, or nil.
func (t *Tree) Writable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writableLocked()
}

func (t *Tree) writableLocked() error {
	switch {
	case t.closing:
		return ErrClosed
	case t.failed != nil:
		return t.failed
	}
	return nil
}

// Fail makes the tree read-only and returns the error for writers. What the log or the manifest holds is unknown after
// a failed write or sync, and a sync that succeeds later proves nothing. Only the first cause counts.
func (t *Tree) Fail(cause error) error {
	t.mu.Lock()
	first := t.failed == nil
	if first {
		t.failed = fmt.Errorf("%s: %w: %w", t.dir, ErrReadOnly, cause)
		t.changed.Broadcast()
	}
	failed := t.failed
	t.mu.Unlock()
	if first {
		t.observer.ReadOnly(cause)
	}
	return failed
}

// Close refuses writes from now on, and returns the reason why they were refused before, if they were. closed is false
// if Close was called before.
func (t *Tree) Close() (failed error, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return nil, false
	}
	t.closing = true
	t.changed.Broadcast()
	return t.failed, true
}

// Drain says that no more memtables will be frozen.
func (t *Tree) Drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drained = true
	t.changed.Broadcast()
}

// BeginCall begins a call that may last and uses files. It returns ErrClosed after Close. EndCall ends it.
func (t *Tree) BeginCall() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return ErrClosed
	}
	t.calls.Add(1)
	return nil
}

// EndCall ends a call that BeginCall began, and reports whether Close was called meanwhile.
func (t *Tree) EndCall() (closing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls.Done()
	return t.closing
}

// WaitForCalls returns when all calls have ended, after Close.
func (t *Tree) WaitForCalls() { t.calls.Wait() }
