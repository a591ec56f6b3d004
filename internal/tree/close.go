package tree

import (
	"context"

	"github.com/bloomkv/bloomkv/internal/step"
)

// calls are the calls in progress that may take long and use files, and the context that Close ends.
type calls struct {
	life context.Context //nolint:containedctx // of background work
	stop context.CancelFunc

	mu      step.Mutex // orders Call and Close
	running step.WaitGroup
}

// Close makes the tree refuse writes and ends the context of Life. It reports whether this was the first call. From
// then on every call on the store returns ErrClosed (I33).
func (t *Tree) Close() (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls.mu.Lock()
	defer t.calls.mu.Unlock()
	first = t.life.Err() == nil
	t.refusal.Store(&ErrClosed) // before any call finds the context ended
	t.stop()
	t.notify()
	return first
}

// Life returns the context of background work, which Close ends.
func (c *calls) Life() context.Context { return c.life }

// Call calls f, which may take long and use files. Close ends the context of f and waits for it: see WaitForCalls. Call
// returns what f returns, or ErrClosed if Close was the cause. After Close it returns ErrClosed and does not call f.
func (c *calls) Call(ctx context.Context, f func(context.Context) error) error {
	c.mu.Lock()
	if c.life.Err() != nil {
		c.mu.Unlock()
		return ErrClosed
	}
	c.running.Add(1)
	c.mu.Unlock()
	defer c.running.Done() // even if f panics
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer step.AfterContext(c.life, cancel)()
	err := f(within)
	if err != nil && c.life.Err() != nil && ctx.Err() == nil {
		return ErrClosed
	}
	return err
}

// WaitForCalls returns once all calls have ended, after Close.
func (c *calls) WaitForCalls() { c.running.Wait() }
