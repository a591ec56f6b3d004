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
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/sstable"
)

// A manualCompaction is a call of Compact, worked off plan by plan by the compaction goroutine.
type manualCompaction struct {
	compaction.Manual

	done bool
	err  error
}

// Compact writes out what is in memory and merges all that the tree holds from lo on and before hi into the last level: the
// shape with the cheapest reads. lo is inclusive, hi exclusive, nil is infinite; tables at the edges are merged whole; an empty
// or inverted range is no error and does nothing. Reads and writes go on meanwhile. It returns when that is durable. When ctx
// ends before, it returns the error of ctx; the tree is whole, and merged as far as the work had come. What open snapshots need
// stays, and its tombstones with it. With Options.ReadOnly it is ErrReadOnly.
//
// A table that nothing has to be merged with stays as it is, unless its filter misses the present plan: it was built for another
// FilterFPR or FilterMemory, another FilterKind or another FilterPrefix, or it is damaged. Compact writes such a table anew, so that
// these options hold for the whole range when it returns; Metrics.TablesOffPlan and BytesOffPlan say before how many there are, and
// WriteMetrics.RewrittenBytes what was written for it. A second Compact writes nothing. With FilterMemory, whose plan changes with
// the number of keys, a filter misses it where its rate is more than twice that of the plan, or where it takes more memory than the
// plan has for it and filters do not all fit. Other options hold for tables that are written for other reasons: see Rewrite.
func (db *DB) Compact(ctx context.Context, lo, hi []byte) error {
	return db.compactRange(ctx, lo, hi, false)
}

// Rewrite is Compact, but writes all tables of the range anew, also those that Compact would leave as they are. It is for changes
// of Options.Compression, BlockSize and TableSize, which Compact does not look at: they change what a store takes on the disk and how
// it is read, not what it promises, and writing all of a store is much work that should be asked for.
func (db *DB) Rewrite(ctx context.Context, lo, hi []byte) error {
	return db.compactRange(ctx, lo, hi, true)
}

