package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Flush describes the flush of a memtable, as bloomkv.FlushInfo does.
type Flush struct {
	Tables          int
	Bytes, Versions uint64
	Duration        time.Duration
}

// flushLoop flushes frozen memtables until Close has frozen the last one and it is flushed.
func (s *Scheduler) flushLoop() {
	reported := false // whether the lack of disk space was
	for {
		var frozen tree.Frozen
		end := false
		s.Tree.Await(func(v tree.View) bool {
			frozen = v.Flushing
			end = v.Failed != nil || v.Drained && frozen.Mem == nil
			return end || frozen.Mem != nil
		})
		if end {
			return
		}
		err := s.retry(context.Background(), "flush", func() (bool, error) { return false, s.flush(frozen) })
		noSpace := errors.Is(err, vfs.ErrNoSpace)
		switch {
		case noSpace && s.Tree.View().Closing:
			_ = s.Tree.Fail(err) // the log stays for the next Open
		case noSpace:
			s.putOff(true, err, !reported)
			reported = true
		default: // the tree keeps the error
			reported = reported && err != nil
		}
	}
}

// flush writes a frozen memtable as a run of level 0.
func (s *Scheduler) flush(f tree.Frozen) error {
	began := time.Now()
	env := s.Env(0)
	step.At("flush: begin")
	res, err := compaction.Flush(context.Background(), f.Mem.Flush(), f.Mem.RangeDels().List(env.Snapshots), env)
	if err != nil {
		return err
	}
	e := &manifest.Edit{LastSeq: f.Last, Mark: f.Mark, Added: compaction.NewRun(res.Tables)}
	if f.Log != nil {
		e.MinLog = f.Log.Number() + 1
		if active := s.Tree.View().Log; active != nil {
			e.Log = active.Mark()
		}
	}
	bytes := sizeOf(res.Tables)
	if err := s.install(e, tree.Change{Flushed: true}, Counts{Flushes: 1, FlushBytes: bytes}); err != nil {
		return err
	}
	s.Observer.Flushed(Flush{len(res.Tables), bytes, res.Read, time.Since(began)}, res.Tables)
	step.At("flush: installed")
	if f.Log != nil {
		f.Log.Remove()
	}
	return nil
}
