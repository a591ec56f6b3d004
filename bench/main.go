// Command bench measures bloomkv: how long lookups, writes and scans take and what they read, with filters and without,
// side by side. Every answer is checked.
//
// Without arguments it runs the main benchmark. "bench sweep" shows how read amplification changes with the filters'
// error rate, the number of runs and the number of keys. "bench growth" measures large stores and "bench scale" several
// goroutines. The phases are those of internal/workload, which bench/compare runs on other stores too. README.md
// explains the output.
package main

import (
	"context"
	"errors"
	"fmt"
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
	exitTrouble     = 2   // a store gave a wrong answer, the usage was wrong, or there was any other error
	exitInterrupted = 130 // after a signal; the stores were closed and removed
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	s := streams{out: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
	os.Exit(run(ctx, os.Args[1:], s))
}

// run runs the program and returns its exit code. It prints errors, one per line.
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

// execute runs the program and returns its error.
func execute(ctx context.Context, args []string, s streams) error {
	out := &output{to: s.out}
	s.out = out
	root := rootCommand(s, args)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if out.err != nil && !errors.Is(err, out.err) { // code that prints text does not check errors
		err = errors.Join(err, out.err)
	}
	return err
}

// rootCommand returns the tree of commands. The reports quote the arguments.
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
