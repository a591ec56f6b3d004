package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"

	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// result is the value of one row and column in one round.
type result struct {
	Row     string            `json:"row"`
	Column  string            `json:"column"`
	Round   int               `json:"round"`
	Value   float64           `json:"value"` // nanoseconds, reads or bytes, as the row defines
	Figures *workload.Figures `json:"figures,omitempty"`
}

// outcome is the result of one process.
type outcome struct {
	Results []result `json:"results"`
	// Sums over all phases, including those that are not rows.
	Wrong      int    `json:"wrong"`
	FirstWrong string `json:"first_wrong,omitempty"`
}

// worker measures one engine in one state. After an error its methods do nothing.
type worker struct {
	ctx    context.Context //nolint:containedctx // of one call of measureState
	config *config
	entry  engineEntry
	round  int
	set    workload.Set
	engine engine

	err     error
	outcome outcome
}

// measureState measures the rows of one state on one engine. The store is in config.dir and is kept.
func measureState(ctx context.Context, c *config, name string, s state, round int) (outcome, error) {
	entry, err := findEngine(name)
	if err != nil {
		return outcome{}, err
	}
	w := &worker{ctx: ctx, config: c, entry: entry, round: round}
	w.use(c.setOf(c.shape, c.keys))
	if w.err != nil {
		return outcome{}, w.err
	}
	if w.engine, err = entry.open(c.dir, s.settings(c)); err != nil {
		return outcome{}, err
	}
	w.rest(s.before...)
	s.run(w)
	return w.outcome, errors.Join(w.err, w.engine.Close())
}

