package scheduler

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

// A policy picks the first of its plans, after it has called meanwhile, unless that is nil.
type policy struct {
	plans     []*compaction.Plan
	meanwhile func()
	slow      int    // how much level 0 slows writers
	running   int    // plans that ran beside the last choice, with those that are reserved
	sought    uint64 // looks into runs of level 0, at the last choice
	due       bool   // whether a compaction of stale keys is due
}

func (p *policy) Pick(v compaction.Shape) *compaction.Plan {
	p.running, p.sought = len(v.Running), v.Sought
	if p.meanwhile != nil {
		p.meanwhile()
	}
	switch {
	case p.due && v.Facts.Stale() > 0:
		return planOf(0, 6)
	case len(p.plans) == 0:
		return nil
	}
	return p.plans[0]
}
func (p *policy) Pressure(*manifest.Version) (c compaction.Pressure) { c.Slow = p.slow; return c }
func (*policy) Cuts(*manifest.Version, [][]byte) (_ [][]byte)        { return }
func (*policy) Backlog(*manifest.Version) (b compaction.Backlog)     { b.Base = 6; return b }

// An observer records failures, and the levels whose tables were compacted.
type observer struct {
	failures []string
	from     []int
}

func (o *observer) Flushed(Flush, []*manifest.Table) {}
func (o *observer) Compacted(c Compaction, _ []*manifest.Table) {
	o.from = append(o.from, c.From)
}
func (o *observer) Removed(int, *manifest.Table)           {}
func (o *observer) Damaged(error)                          {}
func (o *observer) ReadOnly(error)                         { o.failures = append(o.failures, "read-only") }
func (o *observer) Promise(budget.Promises)                {}
func (o *observer) WorkFailed(work string, _ int, _ error) { o.failures = append(o.failures, work) }

// newScheduler returns a scheduler of an empty tree, which does no work.
func newScheduler(t *testing.T, p compaction.Policy) (*Scheduler, *observer) {
	t.Helper()
	fsys, domain, o := vfstest.NewMem(), new(epoch.Domain), new(observer)
	must(t, fsys.Mkdir("db"))
	planner := filterplan.Planner{Ratio: 10}
	plans, err := planner.First(0.01)
	must(t, err)
	state := tree.New(tree.Config{
		FS: fsys, Dir: "db", Failed: o.ReadOnly, Filters: manifest.Filters{FPR: 0.01, Ratio: 10},
		Shared: tree.Shared{
			Domain: domain, Files: tablefile.NewPool(8).NewDir(fsys, "db", domain), Blocks: cache.New(1<<20, domain),
			Parts: sstable.NewPartPool(1 << 20),
		},
	})
	share, err := budget.NewPool(8<<20, 8).Join(budget.Config{
		Tree: state, MemtableSize: 1 << 16, Planner: planner, Plans: plans, Observer: o,
	})
	must(t, err)
	must(t, state.Create(1, 7))
	state.Begin(state.FirstState(nil, 1<<16), 0)
	return New(Config{
		Tree: state, Share: share, Policy: p, Observer: o,
		Tables: compaction.Env{FS: fsys, Dir: "db", Numbers: state},
	}), o
}

func planOf(from, to int, tables ...*manifest.Table) *compaction.Plan {
	return &compaction.Plan{To: to, Inputs: []compaction.Input{{Level: from, Tables: tables}}}
}

// TestAPauseEndsWithTheLastJob ends a job after Close or a failure, when nobody looks for another one.
func TestAPauseEndsWithTheLastJob(t *testing.T) {
	for _, failed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newScheduler(t, &policy{plans: []*compaction.Plan{planOf(0, 3, new(manifest.Table))}})
			first, last := s.nextJob(), s.nextJob()
			s.ended(first, nil)
			paused := make(chan func(), 1)
			go func() { paused <- s.pause() }()
			synctest.Wait()
			if failed {
				_ = s.Tree.Fail(errors.New("an edit failed"))
			} else {
				s.Tree.Close()
			}
			synctest.Wait()
			if len(paused) > 0 {
				t.Error("the pause ended before the job")
			}
			s.ended(last, nil)
			if next := s.nextJob(); next != nil {
				t.Error("another job begins")
			}
			synctest.Wait()
			if len(paused) == 0 {
				t.Errorf("failed %v: no job runs, and the pause goes on", failed)
				s.Tree.Wake()
			}
			(<-paused)()
			s.Tree.Close()
		})
	}
}

// TestNothingIsLockedWhileAPlanIsChosen takes the locks meanwhile. The plan of a tree that is replaced is discarded,
// and none is made until the tree was replaced.
func TestNothingIsLockedWhileAPlanIsChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &policy{plans: []*compaction.Plan{planOf(0, 3, new(manifest.Table))}}
		s, _ := newScheduler(t, p)
		var resume func()
		picked := 0
		p.meanwhile = func() {
			if picked++; picked > 1 {
				return
			}
			s.Counts()
			s.Tree.Freeze(nil, 0, batch.Mark{}, 1<<16)
			resume = s.pause()
			p.plans = []*compaction.Plan{planOf(4, 5, new(manifest.Table))}
		}
		next := make(chan *job, 1)
		go func() { next <- s.nextJob() }()
		synctest.Wait()
		if len(next) > 0 || picked != 1 {
			t.Fatalf("in a pause a job begins, after %d choices", picked)
		}
		resume()
		j := <-next
		if j.plan.To != 5 || picked != 2 {
			t.Errorf("got %+v, the %d. choice, want the second, to level 5", j.plan, picked)
		}
		s.ended(j, nil)
		s.Tree.Close()
	})
}

