package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// retry runs a background job until it succeeds, up to five times with growing pauses. Each attempt writes new files.
// An attempt that made progress, as a slice of a compaction, counts as the first. After the last failure the store
// becomes read-only; after damage or the loss of the lock, which no pause repairs, at once. A job that lacks disk space
// is left to the caller, as an error that matches vfs.ErrNoSpace: see putOff.
func (s *Scheduler) retry(ctx context.Context, what string, job func() (progress bool, err error)) error {
	const attempts, least = 5, 10 * time.Millisecond
	pause := least
	for i := 1; ; i++ {
		progress, err := job()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if progress {
			i, pause = 1, least
		}
		if failed := s.Tree.View().Failed; failed != nil {
			return failed
		}
		if errors.Is(err, vfs.ErrNoSpace) {
			return err
		}
		if vfs.IsNoSpace(err) {
			return fmt.Errorf("%s: %w: %w", what, vfs.ErrNoSpace, err)
		}
		if i == attempts || errors.Is(err, corrupt.Err) || errors.Is(err, vfs.ErrLockLost) {
			return s.Tree.Fail(fmt.Errorf("%s: %w", what, err))
		}
		s.Observer.WorkFailed(what, i, err)
		step.Pause(ctx, pause)
		pause *= 3
	}
}

// A flush or a compaction writes new tables before it removes logs or tables. On a disk with too little space it would
// use what everything else needs, the store's own log too, and then fail. Therefore a compaction that does not fit does
// not begin, and it ends if it would use what the tables of the memtables need (I22). A Compact call returns the error.
// Work in the background is put off until there is space.

// spaceAgain is the delay after which work that was put off is considered again, unless the tree changes earlier.
const spaceAgain = time.Second

const (
	// writesKept is how many bytes are left free for writes, beside those that the tables of the memtables need. A
	// compaction may use half of it, so that one that hardly writes frees what range deletes have deleted.
	writesKept = 32 << 10
	fewBytes   = writesKept / 2
)

// freeSpace returns the disk space that new tables may use, in bytes: what writes do not need. It is unknown if the
// file system cannot report it. Writers ask again before they use more.
func (s *Scheduler) freeSpace() (free uint64, known bool) {
	fsys, ok := s.Tables.FS.(vfs.FreeSpacer)
	if !ok {
		return 0, false
	}
	s.Tree.SpaceTaken.Add(1)
	free, err := fsys.FreeSpace(s.Tables.Dir)
	if now := s.Tree.Load(); now != nil {
		free -= min(free, writesKept+uint64(now.Unflushed())) //nolint:gosec // G115: not negative
	}
	return free, err == nil
}

// putOff puts a flush or a compaction off: it reports the error that why is, if report is true, and returns after
// spaceAgain, or when the tree changes or tables are removed. That other work fails meanwhile, or is put off, is no
// change: two that lack space would wake each other without a pause.
func (s *Scheduler) putOff(flush bool, why error, report bool) {
	if report {
		what := "compaction"
		if flush {
			what = "flush"
		}
		s.Observer.WorkFailed(what, 1, why)
	}
	s.Tree.PutOff(flush, why)
	defer s.Tree.PutOff(flush, nil)
	before, removals := s.Tree.View().State, s.removals.Load()
	var over atomic.Bool // the timer may be first if the process is suspended here
	timer := step.AfterFunc(spaceAgain, func() {
		over.Store(true)
		s.Tree.Wake()
	})
	defer timer.Stop()
	s.Tree.Await(func(v tree.View) bool {
		return over.Load() || v.State != before || s.removals.Load() != removals || v.Closing || v.Failed != nil
	})
}

// A limiter limits what one compaction, ingest or import writes: its rate, and its disk space. It is safe for
// concurrent use.
type limiter struct {
	s    *Scheduler
	rate *pacer     // nil means no limit
	mu   step.Mutex // guards left
	left uint64     // bytes that it may write before it looks at the free space
}

// Wait returns nil once the given number of bytes may be written, or the error of ctx as soon as it is done.
func (l *limiter) Wait(ctx context.Context, bytes int) error {
	if err := l.take(uint64(bytes)); err != nil { //nolint:gosec // G115: a length
		return err
	}
	return l.rate.Wait(ctx, bytes)
}

// take takes disk space for n bytes.
func (l *limiter) take(n uint64) error {
	const part, most = 16, 1 << 20 // of the free space between two looks
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > l.left {
		free, known := l.s.freeSpace()
		if known && free < n {
			return fmt.Errorf("bloomkv: %s: %w: %d bytes are free beside what writes may need, want %d",
				l.s.Tables.Dir, vfs.ErrNoSpace, free, n)
		}
		l.left = n + min((free-n)/part, most)
		if !known {
			l.left = n + most
		}
	}
	l.left -= n
	return nil
}

// Sparing returns the file system for the tables of one ingest or import. What is written through it leaves the disk
// space that writes need, as compactions do.
func (s *Scheduler) Sparing() vfs.FS {
	return sparing{s.Tables.FS, context.Background(), &limiter{s: s}}
}

// A sparing file system limits what is written to it.
type sparing struct {
	vfs.FS
	ctx     context.Context //nolint:containedctx // of one compaction; Write has no parameter for it
	limiter *limiter
}

// FreeSpace implements [vfs.FreeSpacer].
func (f sparing) FreeSpace(string) (uint64, error) {
	free, known := f.limiter.s.freeSpace()
	if !known {
		return 0, errors.ErrUnsupported
	}
	return free, nil
}

// Create implements [vfs.FS].
func (f sparing) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return sparingFile{file, f}, nil
}

type sparingFile struct {
	vfs.File
	of sparing
}

// maxPiece is the number of bytes that are written at once. Until they are on the disk, others take their space for
// free.
const maxPiece = 512 << 10

// Write writes p in pieces, each as soon as the limiter permits it.
func (f sparingFile) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		piece := p[n:min(n+maxPiece, len(p))]
		if err = f.of.limiter.Wait(f.of.ctx, len(piece)); err == nil {
			var written int
			written, err = f.File.Write(piece)
			n += written
		}
	}
	return n, err
}

// A pacer limits the writes of compactions. It is safe for concurrent use.
type pacer struct {
	rate int64 // bytes per second; 0 means no limit

	mu   step.Mutex
	next time.Time // earliest start of the next write; guarded by mu
}

// Wait returns nil once the given number of bytes may be written, or the error of ctx as soon as it is done.
func (p *pacer) Wait(ctx context.Context, bytes int) error {
	if p == nil || p.rate == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := step.Now()
	if p.next.Before(now) { // unused time is not saved up
		p.next = now
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	step.Pause(ctx, pause)
	return ctx.Err()
}
