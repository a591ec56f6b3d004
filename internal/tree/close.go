package tree

import "context"

// Close makes the tree refuse writes and ends the context of Life. It reports whether this was the first call. From
// then on every call on the store returns ErrClosed (I33).
func (t *Tree) Close() (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = !t.closing
	t.closing = true
	t.decide()
	t.notify()
	t.stop()
	return first
}

// Life returns the context of background work, which Close ends.
func (t *Tree) Life() context.Context { return t.life }

// BeginCall begins a call that may take long and uses files. Close ends the returned context; WaitForCalls waits for
// end. end takes the error of the call and returns it, or ErrClosed if Close caused it. After Close, BeginCall returns
// ErrClosed.
func (t *Tree) BeginCall(ctx context.Context) (_ context.Context, end func(error) error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return nil, nil, ErrClosed
	}
	t.calls.Add(1)
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.life, cancel)
	return ctx, func(err error) error {
		stop()
		cancel()
		if closing := t.endCall(); err != nil && closing && caller.Err() == nil {
			err = ErrClosed
		}
		return err
	}, nil
}

// endCall ends a call, and reports whether Close was called meanwhile.
func (t *Tree) endCall() (closing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls.Done()
	return t.closing
}

// WaitForCalls returns once all calls have ended, after Close.
func (t *Tree) WaitForCalls() { t.calls.Wait() }
