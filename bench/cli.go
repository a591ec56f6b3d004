package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bloomkv/bloomkv/internal/cli"
)

// errWrong means that a store gave a wrong answer.
var errWrong = errors.New("wrong answers")

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

const jsonHelp = "print the results as a JSON object"
