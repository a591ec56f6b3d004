package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// report is a whole comparison. The names of its fields in JSON are part of the output.
type report struct {
	Command string `json:"command"`
	machine.Machine
	Versions map[string]string `json:"versions"`
	Filters  map[string]string `json:"filters"` // the source of the figure in row "filters"
	Took     time.Duration     `json:"took_ns"`

	Keys       int    `json:"keys"`
	ValueBytes int    `json:"value_bytes"`
	Shape      string `json:"shape"`
	Rounds     int    `json:"rounds"`
	SmallCache int64  `json:"small_cache_bytes"`
	AllSmall   bool   `json:"small_cache_everywhere"`
	Ordered    bool   `json:"loaded_in_key_order"`
	Puts       int    `json:"puts"` // of the rows puts-*

	Busy time.Duration `json:"busy_ns"`

	Wrong int `json:"wrong"`

	Columns []string  `json:"columns"`
	Table   []cell    `json:"table"`
	Musts   []verdict `json:"musts"`
	Results []result  `json:"results"`
}

// cell is one row of one column over all rounds.
type cell struct {
	Row    string `json:"row"`
	Column string `json:"column"`
	Value  spread `json:"value"`
	// Ratio is bloomkv's value divided by this one in the same round; nil in bloomkv's own column.
	Ratio *spread `json:"bloomkv_ratio,omitempty"`
}

// spread summarizes the values of all rounds.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(values []float64) spread {
	return spread{workload.Median(values), slices.Min(values), slices.Max(values)}
}

// verdict records whether a row of bloomkv meets its target.
type verdict struct {
	Row  string  `json:"row"`
	Must string  `json:"must"`
	Got  float64 `json:"got"` // the ratio to the target's column, or the value if the target is a limit
	Met  bool    `json:"met"`
}

func newReport(c *config, all outcome, took time.Duration) *report {
	r := &report{
		Command: strings.Join(append([]string{program()}, c.args...), " "),
		Machine: machine.Here(), Took: took,
		Versions: make(map[string]string), Filters: make(map[string]string),
		Keys: c.keys, ValueBytes: c.value, Shape: c.shape.String(), Rounds: c.rounds, SmallCache: c.smallCache(),
		AllSmall: c.small, Ordered: c.ordered, Puts: c.puts, Busy: c.busy,
		Wrong: all.Wrong, Results: all.Results,
	}
	for _, name := range c.engines {
		if e, err := findEngine(name); err == nil {
			r.Versions[name] = e.version()
			r.Filters[name] = e.filters
		}
	}
	figures := newFigures(all.Results)
	for _, column := range columns() {
		if slices.ContainsFunc(all.Results, func(r result) bool { return r.Column == column }) {
			r.Columns = append(r.Columns, column)
		}
	}
	r.Table = tabulate(figures, r.Columns)
	r.Musts = judge(figures, r.Columns, c)
	return r
}

// program returns the command that runs this program.
func program() string {
	if len(rocksdbEngines()) > 0 {
		return "go -C bench/compare run -tags rocksdb ."
	}
	return "go -C bench/compare run ."
}

// figures are the figures of each round, or NaN, by row and column.
type figures map[[2]string][]float64

func newFigures(results []result) figures {
	f := make(figures)
	for _, r := range results {
		key := [2]string{r.Row, r.Column}
		for len(f[key]) <= r.Round {
			f[key] = append(f[key], math.NaN())
		}
		f[key][r.Round] = r.Value
	}
	return f
}

func (f figures) of(row, column string) []float64 { return f[[2]string{row, column}] }

// ratios returns figures divided by others, for the rounds that have both.
func ratios(own, others []float64) (all []float64) {
	for i := range min(len(own), len(others)) {
		if v := own[i] / others[i]; v >= 0 && others[i] > 0 {
			all = append(all, v)
		}
	}
	return all
}

// tabulate returns the cells of the table, row by row.
func tabulate(f figures, columns []string) (table []cell) {
	for _, l := range lines {
		for _, column := range columns {
			all := slices.DeleteFunc(slices.Clone(f.of(l.id, column)), math.IsNaN)
			if len(all) == 0 {
				continue
			}
			c := cell{Row: l.id, Column: column, Value: spreadOf(all)}
			if by := ratios(f.of(l.id, ownName), f.of(l.id, column)); column != ownName && len(by) > 0 {
				c.Ratio = new(spreadOf(by))
			}
			table = append(table, c)
		}
	}
	return table
}

// least returns the smallest figures of a row in any of the columns, except bloomkv's and frozen ones.
func (f figures) least(row string, columns []string) (best []float64) {
	for _, column := range columns {
		if column == ownName || frozen(column) {
			continue
		}
		for round, v := range f.of(row, column) {
			switch {
			case round == len(best):
				best = append(best, v)
			case math.IsNaN(best[round]) || v < best[round]:
				best[round] = v
			}
		}
	}
	return best
}

