package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Compaction describes a compaction, which merged or moved tables.
type Compaction struct {
	From, To     int    // the uppermost level of the inputs, and the level of the outputs
	Moved        bool   // the tables changed level only: nothing was read or written
	Rewritten    bool   // tables of one run were rewritten or joined: nothing else was merged, nothing dropped
	Inputs       int    // tables
	Outputs      int    // tables
	BytesRead    uint64 // of inputs, except tables that range tombstones dropped whole
	BytesWritten uint64 // of outputs
	Versions     uint64 // read
	Dropped      uint64 // versions that were no longer needed
	Keys         uint64 // distinct keys written
	Duration     time.Duration

	PredictedKeys uint64 // an estimate of Keys made before the compaction; 0 if none was possible
}

// A call is a call of Compact. It is carried out one plan at a time.
type call struct {
	compaction.Manual

	done bool
	err  error
}

// Compact merges all data of the range [lo, hi) that is in tables into the last level, and returns when that is
// durable, or when ctx ends. A nil hi is infinite. If rewrite is true, it rewrites all tables of the range. Otherwise
// tables that need no merging stay, unless their filters are off the plan.
func (s *Scheduler) Compact(ctx context.Context, lo, hi []byte, rewrite bool) error {
	if err := s.readRules(ctx, lo, hi); err != nil {
		return err
	}
	c := &call{Manual: compaction.Manual{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi), Rewrite: rewrite}}
	c.UpTo = s.Tree.View().Next
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	s.Tree.Wake()
	err := s.Tree.Wait(ctx, func(tree.View) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return c.done
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
	return cmp.Or(err, c.err)
}

// end ends a call. mu is held.
func (s *Scheduler) end(c *call, err error) {
	c.done, c.err = true, err
	s.remove(c)
}

// remove removes a call from the waiting ones. mu is held.
func (s *Scheduler) remove(c *call) {
	s.calls = slices.DeleteFunc(s.calls, func(other *call) bool { return other == c })
}

// A job is a compaction that runs.
type job struct {
	version *manifest.Version
	plan    *compaction.Plan
	call    *call             // the call that the plan is for; nil if the tree needs it
	manual  compaction.Manual // of the call once the job has begun
	before  compaction.Manual // of the call until then
	era     context.Context   //nolint:containedctx // set by begin
	began   time.Time         // set by begin
	read    atomic.Uint64     // versions of the inputs that were read
}

func (s *Scheduler) pick(now *tree.State) *compaction.Plan { return s.Policy.Pick(s.shape(now, false)) }

// shape returns the shape of a state, by which compactions are picked. asked is true for compactions that Compact
// asked for.
func (s *Scheduler) shape(now *tree.State, asked bool) compaction.Shape {
	return compaction.Shape{Version: now.Version, Snapshots: s.Tree.Pinned(), Facts: s.facts(now, asked)}
}

// nextJob ends the job last, unless it is nil, and waits for the next compaction that is due. Compactions that the
// tree needs alternate with those of calls. nextJob returns nil after Close and after the store has failed.
func (s *Scheduler) nextJob(last *job) *job {
	asked := last != nil && last.call != nil
	s.mu.Lock()
	s.running = slices.DeleteFunc(s.running, func(j *job) bool { return j == last })
	s.mu.Unlock()
	for ended := last != nil; ; ended = false {
		v := s.Tree.View()
		if v.Closing || v.Failed != nil { // then Compact returns by itself
			if ended {
				s.Tree.Wake() // see pause
			}
			return nil
		}
		now, release := s.Tree.Acquire() // the choice looks at tables
		next := s.due(now, asked)
		begun := s.begin(next, now)
		release()
		if ended || next != nil {
			s.Tree.Wake() // others may wait for the end of the last job, or of a call
		}
		if begun {
			return next
		}
		if next == nil && !ended {
			s.Tree.Await(func(now tree.View) bool { return now.Changes != v.Changes })
		}
	}
}

// due returns a compaction that could begin now, or nil. asked reports whether the last one was for a call. If the
// oldest call needs no compaction any more, due returns a job without a plan. It holds no lock while it chooses, since
// that takes milliseconds in a large tree.
func (s *Scheduler) due(now *tree.State, asked bool) *job {
	plan := s.pick(now)
	next := &job{version: now.Version}
	s.mu.Lock()
	if s.paused > 0 {
		s.mu.Unlock()
		return nil
	}
	if plan != nil && s.conflicts(plan) {
		plan = nil
	}
	if len(s.calls) > 0 && (plan == nil || !asked) && !s.runs(s.calls[0]) {
		next.call = s.calls[0]
		next.manual = next.call.Manual // Next advances the copy
	}
	s.mu.Unlock()
	if next.call != nil {
		next.plan = next.manual.Next(s.shape(now, true), s.Policy)
		s.mu.Lock()
		defer s.mu.Unlock()
		if next.plan == nil || !s.conflicts(next.plan) {
			return next
		}
		next.call = nil
	}
	if next.plan = plan; plan == nil {
		return nil
	}
	return next
}

