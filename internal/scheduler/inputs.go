package scheduler

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"weak"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// inputs gives a compaction access to its input tables. They stay in the tree and on the disk, since only compactions
// remove tables, and no other has the same inputs. It is safe for concurrent use.
type inputs struct {
	s    *Scheduler
	idle sync.Pool // closed inputs, for the next tables: the values in their buffers may be large
}

// An input is a cursor over one table.
type input struct {
	sstable.Iter
	of *inputs // nil after Close
}

// Close releases the table.
func (it *input) Close() error {
	err := it.Iter.Close()
	if in := it.of; in != nil {
		it.of = nil
		in.idle.Put(it)
	}
	return err
}

// Open returns a cursor over one table.
func (in *inputs) Open(meta *manifest.Table) (merge.Source, error) {
	t, err := in.load(meta)
	if err != nil {
		return nil, err
	}
	it, again := in.idle.Get().(*input)
	if !again {
		it = new(input)
	}
	it.of = in
	it.Reset(t.Reader, sstable.IterOptions{Bypass: true})
	return it, nil
}

// RangeDels returns the range tombstones of one table.
func (in *inputs) RangeDels(meta *manifest.Table) (*rangedel.Index, error) {
	t, err := in.load(meta)
	if err != nil {
		return nil, err
	}
	return t.Reader.RangeDels(), nil
}

// Sample returns a sample of the keys of one table, or nil: a compaction needs none. It reports damage; other errors
// it leaves to the compaction, which will meet them again.
func (in *inputs) Sample(meta *manifest.Table) *bloomblock.Sample {
	t, err := in.load(meta)
	if err != nil {
		return nil
	}
	s, err := t.Reader.Sample()
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		in.s.Observer.Damaged(err)
	}
	return s
}

// Filter returns the part of a table's filter that is in memory, or nil.
func (in *inputs) Filter(meta *manifest.Table) *bloomblock.Filter {
	t, err := in.load(meta)
	if err != nil {
		return nil
	}
	return t.Reader.Filter()
}

// load returns a table, with its index and filter loaded.
func (in *inputs) load(meta *manifest.Table) (*tree.Table, error) {
	t := in.s.Tree.Load().Table(meta)
	if t == nil {
		return nil, errGone
	}
	return t, in.s.Share.Load(t)
}

var errGone = errors.New("compaction: an input is no longer in the tree")

// facts are facts about tables that compactions are picked by and that the manifest does not have.
type facts struct {
	s    *Scheduler
	now  *tree.State
	good []*filterplan.Plan // filters built by one of these plans may stay

	readsNothing bool // Stale is 1 if it was not estimated yet
}

// facts returns the facts about the tables of a state. asked is true for compactions requested by Compact.
func (s *Scheduler) facts(now *tree.State, asked bool) facts {
	plans := s.Share.Plans()
	if asked {
		return facts{s: s, now: now, good: plans.Good}
	}
	return facts{s: s, now: now, good: plans.Fine}
}

// RangeDels returns the range tombstones of a table, or nil if they are not in memory.
func (f facts) RangeDels(meta *manifest.Table) *rangedel.Index {
	if t := f.now.Table(meta); t != nil {
		return t.Reader.RangeDels()
	}
	return nil
}

// Outdated reports whether the filters of a table are off the plan or damaged, so that a compaction should rewrite
// it.
func (f facts) Outdated(level int, meta *manifest.Table) bool {
	t := f.now.Table(meta)
	return t != nil && (t.Damaged.Load() || f.s.Share.OffPlan(level, t, f.good))
}

// Filter and Sample implement [compaction.Samples] for Stale, which loads nothing but samples.

// Filter returns the part of a table's filter that is in memory, or nil.
func (f facts) Filter(meta *manifest.Table) *bloomblock.Filter {
	if t := f.now.Table(meta); t != nil {
		return t.Reader.Filter()
	}
	return nil
}

// Sample returns a sample of the keys of a table, or nil.
func (f facts) Sample(meta *manifest.Table) *bloomblock.Sample {
	if t := f.now.Table(meta); t != nil {
		sample, _ := t.Reader.Sample() // a compaction of the table reports damage
		return sample
	}
	return nil
}

// Stale implements [compaction.TableFacts]. It is estimated once for each version, and again when more filters are in
// memory.
func (f facts) Stale() float64 {
	s, v := f.s, weak.Make(f.now.Version) // which a closed store need not keep
	at := s.Share.Loads()
	s.mu.Lock()
	known := s.staleOf == v && s.staleAt == at
	share := s.stale
	s.mu.Unlock()
	switch {
	case known:
	case f.readsNothing:
		return 1
	default:
		share = compaction.Stale(f.now.Version, f)
		s.mu.Lock()
		s.staleOf, s.staleAt, s.stale = v, at, share
		s.mu.Unlock()
	}
	return share
}

// readRules reads the tails of tables with a key in [lo, hi] whose prefix rule is not known yet, so that OffPlan is
// right for them. The rule of a damaged table stays unknown: a reader of the table reports the damage.
func (s *Scheduler) readRules(ctx context.Context, lo, hi []byte) error {
	return s.Tree.Call(ctx, func(ctx context.Context) (err error) {
		now := s.Tree.Hold() // not nil: Close waits
		defer s.Tree.Release(now)
		now.EachTable(func(_ int, t *tree.Table) {
			_, known := t.Reader.PrefixRule()
			if known || err != nil || t.Meta.EndsBefore(lo) || hi != nil && bytes.Compare(t.Meta.Smallest, hi) > 0 {
				return
			}
			if err = ctx.Err(); err == nil {
				err = s.Share.Load(t)
			}
			if errors.Is(err, corrupt.Err) {
				err = nil
			}
		})
		return err
	})
}
