package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/picture"
)

// sweepReport is the result of a sweep. The names of its fields in JSON are part of the output.
type sweepReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	Sweep        string  `json:"sweep"` // what differs from point to point: fpr, runs or keys
	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	Seed         uint64  `json:"seed"`
	MemoryBudget int64   `json:"memory_budget"`
	Points       []point `json:"points"`
}

// A point is the result for one store in one state.
type point struct {
	Filters   string  `json:"filters"`       // on or off
	State     string  `json:"state"`         // of the tree: loaded or compacted
	FilterFPR float64 `json:"fpr_promised"`  // wasted reads per lookup of an absent key; 1 means no filters
	Predicted float64 `json:"fpr_predicted"` // by the filters in memory, the sum over the runs

	Keys             int     `json:"keys"`
	Runs             int     `json:"runs"`
	Tables           int     `json:"tables"`
	TableBytes       uint64  `json:"table_bytes"`
	FilterBitsPerKey float64 `json:"filter_bits_per_key"` // in memory
	IndexBitsPerKey  float64 `json:"index_bits_per_key"`  // in memory
	FiltersShed      int     `json:"filters_shed"`        // filters that do not fit in the memory budget

	Absent  phase `json:"absent"`
	Present phase `json:"present"`
}

// fill sets the figures of the store.
func (p *point) fill(m bloomkv.Metrics, keys int) {
	p.Filters, p.Predicted, p.Keys, p.Runs = onOff(p.FilterFPR), m.FPRPredicted, keys, runsOf(m)
	for _, l := range m.Levels {
		p.Tables += l.Tables
		p.TableBytes += l.Bytes
		p.FiltersShed += l.FiltersShed
	}
	p.FilterBitsPerKey = 8 * float64(m.Memory.Filters) / float64(p.Keys)
	p.IndexBitsPerKey = 8 * float64(m.Memory.Indexes) / float64(p.Keys)
}

func wasted(p *point) float64        { return p.Absent.cost().WastedReads }
func absentBlocks(p *point) float64  { return p.Absent.cost().Blocks }
func presentBlocks(p *point) float64 { return p.Present.cost().Blocks }
func absentReads(p *point) float64   { return p.Absent.systemReads() }
func presentReads(p *point) float64  { return p.Present.systemReads() }
func absentNs(p *point) float64      { return p.Absent.nsPerOp() }
func presentNs(p *point) float64     { return p.Present.nsPerOp() }

// wrong returns the number of wrong answers and a description of the first.
func (r *sweepReport) wrong() (n int, first string) {
	for _, p := range r.Points {
		for _, row := range []*phase{&p.Absent, &p.Present} {
			if n == 0 {
				first = row.FirstWrong
			}
			n += row.Wrong
		}
	}
	return n, first
}

// print prints the report as text.
func (r *sweepReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s\n\n", r.intro())
	g := r.grid()
	return g.print(w)
}

func (r *sweepReport) intro() string {
	return fmt.Sprintf("%s keys, values of %d bytes, %d MiB of memory during lookups, no compression",
		r.Shape, r.ValueBytes, r.MemoryBudget>>20)
}

// grid returns a table with a row for each point.
func (r *sweepReport) grid() grid {
	g := grid{head: []string{
		"tree", "filters", "promised", "predicted", "keys", "runs", "filter bits/key", "index bits/key",
		"wasted/absent", "blocks/absent", "file reads", "system reads", "ns/absent",
		"blocks/present", "file reads", "system reads", "ns/present", "wrong",
	}}
	for _, p := range r.Points {
		cells := []string{
			p.State, p.Filters, fmt.Sprintf("%g", p.FilterFPR), fmt.Sprintf("%.3g", p.Predicted),
			strconv.Itoa(p.Keys), strconv.Itoa(p.Runs),
			ratio(p.FilterBitsPerKey), ratio(p.IndexBitsPerKey), perLookup(wasted(&p)),
		}
		for _, row := range []*phase{&p.Absent, &p.Present} {
			reads := ""
			if row.System != nil {
				reads = perLookup(row.System.Reads)
			}
			cells = append(cells, perLookup(row.cost().Blocks), perLookup(row.cost().fileReads()), reads, row.took())
		}
		g.add(append(cells, strconv.Itoa(p.Absent.Wrong+p.Present.Wrong))...)
	}
	return g
}