// TestCallsTakeTurnsWithCompactionsThatTheTreeNeeds has a tree that always needs one, and a table at level 1 that
// Compact moves down.
func TestCallsTakeTurnsWithCompactionsThatTheTreeNeeds(t *testing.T) {
	s, _ := newScheduler(t, &policy{plans: []*compaction.Plan{planOf(5, 6, new(manifest.Table))}})
	table := &manifest.Table{Number: 50, Size: 100, Entries: 1, Smallest: []byte("a"), Largest: []byte("b")}
	e := &manifest.Edit{Added: []manifest.Added{{Level: 1, Run: 50, Table: table}}}
	if _, _, _, err := s.Tree.Install(e, s.Tree.Fresh(e), tree.Change{}); err != nil {
		t.Fatal(err)
	}
	s.calls = []*call{{manual: compaction.Manual{Rewrite: true, UpTo: 100}}}
	for _, forCall := range []bool{true, false, true} {
		j := s.nextJob()
		if j == nil || (j.call != nil) != forCall {
			t.Fatalf("%+v begins, want one for a call: %v", j, forCall)
		}
		s.ended(j, errors.New("it is tried again"))
	}
}

// TestCompactReturnsTheErrorOfATableThatItCannotRead has no file of one of two tables, and asks for other keys too.
func TestCompactReturnsTheErrorOfATableThatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScheduler(t, new(policy))
		gone, there := flushed(t, s, "k")[0], flushed(t, s, "m")[0]
		must(t, s.Tables.FS.Remove(filename.Make("db", filename.Table, gone.Number)))
		e := &manifest.Edit{LastSeq: 1, Added: []manifest.Added{
			{Level: 1, Run: 50, Table: gone}, {Level: 1, Run: 50, Table: there},
		}}
		_, _, _, err := s.Tree.Install(e, s.Tree.Fresh(e), tree.Change{})
		must(t, err)
		for _, bounds := range [][2]string{{"", "z"}, {"k50", "z"}, {"k99", "l"}, {"a", "k01"}} {
			err := s.Compact(t.Context(), []byte(bounds[0]), []byte(bounds[1]), true)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("keys %q: %v, want that the table is not there", bounds, err)
			}
		}
		for _, bounds := range [][2]string{{"kz", "z"}, {"a", "k"}} {
			must(t, s.readRules(t.Context(), []byte(bounds[0]), []byte(bounds[1])))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Compact(ctx, nil, nil, true); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that it was canceled", err)
		}
		s.Tree.Close()
	})
}

// TestAMoveIsInstalledOnce moves a table, which is then no longer at its level.
func TestAMoveIsInstalledOnce(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	table := &manifest.Table{Number: 50, Size: 100, Entries: 1, Smallest: []byte("a"), Largest: []byte("b")}
	e := &manifest.Edit{Added: []manifest.Added{{Level: 1, Run: 50, Table: table}}}
	_, _, _, err := s.Tree.Install(e, s.Tree.Fresh(e), tree.Change{})
	must(t, err)
	p := planOf(1, 2)
	p.Inputs[0].Run, p.Inputs[0].Tables, p.Move = 50, []*manifest.Table{table}, true
	j := &job{era: s.era, version: s.Tree.Load().Version, plan: p}
	if n, err := s.compact(j, []*compaction.Plan{p}); n != 1 || err != nil {
		t.Errorf("%d plans are carried out: %v", n, err)
	}
	if n, err := s.compact(j, []*compaction.Plan{p}); n != 0 || err == nil || s.Counts().Moves != 1 {
		t.Errorf("%d plans are carried out again: %v, %d tables have moved", n, err, s.Counts().Moves)
	}
	if level := s.Tree.Load().Table(table).Level.Load(); level != 2 {
		t.Errorf("the table is at level %d, want 2", level)
	}
}

func TestAMemtableWithoutALogIsFlushed(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	s.Tables.TableSize, s.Tables.BlockSize = 4<<10, 512
	s.Tree.Load().Mem.Add([]byte("k"), 1, 1, ikey.Set, nil)
	s.Tree.Freeze(nil, 1, batch.Mark{}, 1<<16)
	must(t, s.flush(s.Tree.View().Flushing))
	if v := s.Tree.View(); v.Flushing.Mem != nil || len(v.State.Version.Levels[0]) != 1 || s.Counts().Flushes != 1 {
		t.Errorf("after the flush: %v, %v, %+v", v.Flushing, v.State.Version, s.Counts())
	}
}

// TestAFullDiskIsReportedOnceUntilAFlushSucceeds tries each of two flushes several times.
func TestAFullDiskIsReportedOnceUntilAFlushSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := newScheduler(t, new(policy))
		var full atomic.Bool
		var tried atomic.Int64
		s.Tables.TableSize, s.Tables.BlockSize = 4<<10, 512
		s.Tables.FS = vfstest.NewHook(s.Tables.FS, func(op vfstest.Op) error {
			if full.Load() && op.Kind == vfstest.OpCreate {
				tried.Add(1)
				return syscall.ENOSPC
			}
			return nil
		})
		s.workers.Go(s.flushLoop)
		for _, n := range []int{1, 2} {
			full.Store(true)
			seq := ikey.Seq(n)
			s.Tree.Load().Mem.Add([]byte("k"), 1, seq, ikey.Set, nil)
			s.Tree.Freeze(nil, seq, batch.Mark{}, 1<<16)
			time.Sleep(3*spaceAgain + spaceAgain/2)
			synctest.Wait()
			full.Store(false)
			time.Sleep(spaceAgain)
			synctest.Wait()
			flushes := s.Counts().Flushes
			if tried.Load() < int64(3*n) || len(o.failures) != n || flushes != uint64(seq) {
				t.Errorf("%d flushes of %d after %d attempts, reported are %q", flushes, n, tried.Load(), o.failures)
			}
		}
		s.Tree.Close()
		s.Tree.Drain()
		s.Wait()
	})
}

func TestTablesWithoutANumberForTheirRunAreDiscarded(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	tables := flushed(t, s, "k")
	cause := s.Tree.Fail(errors.New("cause"))
	for range 2 * tree.NumbersAhead {
		if _, err := s.Tree.NewNumber(); err != nil {
			break
		}
	}
	if err := s.Ingest(tables, 1, nil); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
	if names, err := s.Tables.FS.List("db"); err != nil || len(names) != 2 {
		t.Errorf("left %q, want CURRENT and the manifest; %v", names, err)
	}
}

