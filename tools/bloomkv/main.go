// Command bloomkv stores, reads, checks and explains bloomkv stores from the command line.
//
// Run it without arguments for its commands. "bloomkv demo" shows what the filters are worth on the Go source tree.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// exitAbsent is the exit code of a negative answer, as in grep: get found no key, demo got a wrong answer, or salvage
// lost data.
const exitAbsent = 1

const exitHelp = `Exit status:
  0    success
  1    get: the key was not found; demo: the store gave a wrong answer; salvage: some data was lost, the rest is in NEW
  2    damage, wrong usage, bad input, or any other error
  130  interrupted, after the store was closed cleanly`

// app is one run of the tool.
type app struct {
	cli.Streams

	dir    string // of the store that the command reads or writes, or "DIR"
	asJSON bool   // --json
}

func main() {
	a := &app{Streams: cli.Standard()}
	os.Exit(a.run(cli.Context(), os.Args[1:]))
}

// run runs the tool with its arguments, prints its error, and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	err := a.Run(ctx, a.command(), args)
	code := a.Exit("bloomkv", err)
	dir := a.dir
	if other, ok := errors.AsType[otherStoreError](err); ok {
		dir = other.dir
	}
	var advice error
	switch {
	case errors.Is(err, bloomkv.ErrCorruption) && inspect.IsForeignStore(dir):
		advice = fmt.Errorf("%s is of another kind of store: bloomkv inspect shows its tables, and bloomkv-import "+
			"copies it", dir)
	case errors.Is(err, bloomkv.ErrCorruption):
		advice = fmt.Errorf(salvageHelp, dir)
	case errors.Is(err, bloomkv.ErrLocked) && dir != "DIR":
		by := "another program"
		if pid := lockHolder(dir); pid > 0 {
			by = fmt.Sprintf("process %d", pid)
		}
		advice = fmt.Errorf("%s has it open; inspect and serve work beside it, and a program may serve package "+
			"debug", by)
	case code == cli.ExitTrouble &&
		(errors.Is(err, errAbsent) || errors.Is(err, errWrongAnswers) || errors.Is(err, errLost)):
		return exitAbsent
	default:
		return code
	}
	a.PrintError("bloomkv", advice)
	return cli.ExitTrouble
}

// An otherStoreError is an error of another store than the one that a command is about.
type otherStoreError struct {
	error

	dir string
}

func (e otherStoreError) Unwrap() error { return e.error }

// command returns the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "bloomkv",
		Short: "Write, read, check and inspect bloomkv stores",
		Long: `bloomkv works on stores of keys and values. A store is a directory.

put, load, ingest and demo create the store if it does not exist; checkpoint, import, restore and salvage create a
copy. The other commands fail if there is no store. Commands that read change nothing, not even in a store that was
not closed cleanly. Several of them may read a store at the same time, but not while another command writes it. On a
terminal, keys and values are escaped (\x1b for the byte 0x1b), so that stored data cannot control it. In a pipe, get
and dump print the bytes unchanged.

` + exitHelp,
		Version: version(),
		Args:    cobra.ArbitraryArgs, // arguments here are unknown commands
		RunE:    cli.CommandsOnly,
		PersistentPreRun: func(c *cobra.Command, args []string) {
			a.dir = "DIR"
			uses := strings.Fields(c.Use)
			if len(args) > 0 && len(uses) > 1 && slices.Contains(strings.Split(uses[1], "|"), "DIR") &&
				!isFile(args[0]) {
				a.dir = args[0]
			}
		},
	}
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(
		a.putCommand(), a.getCommand(), a.delCommand(), a.scanCommand(), a.countCommand(), a.sizeCommand(),
		a.loadCommand(), a.dumpCommand(), a.ingestCommand(), a.checkpointCommand(), a.exportCommand(),
		a.importCommand(), a.backupCommand(), a.backupsCommand(), a.restoreCommand(), a.compactCommand(),
		a.statsCommand(), a.checkCommand(), a.salvageCommand(), a.inspectCommand(), a.serveCommand(),
		a.digestCommand(), a.planCommand(), a.demoCommand(),
	)
	return root
}

// addJSON adds --json to a command.
func (a *app) addJSON(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&a.asJSON, "json", false, usage)
}

// printResult prints the result of a command as JSON, or without --json as text.
func (a *app) printResult(result any, printText func()) error {
	if a.asJSON {
		return a.PrintJSON(result)
	}
	printText()
	return nil
}

// version returns the text of --version: the version of the module, and the versions of the formats.
func version() string {
	return fmt.Sprintf("bloomkv %s, %s %s/%s\nformats: %s\n", inspect.Version(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, inspect.Formats())
}
