package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

const (
	// leastScaling is the target for the scaling of lookups, divided by that of private work on the same goroutines.
	leastScaling = 0.95
	// leastUndisturbed is the minimum of Undisturbed for a judgment.
	leastUndisturbed = 0.8

	scaleKeys = 1_000_000
	scaleOps  = 100_000 // lookups of each goroutine in a round
	// private reads for a present key beyond those for filters: an index, two lines of a block, a value.
	presentLines = 4
)

// A scaleReport is the result of scale. The names of its fields in JSON are part of the output.
type scaleReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	Keys         int     `json:"keys"`
	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	Seed         uint64  `json:"seed"`
	FilterFPR    float64 `json:"fpr_promised"`
	MemoryBudget int64   `json:"memory_budget"`
	LeastScaling float64 `json:"least_scaling"`
	Rounds       int     `json:"rounds"`
	Runs         int     `json:"runs"`
	Tables       int     `json:"tables"`

	Checks []workload.Figures `json:"checks"` // the phases before the rounds, which check every value
	Points []scalePoint       `json:"points"`
}

// A scalePoint is the result for one kind of lookup on one number of goroutines.
type scalePoint struct {
	Lookup     string `json:"lookup"` // absent or present
	Chain      string `json:"chain"`  // chained or free
	Goroutines int    `json:"goroutines"`

	PrivateBytes int64 `json:"private_bytes"` // memory of each goroutine, as much as the store's lookups use
	PrivateReads int   `json:"private_reads"` // cache lines read per key

	// Medians of the rounds: the time per lookup of all goroutines together, and the scaling: the time on one goroutine
	// divided by n times the time on n.
	StoreNs        float64 `json:"store_ns"`
	PrivateNs      float64 `json:"private_ns"`
	StoreScaling   float64 `json:"store_scaling"`
	PrivateScaling float64 `json:"private_scaling"`

	// Ratio is the store's scaling divided by that of private work in the same round: the median of the rounds, the
	// minimum and the maximum.
	Ratio float64 `json:"ratio"`
	Least float64 `json:"ratio_least"`
	Most  float64 `json:"ratio_most"`
	Met   *bool   `json:"met,omitempty"` // nil on one goroutine, or if Undisturbed is too small

	// Undisturbed is the share of the store's time in which all goroutines ran at the pace of the figures, the median
	// of the rounds. If it is far below 1, the machine was busy with other work, and the figures mean little.
	Undisturbed float64 `json:"undisturbed"`

	Wrong int `json:"wrong"`
}

func scaleCommand(s *cli.Streams, command string) *cobra.Command {
	w := scale{terms: newTerms(s), goroutines: oneTwoFour(runtime.GOMAXPROCS(0))}
	w.keys = scaleKeys
	c := &cobra.Command{
		Use:   "scale",
		Short: "Show how lookups scale with goroutines, compared with work that shares nothing",
		Long: `scale fills a store, compacts it, and looks up absent and present keys on one goroutine, two, and so on.
It compares them with private work that shares nothing: each goroutine hashes its keys and reads memory
of its own, as much as the store's lookups use, and as many cache lines per key. Both take turns, in
rounds, because both depend on the machine: the result is the ratio of their scaling. In a chained
series a goroutine's next key depends on its last answer, so that its lookups cannot overlap; in a free
series they can.`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return cli.Hint(c, err)
			}
			return w.run(c.Context(), command)
		},
	}
	f := c.Flags()
	w.data.flags(c, "pairs in the store", "memory budget of the store, in `MIB`; the default holds a million pairs")
	f.Var(&w.goroutines, "workers", "numbers of goroutines, starting with 1")
	f.IntVar(&w.ops, "ops", scaleOps, "lookups of each goroutine in a round")
	w.flags(c, 61)
	return c
}

// oneTwoFour returns the powers of two up to n, and n.
func oneTwoFour(n int) (c counts) {
	for i := 1; i < n; i *= 2 {
		c = append(c, i)
	}
	return append(c, n)
}

