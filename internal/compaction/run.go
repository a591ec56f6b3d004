package compaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// Result is what a flush or a compaction left on the disk, synced except for the names in the directory.
type Result struct {
	Tables  []*manifest.Table // ascending, disjoint; none where nothing stayed
	Read    uint64            // versions of keys read
	Dropped uint64            // those of them that did not stay: shadowed, deleted, or tombstones with nothing under them
	Skipped uint64            // bytes of inputs that went without being read, as newer ones delete them as a whole

	Keys      uint64     // distinct keys written
	Predicted Prediction // of a compaction, before it began
}

// Flush writes all of a memtable: src is its versions, dels are its range tombstones. What no reader can see any more goes;
// tombstones stay, as older runs may hold what they hide. src is closed.
func Flush(ctx context.Context, src merge.Source, dels rangedel.List, env Env) (Result, error) {
	return write(ctx, src, newRetain(env.Snapshots, olderRuns{anywhere: true}, dels), tableWriter{env: env, size: env.TableSize})
}

// Run merges the inputs of a plan that is not a move. v is the version that the plan was picked from.
func Run(ctx context.Context, v *manifest.Version, p *Plan, tables Inputs, env Env) (Result, error) {
	in, err := p.read(ctx, tables, env.Snapshots)
	if err != nil {
		return Result{}, err
	}
	older := below(v, p)
	var predicted Prediction
	if len(in.dels) == 0 {
		predicted = predict(in.runs, older, tables, env.Snapshots)
	}
	if least := predicted.least(); env.FreeKnown && !env.Recodes && least > env.Free {
		err := fmt.Errorf("%s: %w: %d bytes are free, at least %d would be written", env.Dir, ErrDiskSpace, env.Free, least)
		return Result{}, errors.Join(err, in.source.Close())
	}
	w := tableWriter{env: env, size: predicted.tableSize(env.TableSize), limit: limit{ctx, env.Limiter}}
	if p.To < last && len(v.Levels[p.To+1]) > 0 {
		w.grand = v.Levels[p.To+1][0].Tables
	}
	res, err := write(ctx, in.source, newRetain(env.Snapshots, older, in.dels), w)
	if err != nil {
		return res, err
	}
	res.Skipped, res.Predicted = in.skipped, predicted
	if res.Read != in.versions {
		remove(env, res.Tables)
		return Result{}, miscounted(in, res.Read, tables)
	}
	return res, nil
}

// miscounted returns the damage of the input whose number of versions is not that of the manifest.
func miscounted(in input, read uint64, tables Inputs) error {
	for _, run := range in.runs {
		for _, t := range run {
			src, err := tables.Open(t)
			if err != nil {
				return err
			}
			n := uint64(0)
			for ok := src.First(); ok; ok = src.Next() {
				n++
			}
			if err := src.Close(); err != nil {
				return err
			}
			if n != t.Entries {
				return damaged(t, "%d versions, the manifest has %d", n, t.Entries)
			}
		}
	}
	return fmt.Errorf("compaction: read %d versions and then %d", read, in.versions)
}

// damaged is damage of an input as a whole.
func damaged(t *manifest.Table, format string, args ...any) error {
	return corrupt.Newf(filename.Base(filename.Table, t.Number), 0, format, args...)
}

// An input is what has to be read of a plan's tables.
type input struct {
	runs     [][]*manifest.Table // newest first; those that have versions
	source   merge.Source
	versions uint64        // that source has, says the manifest
	dels     rangedel.List // of all runs together
	skipped  uint64        // bytes of tables that are not read at all
}

// read reads the range tombstones, newest run first: tables that they delete as a whole are not read.
func (p *Plan) read(ctx context.Context, tables Inputs, snapshots []ikey.Seq) (in input, err error) {
	var sources []merge.Source
	var covers cover
	var all []rangedel.Tombstone
	for _, part := range p.Inputs {
		var run []*manifest.Table
		var dels rangedel.List
		for _, t := range part.Tables {
			if covers.whole(t, snapshots) {
				in.skipped += t.Size
				continue
			}
			if t.RangeDeletes > 0 {
				if err := ctx.Err(); err != nil {
					return in, err
				}
				l, err := rangeDelsOf(t, tables)
				if err != nil {
					return in, err
				}
				dels = append(dels, l...)
			}
			if t.Entries > 0 {
				run = append(run, t)
				in.versions += t.Entries
			}
		}
		if len(dels) > 0 {
			covers = append(covers, dels) // the tables of a run are disjoint, and ascend
		}
		for _, f := range dels {
			for _, seq := range f.Seqs {
				all = append(all, rangedel.Tombstone{Start: f.Start, End: f.End, Seq: seq})
			}
		}
		if len(run) > 0 {
			in.runs = append(in.runs, run)
			sources = append(sources, merge.NewConcat(runTables{run, tables}))
		}
	}
	in.source, in.dels = merge.New(sources...), rangedel.FragmentedFor(snapshots, all)
	return in, nil
}

// rangeDelsOf is the range tombstones of an input, which must be as many as the manifest has, and within the table's bounds.
func rangeDelsOf(t *manifest.Table, tables Inputs) (rangedel.List, error) {
	l, err := tables.RangeDels(t)
	if err != nil {
		return nil, err
	}
	var n uint64
	for i := range l {
		n += uint64(len(l[i].Seqs))
	}
	// Those of an ingested table have one sequence number whatever the file says, and so may have become fewer.
	if n != t.RangeDeletes && (t.Flags&manifest.SeqOverridden == 0 || n == 0) {
		return nil, damaged(t, "%d range deletes, the manifest has %d", n, t.RangeDeletes)
	}
	lies := manifest.Bounds{Lo: l[0].Start, Hi: l[len(l)-1].End, Exclusive: true}
	if b := t.Bounds(); !b.Holds(lies) {
		return nil, damaged(t, "range deletes in %s, the manifest has the table in %s", lies, b)
	}
	return l, nil
}
