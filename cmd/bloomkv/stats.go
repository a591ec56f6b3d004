package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/vfs"
)

// levelStats is one level, as JSON has it.
type levelStats struct {
	bloomkv.LevelMetrics

	BitsPerKey float64 `json:"bits_per_key"` // of filters on disk, for each entry
}

// storeStats is a whole store, as JSON has it: sums over the levels, and all of Metrics.
type storeStats struct {
	Runs           int          `json:"runs"`
	Tables         int          `json:"tables"`
	Ingested       int          `json:"ingested"`
	Entries        uint64       `json:"entries"`
	Deletes        uint64       `json:"deletes"`
	RangeDeletes   uint64       `json:"range_deletes"`
	Bytes          uint64       `json:"bytes"`
	FilterBytes    uint64       `json:"filter_bytes"` // on disk
	BitsPerKey     float64      `json:"bits_per_key"` // of them, for each entry
	FiltersShed    int          `json:"filters_shed"`
	FiltersDamaged int          `json:"filters_damaged"`
	Logs           int          `json:"logs"`
	MemtableBytes  int64        `json:"memtable_bytes"`
	Levels         []levelStats `json:"levels"` // that hold tables
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
		s.FilterBytes += l.FilterDisk
		s.FiltersShed += l.FilterShed
		s.FiltersDamaged += l.FilterDamaged
	}
	s.BitsPerKey = 8 * float64(s.FilterBytes) / float64(max(s.Entries, 1))
	return s
}

// levelsOf is the levels that hold tables.
func levelsOf(m *bloomkv.Metrics) []levelStats {
	levels := []levelStats{} // in JSON no levels are [] and not null
	for _, l := range m.Levels {
		if l.Tables > 0 {
			levels = append(levels, levelStats{l, 8 * float64(l.FilterDisk) / float64(max(l.Entries, 1))})
		}
	}
	return levels
}

// printLevels prints a table of levels.
func (a *app) printLevels(levels []levelStats) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "level\truns\ttables\tkeys\tdeletes\tbytes\tfilter bytes\tbits/key\tpromised\tpredicted\t")
	for _, l := range levels {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.3g\t%.3g\t\n", l.Level, l.Runs, l.Tables, l.Entries-l.Deletes,
			l.Deletes, l.Bytes, l.FilterDisk, l.BitsPerKey, l.FilterFPR, l.FPRPredicted)
	}
	w.Flush()
}

func (a *app) statsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats DIR",
		Short: "Print what a store holds, by level",
		Long: `stats opens a store and prints its levels: runs, tables, keys (versions that are not deletes), bytes, filters, and the
filter rate of each run of the level, as promised and as the filters in memory predict it; then all other figures that the
store keeps of itself. It reads the filters and counts damaged ones; check looks at everything. What a store that was not
closed has in its logs is on no level yet; then it says how many logs there are.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			db, err := openToRead(args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				m := db.Metrics()
				for ; !m.Warm; m = db.Metrics() { // before it, a filter may be damaged and nobody knows
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
				if asJSON {
					return a.printJSON(s)
				}
				a.printLevels(s.Levels)
				fmt.Fprintf(a.out, "\n%s, %s, %s (%s), %s; filters %s, %.1f bits per entry\n",
					plural(s.Tables, "table"), plural(s.Bytes, "byte"), plural(s.Entries, "entry"), plural(s.Deletes, "delete"),
					plural(s.RangeDeletes, "range delete"), plural(s.FilterBytes, "byte"), s.BitsPerKey)
				if s.Logs > 0 {
					fmt.Fprintf(a.out, "%s of a use that was not closed: what they hold is on no level yet\n", plural(s.Logs, "log"))
				}
				if s.FiltersDamaged > 0 {
					fmt.Fprintf(a.out, "%s with a damaged filter, of which what is whole is used; see check\n", plural(s.FiltersDamaged, "table"))
				}
				if s.FiltersShed > 0 {
					fmt.Fprintf(a.out, "%s whose filter the memory budget has no room for\n", plural(s.FiltersShed, "table"))
				}
				m.Levels = nil
				fmt.Fprint(a.out, m)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// countLogs is how many logs a store has: none after it was closed.
func countLogs(dir string) (n int, err error) {
	names, err := vfs.OS.List(dir)
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind == filename.Log {
			n++
		}
	}
	return n, err
}