// scale holds the flags of the command.
type scale struct {
	terms

	goroutines counts
	ops        int
}

func (w *scale) check() error {
	if w.keys < fewestKeys {
		return fmt.Errorf("--keys %d: want at least %d", w.keys, fewestKeys)
	}
	if w.ops < fewestKeys {
		return fmt.Errorf("--ops %d: want at least %d", w.ops, fewestKeys)
	}
	processors := runtime.GOMAXPROCS(0) // more goroutines than processors would wait for each other
	for i, n := range w.goroutines {
		if n > processors || (i == 0) != (n == 1) || i > 0 && n <= w.goroutines[i-1] {
			return fmt.Errorf("--workers %s: want rising numbers from 1 to the %d processors",
				w.goroutines.String(), processors)
		}
	}
	return w.terms.check()
}

func (w *scale) run(ctx context.Context, command string) (err error) {
	set, err := w.set()
	if err != nil {
		return err
	}
	dir, remove, err := w.newDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := &scaleReport{
		Machine: machine.Here(), Command: command,
		Keys: w.keys, ValueBytes: w.value, Shape: w.shape.String(), Seed: w.seed,
		FilterFPR: promisedFPR, MemoryBudget: w.memory << 20, LeastScaling: leastScaling, Rounds: w.rounds,
	}
	if err := w.measure(ctx, filepath.Join(dir, "store"), set, r); err != nil {
		return err
	}
	return show(w.Streams, w.json, r)
}

// measure creates the store and measures all points.
func (w *scale) measure(ctx context.Context, dir string, set *workload.Generated, r *scaleReport) (err error) {
	store, err := own.Open(dir, w.options(promisedFPR))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, p := range []workload.Phase{
		{Kind: workload.Load, Seed: w.seed},
		{Kind: workload.Flush},
		{Kind: workload.Compact},
		{Kind: workload.Settle},
		{Kind: workload.Absent, Seed: w.seed + 1},
		{Kind: workload.Present, Seed: w.seed + 2}, // fills the cache, if there is enough memory
	} {
		f, err := w.phase(ctx, store, set, p)
		if err != nil {
			return err
		}
		if p.Kind == workload.Absent || p.Kind == workload.Present {
			r.Checks = append(r.Checks, f)
		}
	}
	m := store.Metrics()
	for _, l := range m.Levels {
		r.Runs += l.Runs
		r.Tables += l.Tables
	}
	for _, absent := range []bool{true, false} {
		b := series{absent: absent, bytes: m.Memory.Filters, reads: max(1, r.Runs)}
		if !absent {
			b.bytes += m.Memory.Indexes + m.Cache.Used
			b.reads += presentLines
		}
		for _, free := range []bool{false, true} {
			b.chain = chain{free: free, want: !absent}
			points, err := w.measureSeries(ctx, store.DB, set, b)
			if err != nil {
				return err
			}
			r.Points = append(r.Points, points...)
		}
	}
	return nil
}

// A series is one kind of lookup, and the private work that it is compared with.
type series struct {
	absent bool
	chain  chain
	bytes  int64 // of the memory that private work reads
	reads  int   // cache lines read per key
}

func (b series) lookup() string {
	if b.absent {
		return "absent"
	}
	return "present"
}

