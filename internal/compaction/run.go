package compaction

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/vfs"
)

// Result describes what a flush or a compaction did.
type Result struct {
	Tables  []*manifest.Table // ascending and disjoint; synced, but their names in the directory are not
	Read    uint64            // versions read
	Dropped uint64            // versions read and not written: shadowed, deleted, or tombstones that hide nothing
	Skipped uint64            // bytes of inputs that were not read, since newer inputs delete them as a whole

	Keys      uint64     // distinct keys written
	Predicted Prediction // made before a compaction began
}

// Flush writes a memtable, given its versions and its range tombstones, into tables. It drops versions that no
// reader can see any more, and keeps tombstones, since older runs may hold what they hide. It closes src. After an
// error no file is left.
func Flush(ctx context.Context, src merge.Source, dels rangedel.List, env Env) (Result, error) {
	keep := newRetain(env.Snapshots, olderRuns{anywhere: true}, dels)
	return write(ctx, src, keep, tableWriter{env: env, size: env.TableSize})
}

// Run merges the inputs of a plan that is not a move. v is the version that the plan was picked from. After an
// error no file is left.
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
		err := fmt.Errorf("%s: %w: %d bytes are free, at least %d would be written",
			env.Dir, vfs.ErrNoSpace, env.Free, least)
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

// miscounted returns the damage of the first input whose number of versions is not that of the manifest (I26).
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

// damaged returns an error for the damage of a whole table.
func damaged(t *manifest.Table, format string, args ...any) error {
	return corrupt.Newf(filename.Base(filename.Table, t.Number), 0, format, args...)
}

// An input is the part of a plan's tables that has to be read.
type input struct {
	runs     [][]*manifest.Table // the tables that have versions, by run, newest first
	source   merge.Source        // merges them
	versions uint64              // versions in source, by the manifest
	dels     rangedel.List       // range tombstones of all runs
	skipped  uint64              // bytes of tables that are not read
}

// read reads the range tombstones of the newest run first, so that tables which they delete as a whole need not be
// read.
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
			covers = append(covers, rangedel.NewIndex(dels)) // the tables of a run are disjoint, and ascend
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

// rangeDelsOf returns the range tombstones of an input. Their number must be that of the manifest, and they must
// lie within the table's bounds.
func rangeDelsOf(t *manifest.Table, tables Inputs) (rangedel.List, error) {
	l, err := tables.RangeDels(t)
	if err != nil {
		return nil, err
	}
	var n uint64
	for i := range l {
		n += uint64(len(l[i].Seqs))
	}
	// All of an ingested table's tombstones have one sequence number, so several over one range count as one.
	if n != t.RangeDeletes && (t.Flags&manifest.SeqOverridden == 0 || n == 0) {
		return nil, damaged(t, "%d range tombstones, the manifest has %d", n, t.RangeDeletes)
	}
	lo, hi := l.Bounds()
	lies := manifest.Bounds{Lo: lo, Hi: hi, Exclusive: true}
	if b := t.Bounds(); !b.Holds(lies) {
		return nil, damaged(t, "range tombstones in %s, the manifest has the table in %s", lies, b)
	}
	return l, nil
}

// runTables gives a merge the inputs of one run.
type runTables struct {
	tables []*manifest.Table
	inputs Inputs
}

var _ merge.Tables = runTables{}

func (r runTables) Len() int { return len(r.tables) }

func (r runTables) Find(user []byte) int {
	return sort.Search(len(r.tables), func(i int) bool { return !r.tables[i].EndsBefore(user) })
}

func (r runTables) Bounds(i int) merge.Bounds { return Bounds(r.tables[i]) }

func (r runTables) Open(i int) (merge.Source, error) { return r.inputs.Open(r.tables[i]) }

// Bounds converts the bounds of a table for package merge.
func Bounds(t *manifest.Table) merge.Bounds {
	b := merge.Bounds{Smallest: t.Smallest, Largest: t.Largest}
	switch {
	case t.Flags&manifest.LargestInfinite != 0:
		b.Upper = merge.Infinite
	case t.Flags&manifest.LargestExclusive != 0:
		b.Upper = merge.Exclusive
	}
	return b
}
