package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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

	StandIn bool      `json:"rocksdb_stand_in"` // the column of RocksDB is computed, not measured
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

func newReport(c config, args []string, all outcome, took time.Duration) report {
	r := report{
		Command: strings.Join(append([]string{program()}, args...), " "),
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
	measured := newFigures(all.Results)
	figures := newFigures(append(slices.Clone(all.Results), standIn(measured)...))
	for _, column := range append(columns(), standInName) {
		if figures.has(column) {
			r.Columns = append(r.Columns, column)
			r.StandIn = r.StandIn || column == standInName
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

// figureKey identifies a figure, and figures holds all of them.
type figureKey struct {
	row, column string
	round       int
}

type figures map[figureKey]float64

func newFigures(results []result) figures {
	f := make(figures)
	for _, r := range results {
		f[figureKey{r.Row, r.Column, r.Round}] = r.Value
	}
	return f
}

func (f figures) has(column string) bool {
	for p := range f {
		if p.column == column {
			return true
		}
	}
	return false
}

// rounds returns the rounds in which a row of a column has a figure.
func (f figures) rounds(row, column string) []int {
	var all []int
	for p := range f {
		if p.row == row && p.column == column {
			all = append(all, p.round)
		}
	}
	slices.Sort(all)
	return all
}

// ratios returns bloomkv's figures divided by other's, for the rounds that have both.
func (f figures) ratios(row string, other func(round int) (float64, bool)) []float64 {
	var all []float64
	for _, round := range f.rounds(row, ownName) {
		if v, ok := other(round); ok && v > 0 {
			all = append(all, f[figureKey{row, ownName, round}]/v)
		}
	}
	return all
}

// tabulate returns the cells of the table, row by row.
func tabulate(f figures, columns []string) []cell {
	var table []cell
	for _, l := range lines {
		for _, column := range columns {
			var all []float64
			for _, round := range f.rounds(l.id, column) {
				all = append(all, f[figureKey{l.id, column, round}])
			}
			if len(all) == 0 {
				continue
			}
			c := cell{Row: l.id, Column: column, Value: spreadOf(all)}
			if column != ownName {
				if ratios := f.ratios(l.id, f.column(l.id, column)); len(ratios) > 0 {
					s := spreadOf(ratios)
					c.Ratio = &s
				}
			}
			table = append(table, c)
		}
	}
	return table
}

// column returns the figures of one row and column by round.
func (f figures) column(row, column string) func(round int) (float64, bool) {
	return func(round int) (float64, bool) {
		v, ok := f[figureKey{row, column, round}]
		return v, ok
	}
}

// least returns the smallest figures of a row in any column except bloomkv's and frozen ones, by round.
func (f figures) least(row string, columns []string) func(round int) (float64, bool) {
	return func(round int) (float64, bool) {
		best, ok := 0.0, false
		for _, column := range columns {
			if v, there := f[figureKey{row, column, round}]; there && column != ownName &&
				!frozen(column) && (!ok || v < best) {
				best, ok = v, true
			}
		}
		return best, ok
	}
}

// standInName is the column of RocksDB if it was not measured.
const standInName = rocksdbName + "*"

// standIn returns RocksDB's figures as they would be with the ratio to Pebble that was measured on another machine:
// line.there. It returns nil if RocksDB was measured.
func standIn(f figures) []result {
	if f.has(rocksdbName) {
		return nil
	}
	var all []result
	for _, l := range lines {
		column := pebbleL6
		if len(f.rounds(l.id, column)) == 0 {
			column = pebbleName
		}
		if l.there == nowhere {
			continue
		}
		for _, round := range f.rounds(l.id, column) {
			now := f[figureKey{l.id, column, round}]
			all = append(all, result{
				Row: l.id, Column: standInName, Round: round,
				Value: l.there.rocksdb * now / l.there.pebble,
			})
		}
	}
	return all
}

// judge compares bloomkv's rows with their targets, as far as these were measured.
func judge(f figures, columns []string, c config) []verdict {
	var all []verdict
	for _, l := range lines {
		must := l.must.describe(l.unit, c)
		if must == "" {
			continue
		}
		v := verdict{Row: l.id, Must: must}
		var got []float64
		limit := l.must.factor
		switch {
		case l.must.limit != nil:
			limit = l.must.limit(c)
			got = f.ratios(l.id, func(int) (float64, bool) { return 1, true })
		case l.must.of == bestPeer:
			got = f.ratios(l.id, f.least(l.id, columns))
		case l.must.of == bestLSM:
			lsm := slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return c == bboltName })
			got = f.ratios(l.id, f.least(l.id, lsm))
		case l.must.of == rocksdbName && f.has(standInName):
			v.Must = strings.Replace(must, rocksdbName, standInName, 1)
			got = f.ratios(l.id, f.column(l.id, standInName))
		default:
			got = f.ratios(l.id, f.column(l.id, l.must.of))
		}
		if len(got) == 0 {
			continue
		}
		v.Got = workload.Median(got)
		v.Met = v.Got < limit || v.Got == limit && (l.must.orEqual || l.must.limit != nil)
		all = append(all, v)
	}
	return all
}

func (r *report) print(w io.Writer) {
	r.Header(w, r.Command, "bench/compare")
	for _, e := range engines {
		if version, ok := r.Versions[e.name]; ok {
			fmt.Fprintf(w, "%s: %s; filters: %s\n", e.name, version, r.Filters[e.name])
		}
	}
	rounds := "1 round"
	if r.Rounds > 1 {
		rounds = fmt.Sprintf("%d rounds", r.Rounds)
	}
	fmt.Fprintf(w, "\n%d %s keys, values of %d bytes; %s in %v, engines taking turns. "+
		"The small cache has %.1f MiB, the large one %d.\n",
		r.Keys, r.Shape, r.ValueBytes, rounds, r.Took.Round(time.Second), float64(r.SmallCache)/(1<<20), largeCache>>20)
	fmt.Fprintf(w, "Operations: every key once, but at most %d lookups, %d seeks, %d seeks of a hundred entries, "+
		"and %d synced puts; a tenth for YCSB E, a quarter for Zipf. Many puts: %d, in bbolt a tenth. "+
		"Busy: %v, %d puts a second.\n",
		maxLookups, seeks, longSeeks, syncedPuts, r.Puts, r.Busy, busyPuts)
	if r.AllSmall {
		fmt.Fprint(w, "All states that read have the small cache, and memtables of half its size.\n")
	}
	if r.Ordered {
		fmt.Fprint(w, "The store is loaded in key order, one by one, where a row says random load too.\n")
	}
	if r.Rounds > 1 {
		fmt.Fprint(w, "Medians of the rounds, with minimum and maximum.\n")
	}
	fmt.Fprint(w, "A cell is empty if the engine has no such figure; bench/compare/README.md "+
		"explains rows and columns.\n")
	if r.StandIn {
		fmt.Fprintf(w, "RocksDB was not built. %s is its figure in another run on a similar machine, "+
			"times Pebble's figure here divided by Pebble's figure there.\n", standInName)
	}
	if slices.ContainsFunc(r.Columns, frozen) {
		fmt.Fprint(w, "Columns that end in txn or tx keep a read transaction and do not see later writes; "+
			"\"the best peer\" is one of the others.\n")
	}
	fmt.Fprint(w, "\n", "Nanoseconds per operation, unless the row names another unit.\n\n")
	r.grid(w, r.Columns, "", func(l line, c cell) string { return r.spread(c.Value, l.unit.print) }, nil)
	fmt.Fprint(w, "\nbloomkv's figure ÷ the other's in the same round: below 1, bloomkv takes less. "+
		"The last columns are bloomkv's targets and results.\n\n")
	var others []string
	for _, column := range r.Columns {
		if column != ownName {
			others = append(others, column)
		}
	}
	r.grid(w, others, "÷ ", func(_ line, c cell) string {
		if c.Ratio == nil {
			return ""
		}
		return r.spread(*c.Ratio, times.print)
	}, r.Musts)
	fmt.Fprintf(w, "\nwrong answers: %d\n\n", r.Wrong)
	for _, result := range r.Results {
		if result.Figures != nil {
			fmt.Fprintln(w, result.Figures.Benchmark(fmt.Sprintf("%s/shape=%s/engine=%s",
				result.Row, r.Shape, result.Column)))
		}
	}
}

// spread formats a median, with minimum and maximum if there are several rounds.
func (r *report) spread(s spread, figure func(float64) string) string {
	if r.Rounds == 1 {
		return figure(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.Median), figure(s.Least), figure(s.Most))
}

// grid prints the rows that have cells in the given columns, followed by verdicts if there are any.
func (r *report) grid(w io.Writer, columns []string, prefix string, text func(line, cell) string, musts []verdict) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\t")
	for _, column := range columns {
		fmt.Fprintf(t, "%s%s\t", prefix, column)
	}
	if musts != nil {
		fmt.Fprint(t, "target\tresult\t\t")
	}
	fmt.Fprintln(t)
	for _, l := range lines {
		var cells strings.Builder
		some := false
		for _, column := range columns {
			i := slices.IndexFunc(r.Table, func(c cell) bool { return c.Row == l.id && c.Column == column })
			if i >= 0 {
				some = true
				cells.WriteString(text(l, r.Table[i]))
			}
			cells.WriteByte('\t')
		}
		if i := slices.IndexFunc(musts, func(v verdict) bool { return v.Row == l.id }); i >= 0 {
			some = true
			v := musts[i]
			has := times.print(v.Got)
			if l.must.limit != nil {
				has = l.unit.print(v.Got)
			}
			met := "not met"
			if v.Met {
				met = "met"
			}
			fmt.Fprintf(&cells, "%s\t%s\t%s\t", v.Must, has, met)
		} else if musts != nil {
			cells.WriteString("\t\t\t")
		}
		if some {
			fmt.Fprintf(t, "%s\t%s\n", l.name, cells.String())
		}
	}
	t.Flush()
}
