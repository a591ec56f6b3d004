package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

// demo is one run of the demo.
type demo struct {
	*app
	set     *workload.Pairs
	dir     string
	options bloomkv.Options
	absents int // lookups of absent keys
}

func (d *demo) run(ctx context.Context) (*demoResult, error) {
	r := &demoResult{Keys: d.set.Len(), Absents: d.absents}
	if err := d.fill(ctx, r); err != nil {
		return nil, err
	}
	var err error
	if r.with, err = d.measure(ctx, d.options, "with filters"); err != nil {
		return nil, err
	}
	bare := d.options
	bare.FilterFPR = 1
	if r.without, err = d.measure(ctx, bare, "without filters"); err != nil {
		return nil, err
	}
	with, without := &r.with, &r.without
	if !slices.EqualFunc(with.metrics.Levels, without.metrics.Levels, sameShape) {
		return nil, errors.New("the tree changed while it was measured")
	}
	r.Levels = levelsOf(&with.metrics)
	for _, l := range r.Levels {
		r.Runs += l.Runs
		r.FilterBytes += l.FilterBytesInMemory
	}
	r.BitsPerKey = 8 * float64(r.FilterBytes) / float64(r.Keys)
	r.FPRPromised, r.FPRMeasured, r.FPRPerProbe = with.metrics.FPRPromised, with.wasted, with.absentLookups.FPR()
	r.demoFlat = demoFlat{
		with.wasted, without.wasted, without.wastedPerRun,
		with.blocksPresent, with.blocksAbsent, without.blocksPresent, without.blocksAbsent,
		with.absent.MedianNs, with.present.MedianNs, without.absent.MedianNs, without.present.MedianNs,
		perSecond(&with.absent), perSecond(&with.present), with.searches(), without.searches(),
	}
	r.WrongAnswers = with.wrong + without.wrong
	r.firstWrong = cmp.Or(with.firstWrong, without.firstWrong)
	return r, d.pickBlock(r)
}

// perSecond returns the rate of operations. By a coarse clock the median may be 0.
func perSecond(f *workload.Figures) float64 { return 1e9 / max(f.MedianNs, 1) }

// searches returns the number of searches of tables by all lookups.
func (c *demoCosts) searches() uint64 {
	return c.absentLookups.TableSearches + c.presentLookups.TableSearches
}

func sameShape(a, b bloomkv.LevelMetrics) bool {
	return a.Level == b.Level && a.Runs == b.Runs && a.Tables == b.Tables && a.Bytes == b.Bytes &&
		a.Entries == b.Entries
}

// fill stores the set in random order with a flush for each part. It leaves a settled tree with some runs in level
// 0.
func (d *demo) fill(ctx context.Context, r *demoResult) error {
	db, err := bloomkv.OpenContext(ctx, d.dir, &d.options)
	return with(db, err, func(db *bloomkv.DB) error {
		n, settle := d.set.Len(), (&own.Store{DB: db}).Settle
		order, done := workload.NewPermutation(n, demoSeed), 0
		bar := d.Progress("storing", int64(n), false)
		defer bar.End()
		part := func(keys int) error { // stores the next keys and flushes them
			var b bloomkv.Batch
			var key, value []byte
			for range keys {
				i := order.At(done)
				key, value = d.set.AppendKey(key[:0], i), d.set.AppendValue(value[:0], i)
				b.Put(key, value)
				done++
				if b.Len() < 64 && b.Size() < batchBytes {
					continue
				}
				if err := errors.Join(ctx.Err(), db.Apply(&b)); err != nil {
					return err
				}
				b.Reset()
				bar.Set(done, n)
			}
			return errors.Join(db.Apply(&b), db.Flush(ctx))
		}
		in := partKeys(n)
		for n-done >= (newestRuns+1)*in {
			if err := part(in); err != nil {
				return err
			}
			if levelZero(db) >= compactRuns {
				if err := settle(ctx); err != nil {
					return err
				}
			}
		}
		// The newest runs must not be those that start a compaction.
		for levelZero(db)+newestRuns >= compactRuns && n-done >= demoRun {
			if err := errors.Join(part((n-done)/(2*newestRuns)), settle(ctx)); err != nil {
				return err
			}
		}
		for parts := newestRuns; parts > 0; parts-- {
			if err := part((n - done) / parts); err != nil {
				return err
			}
		}
		if err := settle(ctx); err != nil {
			return err
		}
		m := db.Metrics()
		r.Flushes, r.Compactions, r.Moves = m.Writes.Flushes, m.Writes.Compactions, m.Writes.Moves
		return nil
	})
}

