package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/outfile"
	"github.com/bloomkv/bloomkv/internal/picture"
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

// formats are the flags for the forms in which figures are reported.
type formats struct {
	json bool
	html string // file
	plot string // directory
}

const jsonHelp = "print the results as a JSON object"

func (o *formats) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, jsonHelp)
	f.StringVar(&o.html, "html", "", "also write the tables and charts to `FILE`, a page that loads nothing else")
	f.StringVar(&o.plot, "plot", "", "also write the charts as SVG and PNG into `DIR`")
}

// check reports a page that could not be written, before anything is measured.
func (o *formats) check() error {
	if o.html == "" {
		return nil
	}
	if err := outfile.Check(o.html); err != nil {
		return fmt.Errorf("--html %w", err)
	}
	return nil
}

// drawn are figures that can be shown as a page.
type drawn interface {
	figures
	page() *picture.Page
}

// give prints figures and writes their page and charts as far as the flags ask for them. Figures are printed even if a
// file cannot be written.
func (o *formats) give(ctx context.Context, to streams, f drawn) error {
	err := o.write(ctx, f.page())
	return errors.Join(err, to.show(o.json, f))
}

// write writes the page and the charts that the flags ask for.
func (o *formats) write(ctx context.Context, p *picture.Page) error {
	if o.html != "" {
		var b bytes.Buffer
		if err := p.WriteHTML(&b); err != nil {
			return err
		}
		if err := outfile.Write(ctx, o.html, b.Bytes()); err != nil {
			return err
		}
	}
	if o.plot == "" {
		return nil
	}
	return p.Save(ctx, o.plot)
}

// origin returns how the figures of a page were made.
func origin(m machine.Machine, command string) string {
	return fmt.Sprintf("%s, %d processors, %s/%s, %s. Command: %s", m.CPU, m.CPUs, m.OS, m.Arch, m.Go, command)
}
