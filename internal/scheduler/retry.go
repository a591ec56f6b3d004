package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// retry runs a background job until it succeeds, up to five times with growing pauses, since a full disk may get
// space again. Each attempt writes new files. After the last failure the store becomes read-only; after damage or the
// loss of the lock, which no pause repairs, at once. A job that did not begin for lack of disk space is left to the
// caller.
func (s *Scheduler) retry(ctx context.Context, what string, job func() error) error {
	const attempts = 5
	pause := 10 * time.Millisecond
	for i := 1; ; i++ {
		err := job()
		if err == nil || ctx.Err() != nil || errors.Is(err, compaction.ErrDiskSpace) {
			return err
		}
		if failed := s.Tree.View().Failed; failed != nil {
			return failed
		}
		if i == attempts || errors.Is(err, corrupt.Err) || errors.Is(err, vfs.ErrLockLost) {
			return s.Tree.Fail(fmt.Errorf("%s: %w", what, err))
		}
		s.Observer.WorkFailed(what, i, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause *= 3
	}
}

// A compaction writes new tables before it removes old ones. If the disk has too little space for it, it would fill the
// disk for everything else, including the store's own log, and then fail. Therefore it does not begin (I22). A Compact
// call returns the error. A compaction in the background is put off until there is space, or until writes wait for it:
// then it is tried anyway, since the reported free space may be wrong.

// spaceAgain is the delay after which a compaction that was put off is considered again, unless the tree changes
// earlier.
const spaceAgain = time.Second

// freeSpace returns the disk space that a plan may use, in bytes. It is unknown if the file system cannot report it,
// or if writers wait for the plan, which is then tried in any case.
func (s *Scheduler) freeSpace(plan *compaction.Plan) (free uint64, known bool) {
	fsys, ok := s.Tables.FS.(vfs.FreeSpacer)
	if !ok {
		return 0, false
	}
	if p := s.Policy.Pressure(s.Tree.Load().Version); p.Stop && plan.Inputs[0].Level == p.Level {
		return 0, false
	}
	free, err := fsys.FreeSpace(s.Tables.Dir)
	return free, err == nil
}

// putOff returns after spaceAgain, or when the tree changes.
func (s *Scheduler) putOff() {
	timer := time.AfterFunc(spaceAgain, s.Tree.Wake)
	defer timer.Stop()
	woken := false
	s.Tree.Await(func(v tree.View) bool {
		was := woken
		woken = true
		return was || v.Closing || v.Failed != nil
	})
}

// A pacer limits the writes of compactions. It is safe for concurrent use.
type pacer struct {
	rate int64 // bytes per second; 0 means no limit

	mu   sync.Mutex
	next time.Time // earliest start of the next write; guarded by mu
}

// Wait returns nil once the given number of bytes may be written, or the error of ctx as soon as it is done.
func (p *pacer) Wait(ctx context.Context, bytes int) error {
	pause := p.take(bytes)
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

// take reserves time for a write and returns how long it must wait.
func (p *pacer) take(bytes int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.next.Before(now) { // unused time is not saved up
		p.next = now
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	return pause
}
