// Command bench measures bloomkv: how long lookups, writes and scans take and what they read, with filters and without,
// side by side. Every answer is checked.
//
// Without arguments it runs the main benchmark. "bench sweep" shows how read amplification changes with the filters'
// error rate, the number of runs and the number of keys. "bench growth" shows what lookups cost as a store outgrows its
// memory, "bench floors" compares them with the least work that they need, and "bench scale" measures several
// goroutines. The phases are those of tools/workload, which bench/compare runs on other stores too. README.md
// explains the output.
package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/tools/cli"
)

func main() {
	s := cli.Standard()
	os.Exit(run(cli.Context(), os.Args[1:], &s))
}

// run runs the program and returns its exit code. It prints errors, one per line.
func run(ctx context.Context, args []string, s *cli.Streams) int {
	err := execute(ctx, args, s)
	if err == nil {
		return cli.ExitOK
	}
	s.PrintError("bench", err)
	if cli.Interrupted(err) && !errors.Is(err, errWrong) {
		return cli.ExitInterrupted
	}
	return cli.ExitTrouble // a store gave a wrong answer, the usage was wrong, or there was any other error
}

// execute runs the program and returns its error.
func execute(ctx context.Context, args []string, s *cli.Streams) error {
	return s.Run(ctx, rootCommand(s, args), args)
}

// rootCommand returns the tree of commands. The reports quote the arguments.
func rootCommand(s *cli.Streams, args []string) *cobra.Command {
	command := strings.Join(append([]string{"go run ./bench"}, args...), " ")
	root := mainCommand(s, command)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(sweepCommand(s, command), growthCommand(s, command), measureCommand(s),
		floorsCommand(s, command), scaleCommand(s, command))
	return root
}
