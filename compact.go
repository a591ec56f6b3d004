package bloomkv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A manualCompaction is a call of Compact. The compaction goroutine carries it out one plan at a time.
type manualCompaction struct {
	compaction.Manual

	done bool
	err  error
}

// Compact writes out what is in memory and merges all data of the range [lo, hi) into the last level, the shape with
// the cheapest reads. lo is inclusive, hi exclusive, nil is infinite. Tables at the edges are merged whole. An empty
// or inverted range is no error and does nothing. Reads and writes continue meanwhile. When Compact returns, the
// result is durable. If ctx ends first, Compact returns its error; the tree is intact, and merged as far as the work
// had come. A merge that is certain not to fit on the disk is not started, and Compact returns an error. Versions
// that open snapshots need stay, and so do the tombstones over them. With Options.ReadOnly, Compact returns
// ErrReadOnly.
//
// A table that needs no merging stays as it is, unless its filter is off the present plan: it was built for another
// FilterFPR, FilterMemory, FilterKind or FilterPrefix, or it is damaged. Compact rewrites such a table, so that these
// options hold for the whole range when it returns. Metrics.TablesOffPlan and BytesOffPlan show beforehand how much
// there is to rewrite, and WriteMetrics.RewrittenBytes how much was written for it. A second Compact writes nothing.
// With FilterMemory, the plan changes with the number of keys; a filter is then off the plan if its rate is more than
// twice that of the plan, or if it takes more memory than planned and the filters do not all fit. Other options only
// apply to tables that are written for other reasons: see Rewrite.
func (db *DB) Compact(ctx context.Context, lo, hi []byte) error {
	return db.compactRange(ctx, lo, hi, false)
}

// Rewrite does what Compact does, but rewrites all tables of the range, even those that Compact would leave as they
// are. Use it after a change of Options.Compression, BlockSize or TableSize. Compact ignores these, because they
// change how much disk space a store takes and how it is read, not what it promises, and because rewriting a whole
// store is much work that the user should ask for.
func (db *DB) Rewrite(ctx context.Context, lo, hi []byte) error {
	return db.compactRange(ctx, lo, hi, true)
}

func (db *DB) compactRange(ctx context.Context, lo, hi []byte, rewrite bool) error {
	if err := db.tree.Writable(); err != nil {
		return err
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	if err := db.Flush(ctx); err != nil {
		return err
	}
	if err := db.readRules(ctx, lo, hi); err != nil {
		return err
	}
	m := &manualCompaction{Manual: compaction.Manual{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi), Rewrite: rewrite}}
	m.UpTo = db.tree.View().Next
	db.manualMu.Lock()
	db.manual = append(db.manual, m)
	db.manualMu.Unlock()
	db.tree.Wake()
	err := db.tree.Wait(ctx, func(tree.View) bool {
		db.manualMu.Lock()
		defer db.manualMu.Unlock()
		return m.done
	})
	db.manualMu.Lock()
	defer db.manualMu.Unlock()
	db.manual = slices.DeleteFunc(db.manual, func(o *manualCompaction) bool { return o == m })
	return cmp.Or(err, m.err)
}

// settled reports whether there is nothing left to flush or compact.
func (db *DB) settled() (settled bool) {
	db.tree.Await(func(v tree.View) bool {
		db.manualMu.Lock()
		defer db.manualMu.Unlock()
		switch {
		case v.State == nil:
		case db.opts.ReadOnly:
			settled = true // a read-only store does no work
		default:
			settled = len(v.Flushing) == 0 && len(db.manual) == 0 && !db.compacting && db.pick(v.State) == nil
		}
		return true
	})
	return settled
}

func (db *DB) pick(s *tree.State) *compaction.Plan { return db.policy.Pick(db.shape(s, false)) }

// shape returns the shape of a state, by which compactions are picked. asked is true for compactions that Compact
// asked for.
func (db *DB) shape(s *tree.State, asked bool) compaction.Shape {
	return compaction.Shape{Version: s.Version, Snapshots: db.tree.Pinned(), Facts: db.facts(s, asked)}
}

// A job is a compaction that is due.
type job struct {
	version *manifest.Version
	plan    *compaction.Plan
	manual  *manualCompaction // the call that the plan is for; nil if the tree needs it
}

// nextJob waits for a compaction that is due. Compactions that the tree needs alternate with those of Compact: asked
// reports whether the last one was of Compact. nextJob returns nil after Close and after the store has failed.
func (db *DB) nextJob(asked bool) (next *job) {
	for {
		end := false
		db.tree.Await(func(v tree.View) bool {
			db.manualMu.Lock()
			defer db.manualMu.Unlock()
			if end = v.Closing || v.Failed != nil; end {
				db.compacting = false
				return true
			}
			plan := db.pick(v.State)
			if len(db.manual) > 0 && (plan == nil || !asked) {
				m := db.manual[0]
				if p := m.Next(db.shape(v.State, true), db.policy); p != nil {
					next = &job{v.State.Version, p, m}
				} else {
					m.done = true
					db.manual = db.manual[1:]
				}
			} else if plan != nil {
				next = &job{v.State.Version, plan, nil}
			} else {
				db.compacting = false
				return false
			}
			db.compacting = true
			return true
		})
		switch {
		case end:
			err := db.tree.Writable()
			db.manualMu.Lock()
			for _, m := range db.manual {
				m.done, m.err = true, err
			}
			db.manual = nil
			db.manualMu.Unlock()
			db.tree.Wake()
			return nil
		case next != nil:
			return next
		}
		db.tree.Wake() // a manual compaction has ended
	}
}

