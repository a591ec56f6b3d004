package compaction

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/step"
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
	return write(ctx, src, &part{}, keep, tableWriter{env: env, size: env.TableSize})
}

// A Merge is a compaction that is being carried out. The keys of a large one are divided into parts, which several
// goroutines may merge at a time.
type Merge struct {
	ctx       context.Context //nolint:containedctx // of Begin; ends if a part fails
	cancel    context.CancelCauseFunc
	tables    Inputs
	env       Env
	in        input
	older     olderRuns
	grand     manifest.Run // the tables of the level below the outputs that overlap the inputs
	joins     bool         // the outputs are one table, if possible: see Plan.joins
	predicted Prediction
	parts     []part
	taken     atomic.Int64  // parts that somebody has taken, or more
	merged    chan struct{} // receives a value for each part that is merged or has failed
}

// Begin begins a compaction that is not a move. v is the version that the plan was picked from. Finish must follow. The
// merge cancels ctx, which may end its writes too, when it ends or a part fails. If more will be written than the file
// system has space for, as far as both are known, the error matches vfs.ErrNoSpace (I22).
func Begin(
	ctx context.Context, cancel context.CancelCauseFunc, v *manifest.Version, p *Plan, tables Inputs, env Env,
) (*Merge, error) {
	in, err := p.read(ctx, tables, env.Snapshots)
	if err != nil {
		return nil, err
	}
	m := &Merge{
		ctx: ctx, cancel: cancel, tables: tables, env: env, in: in, older: below(v, p), joins: p.joins(env.TableSize),
	}
	if m.joins {
		m.env.Cuts, m.env.PartSize = nil, 0
	}
	m.parts = in.parts(m.env.PartSize)
	if len(in.dels) == 0 {
		m.predicted = predict(in.runs, m.older, tables, env.Snapshots)
	}
	if fsys, ok := env.FS.(vfs.FreeSpacer); ok {
		free, err := fsys.FreeSpace(env.Dir) // also if it does not matter: then writers look again
		if least := m.predicted.least(); err == nil && least > free && !env.Recodes {
			return nil, fmt.Errorf("%s: %w: %d bytes are free, at least %d would be written",
				env.Dir, vfs.ErrNoSpace, free, least)
		}
	}
	if p.To < last && len(v.Levels[p.To+1]) > 0 {
		m.grand.Tables = v.Levels[p.To+1][0].Touching(boundsOf(p.Inputs))
	}
	m.merged = make(chan struct{}, len(m.parts))
	return m, nil
}

// Help merges a part that nobody has taken. It returns false if there is none. Several goroutines may call it at any
// time, even after Finish.
func (m *Merge) Help() bool {
	i := m.taken.Add(1) - 1
	if i >= int64(len(m.parts)) {
		return false
	}
	p := &m.parts[i]
	if p.result, p.err = m.merge(p); p.err != nil {
		m.cancel(p.err)
	}
	step.At("compaction: part merged")
	m.merged <- struct{}{}
	return true
}

// Finish merges what nobody has taken, and waits for the other parts. After an error no file is left.
func (m *Merge) Finish() (res Result, err error) {
	for m.Help() {
	}
	for range m.parts {
		step.Take(m.merged)
	}
	for i := range m.parts {
		p := &m.parts[i]
		if p.err != nil {
			err = context.Cause(m.ctx) // what other parts have ended for
		}
		res.add(&p.result)
	}
	m.cancel(nil)
	if err == nil && res.Read != m.in.versions {
		err = miscounted(m.in, res.Read, m.tables)
	}
	if err != nil {
		remove(m.env, res.Tables)
		return Result{}, err
	}
	res.Skipped, res.Predicted = m.in.skipped, m.predicted
	return res, nil
}

// Untaken returns the number of parts that nobody has taken.
func (m *Merge) Untaken() int { return max(len(m.parts)-int(m.taken.Load()), 0) }

// Merged reports whether Finish would not have to wait.
func (m *Merge) Merged() bool { return len(m.merged) == len(m.parts) }

// Abandon ends a merge instead of Finish. No file of it is left.
func (m *Merge) Abandon() {
	m.cancel(context.Canceled)
	res, _ := m.Finish() // all parts may be merged; if not, nothing is left
	remove(m.env, res.Tables)
}

// add adds what a part did, which has greater keys.
func (r *Result) add(p *Result) {
	r.Tables = append(r.Tables, p.Tables...)
	r.Read += p.Read
	r.Dropped += p.Dropped
	r.Keys += p.Keys
}

