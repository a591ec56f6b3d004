package main

import (
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// state is a state of a store in which rows are measured, in a process of its own.
type state struct {
	name   string
	before []workload.Kind // phases that bring the store into the state
	run    func(w *worker)
	// alone: the store starts empty and is removed afterwards. The other states pass one store on, in their order.
	alone bool

	// settings
	small, reads       bool  // the small cache; the large one, unless flag --small-cache is given
	durable, ascending bool  // all writes are synced; keys are put in order
	memtable           int64 // at most, unless it is 0
}

// A stateID is the index of a state.
type stateID int

const (
	loaded stateID = iota
	uncompacted
	uncSmall // uncompacted, with the small cache
	compacted
	small // compacted, with the small cache
	overwritten
	busy
	batched
	ordered
	orderedBatched
	manyPuts
	synced
	served
)

var (
	settle  = []workload.Kind{workload.Settle}
	compact = []workload.Kind{workload.Compact, workload.Settle}
)

// states are all states in the order in which they are measured.
var states = [...]state{
	loaded:      {name: "loaded", run: (*worker).loaded},
	uncompacted: {name: "uncompacted", reads: true, before: settle, run: lookups("-unc")},
	uncSmall:    {name: "uncompacted, small cache", small: true, before: settle, run: smallLookups("-unc")},
	compacted:   {name: "compacted", reads: true, before: compact, run: (*worker).compacted},
	small:       {name: "compacted, small cache", small: true, before: compact, run: smallLookups("")},
	overwritten: {name: "overwritten", reads: true, before: compact, run: (*worker).overwritten},
	busy:        {name: "busy", reads: true, before: compact, memtable: busyMemtable, run: (*worker).busy},
	batched: {
		name: "loaded in batches", alone: true, run: loading("load-batched", workload.Phase{Batch: perBatch}),
	},
	ordered: {
		name: "loaded in order", alone: true, ascending: true,
		run: loading("load-seq", workload.Phase{Choice: workload.InOrder}),
	},
	orderedBatched: {
		name: "loaded in order and in batches", alone: true, ascending: true,
		run: loading("load-seq-batched", workload.Phase{Choice: workload.InOrder, Batch: perBatch}),
	},
	manyPuts: {name: "many puts", alone: true, run: (*worker).manyPuts},
	synced: {
		name: "synced", alone: true, durable: true, run: loading("fillsync", workload.Phase{Durable: true}),
	},
	served: {name: "serving", alone: true, reads: true, run: (*worker).serving},
}

// settings returns the settings of the state. With the small cache memtables have half its size: bloomkv has one budget
// for both.
func (s *state) settings(c *config) settings {
	to := settings{
		cache: largeCache, memtable: memtableBytes, durable: s.durable,
		ascending: s.ascending || c.ordered && s.name == states[loaded].name,
	}
	if s.small || s.reads && c.small {
		to.cache = c.smallCache()
		to.memtable = min(to.memtable, to.cache/2)
	}
	if s.memtable > 0 {
		to.memtable = min(to.memtable, s.memtable)
	}
	return to
}

// ycsbRows are in the order that the authors of YCSB recommend: A to F, with the inserting ones last.
var ycsbRows = []string{"ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d", "ycsb-e"}

// wantedStates returns the states that have a requested row, and the state that creates the store for them.
func wantedStates(c *config) []state {
	var wanted []state
	for i, s := range states {
		if slices.ContainsFunc(lines, func(l line) bool { return l.in == stateID(i) && c.wants(l.id) }) {
			if !s.alone && len(wanted) == 0 && stateID(i) != loaded {
				wanted = append(wanted, states[loaded])
			}
			wanted = append(wanted, s)
		}
	}
	return wanted
}

const (
	perBatch   = 100
	syncedPuts = 10_000    // maximum; a tenth of the pairs if that is less
	maxLookups = 5_000_000 // of a row; fewer keys are looked up each once
	seeks      = 200_000   // maximum
	longSeeks  = 50_000    // maximum, of a hundred entries each
	reopenings = 5         // the median is reported
	zipfPart   = 4         // Zipf: the pairs divided by this are looked up
)

// eachKey returns the phase that looks up each key, or maxLookups of them in random order.
func (w *worker) eachKey(k workload.Kind) workload.Phase {
	p := workload.Phase{Kind: k}
	if w.config.keys > maxLookups {
		p.Ops = maxLookups
	}
	return p
}

// loaded creates the store of most states and measures its cost.
func (w *worker) loaded() {
	written := w.countWrites()
	watch := watchDisk(w.config.dir)
	load := workload.Phase{Kind: workload.Load}
	if w.config.ordered {
		load.Choice = workload.InOrder
	}
	w.do(w.entry.columns[0], rowLoad, w.engine, load)
	w.rest(workload.Flush, workload.Settle)
	most, err := watch()
	w.fail(err)
	w.note(rowDiskPeak, float64(most))
	written(rowWriteAmp)
	if now, counted := machine.Read(); counted {
		w.note(rowResident, float64(now.PeakResident))
	}
	w.verify()
}

// countWrites returns a function that notes, as the given row, the bytes written since, divided by the size of the set.
func (w *worker) countWrites() func(row string) {
	before, counted := machine.Read()
	return func(row string) {
		after, _ := machine.Read()
		if !counted || w.err != nil {
			return
		}
		spent := after.Sub(before)
		written := spent.WriteChars
		if w.entry.mapped { // the map's writes are visible only as dirty pages
			written = max(written, spent.WriteBytes)
		}
		w.note(row, float64(written)/w.config.sizeOf(w.set.Len()))
	}
}

// lookups returns a function that measures lookups in the rows with the given suffix.
func lookups(suffix string) func(w *worker) {
	return func(w *worker) {
		w.lookups(func(column string, s workload.Store) {
			w.warm(column, s)
			absent, present := w.eachKey(workload.Absent), w.eachKey(workload.Present)
			w.measureIn(column, "absent"+suffix, s, absent)
			w.measureIn(column, "present"+suffix, s, present)
			absent.Workers, present.Workers = 2, 2
			w.measureIn(column, "absent-2t"+suffix, s, absent)
			w.measureIn(column, "present-2t"+suffix, s, present)
		})
	}
}

// smallLookups is lookups with a small cache, which also counts what they read.
func smallLookups(suffix string) func(w *worker) {
	return func(w *worker) {
		timed := w.config.wants("absent-small"+suffix) || w.config.wants("present-small"+suffix)
		counted := !w.entry.mapped && w.wantsAny("absent"+suffix, "present"+suffix)
		w.lookups(func(column string, s workload.Store) {
			if timed || counted {
				w.warm(column, s)
				w.countIn(column, "absent"+suffix, "absent-small"+suffix, s, w.eachKey(workload.Absent))
				w.countIn(column, "present"+suffix, "present-small"+suffix, s, w.eachKey(workload.Present))
			}
			w.zipf(column, suffix, s)
		})
	}
}

// zipf measures lookups of present keys by a Zipf distribution, with a small cache that has served as many before.
func (w *worker) zipf(column, suffix string, s workload.Store) {
	if !w.wantsAny("zipf"+suffix) && !w.config.wants("zipf"+suffix) && !w.config.wants("zipf-2t"+suffix) {
		return
	}
	p := workload.Phase{
		Name: "warm", Kind: workload.Present, Choice: workload.Zipfian, Ranks: seed("zipf", w.round),
		Ops: min(max(1, w.config.keys/zipfPart), maxLookups),
	}
	if column == w.entry.columns[0] {
		w.phase(s, p)
	}
	w.countIn(column, "zipf"+suffix, "zipf"+suffix, s, p)
	p.Workers = 2
	w.measureIn(column, "zipf-2t"+suffix, s, p)
}

// noteDisk notes, as the given row, the space of a store that has settled.
func (w *worker) noteDisk(row string) {
	if w.config.wants(row) && w.err == nil {
		bytes, err := restingBytes(w.ctx, w.config.dir)
		w.fail(err)
		w.note(row, float64(bytes))
	}
}

func (w *worker) compacted() {
	w.noteDisk(rowDisk)
	if w.config.wants(rowReopen) {
		var took []float64
		for range reopenings {
			took = append(took, w.phase(w.engine, workload.Phase{Kind: workload.Reopen}).MeanNs)
		}
		w.note(rowReopen, workload.Median(took))
	}
	lookups("")(w)
	w.noteFilters()
	w.scans(true, func(column string, s workload.Store) {
		w.measureIn(column, "seek10", s, workload.Phase{Kind: workload.Seek, Ops: min(seeks, w.config.keys), Limit: 10})
		w.measureIn(column, "seek100", s,
			workload.Phase{Kind: workload.Seek, Ops: min(longSeeks, w.config.keys), Limit: 100})
	})
	w.scans(false, func(column string, s workload.Store) {
		w.measureIn(column, "seek10-new", s,
			workload.Phase{Kind: workload.Seek, Ops: min(seeks, w.config.keys), Limit: 10})
		w.measureIn(column, "scan", s, workload.Phase{Kind: workload.Scan})
	})
	if w.config.wants("mixed") { // last, because it changes the store
		w.lookups(func(column string, s workload.Store) {
			if frozen(column) || column == nativeName {
				return
			}
			w.warm(column, s)
			w.measureIn(column, "mixed", s, workload.Phase{Kind: workload.Mixed, PutPercent: 5})
		})
		w.rest(workload.Flush, workload.Compact, workload.Settle)
	}
}

func (w *worker) overwritten() {
	w.do(w.entry.columns[0], "overwrite", w.engine, workload.Phase{Kind: workload.Load})
	w.rest(workload.Flush, workload.Settle)
	w.noteDisk(rowDiskOverwritten)
	if w.config.small { // Pebble takes the memory of its memtables, which have grown, from its cache
		w.rest(workload.Reopen, workload.Settle)
	}
	lookups("-ow")(w)
}

// loading returns a function that measures a load, as p says, of a store of its own.
func loading(row string, p workload.Phase) func(w *worker) {
	return func(w *worker) {
		switch {
		case p.Choice == workload.InOrder:
			w.use(w.config.sortedSet())
		case p.Durable:
			w.use(w.config.setOf(w.config.shape, max(1, min(syncedPuts, w.config.keys/10))))
		}
		w.measure(row, w.engine, p)
		w.verify()
	}
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
		w.first(func(_ string, s workload.Store) {
			w.measure(mix.Name, s, workload.Phase{Kind: workload.Serve, Mix: mix, Ledger: ledger, Ops: ops[i]})
		})
		w.rest(workload.Settle)
	}
}
