package main

import (
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// state is a state of a store in which rows are measured, in a process of its own.
type state struct {
	name string
	rows []string
	// alone: the store starts empty and is removed afterwards. The other states pass one store on, in their order.
	alone    bool
	settings func(c config) settings
	run      func(w *worker)
}

// states are all states in the order in which they are measured.
var states = []state{
	{"loaded", []string{rowLoad, rowWriteAmp, rowDiskPeak, rowResident}, false, cached, (*worker).loaded},
	{"uncompacted", []string{"absent-unc", "present-unc"}, false, cached, (*worker).uncompacted},
	{
		"uncompacted, small cache",
		[]string{"reads-absent-unc", "reads-present-unc"},
		false, small,
		(*worker).uncompactedSmall,
	},
	{
		"compacted",
		[]string{
			rowDisk, rowReopen, "absent", "present", "absent-2t", "present-2t", "seek10", "seek10-new", "seek100",
			"scan", "mixed",
		},
		false, cached, (*worker).compacted,
	},
	{
		"compacted, small cache",
		[]string{"absent-small", "present-small", "reads-absent", "reads-present"},
		false, small,
		(*worker).compactedSmall,
	},
	{"overwritten", []string{"overwrite", "absent-ow", "present-ow"}, false, cached, (*worker).overwritten},
	{"loaded in batches", []string{"load-batched"}, true, cached, (*worker).loadedInBatches},
	{"loaded in order", []string{"load-seq"}, true, ascending, (*worker).loadedInOrder},
	{
		"loaded in order and in batches",
		[]string{"load-seq-batched"},
		true, ascending,
		(*worker).loadedInOrderAndBatches,
	},
	{"synced", []string{"fillsync"}, true, durable, (*worker).synced},
	{"serving", ycsbRows, true, cached, (*worker).serving},
}

// ycsbRows are in the order that the authors of YCSB recommend: A to F, with the inserting ones last.
var ycsbRows = []string{"ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d", "ycsb-e"}

func cached(config) settings    { return settings{cache: largeCache} }
func small(c config) settings   { return settings{cache: c.smallCache()} }
func ascending(config) settings { return settings{cache: largeCache, ascending: true} }
func durable(config) settings   { return settings{cache: largeCache, durable: true} }

// wantedStates returns the states that have a requested row, and the state that creates the store for them.
func wantedStates(c config) []state {
	var wanted []state
	for _, s := range states {
		if slices.ContainsFunc(s.rows, c.wants) {
			if !s.alone && len(wanted) == 0 && s.name != states[0].name {
				wanted = append(wanted, states[0])
			}
			wanted = append(wanted, s)
		}
	}
	return wanted
}

const (
	perBatch   = 100
	syncedPuts = 10_000  // maximum; a tenth of the pairs if that is less
	seeks      = 200_000 // maximum
	longSeeks  = 50_000  // maximum, of a hundred entries each
	reopenings = 5       // the median is reported
)

// loaded creates the store of most states and measures its cost.
func (w *worker) loaded() {
	before, counted := machine.Read()
	watch := watchDisk(w.config.dir)
	w.do(w.entry.columns[0], rowLoad, w.store(), workload.Phase{Kind: workload.Load})
	w.rest(workload.Flush, workload.Settle)
	most, err := watch()
	w.fail(err)
	w.note(rowDiskPeak, float64(most))
	if after, _ := machine.Read(); counted {
		spent := after.Sub(before)
		written := spent.WriteChars
		if w.entry.mapped { // the map's writes are visible only as dirty pages
			written = max(written, spent.WriteBytes)
		}
		w.note(rowWriteAmp, float64(written)/w.config.dataBytes())
		w.note(rowResident, float64(after.PeakResident))
	}
	w.verify()
}

func (w *worker) uncompacted() {
	w.rest(workload.Settle)
	w.lookups(func(column string, v view) {
		w.warm(v)
		w.measureIn(column, "absent-unc", v, workload.Phase{Kind: workload.Absent})
		w.measureIn(column, "present-unc", v, workload.Phase{Kind: workload.Present})
	})
}

func (w *worker) uncompactedSmall() {
	w.rest(workload.Settle)
	w.lookups(func(column string, v view) {
		if w.entry.mapped {
			return // the system counts no reads
		}
		w.warm(v)
		w.countIn(column, "reads-absent-unc", "", v, workload.Phase{Kind: workload.Absent})
		w.countIn(column, "reads-present-unc", "", v, workload.Phase{Kind: workload.Present})
	})
}

func (w *worker) compacted() {
	w.rest(workload.Compact, workload.Settle)
	if w.config.wants(rowDisk) && w.err == nil {
		bytes, err := restingBytes(w.ctx, w.config.dir)
		w.fail(err)
		w.note(rowDisk, float64(bytes))
	}
	if w.config.wants(rowReopen) {
		var took []float64
		for range reopenings {
			took = append(took, w.phase(w.engine, workload.Phase{Kind: workload.Reopen}).MeanNs)
		}
		w.note(rowReopen, workload.Median(took))
	}
	w.lookups(func(column string, v view) {
		w.warm(v)
		w.measureIn(column, "absent", v, workload.Phase{Kind: workload.Absent})
		w.measureIn(column, "present", v, workload.Phase{Kind: workload.Present})
		w.measureIn(column, "absent-2t", v, workload.Phase{Kind: workload.Absent, Workers: 2})
		w.measureIn(column, "present-2t", v, workload.Phase{Kind: workload.Present, Workers: 2})
	})
	w.kept(func(v view) {
		w.measure("seek10", v, workload.Phase{Kind: workload.Seek, Ops: min(seeks, w.config.keys), Limit: 10})
		w.measure("seek100", v, workload.Phase{Kind: workload.Seek, Ops: min(longSeeks, w.config.keys), Limit: 100})
	})
	w.measure("seek10-new", w.store(), workload.Phase{Kind: workload.Seek, Ops: min(seeks, w.config.keys), Limit: 10})
	w.measure("scan", w.store(), workload.Phase{Kind: workload.Scan})
	if w.config.wants("mixed") { // last, because it changes the store
		w.lookups(func(column string, v view) {
			if frozen(column) {
				return
			}
			w.warm(v)
			w.measureIn(column, "mixed", v, workload.Phase{Kind: workload.Mixed, PutPercent: 5})
		})
		w.rest(workload.Flush, workload.Compact, workload.Settle)
	}
}

func (w *worker) compactedSmall() {
	w.rest(workload.Compact, workload.Settle)
	w.lookups(func(column string, v view) {
		w.warm(v)
		w.countIn(column, "reads-absent", "absent-small", v, workload.Phase{Kind: workload.Absent})
		w.countIn(column, "reads-present", "present-small", v, workload.Phase{Kind: workload.Present})
	})
}

func (w *worker) overwritten() {
	w.rest(workload.Compact, workload.Settle)
	w.do(w.entry.columns[0], "overwrite", w.store(), workload.Phase{Kind: workload.Load})
	w.rest(workload.Flush, workload.Settle)
	w.lookups(func(column string, v view) {
		w.warm(v)
		w.measureIn(column, "absent-ow", v, workload.Phase{Kind: workload.Absent})
		w.measureIn(column, "present-ow", v, workload.Phase{Kind: workload.Present})
	})
}

func (w *worker) loadedInBatches() {
	w.measure("load-batched", w.store(), workload.Phase{Kind: workload.Load, Batch: perBatch})
	w.verify()
}

func (w *worker) loadedInOrder() {
	w.use(w.config.sortedSet())
	w.measure("load-seq", w.store(), workload.Phase{Kind: workload.Load, Choice: workload.InOrder})
	w.verify()
}

func (w *worker) loadedInOrderAndBatches() {
	w.use(w.config.sortedSet())
	w.measure("load-seq-batched",
		w.store(), workload.Phase{Kind: workload.Load, Choice: workload.InOrder, Batch: perBatch})
	w.verify()
}

func (w *worker) synced() {
	w.use(w.config.setOf(w.config.shape, max(1, min(syncedPuts, w.config.keys/10))))
	w.measure("fillsync", w.store(), workload.Phase{Kind: workload.Load, Durable: true})
	w.verify()
}

// serving runs the YCSB workloads on one store, E with a tenth of the operations.
func (w *worker) serving() {
	var letters []workload.Mix
	var ops []int
	pairs := w.config.keys
	for _, row := range ycsbRows {
		if !w.config.wants(row) {
			continue
		}
		mix, err := workload.YCSB(strings.TrimPrefix(row, ycsbRow)[0])
		w.fail(err)
		n := w.config.keys
		if mix.Scan > 0 {
			n = max(n/10, 1)
		}
		letters, ops, pairs = append(letters, mix), append(ops, n), pairs+mix.Inserts(n)
	}
	w.use(w.config.setOf(w.config.shape, pairs))
	if w.err != nil {
		return
	}
	ledger := workload.NewLedger(w.set, w.config.keys)
	w.phase(w.engine, workload.Phase{Kind: workload.Load, Batch: perBatch, Records: w.config.keys})
	w.rest(workload.Flush, workload.Settle)
	warm := workload.Mix{Name: "warm", Read: 100, Choice: workload.Uniform}
	w.phase(w.engine, workload.Phase{Kind: workload.Serve, Mix: warm, Ledger: ledger, Ops: w.config.keys})
	for i, mix := range letters {
		w.first(func(v view) {
			w.measure(mix.Name, v, workload.Phase{Kind: workload.Serve, Mix: mix, Ledger: ledger, Ops: ops[i]})
		})
		w.rest(workload.Settle)
	}
}
