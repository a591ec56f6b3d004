// Command bench measures bloomkv: what lookups, writes and scans cost in time, and what they touch to cost that, with the
// filters and without, side by side. Every answer is checked.
//
// Run it without arguments for the main run. "bench sweep" shows how the costs change with the filters' error rate, with the
// number of runs and with the number of keys, "bench growth" and "bench scale" how they grow and scale. The phases are those
// of internal/workload, which bench/compare runs on other stores too. README.md says how to read what is printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK          = 0
	exitTrouble     = 2   // a wrong answer of a store, wrong usage, and every other error
	exitInterrupted = 130 // a signal, after the stores were closed and removed
)

// errWrong means that a store gave a wrong answer.
var errWrong = errors.New("wrong answers")

// streams are where a command prints: figures to out, progress and errors to err.
type streams struct {
	out, err io.Writer
	terminal bool // err is a terminal: it may have a progress bar
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	s := streams{out: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
	os.Exit(run(ctx, os.Args[1:], s))
}

// run runs the program with its arguments and returns the exit code. It prints errors, one a line.
func run(ctx context.Context, args []string, s streams) int {
	err := execute(ctx, args, s)
	if err == nil {
		return exitOK
	}
	interrupted := errors.Is(err, context.Canceled) && ctx.Err() != nil
	if interrupted {
		err = fmt.Errorf("interrupted: %w", err)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(s.err, "bench: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if interrupted && !errors.Is(err, errWrong) {
		return exitInterrupted
	}
	return exitTrouble
}

// execute runs the program with its arguments.
func execute(ctx context.Context, args []string, s streams) error {
	out := &output{to: s.out}
	s.out = out
	root := rootCommand(s, args)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if out.err != nil && !errors.Is(err, out.err) { // what prints text does not ask
		err = errors.Join(err, out.err)
	}
	return err
}

// output keeps the first error of printing: what could not be printed must not pass for printed.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// rootCommand is the tree of commands. The arguments are for the reports, which say how they were made.
func rootCommand(s streams, args []string) *cobra.Command {
	command := strings.Join(append([]string{"go run ./bench"}, args...), " ")
	root := mainCommand(s, command)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(hint)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(sweepCommand(s, command), growthCommand(s, command), scaleCommand(s, command))
	return root
}

// usage has a check of the arguments tell where to read on.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error { return hint(c, check(c, args)) }
}

func hint(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// printJSON prints one value.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// tempDir makes a directory that remove takes away with all in it; where a name is given it is made there, must be new or
// empty, and stays.
func tempDir(name string) (dir string, remove func() error, err error) {
	if name == "" {
		dir, err = os.MkdirTemp("", "bloomkv-bench-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	entries, err := os.ReadDir(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", nil, err
	}
	if len(entries) > 0 {
		return "", nil, fmt.Errorf("--dir: %s is not empty", name)
	}
	return name, func() error { return nil }, os.MkdirAll(name, 0o755)
}
