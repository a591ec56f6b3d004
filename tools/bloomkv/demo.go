package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// errWrongAnswers means that the store gave a wrong answer.
var errWrongAnswers = errors.New("wrong answers")

const (
	demoSeed    = 20260917 // of all random choices
	demoAbsents = 400_000  // lookups of absent keys, with filters and again without
	demoRun     = 250      // minimum number of keys in a run of level 0
	demoFlushes = 24       // approximate number of flushes, given enough keys
	compactRuns = 8        // runs of level 0 at which the store starts to compact
	newestRuns  = 3        // runs that stay in level 0
	demoFewest  = (compactRuns + newestRuns + 1) * demoRun
)

func (a *app) demoCommand() *cobra.Command {
	var data, keep string
	var absents int
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the effect of the filters on real keys",
		Long: `demo stores the files of the Go source tree (path: size, hash, first line) in random order with many
flushes and compactions. It reopens the store and looks up every path, and many absent keys between real paths, first
with filters and then on the same tree without them. It checks every answer, prints what the lookups cost, and draws
one filter block. Blocks are counted whether they were in the cache or read from a file.

All random choices have a fixed seed, so little but the times differs between runs. The store is created in a temporary
directory and removed, unless --keep names a directory. With --data, demo reads lines of the form key TAB value, at
least ` + strconv.Itoa(demoFewest) + ` different keys, and holds them in memory. The exit status is 1 if any answer
was wrong.`,
		RunE: func(c *cobra.Command, _ []string) error {
			set, title, err := a.demoInput(c.Context(), data)
			if err != nil {
				return err
			}
			if absents < 1 || absents > set.Absents() {
				return fmt.Errorf("--absent %d, want 1 to %d, the number of keys that fit between these", absents,
					set.Absents())
			}
			dir, remove, err := cli.Directory("--keep", keep, "bloomkv-demo-")
			if err != nil {
				return err
			}
			d := demo{app: a, set: set, dir: dir, options: demoOptions(set), absents: absents}
			r, err := d.run(c.Context())
			if err == nil {
				r.Input, r.Seed, r.Kept = title, demoSeed, keep
				err = a.printResult(r, func() { a.printDemo(r) })
			}
			err = errors.Join(err, remove())
			if err == nil && r.WrongAnswers > 0 {
				err = fmt.Errorf("%d %w; the first: %s", r.WrongAnswers, errWrongAnswers, r.firstWrong)
			}
			return err
		},
	}
	c.Flags().StringVar(&data, "data", "", "read lines of key TAB value from `FILE` instead of the Go source tree")
	c.Flags().IntVar(&absents, "absent", demoAbsents, "look up `N` absent keys")
	c.Flags().StringVar(&keep, "keep", "", "create the store in `DIR`, which must be empty or not exist, and keep it")
	a.addJSON(c, "print a JSON object")
	return c
}

// demoInput reads the pairs from a file, or without one from the Go source tree. The title names the source.
func (a *app) demoInput(ctx context.Context, data string) (set *workload.Pairs, title string, err error) {
	var pairs []workload.Pair
	if data != "" {
		title = "lines of " + data
		pairs, err = a.readPairs(ctx, data)
	} else {
		var root string
		if root, err = goRoot(ctx); err != nil {
			return nil, "", err
		}
		title = "files of " + root
		bar := a.Progress("reading the Go source tree", -1, false)
		pairs, err = readTree(ctx, root, func(files int) { bar.Set(files, -1) })
		bar.End()
	}
	if err == nil && len(pairs) < demoFewest {
		err = fmt.Errorf("%s: %s, want at least %d for a tree of runs of %d", title, words.Plural(len(pairs), "key"),
			demoFewest, demoRun)
	}
	if err == nil {
		set, err = workload.NewPairs(pairs)
	}
	return set, title, err
}

// demoResult is the result of the demo, with the names that --json prints.
type demoResult struct {
	Input       string       `json:"input"`
	Seed        uint64       `json:"seed"`
	Kept        string       `json:"kept,omitempty"`
	Keys        int          `json:"keys"`
	Absents     int          `json:"absent_lookups"`
	Flushes     uint64       `json:"flushes"`
	Compactions uint64       `json:"compactions"`
	Moves       uint64       `json:"moves"`
	Runs        int          `json:"runs"`
	Levels      []levelStats `json:"levels"`

	FilterBytes int64   `json:"filter_bytes"` // in memory
	BitsPerKey  float64 `json:"bits_per_key"`
	FPRPromised float64 `json:"fpr_promised"`
	FPRMeasured float64 `json:"fpr_measured"` // wasted reads per absent lookup
	FPRPerProbe float64 `json:"fpr_per_probe"`

	with, without demoCosts
	demoFlat
	WrongAnswers int `json:"wrong_answers"`
	firstWrong   string

	filter      *inspect.Filter // of one table, to be drawn
	block       bloomkv.TableMetrics
	blockAbsent float64 // rate measured on it alone
}