func TestAStoreThatIsOnlyReadIsNotCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &policy{plans: []*compaction.Plan{planOf(5, 6, new(manifest.Table))}}
		s, _ := newScheduler(t, p)
		p.meanwhile = func() {
			p.plans = nil
			t.Error("a compaction is picked")
		}
		s.ReadOnly, s.Workers = true, 1
		s.Start()
		synctest.Wait()
		if !s.Settled() {
			t.Error("not settled")
		}
		s.Tree.Close()
		s.Wait()
	})
}

// flushed writes 100 keys with a prefix to a table that is in no state.
func flushed(t *testing.T, s *Scheduler, prefix string) []*manifest.Table {
	t.Helper()
	m := memtable.New(nil, 0, 1<<16)
	for i := range 100 {
		key := fmt.Appendf(nil, "%s%02d", prefix, i)
		m.Add(key, bloomblock.HashKey(key), 1, ikey.Set, nil)
	}
	m.Freeze()
	env := s.Env(0)
	env.TableSize, env.BlockSize = 4<<10, 512
	res, err := compaction.Flush(t.Context(), m.Flush(), nil, env)
	must(t, err)
	return res.Tables
}

// TestATableThatCannotBeReadIsNotInstalled has a wrong byte in the index, or in the footer.
func TestATableThatCannotBeReadIsNotInstalled(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	for _, wrong := range []string{"index", "footer"} {
		tables := flushed(t, s, "k")
		name := filename.Base(filename.Table, tables[0].Number)
		file, err := vfs.ReadFile(s.Tables.FS, "db/"+name, 1<<20)
		must(t, err)
		at := tables[0].Size - 1
		if wrong == "index" {
			at = tables[0].Size - tables[0].TailLen
		}
		file[at] ^= 1
		must(t, vfs.WriteFileAtomic(s.Tables.FS, "db", "tmp", name, file))
		err = s.install(&manifest.Edit{LastSeq: 1, Added: compaction.NewRun(tables)}, tree.Change{}, Counts{})
		if !errors.Is(err, corrupt.Err) || s.Tree.Load().Version.NumTables() > 0 {
			t.Errorf("a wrong byte of the %s: %v, in the tree %v", wrong, err, s.Tree.Load().Version)
		}
		if _, err := s.Tables.FS.Stat("db/" + name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is there: %v", err)
		}
	}
}

func TestAFileThatCouldNotBeRemovedIsRemovedWithTheNextTables(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	mem, busy := s.Tree.FS, true
	s.Tree.FS = vfstest.NewHook(mem, func(op vfstest.Op) error {
		if busy && op.Kind == vfstest.OpRemove {
			return syscall.EBUSY
		}
		return nil
	})
	tables := flushed(t, s, "k")
	if err := s.Discard(tables); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("%v, want that the file is busy", err)
	}
	busy = false
	must(t, s.RemoveDead())
	if names, err := mem.List("db"); err != nil || len(names) != 2 {
		t.Errorf("left %q, want CURRENT and the manifest; %v", names, err)
	}
}

// TestAFlushDoesNotWaitUntilTablesAreRemoved has the removal of a table go on until a memtable is flushed.
func TestAFlushDoesNotWaitUntilTablesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScheduler(t, new(policy))
		s.Tables.TableSize, s.Tables.BlockSize = 4<<10, 512
		e := &manifest.Edit{LastSeq: 1, Added: compaction.NewRun(flushed(t, s, "k"))}
		must(t, s.install(e, tree.Change{}, Counts{}))
		var removing atomic.Bool
		removed := make(chan struct{})
		s.Tree.FS = vfstest.NewHook(s.Tree.FS, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpRemove {
				removing.Store(true)
				<-removed
			}
			return nil
		})
		s.Start()
		gone := &manifest.Edit{}
		for _, a := range e.Added {
			gone.Deleted = append(gone.Deleted, manifest.Deleted{Number: a.Table.Number})
		}
		must(t, s.install(gone, tree.Change{}, Counts{}))
		synctest.Wait()
		s.Tree.Load().Mem.Add([]byte("k"), 1, 2, ikey.Set, nil)
		s.Tree.Freeze(nil, 2, batch.Mark{}, 1<<16)
		synctest.Wait()
		if !removing.Load() || s.Counts().Flushes != 1 {
			t.Errorf("removing %v, %d flushes, want one meanwhile", removing.Load(), s.Counts().Flushes)
		}
		close(removed)
		s.Tree.Close()
		s.Tree.Drain()
		s.Wait()
	})
}

// TestWorkGoesOnOnceTablesAreRemoved removes tables while work waits for disk space.
func TestWorkGoesOnOnceTablesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScheduler(t, new(policy))
		e := &manifest.Edit{LastSeq: 1, Added: compaction.NewRun(flushed(t, s, "k"))}
		must(t, s.install(e, tree.Change{}, Counts{}))
		gone := &manifest.Edit{}
		for _, a := range e.Added {
			gone.Deleted = append(gone.Deleted, manifest.Deleted{Number: a.Table.Number})
		}
		must(t, s.install(gone, tree.Change{}, Counts{}))
		s.Tree.Domain.Wait()
		began := time.Now()
		time.AfterFunc(time.Millisecond, func() {
			if err := s.RemoveDead(); err != nil {
				t.Error(err)
			}
		})
		s.putOff(true, vfs.ErrNoSpace, false)
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("it waits for %v, want a millisecond", took)
		}
	})
}

