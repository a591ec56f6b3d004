package bloomkv

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// sameRate is the relative difference below which two rates count as equal: processors round differently.
const sameRate = 1e-9

// has reports whether a filter that promises a rate, of a table on a level, was built by the plan: there or further up, since
// tables move down and never up. Rates of other plans, kinds and divisions into units are products of other numbers.
func (p *filterPlan) has(level int, rate float64) bool {
	return slices.ContainsFunc(p.level[:level+1], func(l levelPlan) bool { return math.Abs(rate/l.params.Rate()-1) < sameRate })
}

// offPlan reports whether a table, on a level, has another filter than a table has that is written there now, or above: for
// another rate, of another kind, or of prefixes by another rule. With Options.FilterMemory, whose plan changes with the keys there
// are, it may be of one of the plans that are as good. It reads no file: a rule counts once the table's tail was read.
func (db *DB) offPlan(level int, t *table, good []*filterPlan) bool {
	if t.meta.Entries == 0 {
		return false // nobody asks its filter
	}
	if !slices.ContainsFunc(good, func(p *filterPlan) bool { return p.has(level, t.meta.FilterRate) }) {
		return true
	}
	want := ""
	if t.meta.FilterRate < 1 {
		want = db.filters.Prefix
	}
	rule, known := t.reader.PrefixRule()
	return known && rule != want
}

// outdated is offPlan for compactions, which mend damaged filters too. asked is true for those of a Compact.
func (db *DB) outdated(s *state, asked bool) func(level int, meta *manifest.Table) bool {
	plans := db.plans.Load()
	good := plans.fine
	if asked {
		good = plans.good
	}
	return func(level int, meta *manifest.Table) bool {
		t := s.table(meta)
		return t != nil && (t.damaged.Load() || db.offPlan(level, t, good))
	}
}

// readRules reads the tails of tables with a key in [lo, hi] whose rule of prefixes is not known yet, so that offPlan is right
// for them. What is damaged stays unknown: whoever has to read the table learns of it.
func (db *DB) readRules(ctx context.Context, lo, hi []byte) (err error) {
	ctx, end, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	s, release := db.acquire()
	if s == nil {
		return ErrClosed
	}
	defer release()
	s.tables(func(_ int, t *table) {
		if _, known := t.reader.PrefixRule(); known || err != nil || !t.meta.Overlaps(lo, hi) {
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