// page returns the sweep as a page.
func (r *sweepReport) page() *picture.Page {
	var heading, text string
	var all []picture.Chart
	switch r.Sweep {
	case sweepRuns:
		heading = "Read amplification as a function of the number of runs"
		text = "Each point is a store whose keys are spread over runs of equal size, and each run may hold any key."
		all = r.charts(false, func(p *point) float64 { return float64(p.Runs) })
	case sweepSize:
		heading, text = "Costs as a function of the number of keys", "Each point is a store of its own."
		all = r.charts(true, func(p *point) float64 { return float64(p.Keys) })
	default:
		heading = "Read amplification as a function of bits per key"
		text = "Each point is a store. Bits per key count the filters in memory; the store without filters is at 0. " +
			"The dashed lines are the promised rate and (1/2)^(bits·ln 2), the rate of an ideal Bloom filter " +
			"over all keys in one run."
		all = r.fprCharts()
	}
	g, m := r.grid(), r.Machine
	all = slices.DeleteFunc(all, func(c picture.Chart) bool { return len(c.Lines) == 0 })
	return &picture.Page{
		Title: "bloomkv: " + heading,
		Intro: fmt.Sprintf("%s.\n\n%s, %d processors, %s/%s, %s. Command: %s",
			r.intro(), m.CPU, m.CPUs, m.OS, m.Arch, m.Go, r.Command),
		Sections: []picture.Section{{
			ID: "sweep", Heading: heading, Text: text, Charts: all,
			Table: &picture.Table{Caption: "Each store", Head: g.head, Rows: g.rows},
		}},
	}
}

// states returns the states of the trees, in the order of the points.
func (r *sweepReport) states() (names []string) {
	for _, p := range r.Points {
		if !slices.Contains(names, p.State) {
			names = append(names, p.State)
		}
	}
	return names
}

// readFiles reports whether lookups read from files at least once in ten thousand. The Go runtime itself makes fewer
// reads.
func (r *sweepReport) readFiles() bool {
	return slices.ContainsFunc(r.Points, func(p point) bool { return max(absentReads(&p), presentReads(&p)) >= 1e-4 })
}

// allValues is below every figure: with it as the limit, no point is left out of a line.
const allValues = -1

// line returns a line through the points with the given state and filters whose figure is above a limit, or no line if
// there is no such point. A logarithmic axis needs a limit of 0.
func (r *sweepReport) line(name, state, filters string, limit float64, x, y func(p *point) float64) []picture.Line {
	l := picture.Line{Name: name}
	for i := range r.Points {
		if p := &r.Points[i]; p.State == state && p.Filters == filters && y(p) > limit {
			l.X, l.Y = append(l.X, x(p)), append(l.Y, y(p))
		}
	}
	if len(l.X) == 0 {
		return nil
	}
	return []picture.Line{l}
}

const timesCaption = "median over chunks of operations, one goroutine"

func (r *sweepReport) readsCaption() string {
	return fmt.Sprintf("by the counter of the operating system, with %d MiB of memory", r.MemoryBudget>>20)
}

