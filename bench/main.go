// Command bench measures bloomkv: how long lookups, writes and scans take and what they read, with filters and without,
// side by side. Every answer is checked.
//
// Without arguments it runs the main benchmark. "bench sweep" shows how read amplification changes with the filters'
// error rate, the number of runs and the number of keys, and "bench growth" what lookups cost as a store outgrows its
// memory. The phases are those of tools/workload, which bench/compare runs on other stores too. README.md explains the
// output.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/tools/cli"
)

func main() {
	s := cli.Standard()
	os.Exit(run(cli.Context(), os.Args[1:], &s))
}

// run runs the program and returns its exit code.
func run(ctx context.Context, args []string, s *cli.Streams) int {
	return s.Main(ctx, "bench", rootCommand(s, args), args)
}

// rootCommand returns the tree of commands. The reports quote the arguments.
func rootCommand(s *cli.Streams, args []string) *cobra.Command {
	command := strings.Join(append([]string{"go run ./bench"}, args...), " ")
	root := mainCommand(s, command)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(sweepCommand(s, command), growthCommand(s, command), measureCommand(s))
	return root
}
