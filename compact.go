package bloomkv

import (
	"bytes"
	"context"
)

// Flush writes what is in memory into tables of level 0 and returns when they are durable. If ctx ends first, Flush
// returns its error; a flush that has begun continues in the background. With Options.ReadOnly, Flush returns
// ErrReadOnly.
func (db *DB) Flush(ctx context.Context) error {
	last, err := db.writer.Freeze(ctx)
	if err == nil {
		err = db.tree.WaitFlushed(ctx, last)
	}
	if err == nil {
		err = db.work.WaitForFilters(ctx)
	}
	return err
}

// CompactOptions are options of [DB.Compact]. The zero value is right for most calls.
type CompactOptions struct {
	// Range is what is compacted. Tables at its edges are merged whole. The zero value is the whole store.
	Range KeyRange
	// Rewrite rewrites all tables of the range, even those that would stay as they are. Set it after a change of
	// Options.Compression, BlockSize or TableSize: these change how much disk space a store takes and how it is read,
	// not what it promises, and rewriting a whole store is much work that the user should ask for.
	Rewrite bool
}

// Compact writes out what is in memory and merges all data of a range into the last level, the shape with the cheapest
// reads. Reads and writes continue meanwhile. When Compact returns, the result is durable. If ctx ends first, Compact
// returns its error; the tree is intact, and what was merged so far is kept. A merge that is certain not to fit on the
// disk is not started, and Compact returns an error. Versions that open snapshots need stay, and so do the tombstones
// over them. With Options.ReadOnly, Compact returns ErrReadOnly.
//
// A table that needs no merging stays as it is, unless its filter is off the present plan: it was built for another
// FilterFPR, FilterMemory, FilterKind or FilterPrefix, or it is damaged. Compact rewrites such a table, so that these
// options hold for the whole range when it returns. Metrics.TablesOffPlan and BytesOffPlan show beforehand how much
// there is to rewrite, and WriteMetrics.RewrittenBytes how much was written for it. A second Compact writes nothing.
// With FilterMemory, the plan changes with the number of keys; a filter is then off the plan if its rate is more than
// twice that of the plan, or if it takes more memory than planned and the filters do not all fit. Other options only
// apply to tables that are written for other reasons, or with CompactOptions.Rewrite.
func (db *DB) Compact(ctx context.Context, opts CompactOptions) error {
	lo, hi := opts.Range.Lower, opts.Range.Upper
	if err := db.tree.Writable(); err != nil {
		return err
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	if err := db.Flush(ctx); err != nil {
		return err
	}
	return db.work.Compact(ctx, lo, hi, opts.Rewrite)
}
