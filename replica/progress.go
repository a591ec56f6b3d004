package replica

import (
	"context"
	"sync"
)

// progress is an index that rises, and that can be waited for.
type progress struct {
	mu      sync.Mutex
	index   uint64        // guarded by mu
	changed chan struct{} // guarded by mu: closed at the next rise; nil if nobody waits
}

func (p *progress) load() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index
}

func (p *progress) raise(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index = max(p.index, index)
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// wait returns once the index is at least the given one. It ends early with the error of ctx, or with ErrClosed if
// ended is closed.
func (p *progress) wait(ctx context.Context, index uint64, ended <-chan struct{}) error {
	for {
		p.mu.Lock()
		if p.index >= index {
			p.mu.Unlock()
			return nil
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return ErrClosed
		}
	}
}
