package bloomkv

import (
	"context"
	"errors"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// tableFacts are facts about tables that compactions are chosen by and that the manifest does not have.
type tableFacts struct {
	db   *DB
	s    *tree.State
	good []*filterplan.Plan // filters built by one of these plans may stay
}

// facts returns the facts about the tables of a state. asked is true for compactions requested by Compact.
func (db *DB) facts(s *tree.State, asked bool) tableFacts {
	plans := db.share.Plans()
	if asked {
		return tableFacts{db, s, plans.Good}
	}
	return tableFacts{db, s, plans.Fine}
}

// RangeDels returns the range tombstones of a table, or nil if they are not in memory.
func (f tableFacts) RangeDels(meta *manifest.Table) rangedel.List {
	if t := f.s.Table(meta); t != nil {
		return t.Reader.RangeDels()
	}
	return nil
}

// Outdated reports whether the filters of a table are off the plan or damaged, so that a compaction should rewrite
// it.
func (f tableFacts) Outdated(level int, meta *manifest.Table) bool {
	t := f.s.Table(meta)
	return t != nil && (t.Damaged.Load() || f.db.share.OffPlan(level, t, f.good))
}

// readRules reads the tails of tables with a key in [lo, hi] whose prefix rule is not known yet, so that OffPlan is
// right for them. The rule of a damaged table stays unknown: a reader of the table reports the damage.
func (db *DB) readRules(ctx context.Context, lo, hi []byte) (err error) {
	ctx, end, err := db.tree.BeginCall(ctx)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	s, release := db.tree.Acquire()
	if s == nil {
		return ErrClosed
	}
	defer release()
	s.EachTable(func(_ int, t *tree.Table) {
		if _, known := t.Reader.PrefixRule(); known || err != nil || !t.Meta.Overlaps(lo, hi) {
			return
		}
		if err = ctx.Err(); err == nil {
			err = db.share.Load(t)
		}
		if errors.Is(err, corrupt.Err) {
			err = nil
		}
	})
	return err
}