// TestSlicesBehindOneThatFailsAreAbandoned has another worker merge the second slice before the first one fails.
func TestSlicesBehindOneThatFailsAreAbandoned(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	e := &manifest.Edit{LastSeq: 1}
	var left []*compaction.Plan
	for _, key := range []string{"a", "k"} {
		tables := flushed(t, s, key)
		e.Added = append(e.Added, manifest.Added{Level: 5, Run: 1, Table: tables[0]})
		left = append(left, &compaction.Plan{To: 6, Inputs: []compaction.Input{{Level: 5, Run: 1, Tables: tables}}})
	}
	must(t, s.install(e, tree.Change{}, Counts{}))
	mem := s.Tables.FS
	before, err := mem.List("db")
	must(t, err)
	j := &job{era: s.era, version: s.Tree.Load().Version, plan: left[0]}
	s.running, s.Workers, s.Tables.TableSize, s.Tables.BlockSize = []*job{j}, 4, 4<<10, 512
	failed := false
	s.Tables.FS = vfstest.NewHook(mem, func(op vfstest.Op) error {
		if failed || op.Kind != vfstest.OpCreate {
			return nil
		}
		if failed = true; !s.help() {
			t.Error("the second slice is not begun")
		}
		return syscall.EIO
	})
	if n, err := s.compact(j, left); n != 0 || !errors.Is(err, syscall.EIO) || len(j.merges) > 0 {
		t.Errorf("%d slices are carried out, %d go on: %v", n, len(j.merges), err)
	}
	if after, err := mem.List("db"); err != nil || !slices.Equal(after, before) {
		t.Errorf("the files are %q, want %q, %v", after, before, err)
	}
	if n, err := s.compact(j, left); n != 2 || err != nil || j.before != 200 || j.read.Load() != 128 {
		t.Errorf("at the second attempt %d slices of %d versions are carried out, %d are counted: %v",
			n, j.before, j.read.Load(), err)
	}
	if c := s.Counts(); c.Compactions != 2 || c.RewrittenBytes == 0 || c.RewrittenBytes != c.CompactedBytes {
		t.Errorf("two tables alone are rewritten, counted are %+v", c)
	}
}

// TestAnAbandonedMergeDoesNotWaitForTheRate has a part of it wait.
func TestAnAbandonedMergeDoesNotWaitForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScheduler(t, new(policy))
		tables := flushed(t, s, "k")
		must(t, s.install(&manifest.Edit{LastSeq: 1, Added: compaction.NewRun(tables)}, tree.Change{}, Counts{}))
		s.pacer.rate, s.Tables.TableSize, s.Tables.BlockSize = 1, 4<<10, 512
		must(t, s.pacer.Wait(t.Context(), 3600))
		j := &job{era: s.era, version: s.Tree.Load().Version}
		m, err := s.merge(j, planOf(0, 6, tables...))
		must(t, err)
		go m.Help()
		synctest.Wait()
		began := time.Now()
		if m.Abandon(); time.Since(began) > 0 || m.Untaken() > 0 {
			t.Errorf("it waits %v", time.Since(began))
		}
		s.Tree.Close()
	})
}

// TestEachSliceIsTriedFiveTimes has each of seven slices fail once, and the last one more often.
func TestEachSliceIsTriedFiveTimes(t *testing.T) {
	for _, last := range []int{1, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			s, o := newScheduler(t, new(policy))
			s.Workers, s.Tables.TableSize, s.Tables.BlockSize = 1, 500, 512
			e := &manifest.Edit{LastSeq: 1}
			plan := planOf(5, 6)
			plan.Inputs[0].Run = 1
			for i := range 7 {
				for _, table := range flushed(t, s, string(rune('a'+i))) {
					e.Added = append(e.Added, manifest.Added{Level: 5, Run: 1, Table: table})
					plan.Inputs[0].Tables = append(plan.Inputs[0].Tables, table)
				}
			}
			must(t, s.install(e, tree.Change{}, Counts{}))
			fails := [...]int{1, 1, 1, 1, 1, 1, last, 0} // of each slice; the last number is for what comes after them
			s.Tables.FS = vfstest.NewHook(s.Tables.FS, func(op vfstest.Op) error {
				if n := &fails[len(o.from)]; op.Kind == vfstest.OpCreate && *n > 0 {
					*n--
					return syscall.EIO
				}
				return nil
			})
			j := &job{era: s.era, version: s.Tree.Load().Version, plan: plan}
			s.running = []*job{j}
			if err := s.carryOut(j); (err != nil) != (last == 5) || err != nil && len(o.from) != 6 {
				t.Errorf("the last of seven slices fails %d times: %d are carried out, reported are %q, %v",
					last, len(o.from), o.failures, err)
			}
		})
	}
}

// TestLevel0HasItsTurnBetweenSlicesIfNobodyElseMergesIt carries out two slices, while another compaction is due. A call
// that waits for the slices does not hold it up.
func TestLevel0HasItsTurnBetweenSlicesIfNobodyElseMergesIt(t *testing.T) {
	for _, c := range []struct {
		workers, slow int
		call          bool
		want          []int // levels in the order in which their tables are compacted
	}{
		{1, 0, false, []int{5, 5}},
		{1, 1, false, []int{5, 1, 5}},
		{2, 1, false, []int{5, 5}},
		{1, 0, true, []int{5, 5}},
		{1, 1, true, []int{5, 1, 5}},
	} {
		p := &policy{slow: c.slow}
		s, o := newScheduler(t, p)
		s.Workers, s.Tables.TableSize, s.Tables.BlockSize = c.workers, 500, 512
		e := &manifest.Edit{LastSeq: 1}
		merged, moved := planOf(5, 6), planOf(1, 2)
		for _, prefix := range []string{"a", "k", "m"} {
			level, in := 5, &merged.Inputs[0]
			if prefix == "m" {
				level, in = 1, &moved.Inputs[0]
			}
			in.Run, moved.Move = uint64(level), true
			for _, table := range flushed(t, s, prefix) {
				e.Added = append(e.Added, manifest.Added{Level: level, Run: in.Run, Table: table})
				in.Tables = append(in.Tables, table)
			}
		}
		must(t, s.install(e, tree.Change{}, Counts{}))
		p.meanwhile = func() {
			p.plans = nil
			if len(o.from) == 1 {
				p.plans = []*compaction.Plan{moved}
				if c.call && p.running != 2 {
					t.Error("the plan of the call is not reserved")
				}
			}
		}
		if c.call {
			s.calls = []*call{{manual: compaction.Manual{Lo: []byte("k"), Hi: []byte("k99")}}}
		}
		j := &job{era: s.era, version: s.Tree.Load().Version, plan: merged}
		s.running = []*job{j}
		must(t, s.carryOut(j))
		if !slices.Equal(o.from, c.want) || len(s.running) != 1 {
			t.Errorf("%+v: tables of %d are compacted, %d jobs run", c, o.from, len(s.running))
		}
	}
}