// charts returns charts of blocks, reads and times per lookup with a line for each state, with filters and without.
func (r *sweepReport) charts(logX bool, x func(p *point) float64) (all []picture.Chart) {
	for _, c := range []struct {
		name, title, unit, caption string
		logY, reads                bool
		y                          func(p *point) float64
	}{
		{
			"-absent", "Data blocks searched for an absent key", "blocks per lookup",
			"cached or not; a point at 0 is not drawn", true, false, absentBlocks,
		},
		{
			"-present", "Data blocks searched for a present key", "blocks per lookup",
			"cached or not; the minimum is 1", false, false, presentBlocks,
		},
		{
			"-reads-absent", "Reads from files for an absent key", "reads per lookup",
			r.readsCaption(), false, true, absentReads,
		},
		{
			"-reads-present", "Reads from files for a present key", "reads per lookup",
			r.readsCaption(), false, true, presentReads,
		},
		{"-ns-absent", "Time of a lookup of an absent key", "ns", timesCaption, true, false, absentNs},
		{"-ns-present", "Time of a lookup of a present key", "ns", timesCaption, true, false, presentNs},
	} {
		if c.reads && !r.readFiles() {
			continue
		}
		chart := picture.Chart{
			Name: r.Sweep + c.name, Title: c.title, Caption: c.caption, X: r.Sweep, Y: c.unit, LogX: logX, LogY: c.logY,
		}
		limit := float64(allValues)
		if c.logY {
			limit = 0
		}
		for _, state := range r.states() {
			for _, filters := range []string{"on", "off"} {
				chart.Lines = append(chart.Lines, r.line(state+", filters "+filters, state, filters, limit, x, c.y)...)
			}
		}
		all = append(all, chart)
	}
	return all
}

// fprCharts returns charts over bits per key. A line begins at the store without filters, at 0 bits.
func (r *sweepReport) fprCharts() []picture.Chart {
	bits := func(p *point) float64 { return p.FilterBitsPerKey }
	chart := func(name, title, unit, caption string, logY bool) picture.Chart {
		return picture.Chart{
			Name: "fpr-" + name, Title: title, Caption: caption,
			X: "filter bits per key, in memory", Y: unit, LogY: logY,
		}
	}
	waste := chart("wasted", "Wasted reads for an absent key", "wasted reads per lookup",
		"a point at 0 is not drawn", true)
	blocks := chart("present", "Data blocks searched for a present key", "blocks per lookup",
		"cached or not; the minimum is 1", false)
	reads := chart("reads", "Reads from files", "reads per lookup", r.readsCaption(), false)
	times := chart("ns", "Time of a lookup", "ns", timesCaption, true)
	add := func(c *picture.Chart, name, state string, limit float64, y func(p *point) float64) {
		l := picture.Line{Name: name}
		for _, filters := range []string{"off", "on"} {
			for _, part := range r.line(name, state, filters, limit, bits, y) {
				l.X, l.Y = append(l.X, part.X...), append(l.Y, part.Y...)
			}
		}
		if len(l.X) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	most := 0.0
	for _, state := range r.states() {
		add(&waste, "measured, "+state, state, 0, wasted)
		add(&blocks, state, state, allValues, presentBlocks)
		add(&reads, "absent, "+state, state, allValues, absentReads)
		add(&reads, "present, "+state, state, allValues, presentReads)
		add(&times, "absent, "+state, state, 0, absentNs)
		add(&times, "present, "+state, state, 0, presentNs)
		for _, l := range r.line("promised, "+state, state, "on",
			0, bits, func(p *point) float64 { return p.FilterFPR }) {
			l.Dashed = true
			waste.Lines = append(waste.Lines, l)
			most = max(most, slices.Max(l.X))
		}
	}
	ideal := picture.Line{Name: "an ideal Bloom filter, one run", Kind: picture.Curve, Dashed: true}
	for b := 0.0; b <= most; b += 0.5 {
		ideal.X, ideal.Y = append(ideal.X, b), append(ideal.Y, math.Pow(0.5, b*math.Ln2))
	}
	waste.Lines = append(waste.Lines, ideal)
	if !r.readFiles() {
		return []picture.Chart{waste, blocks, times}
	}
	return []picture.Chart{waste, blocks, reads, times}
}