// judge compares bloomkv's rows with their targets, as far as these were measured.
func judge(f figures, columns []string, c *config) []verdict {
	var all []verdict
	for _, l := range lines {
		must := l.must.describe(l.unit, c)
		if must == "" {
			continue
		}
		own, limit := f.of(l.id, ownName), l.must.factor
		var got []float64
		switch {
		case l.must.limit != nil:
			limit = l.must.limit(c)
			got = slices.DeleteFunc(slices.Clone(own), math.IsNaN)
		case l.must.of == bestPeer:
			got = ratios(own, f.least(l.id, columns))
		case l.must.of == bestLSM:
			lsm := slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return c == bboltName })
			got = ratios(own, f.least(l.id, lsm))
		default:
			got = ratios(own, f.of(l.id, l.must.of))
		}
		if len(got) == 0 {
			continue
		}
		v := verdict{Row: l.id, Must: must, Got: workload.Median(got)}
		v.Met = v.Got < limit || v.Got == limit && (l.must.orEqual || l.must.limit != nil)
		all = append(all, v)
	}
	return all
}

// print prints the tables and, before them, what they are of.
func (r *report) print(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.Header(r.Command, "bench/compare"))
	for _, e := range engines {
		if version, ok := r.Versions[e.name]; ok {
			fmt.Fprintf(&b, "%s: %s; filters: %s\n", e.name, version, r.Filters[e.name])
		}
	}
	rounds := "1 round"
	if r.Rounds > 1 {
		rounds = fmt.Sprintf("%d rounds", r.Rounds)
	}
	fmt.Fprintf(&b, "\n%d %s keys, values of %d bytes; %s in %v, engines taking turns. "+
		"The small cache has %.1f MiB, the large one %d.\n",
		r.Keys, r.Shape, r.ValueBytes, rounds, r.Took.Round(time.Second), float64(r.SmallCache)/(1<<20), largeCache>>20)
	fmt.Fprintf(&b, "Operations: every key once, but at most %d lookups, %d seeks, %d seeks of a hundred entries, "+
		"and %d synced puts; a tenth for YCSB E, a quarter for Zipf. Many puts: %d, in bbolt a tenth. "+
		"Busy: %v, %d puts a second.\n",
		maxLookups, seeks, longSeeks, syncedPuts, r.Puts, r.Busy, busyPuts)
	b.WriteString("Medians of the rounds, with minimum and maximum. A cell is empty if the engine has no such figure." +
		" README.md explains rows, columns and flags.\n")
	b.WriteString("\nNanoseconds per operation, unless the row names another unit.\n\n")
	figures := r.table(b.String(), r.Columns, "", func(l line, c cell) string {
		return r.spread(&c.Value, l.unit.print)
	})
	others := slices.DeleteFunc(slices.Clone(r.Columns), func(column string) bool { return column == ownName })
	ratios := r.table("\nbloomkv's figure ÷ the other's in the same round: below 1, bloomkv takes less. "+
		"The last columns are bloomkv's targets and results.\n\n", others, "÷ ", func(_ line, c cell) string {
		return r.spread(c.Ratio, times.print)
	})
	err := errors.Join(figures.Print(w), ratios.Print(w))
	fmt.Fprintf(w, "\nwrong answers: %d\n", r.Wrong)
	return err
}

// spread formats a median, with minimum and maximum if there are several rounds.
func (r *report) spread(s *spread, figure func(float64) string) string {
	switch {
	case s == nil:
		return ""
	case r.Rounds == 1:
		return figure(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.Median), figure(s.Least), figure(s.Most))
}

// table returns a table of the rows that have cells in the given columns. With a prefix for these, targets and results
// follow, and rows that have them.
func (r *report) table(intro string, columns []string, prefix string, text func(line, cell) string) *cli.Table {
	t := &cli.Table{Intro: intro, Head: []string{""}}
	for _, column := range columns {
		t.Head = append(t.Head, prefix+column)
	}
	if prefix != "" {
		t.Head = append(t.Head, "target", "result", "")
	}
	for _, l := range lines {
		cells, some := []string{l.name}, false
		for _, column := range columns {
			i := slices.IndexFunc(r.Table, func(c cell) bool { return c.Row == l.id && c.Column == column })
			if i < 0 {
				cells = append(cells, "")
				continue
			}
			cells, some = append(cells, text(l, r.Table[i])), true
		}
		i := slices.IndexFunc(r.Musts, func(v verdict) bool { return v.Row == l.id })
		if prefix != "" && i >= 0 {
			v, unit, met := r.Musts[i], times, "not met"
			if l.must.limit != nil {
				unit = l.unit
			}
			if v.Met {
				met = "met"
			}
			cells, some = append(cells, v.Must, unit.print(v.Got), met), true
		}
		if some {
			t.Add(cells...)
		}
	}
	return t
}
