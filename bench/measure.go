package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

// run is the main run: each part in both kinds of store, one after the other and never side by side, so that what the process
// takes is what that store takes.
func (c *config) run(ctx context.Context, s streams, command string) (err error) {
	parts, err := c.parts()
	if err != nil {
		return err
	}
	dir, remove, err := tempDir(c.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := c.report(command)
	for _, filters := range []string{"on", "off"} {
		if c.filters != "both" && c.filters != filters {
			continue
		}
		kind := side{Filters: filters, FilterFPR: c.fpr}
		if filters == "off" {
			kind.FilterFPR = 1
		}
		r.Sides = append(r.Sides, kind)
	}
	for _, p := range parts {
		for i := range r.Sides {
			kind := &r.Sides[i]
			if err := c.measurePart(ctx, s, kind, p, filepath.Join(dir, "filters-"+kind.Filters, p.name)); err != nil {
				return err
			}
		}
	}
	return c.give(ctx, s, r)
}

// measurePart makes a store, runs the phases of a part in it, and adds their figures to the side. A store that is not to be
// kept is removed at once: the next one has the disk for itself.
func (c *config) measurePart(ctx context.Context, s streams, kind *side, p part, dir string) (err error) {
	debug.FreeOSMemory() // what the store before has left behind is not this one's
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if c.dir == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	store, err := own.Open(dir, c.options(kind.FilterFPR))
	if err != nil {
		return err
	}
	used, err := c.use(ctx, s, kind, p, store)
	if err = errors.Join(err, store.Close()); err != nil || p.name != "main" {
		return err
	}
	disk, err := diskBytes(dir) // what a closed store does not need any more is gone
	if err != nil {
		return err
	}
	kind.fill(used.metrics, used.writes, disk, int64(c.keys+used.inserted)*int64(c.shape.KeyBytes()+c.value))
	return nil
}

// A use is what a part did to its store.
type use struct {
	metrics  bloomkv.Metrics // of the main part: at its end, when all was flushed and merged
	writes   writeSums
	inserted int // pairs, beside those of the set
}

// use runs the phases of a part.
func (c *config) use(ctx context.Context, s streams, kind *side, p part, store *own.Store) (u use, err error) {
	for _, phase := range p.steps {
		bar := s.progress("filters " + kind.Filters + ": " + phase.Name)
		row, err := measure(ctx, store, p.set, phase, &u.writes, bar)
		bar.end()
		if err != nil {
			return u, err
		}
		row.Part = p.name
		if phase.Kind == workload.Insert {
			u.inserted = row.Ops
		}
		kind.Phases = append(kind.Phases, row)
	}
	if p.name != "main" { // nobody looks at the rest of it
		return u, nil
	}
	if err := errors.Join(store.Flush(ctx), store.Settle(ctx)); err != nil {
		return u, err
	}
	u.metrics = store.Metrics()
	u.writes.add(u.metrics.Writes)
	return u, nil
}

// writeSums is what all uses of a store wrote, as each Open begins to count anew.
type writeSums struct{ before bloomkv.WriteMetrics }

// add counts what a use of the store that ends now has written.
func (w *writeSums) add(m bloomkv.WriteMetrics) {
	w.before.LogBytes += m.LogBytes
	w.before.IngestBytes += m.IngestBytes
	w.before.FlushBytes += m.FlushBytes
	w.before.CompactedBytes += m.CompactedBytes
	w.before.Flushes += m.Flushes
	w.before.Compactions += m.Compactions
}

// measure runs one phase, and counts what it cost: by the store's counters and by the system's.
func measure(ctx context.Context, store *own.Store, set workload.Set, p workload.Phase, writes *writeSums, bar progress) (phase, error) {
	before := store.Metrics()
	machine.ResetPeak()
	system, counted := machine.Read()
	f, err := workload.Run(ctx, store, set, p, bar.set)
	if err != nil {
		return phase{}, err
	}
	row := phase{Figures: f, Kind: p.Kind.String()}
	if p.Kind == workload.Reopen {
		writes.add(before.Writes)
		before = bloomkv.Metrics{}
	}
	after := store.Metrics()
	row.charge(after.Since(before).Lookups)
	if counted {
		if now, ok := machine.Read(); ok {
			row.chargeSystem(now, now.Sub(system))
		}
	}
	for _, l := range after.Levels {
		row.Runs += l.Runs
		row.TableBytes += l.Bytes
	}
	return row, nil
}

// diskBytes is what the files in a directory hold.
func diskBytes(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