// measureSeries measures the points of a series. In each round, each number of goroutines runs the store's and the
// private work.
func (w *scale) measureSeries(ctx context.Context, db *bloomkv.DB, set *workload.Generated, b series) (
	[]scalePoint, error,
) {
	bar := w.bar(set, b.lookup()+", "+b.chain.String())
	defer bar.End()
	all := w.newTeam(db, set, b)
	runtime.GC()
	sides := [2]func(*worker) question{
		func(h *worker) question { return h.store.ask },
		func(h *worker) question { return h.private.ask },
	}
	times := make([][2][]float64, len(w.goroutines)) // indexed by number of goroutines and side; one time per round
	undisturbed := make([][]float64, len(w.goroutines))
	wrong := make([]int, len(w.goroutines))
	for round := range w.rounds {
		for i, n := range w.goroutines {
			for turn := range sides {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				side := (turn + round) % len(sides)
				work, err := all[:n].together(round, w.ops, sides[side])
				if err != nil {
					return nil, err
				}
				times[i][side] = append(times[i][side], work.ns)
				wrong[i] += work.others
				if side == 0 {
					undisturbed[i] = append(undisturbed[i], work.undisturbed)
				}
			}
		}
		bar.Set(round+1, w.rounds)
	}
	points := make([]scalePoint, len(w.goroutines))
	for i, n := range w.goroutines {
		p := &points[i]
		*p = scalePoint{
			Lookup: b.lookup(), Chain: b.chain.String(), Goroutines: n, PrivateBytes: b.bytes,
			PrivateReads: b.reads, Wrong: wrong[i],
		}
		p.Undisturbed = workload.Median(undisturbed[i])
		p.fill(times[0], times[i])
	}
	return points, nil
}

// fill sets the figures from the times of the rounds on one goroutine and on the goroutines of the point.
func (p *scalePoint) fill(one, many [2][]float64) {
	n := float64(p.Goroutines)
	var scaling [2][]float64
	ratios := make([]float64, len(many[0]))
	for round := range ratios {
		for side := range scaling {
			scaling[side] = append(scaling[side], one[side][round]/(n*many[side][round]))
		}
		ratios[round] = scaling[0][round] / scaling[1][round]
	}
	p.StoreNs, p.PrivateNs = workload.Median(many[0]), workload.Median(many[1])
	p.StoreScaling, p.PrivateScaling = workload.Median(scaling[0]), workload.Median(scaling[1])
	p.Ratio, p.Least, p.Most = workload.Median(ratios), slices.Min(ratios), slices.Max(ratios)
	if p.Goroutines > 1 && p.Undisturbed >= leastUndisturbed {
		met := p.Ratio >= leastScaling
		p.Met = &met
	}
}

// A worker is the state of one goroutine.
type worker struct {
	turn    *turn
	store   storeReader
	private privateReader

	// State of the current round.
	keys   keyList
	times  []float64 // time per key of each chunk
	asked  int
	others int

	_ [128]byte // keeps workers in different cache lines
}

// A team is a group of workers that run at the same time.
type team []*worker

// newTeam returns workers for the largest number of goroutines.
func (w *scale) newTeam(db *bloomkv.DB, set *workload.Generated, b series) team {
	c := make(team, slices.Max(w.goroutines))
	for i := range c {
		c[i] = &worker{
			turn:    newTurn(set, b.chain, b.absent, w.seed+3+uint64(i)),
			store:   storeReader{db: db, value: make([]byte, 0, w.value+128)},
			private: newPrivate(b),
		}
	}
	return c
}

// work is the result of a team.
type work struct {
	// time per lookup of all workers together: the median over a worker's chunks, divided by their number
	ns          float64
	undisturbed float64 // share of the time in which all workers ran at that pace
	others      int     // unexpected answers
}

// together runs all workers at the same time, each with other keys.
func (c team) together(round, ops int, side func(*worker) question) (w work, err error) {
	var working sync.WaitGroup
	begin := make(chan struct{})
	for _, h := range c {
		h.keys.fill(h.turn.set, h.turn.absent, h.turn.order, round*ops, ops)
		h.times, h.asked, h.others = h.times[:0], 0, 0
	}
	for _, h := range c {
		q := side(h)
		working.Go(func() {
			<-begin
			for chunk := range h.keys.chunks() {
				from := time.Now()
				asked, others := h.turn.chain.ask(chunk, q)
				h.times = append(h.times, float64(time.Since(from))/float64(asked))
				h.asked += asked
				h.others += others
			}
		})
	}
	from := time.Now()
	close(begin)
	working.Wait()
	took := float64(max(time.Since(from), 1))
	n := float64(len(c))
	for _, h := range c {
		ns := workload.Median(h.times)
		w.ns += ns / n / n // the mean of the workers, divided by their number
		w.undisturbed += ns * float64(h.asked) / took / n
		w.others += h.others
		err = errors.Join(err, h.store.err)
	}
	return w, err
}