// TestTheStaleShareIsThatOfItsVersion has the keys of a table in a newer one too, in the second version.
func TestTheStaleShareIsThatOfItsVersion(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	var states []*tree.State
	for _, level := range []int{6, 0} {
		e := &manifest.Edit{LastSeq: 1}
		for _, table := range flushed(t, s, "k") {
			e.Added = append(e.Added, manifest.Added{Level: level, Run: table.Number, Table: table})
		}
		must(t, s.install(e, tree.Change{}, Counts{}))
		now := s.Tree.Hold()
		states = append(states, now)
	}
	for _, i := range []int{0, 1, 1, 0} {
		if got := s.facts(states[i], false).Stale(); got != float64(i) {
			t.Errorf("with %d newer tables, %v of the keys are stale", i, got)
		}
		if s.staleOf.Value() != states[i].Version {
			t.Error("the share is not kept for its version")
		}
	}
}

// TestTheStaleShareIsEstimatedAgainOnceFiltersAreLoaded estimates it without the filter of a table, and with it.
// Settled reads no samples: until it is estimated, a compaction may be due.
func TestTheStaleShareIsEstimatedAgainOnceFiltersAreLoaded(t *testing.T) {
	p := &policy{due: true}
	s, _ := newScheduler(t, p)
	for _, level := range []int{6, 0} {
		e := &manifest.Edit{LastSeq: 1}
		for _, table := range flushed(t, s, "k") {
			e.Added = append(e.Added, manifest.Added{Level: level, Run: table.Number, Table: table})
		}
		must(t, s.install(e, tree.Change{}, Counts{}))
	}
	now := s.Tree.Load()
	newer := now.Runs[0].Tables[0]
	newer.Keys.Most.Store(0)
	newer.Keys.Reduce(newer.Keys.Allowed(newer.Keys.Forms(s.Share.RateOf(newer))))
	want := func(when string, stale float64, settled bool) {
		t.Helper()
		if s.Settled() {
			t.Errorf("%s: settled before the share is estimated", when)
		}
		if got := s.facts(now, false).Stale(); got != stale {
			t.Errorf("%s: %v of the keys are stale, want %v", when, got, stale)
		}
		if got := s.Settled(); got != settled {
			t.Errorf("%s: settled %v, want %v", when, got, settled)
		}
	}
	s.warm.Store(true)
	want("without the filter", 0, true)
	newer.Keys.Most.Store(math.MaxInt64)
	s.Share.WarmUp(t.Context())
	s.restore()
	want("with the filter", 1, false)
}

// TestManySeeksInLevel0HaveCompactionLook counts them anew once level 0 is compacted.
func TestManySeeksInLevel0HaveCompactionLook(t *testing.T) {
	p := new(policy)
	s, _ := newScheduler(t, p)
	e := &manifest.Edit{LastSeq: 1, Added: compaction.NewRun(flushed(t, s, "k"))}
	must(t, s.install(e, tree.Change{}, Counts{}))
	s.warm.Store(true)
	before := s.Tree.View().Changes
	if s.Sought(looksAfter - 1); s.Tree.View().Changes != before {
		t.Error("compaction looks after too few seeks")
	}
	if s.begin(); p.sought != 0 {
		t.Errorf("the policy knows of %d seeks before there are many", p.sought)
	}
	if s.Sought(1); s.Tree.View().Changes == before {
		t.Error("compaction does not look after many seeks")
	}
	if s.begin(); p.sought != looksAfter {
		t.Errorf("the policy knows of %d seeks, want %d", p.sought, looksAfter)
	}
	if settled := s.Settled(); !settled || p.sought != 0 {
		t.Errorf("settled %v with %d seeks, want it whatever seeks there were", settled, p.sought)
	}
	for _, c := range []struct {
		from int
		move bool
		err  error
		want uint64
	}{
		{3, false, nil, looksAfter},
		{0, true, nil, looksAfter},
		{0, false, errors.New("cause"), looksAfter},
		{0, false, nil, 0},
	} {
		plan := planOf(c.from, 6, new(manifest.Table))
		plan.Move = c.move
		p.plans = []*compaction.Plan{plan}
		s.Tree.Wake()
		j := s.begin()
		p.plans = nil
		s.ended(j, c.err)
		s.begin()
		if p.sought != c.want {
			t.Errorf("after %+v the policy knows of %d seeks", c, p.sought)
		}
	}
}

// TestWhatIsLeftToDoKeepsAStoreFromBeingSettled has one thing to do at a time. No lock is held while the policy is
// asked.
func TestWhatIsLeftToDoKeepsAStoreFromBeingSettled(t *testing.T) {
	var s *Scheduler
	due := []*compaction.Plan{planOf(0, 3, new(manifest.Table))}
	p := &policy{meanwhile: func() { s.Counts(); s.Tree.Wake() }}
	s, _ = newScheduler(t, p)
	e := &manifest.Edit{LastSeq: 1, Added: compaction.NewRun(flushed(t, s, "k"))}
	must(t, s.install(e, tree.Change{}, Counts{}))
	s.warm.Store(true)
	for _, left := range []struct {
		what string
		set  func(there bool)
	}{
		{"filters that Open loads", func(there bool) { s.warm.Store(!there) }},
		{"a compaction", func(there bool) {
			if p.plans = nil; there {
				p.plans = due
			}
		}},
		{"a compaction that runs", func(there bool) {
			if s.running = nil; there {
				s.running = []*job{{plan: due[0]}}
			}
		}},
		{"a call of Compact", func(there bool) {
			if s.calls = nil; there {
				s.calls = []*call{{}}
			}
		}},
		{"filters of a new table", func(there bool) {
			if s.installing = 0; there {
				s.installing = 1
			}
		}},
		{"a flush", func(there bool) {
			if there {
				s.Tree.Freeze(nil, 1, batch.Mark{}, 1<<16)
			}
		}},
	} {
		if !s.Settled() {
			t.Fatalf("not settled before %s", left.what)
		}
		if left.set(true); s.Settled() {
			t.Errorf("settled with %s to do", left.what)
		}
		left.set(false)
	}
}