// merge merges a part. After an error no file of it is left.
func (m *Merge) merge(p *part) (Result, error) {
	if err := m.ctx.Err(); err != nil {
		return Result{}, err
	}
	var sources []merge.Source
	for _, run := range m.in.runs {
		if tables := (manifest.Run{Tables: run}).Touching(p.bounds()); len(tables) > 0 {
			sources = append(sources, merge.NewConcat(runTables{manifest.Run{Tables: tables}, m.tables}))
		}
	}
	predicted := m.predicted.of(p.share)
	w := tableWriter{
		env: m.env, size: predicted.tableSize(m.env.TableSize), joins: m.joins,
		grand: m.grand.Touching(p.bounds()),
	}
	keep := newRetain(m.env.Snapshots, m.older.clone(), m.in.dels.Within(p.lo, p.hi))
	return write(m.ctx, merge.New(sources...), p, keep, w)
}

// A part is a range of the keys of a Merge.
type part struct {
	lo, hi []byte  // hi is not in the part; nil is infinite
	share  float64 // of the bytes of the input

	// when it is merged
	result Result
	err    error
}

// first moves src to the first version at or after the beginning of the part.
func (p *part) first(src merge.Source) bool {
	if p.lo == nil {
		return src.First()
	}
	return src.SeekGE(ikey.Search(p.lo, ikey.MaxSeq))
}

func (p *part) bounds() manifest.Bounds { return manifest.Bounds{Lo: p.lo, Hi: p.hi, Exclusive: true} }

// parts divides the keys of the input where tables begin, so that each part has about size bytes. If size is 0, there
// is one part.
func (in *input) parts(size uint64) []part {
	tables := slices.Concat(in.runs...)
	slices.SortFunc(tables, func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	var total, before, begin uint64 // begin is before at the last part
	for _, t := range tables {
		total += t.Size
	}
	parts := []part{{}}
	for _, t := range tables {
		p := &parts[len(parts)-1]
		if size > 0 && before-begin >= size && total-before >= size && bytes.Compare(p.lo, t.Smallest) < 0 {
			p.hi, p.share = t.Smallest, float64(before-begin)/float64(total)
			parts = append(parts, part{lo: t.Smallest})
			begin = before
		}
		before += t.Size
	}
	if total > 0 {
		parts[len(parts)-1].share = float64(total-begin) / float64(total)
	}
	return parts
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
	versions uint64              // that they have, by the manifest
	dels     rangedel.List       // range tombstones of all runs
	skipped  uint64              // bytes of tables that are not read
}

// read reads the range tombstones of the newest run first, so that tables which they delete as a whole, or those above,
// need not be read.
func (p *Plan) read(ctx context.Context, tables Inputs, snapshots []ikey.Seq) (in input, err error) {
	var covers cover
	var all []rangedel.Tombstone
	for _, part := range p.Inputs {
		var run []*manifest.Table
		var dels runDels
		known := slices.Concat(covers, p.above[part.Level])
		for _, t := range part.Tables {
			if known.whole(t, snapshots) {
				in.skipped += t.Size
				continue
			}
			if t.RangeDeletes > 0 {
				if err := ctx.Err(); err != nil {
					return in, err
				}
				x, err := rangeDelsOf(t, tables)
				if err != nil {
					return in, err
				}
				dels = append(dels, tableDels{t, x})
				all = append(all, x.List().Tombstones()...)
			}
			if t.Entries > 0 {
				run = append(run, t)
				in.versions += t.Entries
			}
		}
		if len(dels) > 0 {
			covers = append(covers, dels)
		}
		if len(run) > 0 {
			in.runs = append(in.runs, run)
		}
	}
	in.dels = rangedel.FragmentedFor(snapshots, all)
	return in, nil
}

// rangeDelsOf returns the range tombstones of an input. Their number must be that of the manifest, and they must
// lie within the table's bounds.
func rangeDelsOf(t *manifest.Table, tables Inputs) (*rangedel.Index, error) {
	x, err := tables.RangeDels(t)
	if err != nil {
		return nil, err
	}
	l, n := x.List(), uint64(0)
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
	return x, nil
}

// runTables gives a merge the inputs of one run.
type runTables struct {
	manifest.Run
	inputs Inputs
}

var _ merge.Tables = runTables{}

func (r runTables) Len() int { return len(r.Tables) }

func (r runTables) Find(user []byte) int { return r.Search(user) }

func (r runTables) Bounds(i int) merge.Bounds { return merge.Bounds(r.Tables[i].Bounds()) }

func (r runTables) Open(i int) (merge.Source, error) { return r.inputs.Open(r.Tables[i]) }