func (w *worker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// use switches to another set.
func (w *worker) use(set workload.Set, err error) {
	w.set = set
	w.fail(err)
}

// seed returns a seed that differs between phases and rounds but not between engines.
func seed(phase string, round int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", phase, round)
	return h.Sum64()
}

// phase runs a phase that is not a row.
func (w *worker) phase(s workload.Store, p workload.Phase) workload.Figures {
	if w.err != nil {
		return workload.Figures{}
	}
	p.Seed = seed(p.Name, w.round)
	runtime.GC() // garbage of the previous phase
	f, err := workload.Run(w.ctx, s, w.set, p, nil)
	w.fail(err)
	w.wrong(f.Phase, f.Wrong, f.FirstWrong)
	return f
}

// wrong adds wrong answers of a phase.
func (w *worker) wrong(phase string, n int, first string) {
	w.outcome.Wrong += n
	if w.outcome.FirstWrong == "" && n > 0 {
		w.outcome.FirstWrong = fmt.Sprintf("%s, %s: %s", w.entry.name, phase, first)
	}
}

// rest runs phases of one operation each, which are not rows.
func (w *worker) rest(kinds ...workload.Kind) {
	for _, k := range kinds {
		w.phase(w.engine, workload.Phase{Kind: k})
	}
}

// verify reads and checks everything that was put.
func (w *worker) verify() { w.phase(w.engine, workload.Phase{Name: "verify", Kind: workload.Scan}) }

// warm loads what lookups need into memory, as far as the cache allows. The columns of an engine share its caches, so
// that the first one does it for all.
func (w *worker) warm(column string, s workload.Store) {
	if column == w.entry.columns[0] {
		p := w.eachKey(workload.Present)
		p.Name = "warm"
		w.phase(s, p)
	}
}

// do runs a phase and, if the row is requested, records its time.
func (w *worker) do(column, row string, s workload.Store, p workload.Phase) {
	if w.err != nil {
		return
	}
	p.Name = row
	var stop func() error
	if stop, w.err = w.profile(column, row); w.err != nil {
		return
	}
	f := w.phase(s, p)
	w.fail(stop())
	f.Latencies = nil // the table shows only percentiles
	w.noteIn(column, row, nsPerOp(p.Kind, f), &f)
}

// nsPerOp returns the mean for writes, because stalls count, and the median of chunks for reads, which disturbances do
// not distort.
func nsPerOp(k workload.Kind, f workload.Figures) float64 {
	if k == workload.Load || k == workload.Mixed || k == workload.Serve {
		return f.MeanNs
	}
	return f.MedianNs
}

// measureIn runs a phase only if its row is requested.
func (w *worker) measureIn(column, row string, s workload.Store, p workload.Phase) {
	if w.config.wants(row) {
		w.do(column, row, s, p)
	}
}

// measure calls measureIn for the first column of the engine.
func (w *worker) measure(row string, s workload.Store, p workload.Phase) {
	w.measureIn(w.entry.columns[0], row, s, p)
}

// Prefixes of the rows of countIn.
const (
	systemReads = "reads-"
	cacheMisses = "misses-"
)

// wantsAny reports whether a row of countIn with one of the given ends is requested.
func (w *worker) wantsAny(ends ...string) bool {
	return slices.ContainsFunc(ends, func(end string) bool {
		return w.config.wants(systemReads+end) || w.config.wants(cacheMisses+end)
	})
}

// countIn runs a phase of lookups. It records the time in the row timed, and reads per lookup in two more: the read
// calls that the system counted, and the blocks that the engine read outside its cache. An engine that does not count
// these reads each of them by a call. A mapped one has neither figure, unless it counts blocks.
func (w *worker) countIn(column, counted, timed string, s workload.Store, p workload.Phase) {
	if !w.wantsAny(counted) && !w.config.wants(timed) {
		return
	}
	p.Name = systemReads + counted
	own, counts := w.engine.(ownReads)
	var misses uint64
	if counts {
		misses = own.blockReads()
	}
	before, system := machine.Read()
	f := w.phase(s, p)
	after, _ := machine.Read()
	if w.err != nil {
		return
	}
	f.Latencies = nil
	w.noteIn(column, timed, nsPerOp(p.Kind, f), &f)
	perLookup := func(n uint64) float64 { return float64(n) / float64(max(f.Ops, 1)) }
	calls := perLookup(after.Sub(before).Reads)
	if system && !w.entry.mapped {
		w.noteIn(column, systemReads+counted, calls, nil)
	}
	switch {
	case counts:
		w.noteIn(column, cacheMisses+counted, perLookup(own.blockReads()-misses), nil)
	case system && !w.entry.mapped:
		w.noteIn(column, cacheMisses+counted, calls, nil)
	}
}

// noteIn records a row if it is requested.
func (w *worker) noteIn(column, row string, value float64, f *workload.Figures) {
	if w.err == nil && w.config.wants(row) {
		w.outcome.Results = append(w.outcome.Results, result{row, column, w.round, value, f})
	}
}

// note records a row of the engine's first column that is not the time of a phase.
func (w *worker) note(row string, value float64) { w.noteIn(w.entry.columns[0], row, value, nil) }

// noteFilters records the size of the filters.
func (w *worker) noteFilters() {
	if w.err != nil {
		return
	}
	if e, ok := w.engine.(filterMemory); ok {
		bytes, err := e.filterBytes()
		w.fail(err)
		w.note(rowFilters, float64(bytes))
	} else if w.entry.computed {
		w.note(rowFilters, float64(w.set.Len())*filterBits/8)
	}
}

// each calls f with the store of each view, for the columns of the engine in their order, and ends the view.
func (w *worker) each(columns []string, views []view, f func(column string, s workload.Store)) {
	for i, v := range views {
		f(columns[i], v.Store)
		w.fail(v.end())
	}
}

// lookups calls f for each column of the engine, with a store that is valid until f returns.
func (w *worker) lookups(f func(column string, s workload.Store)) {
	if w.err == nil {
		w.each(w.entry.columns, w.engine.lookups(), f)
	}
}

// first calls f for the first column of the engine.
func (w *worker) first(f func(column string, s workload.Store)) {
	if w.err == nil {
		w.each(w.entry.columns, w.engine.lookups()[:1], f)
	}
}

// scans calls f for each column with seeks and scans, with a store that keeps an iterator if keep is true.
func (w *worker) scans(keep bool, f func(column string, s workload.Store)) {
	if w.err != nil {
		return
	}
	v := whole(w.engine)
	if keep {
		if v, w.err = w.engine.kept(); w.err != nil {
			return
		}
	}
	views := []view{v}
	if e, ok := w.engine.(looping); ok {
		views = append(views, e.loops(keep))
	}
	w.each([]string{w.entry.columns[0], nativeName}, views, f)
}

// profile starts a processor profile of a row in the last round, if profiles are requested.
func (w *worker) profile(column, row string) (stop func() error, err error) {
	if w.config.profiles == "" || w.round < w.config.rounds-1 {
		return func() error { return nil }, nil
	}
	name := filepath.Join(w.config.profiles, column+"-"+row+".prof")
	if err := outfile.Check(name); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return outfile.Write(w.ctx, name, b.Bytes())
	}, nil
}
