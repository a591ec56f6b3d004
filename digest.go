package bloomkv

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/digest"
)

// DigestOptions configure [DB.Digest]. The zero value uses the filters that the store needs for its own rate.
type DigestOptions struct {
	// FPR is the highest rate of false positives, above 0 and at most 1. 0 means that of the store's filters. Without
	// Rebuild, filters are used whole or without their last units, so the rate may be lower; it is higher if
	// tables have worse filters or none. Digest.Rate returns the promise.
	FPR float64
	// Rebuild reads all keys and builds one filter of those that have a value. The digest is smaller and more exact:
	// overwritten and deleted keys are not in it. It takes 8 bytes of memory a key meanwhile, or 25 for a
	// Ribbon filter.
	Rebuild bool
	Kind    FilterKind // of the filter that Rebuild builds
	// Progress, if not nil, is called by Rebuild now and then, on the goroutine that called Digest, with the number of
	// keys read and that of all versions in tables. It must not close the DB, since Close waits for Digest.
	Progress func(done, total uint64)
}

// Digest returns the digest of the store as it is now, with every write that has returned: which keys the store may
// hold, as a value that travels. See package digest.
//
// It uses the filters of the tables as they are, and reads those that are not in memory. It hashes the keys in
// memtables, a tenth of a microsecond for each; [DB.Flush] before avoids that, and keeps later patches small. It reads
// no data block unless opts.Rebuild is set. The digest shares filters with the store; what it keeps in memory
// after the store has dropped it does not count towards Options.MemoryBudget. The error matches ErrFilterRate if no
// filter can have the rate.
func (db *DB) Digest(ctx context.Context, opts DigestOptions) (d *digest.Digest, err error) {
	err = db.tree.Call(ctx, func(ctx context.Context) error {
		d, err = db.digest(ctx, opts)
		return err
	})
	return d, err
}

func (db *DB) digest(ctx context.Context, opts DigestOptions) (*digest.Digest, error) {
	if !(opts.FPR >= 0 && opts.FPR <= 1) { // also NaN
		return nil, fmt.Errorf("bloomkv: digest: rate %v, want 0 to 1: %w", opts.FPR, ErrFilterRate)
	}
	plan := db.share.Plans().Now
	fpr := cmp.Or(opts.FPR, plan.FPR)
	if opts.Rebuild {
		params, err := bloomblock.ParamsFor(fpr)
		if opts.Kind == FilterRibbon {
			params, err = bloomblock.ParamsRibbon(fpr)
		}
		if err != nil {
			return nil, fmt.Errorf("bloomkv: digest: %w", err)
		}
		return db.read.Rebuild(ctx, params, opts.Progress)
	}
	if opts.FPR > 0 {
		var err error
		if plan, err = db.opts.planner().Plan(fpr); err != nil {
			return nil, fmt.Errorf("bloomkv: digest: %w", err)
		}
	}
	return db.read.Digest(ctx, plan)
}
