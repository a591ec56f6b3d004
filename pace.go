package bloomkv

import (
	"context"
	"time"
)

// A pacer limits the writes of compactions to Options.CompactionRate. It serves one compaction at a time.
type pacer struct {
	rate int64     // bytes per second; 0 means no limit
	next time.Time // earliest start of the next write
}

// Wait returns nil once the given number of bytes may be written, or the error of ctx as soon as it is done.
func (p *pacer) Wait(ctx context.Context, bytes int) error {
	now := time.Now()
	if p.next.Before(now) { // unused time is not saved up
		p.next = now
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	if pause == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
