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
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Compaction describes a compaction, as bloomkv.CompactionInfo does.
type Compaction struct {
	From, To                                         int
	Moved, Rewritten                                 bool
	Inputs, Outputs                                  int
	BytesRead, BytesWritten, Versions, Dropped, Keys uint64
	Duration                                         time.Duration
	PredictedKeys                                    uint64
}

// A call is a call of Compact. It is carried out one plan at a time.
type call struct {
	manual compaction.Manual // of one compactLoop at a time
	runs   bool              // its last plan is being carried out
	done   bool
	err    error
}

// Compact merges all data of the range [lo, hi) that is in tables into the last level, and returns when that is
// durable, or when ctx ends. A nil hi is infinite. If rewrite is true, it rewrites all tables of the range. Otherwise
// tables that need no merging stay, unless their filters are off the plan.
func (s *Scheduler) Compact(ctx context.Context, lo, hi []byte, rewrite bool) error {
	if err := s.readRules(ctx, lo, hi); err != nil {
		return err
	}
	c := &call{manual: compaction.Manual{
		Lo: bytes.Clone(lo), Hi: bytes.Clone(hi), Rewrite: rewrite, UpTo: s.Tree.View().Next,
	}}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	s.Tree.Wake()
	err := s.Tree.Wait(ctx, func(tree.View) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return c.done
	})
	if err == nil {
		err = s.WaitForFilters(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
	return cmp.Or(err, c.err)
}

// end ends a call. mu is held, and the caller wakes the tree.
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
	call    *call           // the call that the plan is for; nil if the tree needs it
	era     context.Context //nolint:containedctx // the job ends with it
	began   time.Time
	newRun  uint64              // number of the run that its outputs begin, if they do; 0 before one is needed
	before  uint64              // versions of the slices that were carried out
	read    atomic.Uint64       // versions of the inputs that were read
	merges  []*compaction.Merge // of slices, that others may help with; guarded by the scheduler's mu
}

// shape returns the shape of a state, by which compactions are picked beside some that run. asked is true for
// compactions that Compact asked for.
func (s *Scheduler) shape(now *tree.State, running []*compaction.Plan, asked bool) compaction.Shape {
	return compaction.Shape{
		Version: now.Version, Running: running, Idle: s.idle.Load(), Snapshots: s.Tree.Pinned(),
		Facts: s.facts(now, asked), Sought: s.sought.Load() / looksAfter * looksAfter,
	}
}

// compactLoop runs compactions until Close or until the store has failed. There are as many loops as Workers.
func (s *Scheduler) compactLoop() {
	for j := s.nextJob(); j != nil; j = s.nextJob() {
		s.finish(j, s.carryOut(j))
	}
}

// finish ends a job, and waits if it lacks disk space.
func (s *Scheduler) finish(j *job, err error) {
	if putOff, report := s.ended(j, err); putOff {
		s.putOff(false, err, report)
		s.goOn()
	}
}

// carryOut carries out a job. If others cannot merge level 0 meanwhile, it gets its turn between two slices as soon as
// it slows writers.
func (s *Scheduler) carryOut(j *job) error {
	size := leastPart * s.Tables.TableSize
	if step.Scheduled {
		size = 1 // a slice wherever one may end
	}
	left := j.plan.Slices(size)
	for {
		err := s.retry(j.era, "compaction", func() (bool, error) {
			n, err := s.compact(j, left)
			left = left[n:]
			return n > 0, err
		})
		if err != nil || len(left) == 0 {
			return err
		}
		if urgent := s.begin(); urgent != nil {
			s.finish(urgent, s.carryOut(urgent))
		}
	}
}

// isUrgent reports whether level 0 slows writers and nobody else can merge it.
func (s *Scheduler) isUrgent() bool {
	now := s.Tree.Load()
	return s.Workers == 1 && now != nil && s.Policy.Pressure(now.Version).Slow > 0
}

