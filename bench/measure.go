package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

// addWrites adds what a use of a store wrote to a sum over all uses, because each Open starts the counters at zero.
func addWrites(sum *bloomkv.WriteMetrics, m bloomkv.WriteMetrics) {
	sum.Operations += m.Operations
	sum.LogBytes += m.LogBytes
	sum.FlushBytes += m.FlushBytes
	sum.CompactedBytes += m.CompactedBytes
	sum.Flushes += m.Flushes
	sum.Compactions += m.Compactions
}

// measure runs one phase and returns its costs by the counters of the store and of the operating system. If the phase
// opens the store again, it adds what was written before.
func measure(ctx context.Context, store *own.Store, set workload.Set, p workload.Phase, writes *bloomkv.WriteMetrics,
	bar cli.Progress,
) (phase, error) {
	before := store.Metrics()
	machine.ResetPeak()
	system, counted := machine.Read()
	f, err := workload.Run(ctx, store, set, p, bar.Set)
	if err != nil {
		return phase{}, err
	}
	row := phase{Figures: f, Kind: p.Kind.String()}
	if p.Kind == workload.Reopen {
		addWrites(writes, before.Writes)
		before = bloomkv.Metrics{}
	}
	after := store.Metrics()
	row.Cost = costsOf(after.Since(before).Lookups)
	if counted {
		if now, ok := machine.Read(); ok {
			row.chargeSystem(now, now.Sub(system))
		}
	}
	row.Runs = runsOf(after)
	for _, l := range after.Levels {
		row.TableBytes += l.Bytes
	}
	return row, nil
}

// lookUp measures lookups. It leaves their single times out: of all measurements together they would be most of a
// report.
func lookUp(ctx context.Context, store *own.Store, set workload.Set, p workload.Phase, bar cli.Progress,
) (phase, error) {
	row, err := measure(ctx, store, set, p, new(bloomkv.WriteMetrics), bar)
	row.Latencies = nil
	return row, err
}

// put puts pairs from..to-1 of an order of a set into a store, in batches.
func put(ctx context.Context, store *own.Store, set workload.Set, order func(i int) int, from, to int,
	bar cli.Progress,
) error {
	var batch bloomkv.Batch
	var key, value []byte
	for n := from; n < to; n++ {
		i := order(n)
		key, value = set.AppendKey(key[:0], i), set.AppendValue(value[:0], i)
		batch.Put(key, value)
		if batch.Len() < batchPairs && batch.Size() < 1<<20 && n+1 < to {
			continue
		}
		if err := errors.Join(ctx.Err(), store.DB.Apply(&batch)); err != nil {
			return err
		}
		batch.Reset()
		bar.Set(n+1, set.Len())
	}
	return nil
}

// diskBytes returns the size of all files in a directory.
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