// demoFlat names the costs in JSON.
type demoFlat struct {
	WastedReads        float64 `json:"wasted_reads_per_absent"`
	WastedReadsWithout float64 `json:"wasted_reads_per_absent_without_filters"`
	WastedPerRun       float64 `json:"wasted_reads_per_overlapping_run_without_filters"`
	BlocksPresent      float64 `json:"blocks_per_present"`
	BlocksAbsent       float64 `json:"blocks_per_absent"`
	BlocksPresentNo    float64 `json:"blocks_per_present_without_filters"`
	BlocksAbsentNo     float64 `json:"blocks_per_absent_without_filters"`
	AbsentNs           float64 `json:"absent_ns"`
	PresentNs          float64 `json:"present_ns"`
	AbsentNsNo         float64 `json:"absent_ns_without_filters"`
	PresentNsNo        float64 `json:"present_ns_without_filters"`
	AbsentPerSecond    float64 `json:"absent_per_second"`
	PresentPerSecond   float64 `json:"present_per_second"`
	TableReads         uint64  `json:"table_reads"` // searches of tables, for present and absent keys
	TableReadsWithout  uint64  `json:"table_reads_without_filters"`
}

// demoCosts is what lookups cost with the store opened in one way.
type demoCosts struct {
	wasted, wastedPerRun          float64 // per absent lookup; per run whose bounds hold the key
	blocksPresent, blocksAbsent   float64
	readPresent, readAbsent       float64 // of these blocks, from files
	absent, present               workload.Figures
	metrics                       bloomkv.Metrics        // at the end
	tables                        []bloomkv.TableMetrics // the same
	wrong                         int
	firstWrong                    string
	presentLookups, absentLookups bloomkv.LookupMetrics
}

// printDemo prints the result as text.
func (a *app) printDemo(r *demoResult) {
	fmt.Fprintf(a.Out, "%s %s (seed %d)\n", words.Count(r.Keys), words.Escaped([]byte(r.Input), 200), r.Seed)
	fmt.Fprintf(a.Out, "stored in random order with %s, %s and %s, then reopened:\n\n",
		words.Plural(r.Flushes, "flush"), words.Plural(r.Compactions, "compaction"), words.Plural(r.Moves, "move"))
	a.printLevels(r.Levels)
	fmt.Fprintf(a.Out, "\nfilters: %s bytes in memory, %.1f bits per key\n", words.Count(int(r.FilterBytes)),
		r.BitsPerKey)
	fmt.Fprintf(a.Out, "promised %.4f wasted reads per absent lookup over the whole tree, measured %.4f\n\n",
		r.FPRPromised, r.FPRMeasured)
	w := tabwriter.NewWriter(a.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "%s present and %s absent keys\twith filters\twithout\n", words.Count(r.Keys),
		words.Count(r.Absents))
	for _, l := range []struct {
		what string
		form string
		of   func(c *demoCosts) float64
	}{
		{"wasted reads per absent lookup", "%.4f", func(c *demoCosts) float64 { return c.wasted }},
		{"  per run that may hold the key", "%.4f", func(c *demoCosts) float64 { return c.wastedPerRun }},
		{"blocks per absent lookup", "%.4f", func(c *demoCosts) float64 { return c.blocksAbsent }},
		{"  not in the cache", "%.4f", func(c *demoCosts) float64 { return c.readAbsent }},
		{"blocks per present lookup", "%.4f", func(c *demoCosts) float64 { return c.blocksPresent }},
		{"  not in the cache", "%.4f", func(c *demoCosts) float64 { return c.readPresent }},
		{"absent lookup, ns", "%.0f", func(c *demoCosts) float64 { return c.absent.MedianNs }},
		{"present lookup, ns", "%.0f", func(c *demoCosts) float64 { return c.present.MedianNs }},
		{"absent lookups per second", "", func(c *demoCosts) float64 { return perSecond(&c.absent) }},
		{"present lookups per second", "", func(c *demoCosts) float64 { return perSecond(&c.present) }},
		{"wrong answers", "%.0f", func(c *demoCosts) float64 { return float64(c.wrong) }},
	} {
		fmt.Fprintf(w, "%s", l.what)
		for _, c := range []*demoCosts{&r.with, &r.without} {
			if l.form == "" {
				fmt.Fprintf(w, "\t%s", words.Count(int(l.of(c))))
				continue
			}
			fmt.Fprintf(w, "\t"+l.form, l.of(c))
		}
		fmt.Fprintln(w)
	}
	w.Flush()

	fmt.Fprintln(a.Out)
	name := fmt.Sprintf("the filter of table %s on level %d", r.block.File, r.block.Level)
	if r.filter == nil {
		fmt.Fprintf(a.Out, "%s: none\n", name)
	} else {
		r.filter.WriteText(a.Out, name, a.Color)
	}
	fmt.Fprintf(a.Out, "\nit let %.4f of %s absent keys through\n", r.blockAbsent, words.Count(r.Absents))
	saved := r.TableReadsWithout - min(r.TableReads, r.TableReadsWithout)
	fmt.Fprintln(a.Out)
	words.Wrapped(a.Out, fmt.Sprintf("An absent key cost %.2g table reads instead of %.3g: filters saved %s of %s.",
		r.with.wasted, r.without.wasted, words.Count(saved), words.Count(r.TableReadsWithout)))
	if r.Kept == "" {
		fmt.Fprintln(a.Out, "To see it in a browser: bloomkv demo --keep DIR && bloomkv serve DIR")
		return
	}
	dir := words.Escaped([]byte(filepath.Clean(r.Kept)), 4096)
	fmt.Fprintf(a.Out, "To see it in a browser: bloomkv serve %s\n", dir)
}