// partKeys returns the number of keys that are flushed at once.
func partKeys(n int) int { return max(demoRun, n/demoFlushes) }

// demoOptions scales all sizes so that a set of any size becomes a tree of several levels.
func demoOptions(set *workload.Pairs) bloomkv.Options {
	total, largest, part, inPart := int64(0), int64(0), int64(0), partKeys(set.Len())
	var buf []byte
	order := workload.NewPermutation(set.Len(), demoSeed)
	for i := range set.Len() {
		buf = set.AppendValue(set.AppendKey(buf[:0], order.At(i)), order.At(i))
		total += int64(len(buf))
		part += int64(len(buf))
		if (i+1)%inPart == 0 {
			part = 0
		}
		largest = max(largest, part)
	}
	o := bloomkv.Options{
		Durability:    bloomkv.DurabilityNoSync, // a power failure may lose the demo
		TableSize:     min(max(total/32, 16<<10), 8<<20),
		BaseLevelSize: max(total/8, 64<<10),
		LevelRatio:    4,
		// It fits a part, and also the five parts that may be flushed together: each flush makes one run.
		MemtableSize: min(6*(largest+int64(inPart)*256)+64<<10, 1<<30),
	}
	o.MemoryBudget = max(64<<20, 4*o.MemtableSize)
	return o
}

// levelZero returns the number of runs in level 0.
func levelZero(db *bloomkv.DB) int { return db.Metrics().Levels[0].Runs }

// measure opens the store, looks up all keys, and closes it.
func (d *demo) measure(ctx context.Context, o bloomkv.Options, how string) (c demoCosts, err error) {
	o.ErrorIfMissing = true
	db, err := bloomkv.OpenContext(ctx, d.dir, &o)
	return c, with(db, err, func(db *bloomkv.DB) error {
		look := func(kind workload.Kind, ops int) (workload.Figures, bloomkv.LookupMetrics, error) {
			bar := d.Progress(fmt.Sprintf("%s keys %s", kind, how), int64(ops), false)
			defer bar.End()
			before := db.Metrics()
			f, err := workload.Run(ctx, &own.Store{DB: db}, d.set,
				workload.Phase{Kind: kind, Ops: ops, Choice: workload.Shuffled, Seed: demoSeed + 1},
				bar.Set)
			c.wrong += f.Wrong
			c.firstWrong = cmp.Or(c.firstWrong, f.FirstWrong)
			return f, db.Metrics().Since(before).Lookups, err
		}
		n := d.set.Len()
		if _, _, err := look(workload.Present, n); err != nil { // this also warms the cache
			return err
		}
		if c.absent, c.absentLookups, err = look(workload.Absent, d.absents); err != nil {
			return err
		}
		if c.present, c.presentLookups, err = look(workload.Present, n); err != nil {
			return err
		}
		absent, present := &c.absentLookups, &c.presentLookups
		c.wasted = float64(absent.WastedReads) / float64(c.absent.Ops)
		c.wastedPerRun = float64(absent.WastedReads) / float64(max(absent.RunsInRange, 1))
		c.blocksAbsent, c.readAbsent = float64(absent.Blocks)/float64(c.absent.Ops),
			float64(absent.BlocksRead)/float64(c.absent.Ops)
		c.blocksPresent, c.readPresent = float64(present.Blocks)/float64(c.present.Ops),
			float64(present.BlocksRead)/float64(c.present.Ops)
		c.metrics, c.tables = db.Metrics(), db.Tables()
		return nil
	})
}

// pickBlock reads the filter block of the largest table in the last level and measures its rate.
func (d *demo) pickBlock(r *demoResult) (err error) {
	if len(r.with.tables) == 0 {
		return errors.New("the store has no table")
	}
	r.block = slices.MaxFunc(r.with.tables, func(a, b bloomkv.TableMetrics) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Entries, b.Entries))
	})
	r.filter, _, err = inspect.ReadFilters(filepath.Join(d.dir, r.block.File))
	if err != nil || r.filter == nil {
		return err
	}
	f, err := bloomblock.Parse(r.filter.Block())
	if err != nil {
		return err
	}
	maybe := 0
	var key []byte
	for i := range d.absents {
		key = d.set.AppendAbsent(key[:0], i)
		if f.MayContain(bloomblock.HashKey(key)) {
			maybe++
		}
	}
	r.blockAbsent = float64(maybe) / float64(d.absents)
	return nil
}