// A privateReader does the least work of a lookup in memory of its own: it hashes a key and reads lines at positions
// that depend on the hash and on the lines before.
type privateReader struct {
	memory []byte
	lines  uint64
	reads  int
	want   bool // the expected answer
}

func newPrivate(b series) privateReader {
	const line = 64
	p := privateReader{memory: make([]byte, max(b.bytes/line, 1)*line), reads: b.reads, want: b.chain.want}
	p.lines = uint64(len(p.memory) / line)
	for i := range p.memory {
		p.memory[i] = 1 // the system maps pages that were never written to a single one
	}
	return p
}

func (p *privateReader) ask(key []byte) bool {
	h := bloomblock.HashKey(key)
	sum := byte(0)
	for range p.reads {
		sum |= p.memory[h.Block(p.lines)<<6+uint64(h&63)]
		h = h.Next() + bloomblock.Hash(sum)
	}
	return p.want == (sum != 0) // always the expected answer
}

// wrong returns the number of wrong answers and a description of the first.
func (r *scaleReport) wrong() (n int, first string) {
	for _, f := range r.Checks {
		if n == 0 {
			first = f.FirstWrong
		}
		n += f.Wrong
	}
	for _, p := range r.Points {
		if n == 0 {
			first = fmt.Sprintf("%s keys on %d goroutines", p.Lookup, p.Goroutines)
		}
		n += p.Wrong
	}
	return n, first
}

// aboutScaling explains the columns.
const aboutScaling = `Nanoseconds per lookup of all goroutines together, and for private work: a hash, and as many
reads of private memory. Scaling is the time on one goroutine divided by n times the time on n: 1 is perfect. The ratio
is the store's scaling divided by that of private work. Undisturbed is the share of the store's time in which all its
goroutines ran at that pace; below 0.8 the machine was too busy for a judgment.`

func (r *scaleReport) intro() string {
	return fmt.Sprintf("%d %s keys, values of %d bytes, in %d tables; promised %g wasted reads per absent lookup, "+
		"%d MiB of memory; %d rounds",
		r.Keys, r.Shape, r.ValueBytes, r.Tables, r.FilterFPR, r.MemoryBudget>>20, r.Rounds)
}

func (r *scaleReport) points() *grid {
	g := &grid{head: []string{
		"lookup", "goroutines", "store", "private", "scaling", "private", "ratio", "min", "max",
		"target", "undisturbed",
	}}
	for _, p := range r.Points {
		target := ""
		switch {
		case p.Met != nil:
			target = fmt.Sprintf("≥ %g: %s", r.LeastScaling, met(*p.Met))
		case p.Goroutines > 1:
			target = "machine busy"
		}
		g.add(p.Lookup+", "+p.Chain, strconv.Itoa(p.Goroutines), ns(p.StoreNs), ns(p.PrivateNs), share(p.StoreScaling),
			share(p.PrivateScaling),
			share(p.Ratio), share(p.Least), share(p.Most), target, share(p.Undisturbed))
	}
	return g
}

// print prints the report as text with lines for benchstat, which skips all others.
func (r *scaleReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s\n\n%s\n\n", r.intro(), aboutScaling)
	if err := r.points().print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	var err error
	for _, p := range r.Points {
		_, err = fmt.Fprintf(w, "Benchmark%s/%s/goroutines=%d %d %.1f ns/op %.3f scaling %.3f ratio\n",
			p.Lookup, p.Chain, p.Goroutines, r.Rounds, p.StoreNs, p.StoreScaling, p.Ratio)
	}
	return err
}
