package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/tools/cli"
)

// errWrong means that a store gave a wrong answer.
var errWrong = errors.New("wrong answers")

// figures are the results of a command.
type figures interface {
	print(w io.Writer) error
	phases() []*phase // all that were measured
}

// show prints figures as text or JSON. Wrong answers are an error, after printing.
func show(s *cli.Streams, asJSON bool, f figures) error {
	var err error
	if asJSON {
		err = s.PrintJSON(f)
	} else {
		err = f.print(s.Out)
	}
	n, first := 0, ""
	for _, p := range f.phases() {
		n, first = n+p.Wrong, cmp.Or(first, p.FirstWrong)
	}
	if n > 0 {
		err = errors.Join(err, fmt.Errorf("%d %w; the first: %s", n, errWrong, first))
	}
	return err
}

// stopped describes why a report is not complete.
func stopped(err error, done, all int) string {
	reason := err.Error()
	if errors.Is(err, context.Canceled) {
		reason = "interrupted"
	}
	return fmt.Sprintf("stopped after %d of %d measurements: %s", done, all, reason)
}

// paragraphs returns texts with an empty line between, and leaves out those that are empty.
func paragraphs(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "\n\n")
}

// wrapped breaks the lines of a text before the hundredth column.
func wrapped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(cli.Fit(line, 99))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// perLookup formats a number per lookup with enough digits to distinguish a thousandth from zero.
func perLookup(x float64) string {
	if x >= 1 {
		return fmt.Sprintf("%.3f", x)
	}
	return fmt.Sprintf("%.5f", x)
}

// cellWidth is the least width of a column of rows that are printed as they are measured.
const cellWidth = 8

const tempPattern = "bloomkv-bench-" // begins the names of temporary directories

const jsonHelp = "print the results as a JSON object"
