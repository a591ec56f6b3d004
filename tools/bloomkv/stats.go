package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/vfs"
)

// tableStats is one table in JSON.
type tableStats struct {
	bloomkv.TableMetrics

	Smallest string  `json:"smallest"`          // escaped
	Largest  *string `json:"largest,omitempty"` // escaped; absent if the table has no end
}

// storeStats is a whole store in JSON: sums over the levels, and all of Metrics.
type storeStats struct {
	Runs           int          `json:"runs"`
	Tables         int          `json:"tables"`
	Ingested       int          `json:"ingested"`
	Entries        uint64       `json:"entries"`
	Deletes        uint64       `json:"deletes"`
	RangeDeletes   uint64       `json:"range_deletes"`
	Bytes          uint64       `json:"bytes"`
	FilterBytes    uint64       `json:"filter_bytes"` // on disk
	BitsPerKey     float64      `json:"bits_per_key"` // of filters on disk, per entry
	FiltersShed    int          `json:"filters_shed"`
	FiltersDamaged int          `json:"filters_damaged"`
	InMemory       filterParts  `json:"filters_in_memory"` // tables
	Logs           int          `json:"logs"`
	MemtableBytes  int64        `json:"memtable_bytes"`
	Mark           string       `json:"mark,omitempty"`     // of the store, escaped
	Levels         []levelStats `json:"levels"`             // that hold tables
	ByTable        []tableStats `json:"by_table,omitempty"` // newest data first
	bloomkv.Metrics
}

// filterParts counts tables by how much of their filter is in memory.
type filterParts struct {
	Whole int `json:"whole"` // as much as what was asked takes
	Half  int `json:"half"`  // less, but at least half of the bytes in the file
	Less  int `json:"less"`
	None  int `json:"none"`
}

// partsOf counts tables that have a filter.
func partsOf(tables []bloomkv.TableMetrics) (p filterParts) {
	for i := range tables {
		switch t := &tables[i]; {
		case t.FilterBytes == 0:
		case !t.FilterShed:
			p.Whole++
		case t.FilterUnits == 0:
			p.None++
		case 2*uint64(t.FilterBytesInMemory) >= t.FilterBytes: //nolint:gosec // a size
			p.Half++
		default:
			p.Less++
		}
	}
	return p
}

// String describes the tables if some have less than all of their filter in memory.
func (p filterParts) String() string {
	if p.Half+p.Less+p.None == 0 {
		return ""
	}
	return fmt.Sprintf("filters in memory: whole of %s, at least half of %s, less of %s, none of %s",
		words.Plural(p.Whole, "table"), words.Count(p.Half), words.Count(p.Less), words.Count(p.None))
}

func statsOf(m bloomkv.Metrics) storeStats {
	s := storeStats{MemtableBytes: m.Memory.Memtables, Levels: levelsOf(&m), Metrics: m}
	for _, l := range s.Levels {
		s.Runs += l.Runs
		s.Tables += l.Tables
		s.Ingested += l.Ingested
		s.Entries += l.Entries
		s.Deletes += l.Deletes
		s.RangeDeletes += l.RangeDeletes
		s.Bytes += l.Bytes
		s.FilterBytes += l.FilterBytes
		s.FiltersShed += l.FiltersShed
		s.FiltersDamaged += l.FiltersDamaged
	}
	s.BitsPerKey = 8 * float64(s.FilterBytes) / float64(max(s.Entries, 1))
	return s
}

// printTables prints a row for each table.
func (a *app) printTables(tables []tableStats) {
	var rows [][]string
	for i := range tables {
		t := &tables[i]
		rows = append(rows, append([]string{
			strings.TrimSuffix(t.File, filepath.Ext(t.File)), strconv.Itoa(t.Level),
			fmt.Sprintf("%d/%d", t.FilterUnits, t.FilterUnitsInFile), words.Size(t.FilterBytesInMemory),
		}, rateCells(t.FPRPromised, t.FPRPredicted, &t.FilterAnswers)...))
	}
	words.Columns(a.Out, append([]string{"table", "level", "units", "memory"}, rateHead...), rows)
}

