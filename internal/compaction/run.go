package compaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Env is what writing tables needs of the store.
type Env struct {
	FS        vfs.FS
	Dir       string
	NewNumber func() (uint64, error) // a file number never used before
	TableSize uint64                 // bytes at which an output ends
	BlockSize int                    // as sstable.WriterOptions has it
	Codec     sstable.Codec          // of the output level
	Filter    bloomblock.Params      // of the output level
	Prefix    sstable.PrefixRule     // of a second filter
	Seed      bloomblock.Seed        // of filters

	// Pace, if not nil, returns when so many bytes may be written, or with the reason why they must not.
	Pace func(bytes int) error

	// Room, if not nil, returns nil when so many bytes fit the disk, or else why the compaction should not begin, which then is its
	// error. It is asked where it is predicted that no less will be written.
	Room func(bytes uint64) error

	// Snapshots that readers hold, ascending; repetitions do no harm. The list is taken after what is to be read was chosen,
	// a version or a frozen memtable, so that a later snapshot is not older than anything in it.
	Snapshots []ikey.Seq

	// Open is a cursor over the versions of an input; it bypasses the block cache. It is not called for a table without
	// versions. RangeDels are the range tombstones of one that has some. Neither is called for a table that newer inputs
	// delete as a whole, nor by a flush.
	Open      func(*manifest.Table) (merge.Source, error)
	RangeDels func(*manifest.Table) (rangedel.List, error)

	// SampleOf is the sample of the keys of an input, and FilterOf its filter as far as it is in memory; nil where there is none. If
	// they are nil nothing is predicted. Neither is called by a flush.
	SampleOf func(*manifest.Table) *bloomblock.Sample
	FilterOf func(*manifest.Table) *bloomblock.Filter
}

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
func Run(ctx context.Context, v *manifest.Version, p *Plan, env Env) (Result, error) {
	in, err := p.inputs(ctx, env)
	if err != nil {
		return Result{}, err
	}
	older := below(v, p.To)
	var predicted Prediction
	if env.SampleOf != nil && len(in.dels) == 0 {
		predicted = predict(in.runs, older, env)
	}
	if least := predicted.least(env.Codec); least > 0 && env.Room != nil {
		if err := env.Room(least); err != nil {
			return Result{}, errors.Join(err, in.source.Close())
		}
	}
	w := tableWriter{env: env, size: predicted.tableSize(env.TableSize)}
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
		return Result{}, miscounted(in, res.Read, env)
	}
	return res, nil
}

// miscounted is the damage of the input that has another number of versions than the manifest says.
func miscounted(in inputs, read uint64, env Env) error {
	for _, tables := range in.runs {
		for _, t := range tables {
			src, err := env.Open(t)
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

// inputs are what of a plan's tables is to be read.
type inputs struct {
	runs     [][]*manifest.Table // newest first; those that have versions
	source   merge.Source
	versions uint64        // that source has, says the manifest
	dels     rangedel.List // of all runs together
	skipped  uint64        // bytes of tables that are not read at all
}

// inputs reads the range tombstones, newest run first: what they delete as a whole needs no reading.
func (p *Plan) inputs(ctx context.Context, env Env) (in inputs, err error) {
	var sources []merge.Source
	var covers cover
	var all []rangedel.Tombstone
	for _, input := range p.Inputs {
		var tables []*manifest.Table
		var dels rangedel.List
		for _, t := range input.Tables {
			if covers.whole(t, env.Snapshots) {
				in.skipped += t.Size
				continue
			}
			if t.RangeDeletes > 0 {
				if err := ctx.Err(); err != nil {
					return in, err
				}
				l, err := rangeDelsOf(t, env)
				if err != nil {
					return in, err
				}
				dels = append(dels, l...)
			}
			if t.Entries > 0 {
				tables = append(tables, t)
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
		if len(tables) > 0 {
			in.runs = append(in.runs, tables)
			sources = append(sources, merge.NewConcat(runTables{tables, env.Open}))
		}
	}
	in.source, in.dels = merge.New(sources...), rangedel.FragmentedFor(env.Snapshots, all)
	return in, nil
}

// rangeDelsOf is the range tombstones of an input, which must be as many as the manifest has, and within the table's bounds.
func rangeDelsOf(t *manifest.Table, env Env) (rangedel.List, error) {
	l, err := env.RangeDels(t)
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

// Edit is the change a finished compaction makes: the inputs go, the outputs come into the run of the output level,
// which is newRun where there is none.
func Edit(v *manifest.Version, p *Plan, outputs []*manifest.Table, newRun uint64) *manifest.Edit {
	e := &manifest.Edit{}
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			e.Deleted = append(e.Deleted, manifest.Deleted{Level: in.Level, Number: t.Number})
		}
	}
	if p.Move {
		outputs = p.Inputs[0].Tables
	}
	if len(outputs) == 0 {
		return e
	}
	run := newRun
	if runs := v.Levels[p.To]; len(runs) > 0 {
		run = runs[0].ID
	}
	for _, t := range outputs {
		e.Added = append(e.Added, manifest.Added{Level: p.To, Run: run, Table: t})
	}
	return e
}