func TestPartsOfAMergeHaveAFewFullTables(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	s.Tables.TableSize = 100
	for _, c := range []struct {
		workers     int
		bytes, want uint64
	}{{1, 1 << 20, 0}, {2, 100, 400}, {2, 4000, 1000}, {4, 8000, 1000}, {2, 1 << 20, 1600}} {
		s.Workers = c.workers
		p := planOf(1, 2)
		p.Inputs[0].Tables = []*manifest.Table{{Size: c.bytes}}
		if got := s.partSize(p); got != c.want {
			t.Errorf("%d workers merge %d bytes in parts of %d, want %d", c.workers, c.bytes, got, c.want)
		}
	}
}

// TestATableThatIsNotInstalledLeavesNothing has an edit that does not fit the tree.
func TestATableThatIsNotInstalledLeavesNothing(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	before := s.Share.Bytes()
	tables := flushed(t, s, "k")
	e := &manifest.Edit{LastSeq: 1, Added: compaction.NewRun(tables)}
	e.Deleted = []manifest.Deleted{{Level: 3, Number: 99}}
	if err := s.install(e, tree.Change{}, Counts{}); err == nil {
		t.Error("an edit is installed that deletes what is not there")
	}
	if after := s.Share.Bytes(); after != before || s.Tree.Load().Version.NumTables() > 0 || s.installing != 0 {
		t.Errorf("%+v are in memory, %d calls install", after, s.installing)
	}
	path := filename.Make("db", filename.Table, tables[0].Number)
	if _, err := s.Tables.FS.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
}

// TestOneOfTheCompactionsWithoutSpaceIsPutOff has none begin meanwhile, and one report until one succeeds.
func TestOneOfTheCompactionsWithoutSpaceIsPutOff(t *testing.T) {
	s, _ := newScheduler(t, &policy{plans: []*compaction.Plan{planOf(5, 6, new(manifest.Table))}})
	for i, want := range []struct{ putOff, report bool }{{true, true}, {true, false}, {true, true}} {
		first, second := s.nextJob(), s.nextJob()
		if i == 2 {
			s.ended(second, nil)
			second = s.nextJob()
		}
		putOff, report := s.ended(first, vfs.ErrNoSpace)
		if putOff != want.putOff || report != want.report {
			t.Errorf("%d: put off %v, reported %v, want %+v", i, putOff, report, want)
		}
		if putOff, _ := s.ended(second, vfs.ErrNoSpace); putOff {
			t.Errorf("%d: two are put off", i)
		}
		if s.begin() != nil {
			t.Errorf("%d: one begins while one is put off", i)
		}
		s.goOn()
	}
}

// TestCompactReturnsWithoutWork asks for a compaction of an empty tree, before and after it failed.
func TestCompactReturnsWithoutWork(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Compact(ctx, nil, nil, true); !errors.Is(err, context.Canceled) || len(s.calls) > 0 {
		t.Errorf("a call that is canceled returns %v, %d calls wait", err, len(s.calls))
	}
	s.workers.Go(s.compactLoop)
	if err := s.Compact(t.Context(), nil, nil, true); err != nil {
		t.Error(err)
	}
	cause := errors.New("cause")
	if err := s.Tree.Fail(cause); !errors.Is(err, cause) {
		t.Error(err)
	}
	s.Wait()
	if err := s.Compact(t.Context(), nil, nil, true); !errors.Is(err, cause) {
		t.Errorf("after a failure: %v, want its cause", err)
	}
}

// TestCallsThatWaitForFiltersEndWithTheirContext ends the contexts while filters are loaded.
func TestCallsThatWaitForFiltersEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScheduler(t, new(policy))
		s.workers.Go(s.compactLoop)
		s.setInstalling(1)
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		go func() { errs <- s.WaitForFilters(ctx) }()
		go func() { errs <- s.Compact(ctx, nil, nil, false) }()
		synctest.Wait()
		if len(errs) > 0 {
			t.Errorf("%v before filters follow the plan", <-errs)
		}
		cancel()
		synctest.Wait()
		if len(errs) != 2 {
			t.Errorf("%d of two calls have ended with their context", len(errs))
		}
		s.setInstalling(-1)
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the error of the context", err)
			}
		}
		if err := s.WaitForFilters(ctx); err != nil {
			t.Errorf("there is nothing to wait for: %v", err)
		}
		s.Tree.Close()
		s.Wait()
	})
}

func TestWorkIsRetriedUnlessItCannotSucceed(t *testing.T) {
	full := errors.New("disk full")
	for _, tt := range []struct {
		name     string
		errs     []error // of one attempt after the other, then nil
		attempts int
		reports  int
		want     error
		failed   bool
	}{
		{"at once", nil, 1, 0, nil, false},
		{"at the third attempt", []error{full, full}, 3, 2, nil, false},
		{"never", []error{full, full, full, full, full, full}, 5, 5, full, true},
		{"damage", []error{corrupt.Newf("f", 0, "damaged")}, 1, 1, corrupt.Err, true},
		{"no disk space to begin", []error{vfs.ErrNoSpace}, 1, 0, vfs.ErrNoSpace, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, o := newScheduler(t, new(policy))
			attempts := 0
			began := time.Now()
			err := s.retry(t.Context(), "work", func() (bool, error) {
				attempts++
				if attempts > len(tt.errs) {
					return false, nil
				}
				return false, tt.errs[attempts-1]
			})
			if !errors.Is(err, tt.want) || attempts != tt.attempts || len(o.failures) != tt.reports ||
				(s.Tree.View().Failed != nil) != tt.failed {
				t.Errorf("%s: %d attempts, reports %q, %v; want %d, %d, %v", tt.name, attempts, o.failures, err,
					tt.attempts, tt.reports, tt.want)
			}
			pauses := []int{0, 0, 10, 40, 130, 400}[attempts]
			if took := time.Since(began); took != time.Duration(pauses)*time.Millisecond {
				t.Errorf("%s: took %v, want %d ms", tt.name, took, pauses)
			}
		})
	}
}

