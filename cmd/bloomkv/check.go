package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
)

// damageReport is one place of damage, as JSON has it.
type damageReport struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// damages lists all damage in a tree of errors, in the order of the tree.
func damages(err error) []damageReport {
	switch e := err.(type) { //nolint:errorlint // the tree is walked by hand: errors.As finds only the first
	case nil:
		return nil
	case *bloomkv.CorruptionError:
		return []damageReport{{e.File, e.Offset, e.Err.Error()}}
	case interface{ Unwrap() []error }:
		var all []damageReport
		for _, branch := range e.Unwrap() {
			all = append(all, damages(branch)...)
		}
		return all
	default:
		return damages(errors.Unwrap(err))
	}
}

func (a *app) checkCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check DIR",
		Short: "Verify a whole store; exit status 2 on damage",
		Long: `check reads every byte of a store that no one has open and changes nothing. It verifies every checksum, the order of the
keys, that the tables of a run don't overlap, the counts, the manifest against the directory, the logs record by record,
and that the filter of each table answers "maybe" for each of its keys.

Damage is named by file and offset, each on a line of its own, and the exit status is 2.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			bar := a.newProgress("check", -1, true)
			r, err := bloomkv.Check(c.Context(), args[0], nil, func(done, total uint64) {
				bar.set(clampInt64(done), clampInt64(total))
			})
			bar.end()
			damage := damages(err)
			if err != nil && len(damage) == 0 {
				return err // nothing was found out about the store
			}
			if asJSON {
				out := struct {
					OK      bool           `json:"ok"`
					Levels  int            `json:"levels"`
					Runs    int            `json:"runs"`
					Tables  int            `json:"tables"`
					Entries uint64         `json:"entries"`
					Bytes   uint64         `json:"bytes"`
					Logs    int            `json:"logs"`
					Records int            `json:"records"`
					Damage  []damageReport `json:"damage"`
				}{err == nil, r.Levels, r.Runs, r.Tables, r.Entries, r.Bytes, r.Logs, r.Records, append([]damageReport{}, damage...)}
				return errors.Join(err, a.printJSON(out))
			}
			if err == nil {
				fmt.Fprintf(a.out, "ok: %s in %s on %s, %s, %s; %s, %s\n",
					plural(r.Tables, "table"), plural(r.Runs, "run"), plural(r.Levels, "level"),
					plural(r.Entries, "entry"), plural(r.Bytes, "byte"), plural(r.Logs, "log"), plural(r.Records, "record"))
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object; damage is listed in it too")
	return c
}

// clampInt64 is n, or the largest int64: a bar counts no further.
func clampInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// levelStats is one level, as JSON has it.
type levelStats struct {
	Level           int     `json:"level"`
	Runs            int     `json:"runs"`
	Tables          int     `json:"tables"`
	Entries         uint64  `json:"entries"`
	Deletes         uint64  `json:"deletes"`
	Bytes           uint64  `json:"bytes"`
	FilterBytes     uint64  `json:"filter_bytes"` // on disk
	BitsPerKey      float64 `json:"bits_per_key"` // of them, for each entry
	FPRPromised     float64 `json:"fpr_promised"` // of each run
	FiltersDamaged  int     `json:"filters_damaged"`
	FilterBytesHeld int64   `json:"filter_bytes_in_memory"`
}

func levelsOf(m *bloomkv.Metrics) (levels []levelStats) {
	for _, l := range m.Levels {
		if l.Tables == 0 {
			continue
		}
		levels = append(levels, levelStats{
			l.Level, l.Runs, l.Tables, l.Entries, l.Deletes, l.Bytes, l.FilterDisk,
			8 * float64(l.FilterDisk) / float64(max(l.Entries, 1)), l.FilterFPR, l.FilterDamaged, l.FilterBytes,
		})
	}
	return levels
}

// printLevels prints a table of levels.
func (a *app) printLevels(levels []levelStats) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "level\truns\ttables\tkeys\tdeletes\tbytes\tfilter bytes\tbits/key\tpromised\t")
	for _, l := range levels {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.3g\t\n",
			l.Level, l.Runs, l.Tables, l.Entries-l.Deletes, l.Deletes, l.Bytes, l.FilterBytes, l.BitsPerKey, l.FPRPromised)
	}
	w.Flush()
}

func (a *app) statsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats DIR",
		Short: "Print what a store holds, by level",
		Long: `stats opens a store and prints its levels: runs, tables, keys (versions that are not deletes), bytes, filters, and the
filter rate promised for each run of the level. It reads the filters and counts damaged ones; check looks at everything.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			db, err := openExisting(args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				m := db.Metrics()
				for ; !m.Warm; m = db.Metrics() { // before it, a filter may be damaged and nobody knows
					select {
					case <-c.Context().Done():
						return c.Context().Err()
					case <-time.After(time.Millisecond):
					}
				}
				levels := levelsOf(&m)
				var sum levelStats
				for _, l := range levels {
					sum.Runs += l.Runs
					sum.Tables += l.Tables
					sum.Entries += l.Entries
					sum.Deletes += l.Deletes
					sum.Bytes += l.Bytes
					sum.FilterBytes += l.FilterBytes
					sum.FiltersDamaged += l.FiltersDamaged
				}
				sum.BitsPerKey = 8 * float64(sum.FilterBytes) / float64(max(sum.Entries, 1))
				if asJSON {
					return a.printJSON(struct {
						Runs           int          `json:"runs"`
						Tables         int          `json:"tables"`
						Entries        uint64       `json:"entries"`
						Deletes        uint64       `json:"deletes"`
						Bytes          uint64       `json:"bytes"`
						FilterBytes    uint64       `json:"filter_bytes"`
						BitsPerKey     float64      `json:"bits_per_key"`
						FPRPromised    float64      `json:"fpr_promised"`
						FiltersDamaged int          `json:"filters_damaged"`
						MemtableBytes  int64        `json:"memtable_bytes"`
						Levels         []levelStats `json:"levels"`
					}{
						sum.Runs, sum.Tables, sum.Entries, sum.Deletes, sum.Bytes, sum.FilterBytes, sum.BitsPerKey, m.FilterFPR,
						sum.FiltersDamaged, m.Memory.Memtables, append([]levelStats{}, levels...),
					})
				}
				a.printLevels(levels)
				fmt.Fprintf(a.out, "\n%s, %s, %s (%s); filters %s, %.1f bits per entry\n",
					plural(sum.Tables, "table"), plural(sum.Bytes, "byte"), plural(sum.Entries, "entry"), plural(sum.Deletes, "delete"),
					plural(sum.FilterBytes, "byte"), sum.BitsPerKey)
				fmt.Fprintf(a.out, "promised for the tree: %.4g wasted reads per absent lookup\n", m.FilterFPR)
				if sum.FiltersDamaged > 0 {
					fmt.Fprintf(a.out, "%s with a damaged filter, searched as if it said maybe; see check\n", plural(sum.FiltersDamaged, "table"))
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// printJSON prints one value, indented, with nothing in its strings that could drive a terminal.
func (a *app) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(plainJSON(b), '\n'))
	return err
}

// plainJSON escapes the characters that encoding/json leaves in strings but that are not printable.
func plainJSON(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if unicode.IsPrint(r) || r == '\n' {
			out = append(out, string(r)...)
			continue
		}
		quoted := appendString(nil, []byte(string(r)))
		out = append(out, quoted[1:len(quoted)-1]...)
	}
	return out
}
