package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// config holds the flags.
type config struct {
	args        []string
	keys, value int
	shape       workload.Shape
	rounds      int
	engines     []string
	given       []string        // --rows
	rows        map[string]bool // the requested rows
	ycsb        bool
	dir         string
	out         string
	json        bool
	profiles    string
	puts        int           // in state "many puts"
	busy        time.Duration // of state "busy"
	small       bool          // the small cache in all states that read
	cache       int           // its size in MiB; 0 for 7 % of the pairs
	ordered     bool          // the store of most states is loaded in key order
	filters     bool          // compare the filters alone
	worker      int           // the step to measure, in dir; -1 for all, in workers
}

func (c *config) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&c.keys, "keys", 1_000_000, "pairs in a store")
	f.IntVar(&c.value, "value", 100, "length of each value, in `BYTES`")
	f.TextVar(&c.shape, "shape",
		workload.Decimal, "form of the keys, a `NAME`: decimal (16 digits), random (16 bytes), "+
			"prefixed (36 bytes, the first 20 the same) or bigendian (8 bytes)")
	f.IntVar(&c.rounds, "rounds", 3, "number of rounds in which the engines take turns")
	f.StringSliceVar(&c.engines, "engines", engineNames(), "engines to compare, a `LIST`")
	f.StringSliceVar(&c.given, "rows", nil, "rows to measure, a `LIST` of "+strings.Join(rowNames(true), ",")+
		", or of their beginnings and * (default: all except those of YCSB)")
	f.BoolVar(&c.ycsb, "ycsb", false, "also measure the rows of YCSB A to F")
	f.IntVar(&c.puts, "puts", 5_000_000, "puts in the rows puts-*; a tenth of them in bbolt")
	f.DurationVar(&c.busy, "busy", 10*time.Second, "time of the rows busy-*, in which readers and a writer run")
	f.BoolVar(&c.small, "small-cache", false, "use the small cache in all states that read")
	f.IntVar(&c.cache, "cache", 0, "size of the small cache in `MIB` (default 7 % of keys and values, at least 4)")
	f.BoolVar(&c.ordered, "ordered", false, "load the store of most states in key order, which takes a fraction of "+
		"the time")
	f.StringVar(&c.dir, "dir", "", "create the stores below `DIR`, and remove them afterwards "+
		"(default: the directory for temporary files)")
	f.StringVar(&c.out, "out", "",
		"also write the table to `FILE`, and the JSON object to a file next to it that ends in .json")
	f.BoolVar(&c.json, "json", false, "print a JSON object instead of the table")
	f.StringVar(&c.profiles, "cpuprofile", "", "write processor profiles of the timed rows of the last round to `DIR`")
	f.BoolVar(&c.filters, "filters", false, "compare only the engines' filters, with --keys keys, without stores")
	f.IntVar(&c.worker, "worker", -1, "measure one step, in --dir")
	_ = f.MarkHidden("worker") // it exists
}

func (c *config) check() error {
	if c.puts < 10 || c.busy < time.Millisecond {
		return fmt.Errorf("--puts %d, --busy %v: want at least 10 and 1ms", c.puts, c.busy)
	}
	if c.cache != 0 && c.cache < 4 {
		return fmt.Errorf("--cache %d: want at least 4", c.cache)
	}
	if c.rounds < 1 {
		return fmt.Errorf("--rounds %d: want at least 1", c.rounds)
	}
	set, err := c.setOf(c.shape, c.keys)
	if err != nil {
		return err
	}
	if c.ordered && !set.Sorted() {
		return fmt.Errorf("--ordered: keys of --shape %s are in no order", c.shape)
	}
	for i, name := range c.engines {
		if slices.Contains(c.engines[:i], name) {
			return fmt.Errorf("--engines: %q is given twice", name)
		}
		if _, err := findEngine(name); err != nil {
			return fmt.Errorf("--engines: %w, want some of %s", err, strings.Join(engineNames(), ","))
		}
	}
	wanted := c.given
	if len(wanted) == 0 {
		wanted = rowNames(false)
	}
	if c.ycsb {
		wanted = append(slices.Clone(wanted), ycsbRow+"*")
	}
	c.rows = make(map[string]bool)
	for _, name := range wanted {
		some := false
		for _, row := range rowNames(true) {
			start, ok := strings.CutSuffix(name, "*")
			if row == name || ok && strings.HasPrefix(row, start) {
				c.rows[row], some = true, true
			}
		}
		if !some {
			return fmt.Errorf("--rows: unknown row %q, want some of %s", name, strings.Join(rowNames(true), ","))
		}
	}
	return nil
}

func (c *config) wants(row string) bool { return c.rows[row] }

// setOf returns the set of pairs, the same for all rounds and engines. The order of use depends on the round.
func (c *config) setOf(shape workload.Shape, keys int) (workload.Set, error) {
	return workload.NewGenerated(shape, keys, 1, c.value)
}

// sortedSet returns the set for loads in key order: with the requested shape if its keys are sorted, else with decimal
// keys.
func (c *config) sortedSet() (workload.Set, error) {
	set, err := c.setOf(c.shape, c.keys)
	if err != nil || set.Sorted() {
		return set, err
	}
	return c.setOf(workload.Decimal, c.keys)
}

// dataBytes returns the size of all keys and values.
func (c *config) dataBytes() float64 { return c.sizeOf(c.keys) }

// sizeOf returns the size of the given number of pairs.
func (c *config) sizeOf(pairs int) float64 {
	return float64(pairs) * float64(c.shape.KeyBytes()+c.value)
}

// smallCache returns the size of small caches: that of flag --cache, or 7 % of the pairs, 8 MB for a million, but at
// least 4 MiB.
func (c *config) smallCache() int64 {
	if c.cache > 0 {
		return int64(c.cache) << 20
	}
	return max(4<<20, int64(c.dataBytes()*0.07))
}