// TestThePacerKeepsItsRateForAllWhoWrite has two writers share the rate, and then a pause, which is not saved up.
func TestThePacerKeepsItsRateForAllWhoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{rate: 1000}
		began := time.Now()
		done := make(chan error)
		for range 2 {
			go func() {
				for range 10 {
					if err := p.Wait(t.Context(), 100); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 1900*time.Millisecond { // the first write does not wait
			t.Errorf("2,000 bytes took %v, want 1.9 s", took)
		}
		time.Sleep(time.Hour)
		began = time.Now()
		for range 3 {
			must(t, p.Wait(t.Context(), 100))
		}
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("300 bytes after a pause took %v, want 200 ms", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Wait(ctx, 100); !errors.Is(err, context.Canceled) {
			t.Errorf("after cancel: %v", err)
		}
	})
}

// TestAnInputThatCannotBeReadIsAnError has a table with a wrong length, and one that has left the tree.
func TestAnInputThatCannotBeReadIsAnError(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	table := &manifest.Table{Number: 50, Size: 100, Entries: 1, Smallest: []byte("a"), Largest: []byte("b")}
	e := &manifest.Edit{Added: []manifest.Added{{Level: 1, Run: 50, Table: table}}}
	_, _, _, err := s.Tree.Install(e, s.Tree.Fresh(e), tree.Change{})
	must(t, err)
	in := &inputs{s: s}
	for meta, want := range map[*manifest.Table]error{table: corrupt.Err, {Number: 51}: errGone} {
		_, open := in.Open(meta)
		_, dels := in.RangeDels(meta)
		if !errors.Is(open, want) || !errors.Is(dels, want) || in.Sample(meta) != nil || in.Filter(meta) != nil {
			t.Errorf("table %d: %v, %v, want %v and nothing known of it", meta.Number, open, dels, want)
		}
	}
	gone, f := &manifest.Table{Number: 51}, s.facts(s.Tree.Load(), false)
	if f.RangeDels(gone) != nil || f.Filter(gone) != nil || f.Sample(gone) != nil || f.Outdated(1, gone) {
		t.Error("something is known of a table that has left the tree")
	}
}

func TestOnlyCompactIsStrictAboutFilters(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	plans := s.Share.Plans()
	plans.Fine = append(slices.Clone(plans.Good), new(filterplan.Plan))
	for asked, want := range map[bool]int{true: len(plans.Good), false: len(plans.Fine)} {
		if got := len(s.facts(s.Tree.Load(), asked).good); got != want {
			t.Errorf("asked for by Compact: %v: filters of %d plans may stay, want %d", asked, got, want)
		}
	}
}

func TestTablesOfALevelHaveItsCodec(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	s.Codecs[6] = sstable.S2
	p, err := s.Tree.Pin()
	must(t, err)
	for level, want := range map[int]sstable.Codec{0: sstable.None, 6: sstable.S2} {
		env := s.Env(level)
		if env.Codec != want || env.Recodes != (level == 6) || len(env.Snapshots) != 1 {
			t.Errorf("level %d: codec %v, recodes %v, %d snapshots", level, env.Codec, env.Recodes, len(env.Snapshots))
		}
	}
	must(t, s.Tree.Unpin(p))
}

func TestWorkThatWaitsForSpaceIsReportedByItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := newScheduler(t, new(policy))
		for _, flush := range []bool{true, false} {
			for _, report := range []bool{true, false} {
				s.putOff(flush, vfs.ErrNoSpace, report)
			}
		}
		if want := []string{"flush", "compaction"}; !slices.Equal(o.failures, want) {
			t.Errorf("reported %q, want %q", o.failures, want)
		}
	})
}

// A spacious file system has a megabyte of free space.
type spacious struct{ vfs.FS }

func (spacious) FreeSpace(string) (uint64, error) { return 1 << 20, nil }

func TestACompactionLeavesSpaceForWrites(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	if _, known := s.freeSpace(); known {
		t.Error("the free space of a file system that does not say it is known")
	}
	s.Tables.FS = spacious{s.Tables.FS}
	s.Tree.Load().Mem.Add([]byte("k"), 1, 1, ikey.Set, make([]byte, 100_000))
	want := 1<<20 - writesKept - uint64(s.Tree.Load().Unflushed())
	if free, known := s.freeSpace(); !known || free != want || free > 920_000 {
		t.Errorf("%d bytes are free, known %v", free, known)
	}
	s.Tree.End()
	if free, _ := s.freeSpace(); free != 1<<20 {
		t.Errorf("%d bytes are free after the end", free)
	}
}

// TestWritersLookAtTheSpaceAgainOnceACompactionBegins has one to a level of the same codec, and of another one.
func TestWritersLookAtTheSpaceAgainOnceACompactionBegins(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	s.Codecs[6] = sstable.Zstd
	s.Tables.FS = spacious{s.Tables.FS}
	j := &job{era: s.era, version: s.Tree.Load().Version}
	for _, to := range []int{5, 6} {
		before := s.Tree.SpaceTaken.Load()
		m, err := s.merge(j, planOf(4, to))
		must(t, err)
		if s.Tree.SpaceTaken.Load() == before {
			t.Errorf("to level %d: writers go on without a look", to)
		}
		m.Abandon()
	}
}

// TestTablesAreNoLargerThanWhatIsKeptForThem flushes memtables with versions of which many fit a block, or few, or one.
func TestTablesAreNoLargerThanWhatIsKeptForThem(t *testing.T) {
	testkit.LongUnderRace(t)
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(int) []byte { return binary.BigEndian.AppendUint32(nil, rng.Uint32()) }
	ordered := func(i int) []byte { return fmt.Appendf(nil, "key%013d", i) }
	for _, c := range []struct {
		key              func(int) []byte
		value, blockSize int
	}{
		{random, 0, 0},
		{ordered, 100, 512},
		{ordered, 300, 512},
		{random, 2100, 0},
	} {
		mem := memtable.NewIn(memtable.NewMemory(), nil, 0, 4<<20)
		for seq := ikey.Seq(1); mem.Bytes() < 4<<20; seq++ {
			key := c.key(mem.Len())
			mem.Add(key, bloomblock.HashKey(key), seq, ikey.Set, make([]byte, c.value))
		}
		mem.Freeze()
		s, _ := newScheduler(t, new(policy))
		env := s.Env(0)
		env.TableSize, env.BlockSize = 1<<30, c.blockSize
		res, err := compaction.Flush(t.Context(), mem.Flush(), nil, env)
		must(t, err)
		kept := (&tree.State{Mem: mem}).Unflushed()
		if took := sizeOf(res.Tables); took > uint64(kept) {
			t.Errorf("%d versions with values of %d bytes, in blocks of %d: %d bytes, kept for them %d",
				mem.Len(), c.value, c.blockSize, took, kept)
		}
		mem.Release()
	}
}