func (db *DB) compactRange(ctx context.Context, lo, hi []byte, rewrite bool) error {
	if db.state.Load() == nil {
		return ErrClosed
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
	db.mu.Lock()
	m.UpTo = db.next
	db.manual = append(db.manual, m)
	db.changed.Broadcast()
	db.mu.Unlock()
	err := db.wait(ctx, func() bool { return m.done })
	db.mu.Lock()
	defer db.mu.Unlock()
	db.manual = slices.DeleteFunc(db.manual, func(o *manualCompaction) bool { return o == m })
	return cmp.Or(err, m.err)
}

// settled reports whether nothing is left to flush or compact. mu is held, which does not keep Close from taking the state.
func (db *DB) settled() bool {
	s := db.state.Load()
	if s != nil && db.opts.ReadOnly {
		return true // nothing waits that could be done
	}
	return s != nil && len(db.flushing) == 0 && len(db.manual) == 0 && !db.compacting && db.pick(s) == nil
}

func (db *DB) pick(s *state) *compaction.Plan { return db.policy.Pick(db.treeView(s, false)) }

// treeView returns a state as compactions are picked by; asked is true for those of a Compact.
func (db *DB) treeView(s *state, asked bool) compaction.View {
	return compaction.View{Version: s.version, Snapshots: db.snapshots.seqs(), Facts: db.facts(s, asked)}
}

// compactLoop runs one compaction at a time until Close. What the tree needs and what was asked for take turns.
func (db *DB) compactLoop() {
	defer db.workers.Done()
	asked := false // the last one was
	told := false  // that the disk has no room
	for {
		db.mu.Lock()
		var plan *compaction.Plan
		var manual *manualCompaction // whose plan it is
		var s *state
		for {
			if db.closing || db.failed != nil {
				for _, m := range db.manual {
					m.done, m.err = true, db.writableLocked()
				}
				db.manual = nil
				db.compacting = false
				db.changed.Broadcast()
				db.mu.Unlock()
				return
			}
			s = db.state.Load()
			plan = db.pick(s)
			if len(db.manual) > 0 && (plan == nil || !asked) {
				m := db.manual[0]
				if p := m.Next(db.treeView(s, true), db.policy); p != nil {
					plan, manual, asked = p, m, true
					break
				}
				m.done = true
				db.manual = db.manual[1:]
				db.changed.Broadcast()
				continue
			}
			if plan != nil {
				asked = false
				break
			}
			if db.compacting {
				db.compacting = false
				db.changed.Broadcast()
			}
			db.changed.Wait()
		}
		db.compacting = true
		db.mu.Unlock()
		err := db.retry(db.ctx, "compaction", func() error { return db.compact(s.version, plan) })
		switch {
		case !errors.Is(err, errDiskSpace): // what failed for good ends the next turn
			told = told && err != nil
		case manual != nil:
			db.mu.Lock()
			manual.done, manual.err = true, err
			db.manual = slices.DeleteFunc(db.manual, func(o *manualCompaction) bool { return o == manual })
			db.changed.Broadcast()
			db.mu.Unlock()
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
		if res, err = compaction.Run(db.ctx, v, plan, inputs{db}, env); err != nil {
			return err
		}
	}
	newRun, err := db.newNumber() // a run is known by a number of its own
	if err != nil {
		return err
	}
	e := compaction.Edit(v, plan, res.Tables, newRun)
	if err := db.install(e, func(*state) {}); err != nil {
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
		From: plan.Inputs[0].Level, To: plan.To, Moved: plan.Move, Rewritten: rewritten, Outputs: len(res.Tables), BytesWritten: written,
		Versions: res.Read, Dropped: res.Dropped, Keys: res.Keys, Duration: time.Since(began),
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

// inputs gives a compaction access to its tables. The plan's version keeps them on the disk: only a compaction removes
// tables, and there is one at a time.
type inputs struct{ db *DB }

// Open returns a cursor over one table.
func (in inputs) Open(meta *manifest.Table) (merge.Source, error) {
	t, err := in.load(meta)
	if err != nil {
		return nil, err
	}
	it := new(sstable.Iter)
	it.Reset(t.reader, sstable.IterOptions{Bypass: true})
	return it, nil
}

// RangeDels returns the range tombstones of one table.
func (in inputs) RangeDels(meta *manifest.Table) (rangedel.List, error) {
	t, err := in.load(meta)
	if err != nil {
		return nil, err
	}
	return t.reader.RangeDels(), nil
}

// Sample returns a sample of the keys of one table, or nil: a compaction is as good without it. Damage is reported; the
// compaction itself will meet other errors again.
func (in inputs) Sample(meta *manifest.Table) *bloomblock.Sample {
	t, err := in.load(meta)
	if err != nil {
		return nil
	}
	s, err := t.reader.Sample()
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		in.db.report.damaged(err)
	}
	return s
}

// Filter returns the part of one table's filter that is in memory, or nil.
func (in inputs) Filter(meta *manifest.Table) *bloomblock.Filter {
	t, err := in.load(meta)
	if err != nil {
		return nil
	}
	return t.reader.Filter()
}

// load returns the loaded table.
func (in inputs) load(meta *manifest.Table) (*table, error) {
	t := in.db.state.Load().table(meta)
	if t == nil {
		return nil, errGone
	}
	return t, in.db.load(t)
}

var errGone = errors.New("compaction: an input left the tree")

// lookupError is what a lookup answers for an error of a read: after Close it is ErrClosed.
func (db *DB) lookupError(err error) error {
	if errors.Is(err, tablefile.ErrClosed) || db.state.Load() == nil {
		return ErrClosed
	}
	if errors.Is(err, corrupt.Err) {
		db.report.damaged(err)
	}
	return err
}
