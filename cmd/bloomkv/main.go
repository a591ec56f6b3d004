// Command bloomkv stores, reads, checks and explains bloomkv stores from the command line.
//
// Run it without arguments for its commands. "bloomkv demo" shows what the filters are worth on the Go source tree.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Exit codes, as grep has them: 1 is an answer, 2 is trouble.
const (
	exitOK          = 0
	exitAbsent      = 1   // get: the key is absent; demo: the store gave a wrong answer; salvage: something was lost
	exitTrouble     = 2   // damage, wrong usage, bad input, and every other error
	exitInterrupted = 130 // a signal, after the store was closed
)

const exitHelp = `Exit status:
  0    all is well
  1    get: the key is absent; demo: the store gave a wrong answer; salvage: something was lost, the rest is in NEW
  2    damage, wrong usage, bad input, or any other error
  130  interrupted; the store was closed properly`

// app is one run of the tool: where it reads and writes.
type app struct {
	in       io.Reader
	out, err io.Writer
	outTerm  bool // out is a terminal: nothing raw may reach it
	errTerm  bool // err is a terminal: it may have a progress bar
	color    bool // out is a terminal that has not asked for plain text
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		outTerm: isTerminal(os.Stdout), errTerm: isTerminal(os.Stderr),
	}
	a.color = a.outTerm && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	os.Exit(a.run(ctx, os.Args[1:]))
}

func isTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd()))
}

// run runs the tool with its arguments and returns the exit code. It prints errors, one a line.
func (a *app) run(ctx context.Context, args []string) int {
	out := &output{to: a.out}
	a.out = out
	root := a.command()
	checkCompletion(root, args)
	root.SetArgs(append([]string{}, args...)) // given nil it takes those of the process
	err := root.ExecuteContext(ctx)
	if out.err != nil && !errors.Is(err, out.err) { // what prints text does not ask
		err = errors.Join(err, out.err)
	}
	if err == nil {
		return exitOK
	}
	interrupted := errors.Is(err, context.Canceled) && ctx.Err() != nil
	if interrupted {
		err = interruptedError{err}
	}
	a.complain(err)
	if errors.Is(err, bloomkv.ErrCorruption) {
		fmt.Fprintf(a.err, "bloomkv: %s\n", salvageHelp)
	}
	switch {
	case errors.Is(err, bloomkv.ErrCorruption):
		return exitTrouble
	case interrupted:
		return exitInterrupted
	case errors.Is(err, errAbsent), errors.Is(err, errWrongAnswers), errors.Is(err, errLost):
		return exitAbsent
	default:
		return exitTrouble
	}
}

// interruptedError is the error of work that a signal ended. Its text says where, without the words of package context.
type interruptedError struct{ error }

func (e interruptedError) Error() string {
	text := "interrupted: " + strings.TrimPrefix(e.error.Error(), "bloomkv: ")
	return strings.ReplaceAll(text, ": "+context.Canceled.Error(), "")
}

func (e interruptedError) Unwrap() error { return e.error }

// output is where a command prints. It keeps the first error: what could not be printed must not pass for printed.
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

// complain prints an error, whose every line begins with the name of the tool and holds nothing that could drive a terminal.
func (a *app) complain(err error) {
	for line := range bytes.SplitSeq([]byte(err.Error()), []byte{'\n'}) {
		line = bytes.TrimPrefix(line, []byte("bloomkv: "))
		fmt.Fprintf(a.err, "bloomkv: %s\n", words.AppendPrintable(nil, line))
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
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // they are commands that there are not
		RunE:          commandsOnly,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpCommand(helpCommand(root))
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.AddCommand(
		a.putCommand(), a.getCommand(), a.delCommand(), a.scanCommand(),
		a.loadCommand(), a.dumpCommand(), a.ingestCommand(), a.checkpointCommand(), a.compactCommand(),
		a.statsCommand(), a.checkCommand(), a.salvageCommand(), a.inspectCommand(), a.planCommand(),
		a.demoCommand(),
	)
	root.SetFlagErrorFunc(flagError)
	return root
}