// begin counts a job that was due in a state as running, unless it is nil or the tree or the other jobs have changed
// since. A job without a plan ends its call instead.
func (s *Scheduler) begin(j *job, in *tree.State) bool {
	if j == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused > 0 || s.Tree.Load() != in || j.call != nil && (j.call.done || s.runs(j.call)) ||
		j.plan != nil && s.conflicts(j.plan) {
		return false
	}
	switch {
	case j.plan == nil:
		s.end(j.call, nil)
		return false
	case j.call != nil:
		j.before = j.call.Manual
		j.call.Manual = j.manual
	}
	j.began, j.era = time.Now(), s.era
	s.running = append(s.running, j)
	return true
}

// runs reports whether a plan of a call runs. mu is held.
func (s *Scheduler) runs(c *call) bool {
	return slices.ContainsFunc(s.running, func(j *job) bool { return j.call == c })
}

// conflicts reports whether a plan shares a level with a running compaction. Compactions of different levels share no
// table, and neither changes what the other may drop: data only moves down. mu is held.
func (s *Scheduler) conflicts(p *compaction.Plan) bool {
	return slices.ContainsFunc(s.running, func(j *job) bool {
		return p.Inputs[0].Level <= j.plan.To && j.plan.Inputs[0].Level <= p.To
	})
}

// compactLoop runs compactions until Close.
func (s *Scheduler) compactLoop() {
	reported := false // whether the lack of disk space was
	for j := s.nextJob(nil); j != nil; j = s.nextJob(j) {
		err := s.retry(j.era, "compaction", func() error { return s.compact(j) })
		switch {
		case err != nil && j.era.Err() != nil: // the tree is being replaced, or closed
			s.mu.Lock()
			if j.call != nil {
				j.call.Manual = j.before
			}
			s.mu.Unlock()
		case !errors.Is(err, compaction.ErrDiskSpace): // after a final failure, nextJob returns nil
			reported = reported && err != nil
		case j.call != nil:
			s.mu.Lock()
			s.end(j.call, err)
			s.mu.Unlock()
			s.Tree.Wake()
		default:
			if !reported {
				s.Observer.WorkFailed("compaction", 1, err)
				reported = true
			}
			s.putOff()
		}
	}
}

// compact runs the plan of a job.
func (s *Scheduler) compact(j *job) error {
	v, plan, began := j.version, j.plan, time.Now()
	j.read.Store(0) // of an earlier attempt
	var res compaction.Result
	if !plan.Move {
		var err error
		env := s.Env(plan.To)
		env.Progress = &j.read
		env.Free, env.FreeKnown = s.freeSpace(plan)
		if s.pacer.rate > 0 {
			env.Limiter = &s.pacer
		}
		if res, err = compaction.Run(j.era, v, plan, &inputs{s: s}, env); err != nil {
			return err
		}
	}
	newRun, err := s.Tree.NewNumber() // each run has a number of its own
	if err != nil {
		return err
	}
	c := Compaction{
		From: plan.Inputs[0].Level, To: plan.To, Moved: plan.Move,
		Rewritten: !plan.Move && len(plan.Inputs) == 1 && res.Dropped == 0 && res.Skipped == 0,
		Outputs:   len(res.Tables), BytesWritten: sizeOf(res.Tables), Versions: res.Read, Dropped: res.Dropped,
		Keys: res.Keys,
	}
	for _, in := range plan.Inputs {
		c.Inputs += len(in.Tables)
	}
	var counts Counts
	if plan.Move {
		c.Outputs = c.Inputs
		counts.Moves = uint64(len(plan.Inputs[0].Tables)) // a move has one input
	} else {
		c.BytesRead = plan.Bytes() - res.Skipped
		counts = Counts{Compactions: 1, CompactedBytesRead: c.BytesRead, CompactedBytes: c.BytesWritten}
		if c.Rewritten {
			counts.RewrittenBytes = c.BytesWritten
		}
	}
	if res.Predicted.Known {
		c.PredictedKeys = uint64(math.Round(res.Predicted.Keys))
	}
	if err := s.install(compaction.Edit(v, plan, res.Tables, newRun), tree.Change{}, counts); err != nil {
		return err
	}
	c.Duration = time.Since(began)
	s.Observer.Compacted(c, res.Tables)
	return nil
}
