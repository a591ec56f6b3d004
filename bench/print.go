package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// print prints the answer first: what lookups cost with filters and without. With all it also prints tables of all
// phases, and lines for benchstat, which skips everything else.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\n", wrapped(paragraphs(r.Stopped, r.result())))
	tables := []*cli.Table{r.table("Per operation with filters (on) and without (off): time, blocks searched, and "+
		"reads from files.\n\n",
		func(p *phase) bool { return r.Stopped != "" || slices.Contains(r.shown, p.Phase) },
		[]column{{"", func(p *phase) string { return p.Phase }}, {"runs " + r.Sides[0].Filters, (*phase).runs}},
		[]column{{"ns", (*phase).took}, {"blocks", (*phase).blocks}, {"reads", (*phase).reads}})}
	if r.all {
		tables = append(tables, r.times(), r.costs())
	}
	for _, t := range tables {
		if err := t.Print(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for i := range r.Sides {
		if s := &r.Sides[i]; s.DiskBytes > 0 { // with the phase queue-pop alone, there is no store that was read
			fmt.Fprintln(w, wrapped(s.summary()))
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s\n", r.Machine.Header(r.Command, "bench"), wrapped(r.intro()))
	if !r.all {
		return err
	}
	fmt.Fprintln(w)
	for _, s := range r.Sides {
		for _, p := range s.Phases {
			if !p.once() {
				_, err = fmt.Fprintln(w, p.Benchmark(p.Phase+"/filters="+s.Filters+"/shape="+r.Shape))
			}
		}
	}
	return err
}

func (r *report) intro() string {
	text := fmt.Sprintf("%d %s keys, values of %d bytes, choice %s, workers %d, %d MiB of memory, "+
		"memtable %d MiB, no compression",
		r.Keys, r.Shape, r.ValueBytes, r.Choice, r.Workers, r.MemoryBudget>>20, r.MemtableSize>>20)
	if !r.all {
		text += "\n--all measures all phases and prints all figures."
	}
	return text
}

func (s *side) summary() string {
	promise := "no filters"
	if s.FilterFPR < 1 {
		promise = fmt.Sprintf("promised %g wasted reads per absent lookup, "+
			"filters %.2f MB in memory (%.2f bits per key)",
			s.FilterFPR, float64(s.FilterBytes)/1e6, s.FilterBitsPerKey)
	}
	return fmt.Sprintf("filters %s: %s; %d tables, %.1f MB on disk, %.1f MB in memory, "+
		"write amplification %.2f, space amplification %.2f, %d flushes, %d compactions",
		s.Filters, promise, s.Tables, float64(s.DiskBytes)/1e6, float64(s.MemoryBytes)/1e6,
		s.WriteAmplification, s.SpaceAmplification, s.Flushes, s.Compactions)
}

// A column is a figure of phases.
type column struct {
	name string
	cell func(p *phase) string
}

// table returns a table of phases: columns of the first side, then columns of each side, the first of which is followed
// by the ratio of their times.
func (r *report) table(intro string, wanted func(p *phase) bool, first, sides []column) *cli.Table {
	t := &cli.Table{Intro: intro}
	for _, c := range first {
		t.Head = append(t.Head, c.name)
	}
	both := len(r.Sides) == 2
	for i, c := range sides {
		for _, s := range r.Sides {
			t.Head = append(t.Head, c.name+" "+s.Filters)
		}
		if i == 0 && both {
			t.Head = append(t.Head, "off÷on")
		}
	}
	for i := range r.rows() {
		row := make([]*phase, len(r.Sides)) // the last side is the one that is not complete
		for k := range r.Sides {
			row[k] = r.Sides[k].at(i)
		}
		if !wanted(row[0]) {
			continue
		}
		var cells []string
		for _, c := range first {
			cells = append(cells, c.cell(row[0]))
		}
		for i, c := range sides {
			for _, p := range row {
				cell := ""
				if p != nil {
					cell = c.cell(p)
				}
				cells = append(cells, cell)
			}
			if i == 0 && both {
				cells = append(cells, ratio(row[0], row[1]))
			}
		}
		t.Add(cells...)
	}
	return t
}

func ratio(on, off *phase) string {
	if off == nil || on.once() || on.nsPerOp() == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", off.nsPerOp()/on.nsPerOp())
}

// times returns a table of all phases, with the sides next to each other.
func (r *report) times() *cli.Table {
	calls := func(format string, of func(p *phase) float64) func(p *phase) string {
		return func(p *phase) string {
			if p.once() || of(p) == 0 {
				return ""
			}
			return fmt.Sprintf(format, of(p))
		}
	}
	return r.table("", func(*phase) bool { return true }, []column{
		{"phase", func(p *phase) string { return p.Phase }},
		{"ops", calls("%.0f", func(p *phase) float64 { return float64(p.Ops) })},
		{"time is", (*phase).average},
	}, []column{
		{"ns/op", (*phase).took},
		{"put alone", calls("%.0f", func(p *phase) float64 { return p.PutNs })},
		{"p50", calls("%.0f", func(p *phase) float64 { return p.P50Ns })},
		{"p99", calls("%.0f", func(p *phase) float64 { return p.P99Ns })},
		{"p999", calls("%.0f", func(p *phase) float64 { return p.P999Ns })},
		{"allocs", calls("%.2f", func(p *phase) float64 { return p.AllocsPerOp })},
		{"peak MB", func(p *phase) string {
			if p.System == nil {
				return ""
			}
			return fmt.Sprintf("%.0f", float64(p.System.PeakResident)/1e6)
		}},
		{"wrong", func(p *phase) string { return strconv.Itoa(p.Wrong) }},
	})
}

// costs returns a table with a row for each phase and side.
func (r *report) costs() *cli.Table {
	t := &cli.Table{
		Intro: "Means per lookup, or per operation in phases without lookups:\n\n",
		Head: []string{
			"phase", "filters", "runs", "considered", "probed", "negative", "true pos", "false pos", "wasted",
			"blocks", "bytes", "cache hits", "file reads", "system reads", "system bytes",
		},
	}
	for i := range r.rows() {
		for k := range r.Sides {
			p := r.Sides[k].at(i)
			if p == nil || p.Kind == workload.Load.String() || p.once() || p.Cost == nil && p.System == nil {
				continue
			}
			cells := make([]string, 3, len(t.Head))
			cells[0], cells[1], cells[2] = p.Phase, r.Sides[k].Filters, p.runs()
			if c := p.Cost; c != nil {
				hits := ""
				if c.Blocks > 0 {
					hits = fmt.Sprintf("%.1f%%", 100*c.CacheHitRate)
				}
				cells = append(
					cells, perLookup(c.Considered), perLookup(c.Probes), perLookup(c.Negatives),
					perLookup(c.TruePositives), perLookup(c.FalsePositives), perLookup(c.WastedReads),
					perLookup(c.Blocks), fmt.Sprintf("%.1f", c.BytesRead), hits, perLookup(c.fileReads()),
				)
			}
			if s := p.System; s != nil {
				cells = append(cells[:len(t.Head)-2], perLookup(s.Reads), fmt.Sprintf("%.1f", s.ReadBytes))
			}
			t.Add(cells...)
		}
	}
	return t
}
