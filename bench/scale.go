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
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

const (
	// leastScaling is how well lookups must scale, measured by private work on the same goroutines.
	leastScaling = 0.95
	// leastUndisturbed is how much of the time the machine must have been left to the goroutines for that to be judged.
	leastUndisturbed = 0.8

	scaleKeys    = 1_000_000
	scaleOps     = 100_000 // lookups of a goroutine in a round
	presentLines = 4       // lines that private work reads for a key that is there beside filters: an index, two of a block, a value
)

// A scaleReport is one run of scale. The names are what --json prints.
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

	Checks []workload.Figures `json:"checks"` // phases before the rounds, in which every value is compared
	Points []scalePoint       `json:"points"`
}

// A scalePoint is one kind of lookup on one number of goroutines.
type scalePoint struct {
	Lookup     string `json:"lookup"` // absent or present
	Chain      string `json:"chain"`  // chained or free
	Goroutines int    `json:"goroutines"`

	PrivateBytes int64 `json:"private_bytes"` // of each goroutine: as much as the store's lookups go through
	PrivateReads int   `json:"private_reads"` // of its lines, for a key

	// Medians of the rounds: time for a lookup of all goroutines together, and how the work scales: the time on one goroutine
	// divided by n times that on n.
	StoreNs        float64 `json:"store_ns"`
	PrivateNs      float64 `json:"private_ns"`
	StoreScaling   float64 `json:"store_scaling"`
	PrivateScaling float64 `json:"private_scaling"`

	// Ratio is the store's scaling divided by that of private work within a round: the median of the rounds, the least and the
	// most.
	Ratio float64 `json:"ratio"`
	Least float64 `json:"ratio_least"`
	Most  float64 `json:"ratio_most"`
	Met   *bool   `json:"met,omitempty"` // nil on one goroutine, and where Undisturbed is too small to judge

	// Undisturbed is the part of the store's time in which the goroutines worked as fast as the figures say, all of them: far
	// below 1 the machine had other things to do, and the figures are worth little. The median of the rounds.
	Undisturbed float64 `json:"undisturbed"`

	Wrong int `json:"wrong"`
}

func scaleCommand(s streams, command string) *cobra.Command {
	w := scale{terms: newTerms(s), goroutines: oneTwoFour(runtime.GOMAXPROCS(0))}
	w.keys = scaleKeys
	c := &cobra.Command{
		Use:   "scale",
		Short: "Show how lookups scale with goroutines, beside work that shares nothing",
		Long: `scale fills a store, compacts it, and looks up absent keys and keys that are there on one goroutine, two, and so on. Beside them
runs work that shares nothing: each goroutine hashes its keys and reads memory of its own, as much as the store's lookups
go through, as many lines for a key. Both take turns, in rounds, and scale as the machine lets them: what counts is the ratio of the two.
Chained, a goroutine's next key follows from its last answer; free, its processor may have several lookups under way.`,
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return hint(c, err)
			}
			return w.run(c.Context(), command)
		},
	}
	f := c.Flags()
	w.data.flags(c, "pairs in the store", "memory budget of the store, in `MIB`; the default holds all of a million pairs")
	f.Var(&w.goroutines, "workers", "numbers of goroutines, the first of them 1")
	f.IntVar(&w.ops, "ops", scaleOps, "lookups of each goroutine in a round")
	w.flags(c, 61)
	return c
}

// oneTwoFour is the powers of two up to n, and n.
func oneTwoFour(n int) (c counts) {
	for i := 1; i < n; i *= 2 {
		c = append(c, i)
	}
	return append(c, n)
}

// scale is the command.
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
	processors := runtime.GOMAXPROCS(0) // with more goroutines some would stand still while others are timed
	for i, n := range w.goroutines {
		if n > processors || (i == 0) != (n == 1) || i > 0 && n <= w.goroutines[i-1] {
			return fmt.Errorf("--workers %s: want 1, and then more and more, up to the %d processors", w.goroutines.String(), processors)
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
		Machine: machine.Here(), Command: command, Keys: w.keys, ValueBytes: w.value, Shape: w.shape.String(), Seed: w.seed,
		FilterFPR: promisedFPR, MemoryBudget: w.memory << 20, LeastScaling: leastScaling, Rounds: w.rounds,
	}
	if err := w.measure(ctx, filepath.Join(dir, "store"), set, r); err != nil {
		return err
	}
	return w.show(w.json, r)
}

// measure makes the store and measures all points.
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
		{Kind: workload.Present, Seed: w.seed + 2}, // and every block is in the cache then, if there is room
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
		b := bout{absent: absent, bytes: m.Memory.Filters, reads: max(1, r.Runs)}
		if !absent {
			b.bytes += m.Memory.Indexes + m.Cache.Used
			b.reads += presentLines
		}
		for _, free := range []bool{false, true} {
			b.chain = chain{free: free, want: !absent}
			points, err := w.bout(ctx, store.DB, set, b)
			if err != nil {
				return err
			}
			r.Points = append(r.Points, points...)
		}
	}
	return nil
}

// A bout is one kind of lookup, and the private work beside it.
type bout struct {
	absent bool
	chain  chain
	bytes  int64 // of memory that private work reads from
	reads  int   // lines for a key
}

func (b bout) lookup() string {
	if b.absent {
		return "absent"
	}
	return "present"
}

