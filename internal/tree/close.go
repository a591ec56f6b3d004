package tree

import (
	"context"
	"sync"
)

// calls are the calls in progress that may take long and use files, and the context that Close ends.
type calls struct {
	life context.Context //nolint:containedctx // of background work
	stop context.CancelFunc

	mu      sync.Mutex // orders BeginCall and Close
	running sync.WaitGroup
}

// Close makes the tree refuse writes and ends the context of Life. It reports whether this was the first call. From
// then on every call on the store returns ErrClosed (I33).
func (t *Tree) Close() (first bool) {
	t.calls.mu.Lock()
	first = t.life.Err() == nil
	t.stop()
	t.calls.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decide()
	t.notify()
	return first
}

// Life returns the context of background work, which Close ends.
func (c *calls) Life() context.Context { return c.life }

// BeginCall begins a call that may take long and uses files. Close ends the returned context; WaitForCalls waits for
// end. end takes the error of the call and returns it, or ErrClosed if Close caused it. After Close, BeginCall returns
// ErrClosed.
func (c *calls) BeginCall(ctx context.Context) (_ context.Context, end func(error) error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, nil, ErrClosed
	}
	c.running.Add(1)
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func(err error) error {
		stop()
		cancel()
		if err != nil && c.life.Err() != nil && caller.Err() == nil {
			err = ErrClosed
		}
		c.running.Done()
		return err
	}, nil
}

// WaitForCalls returns once all calls have ended, after Close.
func (c *calls) WaitForCalls() { c.running.Wait() }
