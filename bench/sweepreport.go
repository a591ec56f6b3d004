package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/picture"
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
	Stopped      string  `json:"stopped,omitempty"` // why the report is not complete
	Points       []point `json:"points"`

	table cli.Table // a row for each point
}

func newSweepReport(w *sweep, command string) *sweepReport {
	r := &sweepReport{
		Machine: machine.Here(), Command: command, Sweep: w.kind,
		ValueBytes: w.value, Shape: w.shape.String(), Seed: w.seed, MemoryBudget: w.memory << 20,
	}
	r.table = cli.Table{
		Intro: fmt.Sprintf("%s\n%s\n\n", r.Machine.Header(command, "bench"), r.intro()),
		Head: []string{
			"tree", "filters", "promised", "predicted", "keys", "runs", "filter bits/key", "index bits/key",
			"wasted/absent", "blocks/absent", "file reads", "system reads", "median ns/absent",
			"blocks/present", "file reads", "system reads", "median ns/present", "wrong",
		},
		Least: cellWidth,
	}
	return r
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

func bits(p *point) float64          { return p.FilterBitsPerKey }
func wasted(p *point) float64        { return p.Absent.cost().WastedReads }
func absentBlocks(p *point) float64  { return p.Absent.cost().Blocks }
func presentBlocks(p *point) float64 { return p.Present.cost().Blocks }
func absentReads(p *point) float64   { return p.Absent.systemReads() }
func presentReads(p *point) float64  { return p.Present.systemReads() }
func absentNs(p *point) float64      { return p.Absent.nsPerOp() }
func presentNs(p *point) float64     { return p.Present.nsPerOp() }

// add adds a point.
func (r *sweepReport) add(p point) {
	r.Points = append(r.Points, p)
	cells := []string{
		fmt.Sprintf("%-9s", p.State), p.Filters, fmt.Sprintf("%g", p.FilterFPR), fmt.Sprintf("%.3g", p.Predicted),
		strconv.Itoa(p.Keys), strconv.Itoa(p.Runs),
		fmt.Sprintf("%.2f", p.FilterBitsPerKey), fmt.Sprintf("%.2f", p.IndexBitsPerKey), perLookup(wasted(&p)),
	}
	for _, row := range []*phase{&p.Absent, &p.Present} {
		reads := ""
		if row.System != nil {
			reads = perLookup(row.System.Reads)
		}
		cells = append(cells, row.blocks(), row.reads(), reads, row.took())
	}
	r.table.Add(append(cells, strconv.Itoa(p.Absent.Wrong+p.Present.Wrong))...)
}

func (r *sweepReport) phases() (all []*phase) {
	for i := range r.Points {
		all = append(all, &r.Points[i].Absent, &r.Points[i].Present)
	}
	return all
}

// print prints the report as text, except for rows that were printed before.
func (r *sweepReport) print(w io.Writer) error {
	err := r.table.Print(w)
	if end := paragraphs(r.Stopped, r.result()); end != "" {
		_, err = fmt.Fprintf(w, "\n%s\n", end)
	}
	return err
}

func (r *sweepReport) intro() string {
	return fmt.Sprintf("%s keys, values of %d bytes, %d MiB of memory during lookups, no compression",
		r.Shape, r.ValueBytes, r.MemoryBudget>>20)
}

// page returns the sweep as a page.
func (r *sweepReport) page() *picture.Page {
	var heading, text string
	var all []picture.Chart
	switch r.Sweep {
	case sweepRuns:
		heading = "Read amplification as a function of the number of runs"
		text = "Each point is a store whose keys are spread over runs of equal size, and each run may hold any key."
		all = r.charts("runs", func(p *point) float64 { return float64(p.Runs) })
	case sweepSize:
		heading, text = "Costs as a function of the number of keys", "Each point is a store of its own."
		all = r.charts("keys", func(p *point) float64 { return float64(p.Keys) })
	default:
		heading = "Read amplification as a function of bits per key"
		text = "Each point is a store. Bits per key count the filters in memory; the store without filters is at 0. " +
			"The dashed lines are the promised rate and (1/2)^(bits·ln 2), the rate of an ideal Bloom filter " +
			"over all keys in one run."
		all = append([]picture.Chart{r.wastedChart()}, r.charts(bitsUnit, bits)...)
	}
	m := r.Machine
	all = slices.DeleteFunc(all, func(c picture.Chart) bool { return len(c.Lines) == 0 })
	for i := range all {
		all[i].Caption += tooSmall(&all[i])
	}
	return &picture.Page{
		Title: "bloomkv: " + heading,
		Intro: paragraphs(r.result(), r.Stopped, r.intro()+".", fmt.Sprintf(
			"%s, %d processors, %s/%s, %s. Command: %s", m.CPU, m.CPUs, m.OS, m.Arch, m.Go, r.Command)),
		Sections: []picture.Section{{
			ID: "sweep", Heading: heading, Text: text, Charts: all,
			Table: &picture.Table{Caption: "Each store", Head: r.table.Head, Rows: r.table.Rows},
		}},
	}
}

// addPoint adds a point to the line with the given name, or begins it. A logarithmic axis has no place for 0.
func addPoint(c *picture.Chart, name string, x, y float64, dashed bool) {
	if c.LogY && y <= 0 {
		return
	}
	i := slices.IndexFunc(c.Lines, func(l picture.Line) bool { return l.Name == name })
	if i < 0 {
		i = len(c.Lines)
		c.Lines = append(c.Lines, picture.Line{Name: name, Dashed: dashed})
	}
	l := &c.Lines[i]
	l.X, l.Y = append(l.X, x), append(l.Y, y)
}

// readFiles reports whether lookups read from files at least once in ten thousand. The Go runtime itself makes fewer
// reads.
func (r *sweepReport) readFiles() bool {
	return slices.ContainsFunc(r.Points, func(p point) bool { return max(absentReads(&p), presentReads(&p)) >= 1e-4 })
}

// charts returns charts of blocks, reads and times per lookup with a line for each state, with filters and without.
func (r *sweepReport) charts(unit string, x func(p *point) float64) (all []picture.Chart) {
	const times = "median over chunks of operations, one goroutine"
	system := fmt.Sprintf("by the counter of the operating system, with %d MiB of memory", r.MemoryBudget>>20)
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
			system, false, true, absentReads,
		},
		{
			"-reads-present", "Reads from files for a present key", "reads per lookup",
			system, false, true, presentReads,
		},
		{"-ns-absent", "Time of a lookup of an absent key", "ns", times, true, false, absentNs},
		{"-ns-present", "Time of a lookup of a present key", "ns", times, true, false, presentNs},
	} {
		if c.reads && !r.readFiles() {
			continue
		}
		chart := picture.Chart{
			Name: r.Sweep + c.name, Title: c.title, Caption: c.caption, X: unit, Y: c.unit,
			LogX: r.Sweep == sweepSize, LogY: c.logY,
		}
		for i := range r.Points {
			p := &r.Points[i]
			name := p.State
			if r.Sweep != sweepFPR { // there a line begins at the store without filters, at 0 bits
				name += ", filters " + p.Filters
			}
			addPoint(&chart, name, x(p), c.y(p), false)
		}
		all = append(all, chart)
	}
	return all
}

const bitsUnit = "filter bits per key, in memory"

// wastedChart returns a chart of wasted reads over bits per key, with what is promised and what is possible.
func (r *sweepReport) wastedChart() picture.Chart {
	chart := picture.Chart{
		Name: "fpr-wasted", Title: "Wasted reads for an absent key", Caption: "a point at 0 is not drawn",
		X: bitsUnit, Y: "wasted reads per lookup", LogY: true,
	}
	most := 0.0
	for i := range r.Points {
		p := &r.Points[i]
		addPoint(&chart, "measured, "+p.State, bits(p), wasted(p), false)
		if p.Filters == "on" {
			addPoint(&chart, "promised, "+p.State, bits(p), p.FilterFPR, true)
			most = max(most, bits(p))
		}
	}
	ideal := picture.Line{Name: "an ideal Bloom filter, one run", Kind: picture.Curve, Dashed: true}
	for b := 0.0; b <= most; b += 0.5 {
		ideal.X, ideal.Y = append(ideal.X, b), append(ideal.Y, math.Pow(0.5, b*math.Ln2))
	}
	chart.Lines = append(chart.Lines, ideal)
	return chart
}