// bout measures the points of a bout: in each round, on each number of goroutines, the store and private work.
func (w *scale) bout(ctx context.Context, db *bloomkv.DB, set *workload.Generated, b bout) ([]scalePoint, error) {
	bar := w.bar(set, b.lookup()+", "+b.chain.String())
	defer bar.end()
	crew := w.crew(db, set, b)
	runtime.GC()
	sides := [2]func(*hand) question{
		func(h *hand) question { return h.store.ask },
		func(h *hand) question { return h.private.ask },
	}
	times := make([][2][]float64, len(w.goroutines)) // by number of goroutines and side, of each round
	undisturbed := make([][]float64, len(w.goroutines))
	wrong := make([]int, len(w.goroutines))
	for round := range w.rounds {
		for i, n := range w.goroutines {
			for turn := range sides {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				side := (turn + round) % len(sides)
				work, err := crew[:n].together(round, w.ops, sides[side])
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
		bar.set(round+1, w.rounds)
	}
	points := make([]scalePoint, len(w.goroutines))
	for i, n := range w.goroutines {
		p := &points[i]
		*p = scalePoint{Lookup: b.lookup(), Chain: b.chain.String(), Goroutines: n, PrivateBytes: b.bytes, PrivateReads: b.reads, Wrong: wrong[i]}
		p.Undisturbed = workload.Median(undisturbed[i])
		p.fill(times[0], times[i])
	}
	return points, nil
}

// fill takes the times of the rounds on one goroutine and on those of the point.
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

// A hand is what one goroutine has for itself.
type hand struct {
	turn    *turn
	store   storeReader
	private privateReader

	// Of a round.
	keys   keyList
	times  []float64 // of its chunks, for a key
	asked  int
	others int

	_ [128]byte // between two hands: what another goroutine writes is in other lines
}

// A crew is the hands that work at the same time.
type crew []*hand

// crew makes a hand for each of the most goroutines.
func (w *scale) crew(db *bloomkv.DB, set *workload.Generated, b bout) crew {
	c := make(crew, slices.Max(w.goroutines))
	for i := range c {
		c[i] = &hand{
			turn:    newTurn(set, b.chain, b.absent, w.seed+3+uint64(i)),
			store:   storeReader{db: db, value: make([]byte, 0, w.value+128)},
			private: newPrivate(b),
		}
	}
	return c
}

// work is what a crew did at once.
type work struct {
	ns          float64 // for a lookup of all hands: what it takes a goroutine, the median over its chunks, divided by their number
	undisturbed float64 // what all would have taken at that pace by what they took
	others      int     // answers that were not those wanted
}

// together has all hands ask at the same time, each for other keys.
func (c crew) together(round, ops int, side func(*hand) question) (w work, err error) {
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
		w.ns += ns / n / n // the mean of the hands, and n of them
		w.undisturbed += ns * float64(h.asked) / took / n
		w.others += h.others
		err = errors.Join(err, h.store.err)
	}
	return w, err
}

// A privateReader does what a lookup cannot do without, in memory that nobody else knows: it hashes a key and reads lines at
// places that follow from the hash, and each but the first from the line before too.
type privateReader struct {
	memory []byte
	lines  uint64
	reads  int
	want   bool // the answer
}

func newPrivate(b bout) privateReader {
	const line = 64
	p := privateReader{memory: make([]byte, max(b.bytes/line, 1)*line), reads: b.reads, want: b.chain.want}
	p.lines = uint64(len(p.memory) / line)
	for i := range p.memory {
		p.memory[i] = 1 // pages that nobody wrote to are all the same one
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
	return p.want == (sum != 0) // it always is
}

// wrong is how many answers of the store were wrong, and the first of them.
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
const aboutScaling = `Nanoseconds for a lookup of all goroutines together, and for private work: a hash, and as many reads of memory of its own.
Scaling is the time on one goroutine divided by n times that on n: 1 is perfect. The ratio is the store's by that of private work.
Undisturbed is the part of the store's time in which its goroutines ran at the pace of the figures, all at once; below 0.8
the machine was too busy with other things for a judgement.`

func (r *scaleReport) intro() string {
	return fmt.Sprintf("%d %s keys, values of %d bytes, in %d tables; promised %g wasted reads per absent lookup, %d MiB of memory; %d rounds",
		r.Keys, r.Shape, r.ValueBytes, r.Tables, r.FilterFPR, r.MemoryBudget>>20, r.Rounds)
}

func (r *scaleReport) points() *grid {
	g := &grid{head: []string{"lookup", "goroutines", "store", "private", "scaling", "private", "ratio", "least", "most", "must", "undisturbed"}}
	for _, p := range r.Points {
		must := ""
		switch {
		case p.Met != nil:
			must = fmt.Sprintf("≥ %g: %s", r.LeastScaling, met(*p.Met))
		case p.Goroutines > 1:
			must = "machine busy"
		}
		g.add(p.Lookup+", "+p.Chain, strconv.Itoa(p.Goroutines), ns(p.StoreNs), ns(p.PrivateNs), share(p.StoreScaling), share(p.PrivateScaling),
			share(p.Ratio), share(p.Least), share(p.Most), must, share(p.Undisturbed))
	}
	return g
}

// print writes a page for people that benchstat reads too: it skips the lines it does not know.
func (r *scaleReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s\n\n%s\n\n", r.intro(), aboutScaling)
	if err := r.points().print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	var err error
	for _, p := range r.Points {
		_, err = fmt.Fprintf(w, "Benchmark%s/%s/goroutines=%d %d %.1f ns/op %.3f scaling %.3f ratio\n", p.Lookup, p.Chain, p.Goroutines, r.Rounds, p.StoreNs, p.StoreScaling, p.Ratio)
	}
	return err
}