// tablesOf returns all tables, with printable bounds.
func tablesOf(db *bloomkv.DB) (tables []tableStats) {
	for _, t := range db.Tables() {
		s := tableStats{TableMetrics: t, Smallest: words.Escaped(t.Smallest, words.KeyLimit)}
		if t.Largest != nil {
			s.Largest = new(words.Escaped(t.Largest, words.KeyLimit))
		}
		tables = append(tables, s)
	}
	return tables
}

func (a *app) statsCommand() *cobra.Command {
	var byTable bool
	var budget float64 // MiB
	c := &cobra.Command{
		Use:   "stats DIR",
		Short: "Print the contents and the filter rates of a store by level",
		Long: `stats prints the levels of a store that hold tables: runs, tables, keys (versions that are not deletes),
bytes, and filters on disk. Then it prints the rate of the filters of each run: the promised rate, the rate that the
filters in memory predict, and the rate measured by the lookups of all programs since the tables were written. Behind
it are the answers: "false yes" if a table was searched in vain, "no" if it was skipped (estimated from a sample), "true
yes" if it held the key, and "not asked" if it was searched without a filter. With --tables it prints the same for each
table, with the units of its filter in memory and in the file, and its bytes in memory. All other metrics of the store
follow. Whatever is zero is left out. stats reads the filters and counts damaged ones; check verifies everything.

The wasted reads of a lookup of an absent key are those of the whole tree: of all runs together. They are promised for
a store that is only read, with the MemoryBudget of --budget. If that is too little for the filters, stats prints what
was asked and the MemoryBudget that all filters need, and counts the tables by how much of their filter is in memory;
bloomkv inspect also prints what is promised while the store is written to. Data in the logs of a store that was not
closed cleanly is on no level yet; stats prints the number of these logs. The promised rates are those of the options
that the store was last written with. stats counts the tables whose filters were built with other options; compact
rewrites them.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkBudget(budget); err != nil {
				return cli.Hint(c, err)
			}
			o := bloomkv.Options{ReadOnly: true, MemoryBudget: int64(budget * (1 << 20))}
			db, err := new(writeFlags).open(c.Context(), args[0], o)
			return with(db, err, func(db *bloomkv.DB) error {
				m := db.Metrics()
				for ; !m.Warm; m = db.Metrics() { // until all filters are loaded, a damaged one is not counted
					select {
					case <-c.Context().Done():
						return c.Context().Err()
					case <-time.After(time.Millisecond):
					}
				}
				s := statsOf(m)
				s.InMemory = partsOf(db.Tables())
				if s.Logs, err = countLogs(c.Context(), args[0]); err != nil {
					return err
				}
				mark, err := db.Mark()
				if err != nil {
					return err
				}
				s.Mark = words.Escaped(mark, len(mark))
				if byTable {
					s.ByTable = tablesOf(db)
				}
				return a.printResult(s, func() { a.printStats(&s) })
			})
		},
	}
	c.Flags().BoolVar(&byTable, "tables", false, "also print each table, newest data first")
	c.Flags().Float64Var(&budget, "budget", 0, budgetUsage)
	a.addJSON(c, "print a JSON object")
	return c
}

// printStats prints the figures in lines of at most 80 characters. What is zero is left out.
func (a *app) printStats(s *storeStats) {
	if s.Tables > 0 {
		a.printLevels(s.Levels)
		fmt.Fprintln(a.Out)
	}
	if len(s.ByTable) > 0 {
		a.printTables(s.ByTable)
		fmt.Fprintln(a.Out)
	}
	line := []string{words.Plural(s.Tables, "table")}
	for _, part := range []struct {
		there bool
		text  string
	}{
		{s.Tables > 0, words.Plural(s.Bytes, "byte")},
		{s.Entries > 0, words.Plural(s.Entries, "entry")},
		{s.Deletes > 0, words.Plural(s.Deletes, "delete") + " among them"},
		{s.RangeDeletes > 0, words.Plural(s.RangeDeletes, "range delete")},
		{s.Ingested > 0, words.Plural(s.Ingested, "table") + " from ingests"},
		{s.FilterBytes > 0, fmt.Sprintf("filters of %s, %.1f bits per entry", words.Plural(s.FilterBytes, "byte"),
			s.BitsPerKey)},
	} {
		if part.there {
			line = append(line, part.text)
		}
	}
	words.Wrapped(a.Out, strings.Join(line, ", "))
	a.printMark(s.Mark)
	for _, note := range []struct {
		n    int
		noun string
		text string
	}{
		{s.Logs, "log", "of a store that was not closed cleanly: what is in logs is on no level yet"},
		{s.TablesOffPlan, "table", fmt.Sprintf("(%s) with filters by other options than the store was last written "+
			"with; compact rewrites them", words.Plural(s.BytesOffPlan, "byte"))},
		{s.FiltersDamaged, "table", "with a damaged filter, whose intact units are used; see check"},
	} {
		if note.n > 0 {
			words.Wrapped(a.Out, words.Plural(note.n, note.noun)+" "+note.text)
		}
	}
	if kept := s.InMemory.String(); kept != "" {
		words.Wrapped(a.Out, kept)
	}
	m := s.Metrics
	m.Levels, m.TablesOffPlan, m.BytesOffPlan = nil, 0, 0 // they were printed
	fmt.Fprint(a.Out, m)
}

// printMark prints the mark of a store, escaped, unless it is empty.
func (a *app) printMark(escaped string) {
	if escaped != "" {
		words.Wrapped(a.Out, "mark: "+escaped)
	}
}

// countLogs returns the number of logs that opening the store replays, which is 0 after a clean close. Older logs are
// left over from a process that died before it could remove them.
func countLogs(ctx context.Context, dir string) (int, error) {
	m, err := manifest.Load(recovery.Until(ctx, vfs.OS), dir)
	if err != nil {
		return 0, err
	}
	found, err := recovery.Survey(vfs.OS, dir)
	return len(found.LogsFrom(m.MinLog)), err
}

// levelStats is one level in JSON.
type levelStats struct {
	bloomkv.LevelMetrics

	BitsPerKey float64 `json:"bits_per_key"` // of filters on disk, per entry
}

// levelsOf returns the levels that have tables.
func levelsOf(m *bloomkv.Metrics) []levelStats {
	levels := []levelStats{} // in JSON no levels are [] and not null
	for _, l := range m.Levels {
		if l.Tables > 0 {
			levels = append(levels, levelStats{l, 8 * float64(l.FilterBytes) / float64(max(l.Entries, 1))})
		}
	}
	return levels
}

// printLevels prints a row for each level: what it holds, and then the rates of its filters.
func (a *app) printLevels(levels []levelStats) {
	var holds, rates [][]string
	for i := range levels {
		l := &levels[i]
		level := strconv.Itoa(l.Level)
		holds = append(holds, []string{
			level, strconv.Itoa(l.Runs), strconv.Itoa(l.Tables), words.Count(l.Entries - l.Deletes),
			words.Count(l.Deletes), words.Count(l.RangeDeletes), words.Size(l.Bytes), words.Size(l.FilterBytes),
			fmt.Sprintf("%.1f", l.BitsPerKey),
		})
		rates = append(rates, append([]string{level}, rateCells(l.FPRPromised, l.FPRPredicted, &l.FilterAnswers)...))
	}
	words.Columns(a.Out, []string{
		"level", "runs", "tables", "keys", "deletes", "range deletes", "bytes", "filters", "bits/key",
	}, holds)
	fmt.Fprintln(a.Out)
	words.Columns(a.Out, append([]string{"level"}, rateHead...), rates)
}

// rateHead are the columns of rateCells: rates, and how many answers of filters to lookups were false yes, no and true
// yes. The last column counts searches without an answer.
var rateHead = []string{"promised", "predicted", "measured", "false yes", "no", "true yes", "not asked"}

// rateCells returns the rates of a filter or of several, and the counts behind the measured rate, which is "-" without
// any.
func rateCells(promised, predicted float64, f *bloomkv.FilterAnswers) []string {
	measured := "-"
	if f.FalsePositives+f.FilterNegatives > 0 {
		measured = fmt.Sprintf("%.3g", f.FPR())
	}
	return []string{
		fmt.Sprintf("%.3g", promised), fmt.Sprintf("%.3g", predicted), measured, words.Count(f.FalsePositives),
		words.Count(f.FilterNegatives), words.Count(f.TruePositives), words.Count(f.Unfiltered),
	}
}