func TestALimiterHasTheRateAndTheSpaceOfItsStore(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	unknown := limiter{s: s}
	must(t, unknown.Wait(t.Context(), 100))
	if want := uint64(1 << 20); unknown.left != want {
		t.Errorf("%d bytes may be written before the free space is looked at, want %d", unknown.left, want)
	}
	if err := unknown.Wait(ctx, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was canceled", err)
	}
	s.Tables.FS = spacious{s.Tables.FS}
	known := limiter{s: s}
	free, _ := s.freeSpace()
	must(t, known.Wait(t.Context(), 100))
	if want := (free - 100) / 16; known.left != want {
		t.Errorf("of %d free bytes %d may be written before the next look, want %d", free, known.left, want)
	}
	must(t, (&limiter{s: s}).Wait(t.Context(), int(free)))
	if err := (&limiter{s: s}).Wait(t.Context(), int(free)+1); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("a byte more than is free: %v, want ErrNoSpace", err)
	}
}

type full struct{ vfs.FS }

func (full) FreeSpace(string) (uint64, error) { return 0, nil }

// TestASparedFileIsWrittenPieceByPiece has space for the first two of three pieces. Then the context ends.
func TestASparedFileIsWrittenPieceByPiece(t *testing.T) {
	s, _ := newScheduler(t, new(policy))
	s.Tables.FS = full{s.Tables.FS}
	ctx, cancel := context.WithCancel(t.Context())
	l := &limiter{s: s, left: 2 * maxPiece}
	f, err := sparing{s.Tables.FS, ctx, l}.Create("db/x")
	must(t, err)
	if n, err := f.Write(make([]byte, 3*maxPiece)); n != 2*maxPiece || !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("of three pieces %d bytes are written, %v, want those of two and an error", n, err)
	}
	l.left = 10
	if n, err := f.Write([]byte("hello")); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	cancel()
	n, err := f.Write([]byte("!"))
	size, sizeErr := f.Size()
	must(t, errors.Join(sizeErr, f.Close()))
	if n != 0 || !errors.Is(err, context.Canceled) || size != 2*maxPiece+5 {
		t.Errorf("%d, %v, %d bytes, want no byte more", n, err, size)
	}
}

// TestWorkWithoutSpaceDoesNotWakeOtherWork has a flush and compactions side by side lack disk space for some time: each
// is tried once and after each pause, although the others begin and end meanwhile.
func TestWorkWithoutSpaceDoesNotWakeOtherWork(t *testing.T) {
	for _, c := range []struct{ flushes, workers int }{{1, 1}, {0, 2}, {1, 2}} {
		synctest.Test(t, func(t *testing.T) {
			p := new(policy)
			s, o := newScheduler(t, p)
			s.Workers, s.Tables.TableSize, s.Tables.BlockSize = c.workers, 4<<10, 512
			e := &manifest.Edit{LastSeq: 1}
			for i := range c.workers {
				plan := planOf(4, 5)
				plan.Inputs[0].Run, plan.Inputs[0].Tables = 4, flushed(t, s, string(rune('a'+i)))
				for _, table := range plan.Inputs[0].Tables {
					e.Added = append(e.Added, manifest.Added{Level: 4, Run: 4, Table: table})
				}
				p.plans = append(p.plans, plan)
			}
			must(t, s.install(e, tree.Change{}, Counts{}))
			const pauses, most = 3, 100
			var tried atomic.Int64
			s.Tables.FS = vfstest.NewHook(s.Tables.FS, func(op vfstest.Op) error {
				if op.Kind == vfstest.OpCreate && tried.Add(1) < most {
					time.Sleep(time.Millisecond) // the others begin before this one fails
					return syscall.ENOSPC
				}
				return nil
			})
			if c.flushes > 0 {
				s.Tree.Load().Mem.Add([]byte("k"), 1, 2, ikey.Set, nil)
				s.Tree.Freeze(nil, 2, batch.Mark{}, 1<<16)
			}
			s.workers.Go(s.flushLoop)
			all := p.plans
			p.meanwhile = func() {
				p.plans = nil
				for _, plan := range all {
					taken := slices.ContainsFunc(s.running, func(j *job) bool { return j.plan == plan })
					if !taken && s.Tree.Load().Table(plan.Inputs[0].Tables[0]) != nil {
						p.plans = append(p.plans, plan)
					}
				}
			}
			for range c.workers {
				s.workers.Go(s.compactLoop)
			}
			time.Sleep(pauses*spaceAgain + spaceAgain/2)
			synctest.Wait()
			if n, want := tried.Load(), int64((pauses+1)*(c.flushes+c.workers)); n > want {
				t.Errorf("%+v: %d attempts in %d pauses, want at most %d; reported %q", c, n, pauses, want, o.failures)
			}
			s.Tree.Close()
			s.Tree.Drain()
			s.Wait()
		})
	}
}

// TestOneWorkerLooksForAll counts the choices after a change that makes no compaction due.
func TestOneWorkerLooksForAll(t *testing.T) {
	p := new(policy)
	s, _ := newScheduler(t, p)
	choices := 0
	p.meanwhile = func() { choices++ }
	for changes := range 3 {
		for range 8 { // workers
			if s.begin() != nil {
				t.Fatal("a compaction begins")
			}
		}
		if choices != changes+1 {
			t.Errorf("%d choices after %d changes", choices, changes)
		}
		s.Tree.Wake()
	}
	p.meanwhile = s.Tree.Wake // what changes while one chooses may make one due
	if s.begin() != nil {
		t.Fatal("a compaction begins")
	}
	p.plans = []*compaction.Plan{planOf(0, 3, new(manifest.Table))}
	if s.begin() == nil {
		t.Error("nobody looks at a change that came during a choice")
	}
}
