// Package cli contains what the command-line programs of this module share: an output that remembers its first error,
// errors that name the help page to read, progress bars, and a clean end after an interrupt.
package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bloomkv/bloomkv/internal/words"
)

// Exit codes. As in grep, 1 is left for an answer such as "not found".
const (
	ExitOK          = 0
	ExitTrouble     = 2   // wrong usage, bad input, damage, and every other error
	ExitInterrupted = 130 // a signal, after everything was closed
	exitClosedPipe  = 141 // nobody reads the output any more: as of a program that SIGPIPE ends
)

// Streams are the input and the outputs of a program.
type Streams struct {
	In          io.Reader
	Out, Err    io.Writer
	OutTerminal bool // Out is a terminal: unescaped bytes must not reach it
	ErrTerminal bool // Err is a terminal: progress bars may be drawn
	Color       bool // Out is a terminal that accepts colors
	Width       int  // of Out in characters; 0 means words.Width
}

// Standard returns the streams of the process.
func Standard() Streams {
	s := Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr),
	}
	if s.OutTerminal {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.Width = max(width, narrowest)
		}
	}
	s.Color = s.OutTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// Lines of help are readable between these widths. A terminal that is narrower breaks lines itself.
const (
	narrowest = 40
	widest    = 100
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// SIGHUP and SIGPIPE, which have no names in package syscall for js.
const (
	hangUp     = syscall.Signal(1)
	closedPipe = syscall.Signal(13)
)

// Context returns a context that the first interrupt cancels, and the end of the terminal. A second interrupt ends the
// process at once. A write to a pipe that nobody reads fails, and does not end the process.
func Context() context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(hangUp) { // nohup
		signals = append(signals, hangUp)
	}
	signal.Ignore(closedPipe)
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Run executes a command with its arguments. The first error of Out is an error of the command, and a closed pipe
// cancels it. The error of a command that ended because ctx was canceled satisfies Interrupted.
func (s *Streams) Run(ctx context.Context, root *cobra.Command, args []string) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	out := &output{to: s.Out, closed: stop}
	s.Out = out
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	prepareUsage(root, args, min(cmp.Or(s.Width, words.Width), widest))
	err := root.ExecuteContext(running)
	if out.err != nil && !errors.Is(err, out.err) { // commands that print text do not check each write
		err = errors.Join(err, out.err)
	}
	if errors.Is(out.err, syscall.EPIPE) {
		err = closedPipeError{err}
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = interruptedError{err}
	}
	return err
}

// Main runs a command as Run does, prints its error after the name of the program, and returns the exit code.
func (s *Streams) Main(ctx context.Context, program string, root *cobra.Command, args []string) int {
	return s.Exit(program, s.Run(ctx, root, args))
}

// Exit prints the error of a command, if there is one, after the name of the program, and returns the exit code. A
// closed pipe is what its reader wanted, and is not printed.
func (s *Streams) Exit(program string, err error) int {
	if err == nil {
		return ExitOK
	}
	if _, ok := errors.AsType[closedPipeError](err); ok {
		return exitClosedPipe
	}
	s.PrintError(program, err)
	if Interrupted(err) {
		return ExitInterrupted
	}
	return ExitTrouble
}

// output remembers its first error, since a program must not succeed without having printed everything.
type output struct {
	to     io.Writer
	err    error
	closed func() // called if nobody reads the output
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if o.err == nil {
		o.err = err
	}
	if errors.Is(err, syscall.EPIPE) {
		o.closed()
	}
	return n, err
}

// closedPipeError is the error of a command whose output nobody reads any more. Other pipes are not meant.
type closedPipeError struct{ error }

func (e closedPipeError) Unwrap() error { return e.error }

// Interrupted reports whether err is the error of a command that an interrupt ended.
func Interrupted(err error) bool {
	_, ok := errors.AsType[interruptedError](err)
	return ok
}

// interruptedError is the error of work that a signal ended. Its text names what was interrupted, without
// the words of package context.
type interruptedError struct{ error }

func (e interruptedError) Error() string {
	text := "interrupted: " + strings.TrimPrefix(e.error.Error(), libraryPrefix)
	text = strings.ReplaceAll(text, "\n"+context.Canceled.Error(), "") // of a joined error
	return strings.ReplaceAll(text, ": "+context.Canceled.Error(), "")
}

func (e interruptedError) Unwrap() error { return e.error }

// libraryPrefix begins the errors of the library. A program prints its own name instead.
const libraryPrefix = "bloomkv: "

// PrintError prints an error to Err. Each line begins with the name of the program, and control characters are escaped.
func (s *Streams) PrintError(program string, err error) {
	for line := range bytes.SplitSeq([]byte(err.Error()), []byte{'\n'}) {
		line = bytes.TrimPrefix(line, []byte(libraryPrefix))
		line = bytes.ReplaceAll(line, []byte(": "+libraryPrefix), []byte(": ")) // after the name of an input
		fmt.Fprintf(s.Err, "%s: %s\n", program, words.AppendPrintable(nil, line))
	}
}

// PathError returns an error of package os with the name that the user gave in place of the operation and its path.
func PathError(arg string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", arg, err)
}

// Directory returns a directory and a function that removes it. Without a name it is a temporary one whose name begins
// with pattern. A directory that the user names with a flag must be empty or not exist, and stays.
func Directory(flag, name, pattern string) (dir string, remove func() error, err error) {
	if name == "" {
		dir, err = os.MkdirTemp("", pattern)
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	entries, err := os.ReadDir(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = nil
	case err == nil && len(entries) > 0:
		err = fmt.Errorf("%s: %s is not empty", flag, name)
	}
	return name, func() error { return nil }, err
}

// PrintJSON prints one value to Out, indented. The output has only printable characters, so it cannot control a
// terminal.
func (s *Streams) PrintJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = s.Out.Write(append(appendPrintable(nil, b), '\n'))
	return err
}

// AppendJSONString appends a JSON string of valid UTF-8 that has only printable characters.
func AppendJSONString(dst, text []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(text)) // neither a string nor a Buffer fails
	return appendPrintable(dst, bytes.TrimSuffix(b.Bytes(), []byte{'\n'}))
}

// appendPrintable appends JSON and escapes the characters that package json leaves in strings although they are not
// printable.
func appendPrintable(dst, encoded []byte) []byte {
	for _, r := range string(encoded) {
		if unicode.IsPrint(r) || r == '\n' {
			dst = utf8.AppendRune(dst, r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			dst = fmt.Appendf(dst, `\u%04x`, u)
		}
	}
	return dst
}
