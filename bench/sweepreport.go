package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/bloomkv/bloomkv"
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

	printed int // points whose row was printed
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

// print prints the report as text, except for rows that were printed before.
func (r *sweepReport) print(w io.Writer) error {
	err := r.printRows(w)
	for _, line := range []string{r.Stopped, r.result()} {
		if line != "" {
			fmt.Fprintf(w, "\n%s\n", line)
		}
	}
	return err
}

// printRows prints the rows of the points that were measured since the last call.
func (r *sweepReport) printRows(w io.Writer) error {
	if r.printed == 0 {
		r.Machine.Header(w, r.Command, "bench")
		fmt.Fprintf(w, "\n%s\n\n", r.intro())
	}
	g := r.grid()
	from := r.printed
	r.printed = len(g.rows)
	return g.printFrom(w, from)
}

func (r *sweepReport) intro() string {
	return fmt.Sprintf("%s keys, values of %d bytes, %d MiB of memory during lookups, no compression",
		r.Shape, r.ValueBytes, r.MemoryBudget>>20)
}

// grid returns a table with a row for each point.
func (r *sweepReport) grid() grid {
	g := grid{head: []string{
		"tree", "filters", "promised", "predicted", "keys", "runs", "filter bits/key", "index bits/key",
		"wasted/absent", "blocks/absent", "file reads", "system reads", "median ns/absent",
		"blocks/present", "file reads", "system reads", "median ns/present", "wrong",
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
	for i := range all {
		all[i].Caption += tooSmall(&all[i])
	}
	intro := fmt.Sprintf("%s.\n\n%s, %d processors, %s/%s, %s. Command: %s",
		r.intro(), m.CPU, m.CPUs, m.OS, m.Arch, m.Go, r.Command)
	for _, first := range []string{r.Stopped, r.result()} {
		if first != "" {
			intro = first + "\n\n" + intro
		}
	}
	return &picture.Page{
		Title: "bloomkv: " + heading, Intro: intro,
		Sections: []picture.Section{{
			ID: "sweep", Heading: heading, Text: text, Charts: all,
			Table: &picture.Table{Caption: "Each store", Head: g.head, Rows: g.rows},
		}},
	}
}
