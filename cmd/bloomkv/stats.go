package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
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
	Logs           int          `json:"logs"`
	MemtableBytes  int64        `json:"memtable_bytes"`
	Levels         []levelStats `json:"levels"`             // that hold tables
	ByTable        []tableStats `json:"by_table,omitempty"` // newest data first
	bloomkv.Metrics
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
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "table\tlevel\tunits\tpromised\tpredicted\tmeasured\tfalse pos\tnegative\t")
	for _, t := range tables {
		fmt.Fprintf(w, "%s\t%d\t%d/%d\t%.3g\t%.3g\t%s\t\n", strings.TrimSuffix(t.File, filepath.Ext(t.File)), t.Level,
			t.FilterUnits,
			t.FilterUnitsInFile, t.FPRPromised, t.FPRPredicted, measured(t.FilterAnswers))
	}
	w.Flush()
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
	var asJSON, byTable bool
	c := &cobra.Command{
		Use:   "stats DIR",
		Short: "Print the contents and the filter rates of a store by level",
		Long: `stats prints the levels of a store: runs, tables, keys (versions that are not deletes), bytes, filters,
and the filter rate of each run: the promised rate, the rate that the filters in memory predict, and the measured rate
of the answers that the store has counted since the tables were written (negatives are estimated from a sample). With
--tables it prints the same for each table. All other metrics of the store follow. stats reads the filters and counts
damaged ones; check verifies everything.

Data in the logs of a store that was not closed cleanly is on no level yet; stats prints the number of these logs. The
promised rates are those of the options that the store was last written with. stats counts the tables whose filters
were built with other options; compact rewrites them.`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			db, err := openToRead(args[0])
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
				if s.Logs, err = countLogs(args[0]); err != nil {
					return err
				}
				if byTable {
					s.ByTable = tablesOf(db)
				}
				if asJSON {
					return a.PrintJSON(s)
				}
				a.printLevels(s.Levels)
				if byTable {
					fmt.Fprintln(a.Out)
					a.printTables(s.ByTable)
				}
				fmt.Fprintf(a.Out, "\n%s, %s, %s (%s), %s; filters %s, %.1f bits per entry\n",
					words.Plural(s.Tables, "table"), words.Plural(s.Bytes, "byte"), words.Plural(s.Entries,
						"entry"), words.Plural(s.Deletes, "delete"),
					words.Plural(s.RangeDeletes, "range delete"), words.Plural(s.FilterBytes, "byte"), s.BitsPerKey)
				if s.Logs > 0 {
					fmt.Fprintf(a.Out, "%s of a store that was not closed cleanly: their contents are on no level "+
						"yet\n", words.Plural(s.Logs, "log"))
				}
				if s.TablesOffPlan > 0 {
					fmt.Fprintf(a.Out, "%s, %s, with filters by other options than the store was last written with; "+
						"compact rewrites them\n",
						words.Plural(s.TablesOffPlan, "table"), words.Plural(s.BytesOffPlan, "byte"))
				}
				if s.FiltersDamaged > 0 {
					fmt.Fprintf(a.Out, "%s with a damaged filter, whose intact units are used; see check\n",
						words.Plural(s.FiltersDamaged, "table"))
				}
				if s.FiltersShed > 0 {
					fmt.Fprintf(a.Out, "%s whose filter is not or not completely in memory because of the memory "+
						"budget\n", words.Plural(s.FiltersShed, "table"))
				}
				m.Levels = nil
				fmt.Fprint(a.Out, m)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&byTable, "tables", false, "also print each table, newest data first")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// countLogs returns the number of logs that opening the store replays, which is 0 after a clean close. Older logs are
// left over from a process that died before it could remove them.
func countLogs(dir string) (n int, err error) {
	m, err := manifest.Load(vfs.OS, dir)
	if err != nil {
		return 0, err
	}
	names, err := vfs.OS.List(dir)
	for _, name := range names {
		if kind, number := filename.Parse(name); kind == filename.Log && number >= m.MinLog {
			n++
		}
	}
	return n, err
}