// compactLoop runs one compaction at a time until Close.
func (db *DB) compactLoop() {
	defer db.workers.Done()
	told := false // whether the lack of disk space was reported
	for j := db.nextJob(false); j != nil; j = db.nextJob(j.manual != nil) {
		err := db.retry(db.tree.Life(), "compaction", func() error { return db.compact(j.version, j.plan) })
		switch {
		case !errors.Is(err, errDiskSpace): // after a final failure, nextJob returns nil
			told = told && err != nil
		case j.manual != nil:
			db.manualMu.Lock()
			j.manual.done, j.manual.err = true, err
			db.manual = slices.DeleteFunc(db.manual, func(o *manualCompaction) bool { return o == j.manual })
			db.manualMu.Unlock()
			db.tree.Wake()
		default:
			if !told {
				db.report.workFailed(FailureInfo{Work: "compaction", Attempt: 1, Err: err})
				told = true
			}
			db.putOff()
		}
	}
}

// compact runs one plan.
func (db *DB) compact(v *manifest.Version, plan *compaction.Plan) error {
	began := time.Now()
	var res compaction.Result
	if !plan.Move {
		var err error
		env := db.env(plan.To)
		env.Free, env.FreeKnown = db.freeSpace(plan)
		if db.pacer.rate > 0 {
			env.Limiter = &db.pacer
		}
		if res, err = compaction.Run(db.tree.Life(), v, plan, inputs{db}, env); err != nil {
			return err
		}
	}
	newRun, err := db.tree.NewNumber() // each run has a number of its own
	if err != nil {
		return err
	}
	e := compaction.Edit(v, plan, res.Tables, newRun)
	if err := db.install(e, tree.Change{}, func() {}); err != nil {
		return err
	}
	var written uint64
	for _, t := range res.Tables {
		written += t.Size
	}
	rewritten := !plan.Move && len(plan.Inputs) == 1 && res.Dropped == 0 && res.Skipped == 0
	if plan.Move {
		db.writes.moves.Add(uint64(len(plan.Inputs[0].Tables)))
	} else {
		db.writes.compactions.Add(1)
		db.writes.compactedRead.Add(plan.Bytes() - res.Skipped)
		db.writes.compactedBytes.Add(written)
		if rewritten {
			db.writes.rewrittenBytes.Add(written)
		}
	}
	info := CompactionInfo{
		From: plan.Inputs[0].Level, To: plan.To, Moved: plan.Move, Rewritten: rewritten,
		Outputs: len(res.Tables), BytesWritten: written, Versions: res.Read, Dropped: res.Dropped, Keys: res.Keys,
		Duration: time.Since(began),
	}
	if res.Predicted.Known {
		info.PredictedKeys = uint64(math.Round(res.Predicted.Keys))
	}
	for _, in := range plan.Inputs {
		info.Inputs += len(in.Tables)
	}
	if plan.Move {
		info.Outputs = info.Inputs
	} else {
		info.BytesRead = plan.Bytes() - res.Skipped
	}
	db.report.compacted(info, db.report.infosOf(plan.To, res.Tables))
	return nil
}

// inputs gives a compaction access to its input tables. They stay on the disk, since only a compaction removes
// tables, and one runs at a time.
type inputs struct{ db *DB }

// Open returns a cursor over one table.
func (in inputs) Open(meta *manifest.Table) (merge.Source, error) {
	t, err := in.load(meta)
	if err != nil {
		return nil, err
	}
	it := new(sstable.Iter)
	it.Reset(t.Reader, sstable.IterOptions{Bypass: true})
	return it, nil
}

// RangeDels returns the range tombstones of one table.
func (in inputs) RangeDels(meta *manifest.Table) (rangedel.List, error) {
	t, err := in.load(meta)
	if err != nil {
		return nil, err
	}
	return t.Reader.RangeDels(), nil
}

// Sample returns a sample of the keys of one table, or nil: a compaction needs none. It reports damage; other errors
// it leaves to the compaction, which will meet them again.
func (in inputs) Sample(meta *manifest.Table) *bloomblock.Sample {
	t, err := in.load(meta)
	if err != nil {
		return nil
	}
	s, err := t.Reader.Sample()
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		in.db.report.Damaged(err)
	}
	return s
}

// Filter returns the part of a table's filter that is in memory, or nil.
func (in inputs) Filter(meta *manifest.Table) *bloomblock.Filter {
	t, err := in.load(meta)
	if err != nil {
		return nil
	}
	return t.Reader.Filter()
}

// load returns a table, with its index and filter loaded.
func (in inputs) load(meta *manifest.Table) (*tree.Table, error) {
	t := in.db.tree.Load().Table(meta)
	if t == nil {
		return nil, errGone
	}
	return t, in.db.share.Load(t)
}

var errGone = errors.New("compaction: an input is no longer in the tree")