// ended records that a compaction has ended, with an error or nil. If it lacks disk space, the call that it is for
// ends, or else putOff is true: until goOn is called no compaction begins. Of several that lack space at a time one is
// put off. report is true if none was since one succeeded.
func (s *Scheduler) ended(j *job, err error) (putOff, report bool) {
	defer s.Tree.Wake()
	noSpace := errors.Is(err, vfs.ErrNoSpace) && j.era.Err() == nil // else the tree is being replaced, or closed
	if j.call != nil && err == nil {
		j.call.manual.Done(j.plan)
	}
	if err == nil && j.plan.Inputs[0].Level == 0 && !j.plan.Move {
		s.sought.Store(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = slices.DeleteFunc(s.running, func(other *job) bool { return other == j })
	switch {
	case j.call != nil:
		j.call.runs = false
		if noSpace {
			s.end(j.call, err)
		}
	case err == nil:
		s.reported = false
	case noSpace && !s.waits:
		putOff, report = true, !s.reported
		s.waits, s.reported = true, true
	}
	return putOff, report
}

// goOn lets compactions begin again.
func (s *Scheduler) goOn() {
	s.mu.Lock()
	s.waits = false
	s.mu.Unlock()
	s.Tree.Wake()
}

// nextJob waits for the next compaction that is due and begins it. While none is due it helps with those that run. It
// returns nil after Close and after the store has failed; then Compact returns by itself.
func (s *Scheduler) nextJob() *job {
	for {
		v := s.Tree.View()
		if v.Closing || v.Failed != nil {
			return nil
		}
		if j := s.begin(); j != nil {
			return j
		}
		if s.help() {
			continue
		}
		s.Tree.Await(func(now tree.View) bool { return now.Changes != v.Changes })
	}
}

// help merges a part of a compaction that runs. It returns false if no part is left.
func (s *Scheduler) help() bool {
	s.mu.Lock()
	var merges []*compaction.Merge
	for _, j := range s.running {
		merges = append(merges, j.merges...)
	}
	s.mu.Unlock()
	return slices.ContainsFunc(merges, (*compaction.Merge).Help)
}

// A part of a merge has the input of some full tables: of a few at least, since the last table of each is smaller, and
// so few that whoever helps with one looks within a second for what is more urgent.
const leastPart, mostPart = 4, 16

// partSize returns the bytes of input that make a part of a merge, or 0 if nobody could help.
func (s *Scheduler) partSize(p *compaction.Plan) uint64 {
	switch {
	case s.Workers < 2:
		return 0
	case step.Scheduled:
		return 1 // a part for each table
	}
	share := p.Bytes() / uint64(2*s.Workers)
	return min(max(share, leastPart*s.Tables.TableSize), mostPart*s.Tables.TableSize)
}

// merge begins to merge the inputs of a slice of a job. Others may help.
func (s *Scheduler) merge(j *job, slice *compaction.Plan) (*compaction.Merge, error) {
	env := s.Env(slice.To)
	ctx, cancel := context.WithCancelCause(j.era)
	env.FS = sparing{env.FS, ctx, &limiter{s: s, rate: &s.pacer, left: fewBytes}}
	env.Progress = &j.read
	env.PartSize = s.partSize(slice)
	m, err := compaction.Begin(ctx, cancel, j.version, slice, &inputs{s: s}, env)
	if err != nil {
		cancel(err)
		return nil, err
	}
	s.mu.Lock()
	j.merges = append(j.merges, m)
	s.mu.Unlock()
	s.Tree.Wake()
	return m, nil
}

// merged removes a merge from those that others may help with.
func (s *Scheduler) merged(j *job, m *compaction.Merge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.merges = slices.DeleteFunc(j.merges, func(other *compaction.Merge) bool { return other == m })
}

// begin begins the compaction that is due now and returns it, or nil. One caller at a time chooses, and holds no other
// lock meanwhile, since that takes milliseconds in a large tree. What flushes and ingests change in that time does not
// matter to a plan, nor that a compaction ends; if the tree is replaced, the plan is discarded. Compactions that the
// tree needs alternate with those of calls. While a call waits for those that run, they begin only if writers are
// slowed, and not where the call would have to wait for them. A call that needs no compaction any more ends. Of several
// workers that one change wakes, the first that finds none due has looked for all.
func (s *Scheduler) begin() *job {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	changes := s.Tree.View().Changes
	if changes+1 == s.fruitless {
		return nil
	}
	s.mu.Lock()
	j, asked, waits := &job{era: s.era}, s.asked, s.waits
	if len(s.calls) > 0 && !s.calls[0].runs {
		j.call = s.calls[0]
	}
	var running []*compaction.Plan
	for _, other := range s.running {
		running = append(running, other.plan)
	}
	s.mu.Unlock()
	if j.era.Err() != nil || waits {
		return nil
	}
	now := s.Tree.Hold() // the choice looks at tables
	defer s.Tree.Release(now)
	j.version = now.Version
	shape := s.shape(now, running, false)
	if j.call == nil || asked {
		j.plan = s.Policy.Pick(shape)
	}
	switch {
	case j.plan != nil:
		j.call = nil
	case j.call != nil:
		strict := s.shape(now, running, true)
		if j.plan = j.call.manual.Next(strict, s.Policy); j.plan == nil {
			s.mu.Lock()
			s.end(j.call, nil)
			s.mu.Unlock()
			s.Tree.Wake() // nextJob too
		} else if !strict.Allows(j.plan) {
			waiting := j.plan
			j.call, j.plan = nil, nil
			if !asked && s.Policy.Pressure(now.Version).Slow > 0 { // if asked, nothing else was due
				shape.Reserve(waiting)
				j.plan = s.Policy.Pick(shape)
			}
		}
	}
	if j.plan == nil {
		s.fruitless = changes + 1
	} else {
		shape.Hide(j.plan)
	}
	step.At("compaction: picked")
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.plan == nil || j.era.Err() != nil {
		return nil
	}
	j.began = time.Now()
	s.asked = j.call != nil
	if s.asked {
		j.call.runs = true
	}
	s.running = append(s.running, j)
	return j
}

// compact carries out slices of a job, all or up to where level 0 is urgent, and returns how many it has carried out.
// It begins the next one early enough that each worker has a part to merge.
func (s *Scheduler) compact(j *job, left []*compaction.Plan) (n int, err error) {
	if j.plan.Move {
		if err := s.installSlice(j, j.plan, compaction.Result{}, time.Now()); err != nil {
			return 0, err
		}
		return 1, nil
	}
	j.read.Store(j.before) // of an earlier attempt
	var begun []*compaction.Merge
	defer func() {
		for _, m := range begun {
			s.merged(j, m)
			m.Abandon()
		}
	}()
	for began := time.Now(); n < len(left); {
		if len(begun) == 0 || !begun[0].Merged() {
			if begun, err = s.mergeAhead(j, begun, left[n:]); len(begun) == 0 {
				return n, err
			}
			if slices.ContainsFunc(begun, (*compaction.Merge).Help) {
				continue // more slices may be begun now
			}
		}
		m := begun[0]
		begun = begun[1:]
		res, err := m.Finish()
		if s.merged(j, m); err != nil {
			return n, err
		}
		if err := s.installSlice(j, left[n], res, began); err != nil {
			return n, err
		}
		if n, began = n+1, time.Now(); s.isUrgent() {
			break
		}
	}
	return n, nil
}

// mergeAhead begins further slices of a job, until each worker has a part to merge, and returns all that were begun. If
// one fails, it is tried again once those before it are carried out.
func (s *Scheduler) mergeAhead(
	j *job, begun []*compaction.Merge, left []*compaction.Plan,
) ([]*compaction.Merge, error) {
	untaken := 0
	for _, m := range begun {
		untaken += m.Untaken()
	}
	for untaken < s.Workers && len(begun) < len(left) {
		m, err := s.merge(j, left[len(begun)])
		if err != nil {
			return begun, err
		}
		begun, untaken = append(begun, m), untaken+m.Untaken()
	}
	return begun, nil
}

// installSlice makes what a slice of a job did part of the tree.
func (s *Scheduler) installSlice(j *job, slice *compaction.Plan, res compaction.Result, began time.Time) (err error) {
	step.At("compaction: written")
	if j.newRun == 0 { // each run has a number of its own
		if j.newRun, err = s.Tree.NewNumber(); err != nil {
			return err
		}
	}
	c := Compaction{
		From: slice.Inputs[0].Level, To: slice.To, Moved: slice.Move,
		Rewritten: !slice.Move && len(slice.Inputs) == 1 && res.Dropped == 0 && res.Skipped == 0,
		Outputs:   len(res.Tables), BytesWritten: sizeOf(res.Tables), Versions: res.Read, Dropped: res.Dropped,
		Keys: res.Keys,
	}
	for _, in := range slice.Inputs {
		c.Inputs += len(in.Tables)
	}
	var counts Counts
	if slice.Move {
		c.Outputs = c.Inputs
		counts.Moves = uint64(len(slice.Inputs[0].Tables)) // a move has one input
	} else {
		c.BytesRead = slice.Bytes() - res.Skipped
		counts = Counts{Compactions: 1, CompactedBytesRead: c.BytesRead, CompactedBytes: c.BytesWritten}
		if c.Rewritten {
			counts.RewrittenBytes = c.BytesWritten
		}
	}
	if res.Predicted.Known {
		c.PredictedKeys = uint64(math.Round(res.Predicted.Keys))
	}
	if err := s.install(compaction.Edit(j.version, slice, res.Tables, j.newRun), tree.Change{}, counts); err != nil {
		return err
	}
	j.before += res.Read
	c.Duration = time.Since(began)
	s.Observer.Compacted(c, res.Tables)
	return nil
}

// Running describes the flush and the compactions in progress, as bloomkv.WorkMetrics does.
type Running struct {
	Memtables         int // 0 or 1
	Versions, Flushed uint64
	Compactions       []RunningCompaction // except those that only move tables
}

// A RunningCompaction describes a compaction in progress, as bloomkv.CompactionMetrics does.
type RunningCompaction struct {
	From, To, Tables              int
	Bytes, Versions, VersionsRead uint64
	Duration                      time.Duration
}

// Running returns the flush and the compactions in progress. It takes the locks of the tree and of the scheduler for a
// moment, which lookups never take.
func (s *Scheduler) Running() Running {
	var r Running
	if mem := s.Tree.View().Flushing.Mem; mem != nil {
		r.Memtables, r.Versions, r.Flushed = 1, uint64(mem.Len()), mem.Flushed() //nolint:gosec // G115: not negative
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.running {
		if j.plan.Move {
			continue
		}
		c := RunningCompaction{
			From: j.plan.Inputs[0].Level, To: j.plan.To, Bytes: j.plan.Bytes(), VersionsRead: j.read.Load(),
			Duration: time.Since(j.began),
		}
		for _, in := range j.plan.Inputs {
			c.Tables += len(in.Tables)
			for _, t := range in.Tables {
				c.Versions += t.Entries
			}
		}
		r.Compactions = append(r.Compactions, c)
	}
	return r
}

// Settled reports whether the store is warm, nothing is left to flush or compact, and the filters in memory follow the
// plan of the current tree. Filters that Open has yet to load may show that a compaction is due. It is false after
// Close.
func (s *Scheduler) Settled() bool {
	for {
		v := s.Tree.View()
		s.mu.Lock()
		idle := len(s.calls) == 0 && len(s.running) == 0 && s.installing == 0
		s.mu.Unlock()
		now := s.Tree.Hold()
		if now == nil {
			return false
		}
		settled := s.Warm() &&
			(s.ReadOnly || idle && v.Flushing.Mem == nil && s.Share.Planned(now) && !s.mayBeDue(now))
		s.Tree.Release(now)
		if now == v.State { // else idle is of another state
			return settled
		}
	}
}

// mayBeDue reports whether a compaction is due, or may turn out to be once compactLoop has read samples for its choice:
// Settled reads no file.
func (s *Scheduler) mayBeDue(now *tree.State) bool {
	shape, known := s.shape(now, nil, false), s.facts(now, false)
	known.readsNothing = true
	shape.Facts, shape.Sought = known, 0 // what only seeks pay for does not keep a store from being settled
	return s.Policy.Pick(shape) != nil
}
