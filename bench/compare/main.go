// Command compare compares bloomkv with Pebble, goleveldb, Badger, bbolt and, if it was built with it, RocksDB, by the
// workload of bench.
//
// Each engine runs in a process of its own for each state of a store. In each state the engines take turns, for several
// rounds, so that disturbances on the machine affect all of them: the results are ratios. It is in another module than
// the store, which does not depend on other stores.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/outfile"
)

// errWrong means that an engine gave a wrong answer.
var errWrong = errors.New("wrong answers")

func main() {
	s := cli.Standard()
	os.Exit(s.Main(cli.Context(), "compare", command(&s, os.Args[1:]), os.Args[1:]))
}

// command returns the program. The page quotes the arguments, and workers get them.
func command(s *cli.Streams, args []string) *cobra.Command {
	c := &config{args: args}
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Compare bloomkv with other stores",
		Long: `compare measures bloomkv and other stores, which take turns in processes of their own. It prints a table
of figures, and one of bloomkv's figures divided by those of the others. README.md explains rows and columns.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return cli.Hint(cmd, err)
			}
			return c.run(cmd.Context(), s)
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	c.flags(cmd)
	return cmd
}

// jsonFile returns the name of the file for the JSON object.
func (c *config) jsonFile() string { return strings.TrimSuffix(c.out, filepath.Ext(c.out)) + ".json" }

func (c *config) run(ctx context.Context, s *cli.Streams) error {
	if c.worker >= 0 {
		o, err := c.work(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(s.Out).Encode(o)
	}
	if c.filters {
		return compareFilters(s.Out, c.keys)
	}
	if c.out != "" {
		if err := errors.Join(outfile.Check(c.out), outfile.Check(c.jsonFile())); err != nil {
			return fmt.Errorf("--out %w", err)
		}
	}
	begin := time.Now()
	all, err := c.takeTurns(ctx, s)
	if err != nil {
		return err
	}
	r := newReport(c, all, time.Since(begin))
	var page, object bytes.Buffer
	if err := errors.Join(r.print(&page), (&cli.Streams{Out: &object}).PrintJSON(r)); err != nil {
		return err
	}
	if c.out != "" {
		err = errors.Join(outfile.Write(ctx, c.out, page.Bytes()), outfile.Write(ctx, c.jsonFile(), object.Bytes()))
	}
	if c.json {
		page = object
	}
	if _, printed := page.WriteTo(s.Out); printed != nil {
		err = errors.Join(err, printed)
	}
	if all.Wrong > 0 {
		err = errors.Join(err, fmt.Errorf("%d %w; the first: %s", all.Wrong, errWrong, all.FirstWrong))
	}
	return err
}

// A step is one engine in one state in one round.
type step struct {
	engine string
	state  state
	round  int
	last   bool // in the last state of the round
}

// steps returns what is measured, in its order. The engine that starts changes with each turn.
func (c *config) steps() (all []step) {
	wanted, turn := wantedStates(c), 0
	for round := range c.rounds {
		for i, s := range wanted {
			for k := range c.engines {
				name := c.engines[(turn+k)%len(c.engines)]
				all = append(all, step{name, s, round, i == len(wanted)-1})
			}
			turn++
		}
	}
	return all
}

// work measures one step, in a worker.
func (c *config) work(ctx context.Context) (outcome, error) {
	steps := c.steps()
	if c.worker >= len(steps) {
		return outcome{}, fmt.Errorf("--worker %d: want less than %d", c.worker, len(steps))
	}
	s := steps[c.worker]
	return measureState(ctx, c, s.engine, s.state, s.round)
}

// takeTurns measures each step in a process of its own.
func (c *config) takeTurns(ctx context.Context, streams *cli.Streams) (all outcome, err error) {
	dir, err := os.MkdirTemp(c.dir, "compare-")
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	steps := c.steps()
	for i, s := range steps {
		store := filepath.Join(dir, s.engine)
		used := store
		if s.state.alone {
			used += "-alone"
		}
		what := fmt.Sprintf("round %d, %s, %s", s.round+1, s.state.name, s.engine)
		bar := streams.Progress(what, int64(len(steps)), false)
		bar.Set(i, len(steps))
		var o outcome
		worker := append(slices.Clone(c.args), "--worker", strconv.Itoa(i), "--dir", used)
		err := cli.Again(ctx, worker, nil, &o)
		bar.End()
		switch {
		case err != nil:
			return all, fmt.Errorf("%s: %w", what, err)
		case s.last: // the round is done with the store that other states use
			err = errors.Join(os.RemoveAll(used), os.RemoveAll(store))
		case s.state.alone:
			err = os.RemoveAll(used)
		default:
			err = syncFiles(used)
		}
		if err != nil {
			return all, err
		}
		all.Results = append(all.Results, o.Results...)
		all.Wrong, all.FirstWrong = all.Wrong+o.Wrong, cmp.Or(all.FirstWrong, o.FirstWrong)
	}
	return all, nil
}
