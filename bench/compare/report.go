package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// report is a whole comparison. The names are what --json prints.
type report struct {
	Command string `json:"command"`
	machine.Machine
	Versions map[string]string `json:"versions"`

	Keys       int    `json:"keys"`
	ValueBytes int    `json:"value_bytes"`
	Shape      string `json:"shape"`
	Rounds     int    `json:"rounds"`

	Table []cell `json:"table"`
	Rows  []row  `json:"rows"`
}

// cell is one phase of one column over all rounds.
type cell struct {
	Phase  string  `json:"phase"`
	Column string  `json:"column"`
	Ns     float64 `json:"ns_per_op"` // median of the rounds
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	// Ratios are bloomkv's time ÷ this one's, the median of the ratios of each round; 0 in bloomkv's own column.
	Ratio float64 `json:"bloomkv_ratio,omitempty"`
	Wrong int     `json:"wrong"`
}

func newReport(c config, args []string, rows []row) report {
	return report{
		Command: strings.Join(append([]string{"go -C bench/compare run ."}, args...), " "),
		Machine: machine.Here(), Versions: versions(),
		Keys: c.keys, ValueBytes: c.value, Shape: c.shape.String(), Rounds: c.rounds,
		Table: tabulate(rows), Rows: rows,
	}
}

// nsPerOp is the mean for loads, which counts stalls, and the median of chunks for reads, which leaves out disturbances.
func (r row) nsPerOp() float64 {
	if r.Figures.Phase == phaseLoad {
		return r.Figures.MeanNs
	}
	return r.Figures.MedianNs
}

// tabulate makes the cells of the table, phase by phase, from the rows of all rounds.
func tabulate(rows []row) []cell {
	type place struct {
		phase, column string
		round         int
	}
	times := make(map[place]float64)
	for _, r := range rows {
		times[place{r.Figures.Phase, r.Column, r.Round}] = r.nsPerOp()
	}
	var table []cell
	for _, phase := range phases {
		for _, column := range columns() {
			c := cell{Phase: phase, Column: column}
			var all, ratios []float64
			for _, r := range rows {
				if r.Figures.Phase != phase || r.Column != column {
					continue
				}
				ns := r.nsPerOp()
				all = append(all, ns)
				c.Wrong += r.Figures.Wrong
				if own, ok := times[place{phase, ownName, r.Round}]; ok && column != ownName && ns > 0 {
					ratios = append(ratios, own/ns)
				}
			}
			if len(all) == 0 {
				continue
			}
			c.Ns, c.Least, c.Most, c.Ratio = workload.Median(all), slices.Min(all), slices.Max(all), workload.Median(ratios)
			table = append(table, c)
		}
	}
	return table
}

func (r *report) print(w io.Writer) {
	r.Header(w, r.Command, "bench/compare")
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range r.Versions {
			if !yield(name) {
				return
			}
		}
	}) {
		fmt.Fprintf(w, "%s: %s\n", name, r.Versions[name])
	}
	fmt.Fprintf(w, "\n%d %s keys, values of %d bytes; %d rounds, engines taking turns: median ns/op (least–most).\n", r.Keys, r.Shape, r.ValueBytes, r.Rounds)
	fmt.Fprint(w, "A ratio is bloomkv's time by the other's, the median of the ratios of each round: below 1, bloomkv is faster.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\t%s\t", strings.Join(columns(), "\t"))
	for _, column := range columns()[1:] {
		fmt.Fprintf(t, "÷ %s\t", column)
	}
	fmt.Fprintln(t)
	wrong := 0
	for _, phase := range phases {
		fmt.Fprintf(t, "%s\t", phase)
		var ratios strings.Builder
		for _, column := range columns() {
			i := slices.IndexFunc(r.Table, func(c cell) bool { return c.Phase == phase && c.Column == column })
			if i >= 0 {
				c := r.Table[i]
				wrong += c.Wrong
				fmt.Fprintf(t, "%s (%s–%s)", figure(c.Ns), figure(c.Least), figure(c.Most))
				if c.Ratio > 0 {
					fmt.Fprintf(&ratios, "%.2f", c.Ratio)
				}
			}
			fmt.Fprint(t, "\t")
			if column != ownName {
				ratios.WriteByte('\t')
			}
		}
		fmt.Fprintln(t, ratios.String())
	}
	t.Flush()
	fmt.Fprintf(w, "\nwrong answers: %d\n\n", wrong)
	for _, row := range r.Rows {
		fmt.Fprintln(w, row.Figures.Benchmark(fmt.Sprintf("%s/shape=%s/engine=%s", strings.ReplaceAll(row.Figures.Phase, ",", ""), r.Shape, row.Column)))
	}
}

// figure prints three digits of a time, or all before the point.
func figure(ns float64) string {
	if ns < 100 {
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}

// versions are those of the other engines, as the program was built.
func versions() map[string]string {
	all := make(map[string]string)
	for _, e := range engines {
		all[e.name] = e.version()
	}
	return all
}
