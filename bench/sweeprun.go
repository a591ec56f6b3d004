package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/tools/picture/save"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

// run measures all points, prints each as soon as it is measured, and then writes the page. If it fails, what was
// measured until then is printed and written all the same.
func (w *sweep) run(ctx context.Context, command string) (err error) {
	dir, remove, err := cli.Directory("", "", tempPattern)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	w.dir = dir
	r := newSweepReport(w, command)
	w.report = r
	err = w.measureAll(ctx)
	if len(r.Points) == 0 {
		return err
	}
	if err != nil {
		r.Stopped = stopped(err, len(r.Points), w.expected())
	}
	ctx = context.WithoutCancel(ctx) // an interrupt stops the measurements only
	return errors.Join(err, w.draw(ctx, r.page()), show(w.Streams, w.json, r))
}

// measureAll measures the store of each point, one after the other.
func (w *sweep) measureAll(ctx context.Context) error {
	for _, p := range w.points() {
		w.keys = p.Keys
		set, err := w.set()
		if err != nil {
			return err
		}
		if w.kind == sweepRuns {
			err = w.runs(ctx, set, p.FilterFPR, p.Runs)
		} else {
			err = w.loaded(ctx, set, p.FilterFPR)
		}
		if err = errors.Join(err, os.RemoveAll(filepath.Join(w.dir, "store"))); err != nil {
			return err
		}
	}
	return nil
}

// expected returns the number of rows of a complete report.
func (w *sweep) expected() int {
	n := len(w.points())
	if w.kind != sweepRuns {
		n *= 2 // loaded and compacted
	}
	return n
}

// draw writes the page and the charts that the flags ask for.
func (w *sweep) draw(ctx context.Context, p *picture.Page) error {
	if w.html != "" {
		var b bytes.Buffer
		if err := p.WriteHTML(&b); err != nil {
			return err
		}
		if err := outfile.Write(ctx, w.html, b.Bytes()); err != nil {
			return err
		}
	}
	if w.plot == "" {
		return nil
	}
	return save.Charts(ctx, w.plot, p.Charts())
}

// store opens the store of the current point, calls body, and closes the store.
func (w *sweep) store(options *bloomkv.Options, body func(store *own.Store) error) error {
	debug.FreeOSMemory() // memory left over from the previous store must not be counted here
	store, err := own.Open(filepath.Join(w.dir, "store"), options)
	if err != nil {
		return err
	}
	return errors.Join(body(store), store.Close())
}

// loaded measures a store that is loaded in random order: right after the load, and after a compaction.
func (w *sweep) loaded(ctx context.Context, set workload.Set, rate float64) error {
	bar := w.Progress(fmt.Sprintf("%d keys, rate %g", set.Len(), rate), -1, false)
	defer bar.End()
	return w.store(w.options(rate), func(store *own.Store) error {
		for _, tree := range []struct {
			state   string
			prepare []workload.Phase
		}{
			{"loaded", []workload.Phase{
				{Kind: workload.Load, Batch: batchPairs, Seed: w.seed}, {Kind: workload.Flush}, {Kind: workload.Settle},
			}},
			{"compacted", []workload.Phase{{Kind: workload.Compact}, {Kind: workload.Settle}}},
		} {
			for _, p := range tree.prepare {
				if _, err := workload.Run(ctx, store, set, p, bar.Set); err != nil {
					return err
				}
			}
			if err := w.measure(ctx, store, set, point{State: tree.state, FilterFPR: rate}, bar); err != nil {
				return err
			}
		}
		return nil
	})
}

// runs measures a store whose keys are in n runs. The store gets enough memory to hold a run in one memtable. The first
// run is compacted into the last level; the others are flushed to level 0 while compaction is throttled to a
// standstill. Then the store is opened read-only, so that nothing is compacted during lookups.
func (w *sweep) runs(ctx context.Context, set workload.Set, rate float64, n int) error {
	bar := w.Progress(fmt.Sprintf("%d runs, filters %s", n, onOff(rate)), -1, false)
	defer bar.End()
	build := w.data
	build.memory = max(build.memory, buildMemory)
	options := build.options(rate)
	options.MemtableSize = options.MemoryBudget / 4
	err := w.store(options, func(store *own.Store) error {
		if err := fillRuns(ctx, store, set, 0, 1, n, w.seed, bar); err != nil {
			return err
		}
		return store.Compact(ctx)
	})
	if err != nil {
		return err
	}
	options.CompactionRate = hardlyEver
	err = w.store(options, func(store *own.Store) error {
		if err := fillRuns(ctx, store, set, 1, n, n, w.seed, bar); err != nil {
			return err
		}
		if got := runsOf(store.Metrics()); got != n {
			return fmt.Errorf("%d runs, want %d: --keys %d with --value %d do not fit in %d memtables of %d MiB",
				got, n, w.keys, w.value, n, options.MemtableSize>>20)
		}
		return nil
	})
	if err != nil {
		return err
	}
	read := w.options(rate)
	read.ReadOnly = true
	return w.store(read, func(store *own.Store) error {
		return w.measure(ctx, store, set, point{State: "loaded", FilterFPR: rate}, bar)
	})
}

// fillRuns divides a set, in random order, into n parts and puts the parts from..to-1 into a store, each as a run.
func fillRuns(ctx context.Context, store *own.Store, set workload.Set, from, to, n int, seed uint64,
	bar cli.Progress,
) error {
	order := workload.NewPermutation(set.Len(), seed)
	for run := from; run < to; run++ {
		err := put(ctx, store, set, order.At, set.Len()*run/n, set.Len()*(run+1)/n, bar)
		if err == nil {
			err = store.Flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("run %d of %d: %w", run+1, n, err)
		}
	}
	return nil
}

// measure looks up the keys of a store and adds the results to the report. All keys are looked up once before, to fill
// the cache.
func (w *sweep) measure(ctx context.Context, store *own.Store, set workload.Set, p point, bar cli.Progress) error {
	warm := workload.Phase{Kind: workload.Present, Seed: w.seed + 1}
	if _, err := workload.Run(ctx, store, set, warm, bar.Set); err != nil {
		return err
	}
	var err error
	lookups := workload.Phase{Kind: workload.Absent, Ops: max(set.Absents(), fewestOps), Seed: w.seed + 2}
	if p.Absent, err = lookUp(ctx, store, set, lookups, bar); err != nil {
		return err
	}
	lookups.Kind, lookups.Ops = workload.Present, max(set.Len(), fewestOps)
	if p.Present, err = lookUp(ctx, store, set, lookups, bar); err != nil {
		return err
	}
	p.fill(store.Metrics(), set.Len())
	w.report.add(p)
	if w.json {
		return nil
	}
	bar.End() // the row must not be drawn into the bar
	return w.report.table.Print(w.Out)
}
