package bloomkv

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/sstable"
)

// A manualCompaction is a call of Compact, worked off level by level by the compaction goroutine.
type manualCompaction struct {
	lo, hi []byte // inclusive; nil is infinite
	upTo   uint64 // runs of level 0 that are newer stay out of it
	level  int
	done   bool
	err    error
}

// Compact writes out what is in memory and merges all that the tree holds between lo and hi, both inclusive and nil for
// infinite, into the last level: the shape with the cheapest reads. It returns when that is durable. When ctx ends before,
// it returns the error of ctx; the tree is whole, and merged as far as the work had come. lo and hi must not change during
// the call.
func (db *DB) Compact(ctx context.Context, lo, hi []byte) error {
	if db.state.Load() == nil {
		return ErrClosed
	}
	if lo != nil && hi != nil && string(lo) > string(hi) {
		return nil
	}
	if err := db.Flush(ctx); err != nil {
		return err
	}
	m := &manualCompaction{lo: lo, hi: hi}
	db.mu.Lock()
	m.upTo = db.next
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
	return s != nil && len(db.flushing) == 0 && len(db.manual) == 0 && !db.compacting && db.pick(s.version) == nil
}

func (db *DB) pick(v *manifest.Version) *compaction.Plan { return compaction.Pick(v, db.shape()) }

func (db *DB) shape() compaction.Options {
	return compaction.Options{
		Trigger: triggerRuns, Ratio: db.opts.LevelRatio,
		BaseLevelSize: uint64(db.opts.BaseLevelSize), //nolint:gosec // checked: positive
	}
}

// compactLoop runs one compaction at a time until Close. What the tree needs and what was asked for take turns.
func (db *DB) compactLoop() {
	defer db.workers.Done()
	asked := false // the last one was
	for {
		db.mu.Lock()
		var plan *compaction.Plan
		var v *manifest.Version
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
			v = db.state.Load().version
			plan = db.pick(v)
			if len(db.manual) > 0 && (plan == nil || !asked) {
				m := db.manual[0]
				if p := m.next(v, db.shape()); p != nil {
					plan, asked = p, true
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
		_ = db.retry(db.ctx, "compaction", func() error { return db.compact(v, plan) }) // what failed for good ends the next turn
	}
}

// next is the next plan of a manual compaction, nil when it is done.
func (m *manualCompaction) next(v *manifest.Version, o compaction.Options) *compaction.Plan {
	for ; m.level < manifest.NumLevels; m.level++ {
		if runs := v.Levels[0]; m.level == 0 && (len(runs) == 0 || runs[len(runs)-1].ID >= m.upTo) {
			continue
		}
		if p := compaction.PickRange(v, o, m.level, m.lo, m.hi); p != nil {
			return p
		}
	}
	return nil
}

// compact runs one plan.
func (db *DB) compact(v *manifest.Version, plan *compaction.Plan) error {
	began := time.Now()
	var res compaction.Result
	if !plan.Move {
		var err error
		if res, err = compaction.Run(db.ctx, v, plan, db.env(plan.To)); err != nil {
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
	if plan.Move {
		db.writes.moves.Add(uint64(len(plan.Inputs[0].Tables)))
	} else {
		db.writes.compactions.Add(1)
		db.writes.compactedRead.Add(plan.Bytes())
		db.writes.compactedBytes.Add(written)
	}
	db.opts.Logger.Info("compacted", slog.Int("to", plan.To), slog.Bool("move", plan.Move), slog.Uint64("read", plan.Bytes()),
		slog.Uint64("written", written), slog.Uint64("versions", res.Read), slog.Uint64("dropped", res.Dropped),
		slog.Duration("duration", time.Since(began)))
	return nil
}

// openInput is a cursor over one input of a compaction. The plan's version keeps the table on the disk: only a compaction
// takes tables away, and there is one at a time.
func (db *DB) openInput(meta *manifest.Table) (merge.Source, error) {
	for _, r := range db.state.Load().runs {
		if t := r.find(meta.Smallest); t != nil && t.meta.Number == meta.Number {
			if err := db.load(t); err != nil {
				return nil, err
			}
			return t.reader.Iter(sstable.IterOptions{Bypass: true}), nil
		}
	}
	return nil, errGone
}

var errGone = errors.New("compaction: an input left the tree")

// lookupError is what a lookup answers for an error of a read: after Close it is ErrClosed.
func (db *DB) lookupError(err error) error {
	if errors.Is(err, ErrClosed) || db.state.Load() == nil {
		return ErrClosed
	}
	if errors.Is(err, corrupt.Err) {
		db.opts.Logger.Error("damage", slog.Any("error", err))
	}
	return err
}
