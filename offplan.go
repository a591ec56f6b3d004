package bloomkv

import (
	"context"
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// offPlan reports whether a table, on a level, has another filter than a table has that is written there now, or above: for
// another rate, of another kind, or of prefixes by another rule. With Options.FilterMemory, whose plan changes with the keys there
// are, it may be of one of the plans that are as good. It reads no file: a rule counts once the table's tail was read.
func (db *DB) offPlan(level int, t *tree.Table, good []*filterplan.Plan) bool {
	if t.Meta.Entries == 0 {
		return false // nobody asks its filter
	}
	if !slices.ContainsFunc(good, func(p *filterplan.Plan) bool { return p.Has(level, t.Meta.FilterRate) }) {
		return true
	}
	want := ""
	if t.Meta.FilterRate < 1 {
		want = db.opts.FilterPrefix.String()
	}
	rule, known := t.Reader.PrefixRule()
	return known && rule != want
}

// tableFacts are what compactions are picked by beside the manifest.
type tableFacts struct {
	db   *DB
	s    *tree.State
	good []*filterplan.Plan // a filter of one of these may stay
}

// facts returns the facts about the tables of a state. asked is true for the compactions of a Compact.
func (db *DB) facts(s *tree.State, asked bool) tableFacts {
	plans := db.plans.Load()
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

// Outdated is offPlan for compactions, which repair damaged filters too.
func (f tableFacts) Outdated(level int, meta *manifest.Table) bool {
	t := f.s.Table(meta)
	return t != nil && (t.Damaged.Load() || f.db.offPlan(level, t, f.good))
}

// readRules reads the tails of tables with a key in [lo, hi] whose rule of prefixes is not known yet, so that offPlan is right
// for them. What is damaged stays unknown: whoever has to read the table learns of it.
func (db *DB) readRules(ctx context.Context, lo, hi []byte) (err error) {
	ctx, end, err := db.begin(ctx)
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
			err = db.load(t)
		}
		if errors.Is(err, corrupt.Err) {
			err = nil
		}
	})
	return err
}
