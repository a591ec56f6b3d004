package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/tools/cli"
)

// errWrong means that a store gave a wrong answer.
var errWrong = errors.New("wrong answers")

// figures are the results of a command.
type figures interface {
	print(w io.Writer) error
	wrong() (n int, first string) // wrong answers of the stores
}

// show prints figures as text or JSON. Wrong answers are an error, after printing.
func show(s *cli.Streams, asJSON bool, f figures) error {
	var err error
	if asJSON {
		err = s.PrintJSON(f)
	} else {
		err = f.print(s.Out)
	}
	if n, first := f.wrong(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d %w; the first: %s", n, errWrong, first))
	}
	return err
}

const tempPattern = "bloomkv-bench-" // begins the names of temporary directories

const jsonHelp = "print the results as a JSON object"
