package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// errWrong means that a store gave a wrong answer.
var errWrong = errors.New("wrong answers")

// streams are the outputs of a command: figures are printed to out, progress and errors to err.
type streams struct {
	out, err io.Writer
	terminal bool // err is a terminal, so a progress bar may be drawn
}

// output keeps the first error of writing, so that lost output is reported.
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

// usage adds a hint to the errors of a check of the arguments.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error { return hint(c, check(c, args)) }
}

// hint adds to an error of usage which help to read.
func hint(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// tempDir creates a directory and returns it with a function that removes it. A named directory must be new or empty,
// and remove leaves it alone.
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

// figures are the results of a command.
type figures interface {
	print(w io.Writer) error
	wrong() (n int, first string) // wrong answers of the stores
}

// show prints figures as text or JSON. Wrong answers are an error, after printing.
func (s streams) show(asJSON bool, f figures) error {
	var err error
	if asJSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		err = e.Encode(f)
	} else {
		err = f.print(s.out)
	}
	if n, first := f.wrong(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d %w; the first: %s", n, errWrong, first))
	}
	return err
}

const jsonHelp = "print the results as a JSON object"
