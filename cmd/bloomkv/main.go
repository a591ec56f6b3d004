// Command bloomkv stores, reads, checks and explains bloomkv stores from the command line.
//
// Run it without arguments for its commands. "bloomkv demo" shows what the filters are worth on the Go source tree.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
)

// exitAbsent is the exit code of an answer, as in grep: get found no key, demo got a wrong answer, or salvage lost something.
const exitAbsent = 1

const exitHelp = `Exit status:
  0    all is well
  1    get: the key is absent; demo: the store gave a wrong answer; salvage: something was lost, the rest is in NEW
  2    damage, wrong usage, bad input, or any other error
  130  interrupted; the store was closed properly`

// app is one run of the tool.
type app struct{ cli.Streams }

func main() {
	a := &app{cli.Standard()}
	os.Exit(a.run(cli.Context(), os.Args[1:]))
}

// run runs the tool with its arguments, prints its error, and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	err := a.Run(ctx, a.command(), args)
	if err == nil {
		return cli.ExitOK
	}
	a.PrintError("bloomkv", err)
	switch {
	case errors.Is(err, bloomkv.ErrCorruption):
		fmt.Fprintf(a.Err, "bloomkv: %s\n", salvageHelp)
		return cli.ExitTrouble
	case cli.Interrupted(err):
		return cli.ExitInterrupted
	case errors.Is(err, errAbsent), errors.Is(err, errWrongAnswers), errors.Is(err, errLost):
		return exitAbsent
	default:
		return cli.ExitTrouble
	}
}

// command is the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "bloomkv",
		Short: "Store, read, check and explain bloomkv stores",
		Long: `bloomkv works on stores of keys and values, each a directory.

Only put, load, ingest and demo create a store, and checkpoint and salvage a copy of one; the others answer an error where there is
none. Commands that read change nothing, not even in a store that was not closed, and several may read one at a time; no
other command may have it open meanwhile. Keys and values on a terminal are escaped (\x1b for the byte 0x1b), so that
nothing stored can drive it; in a pipe, get and dump give the bytes as they are.

` + exitHelp,
		Version: version(),
		Args:    cobra.ArbitraryArgs, // arguments here are unknown commands
		RunE:    cli.CommandsOnly,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(
		a.putCommand(), a.getCommand(), a.delCommand(), a.scanCommand(),
		a.loadCommand(), a.dumpCommand(), a.ingestCommand(), a.checkpointCommand(), a.compactCommand(),
		a.statsCommand(), a.checkCommand(), a.salvageCommand(), a.inspectCommand(), a.planCommand(),
		a.demoCommand(),
	)
	return root
}
