package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

const formatHelp = `Formats, one pair per line, which ends with a line feed:
  tsv   key TAB value. The key must not contain a TAB, neither may contain a line feed; the value may contain TABs.
  hex   the same with key and value in hexadecimal digits, for any bytes.
  json  {"key":"…","value":"…"}, or "key_base64" and "value_base64" for bytes that are not UTF-8.`

const crlfHelp = `

In tsv, a carriage return before the line feed is the last byte of the value, because dump must print exactly what load
has read. With --crlf it is part of the line end, and every line must have one. In hex and json it is ignored, and so is
a byte order mark before the first line. Input compressed with gzip is an error. A note on standard error reports when a
carriage return or a byte order mark becomes part of a pair.`

// addFormat adds --format to a command.
func addFormat(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "format", "tsv", "`FORMAT` of the lines: tsv, hex or json")
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	if err := c.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
}

// lineFlags define how the lines of an input are read.
type lineFlags struct {
	format string
	crlf   bool
}

func (l *lineFlags) add(c *cobra.Command) {
	addFormat(c, &l.format)
	c.Flags().BoolVar(&l.crlf, "crlf", false, "lines of tsv end with a carriage return and a line feed")
}

func (l *lineFlags) loader() (*loader, error) {
	f, err := findFormat(l.format)
	if err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	if l.crlf && f.name != "tsv" {
		return nil, fmt.Errorf("--crlf is for tsv; in %s a carriage return is ignored", f.name)
	}
	return &loader{format: f, crlf: l.crlf}, nil
}

// input is the source of the lines of a command.
type input struct {
	in    io.Reader
	name  string // for errors
	size  int64  // in bytes, or below 0 where it is unknown
	close func()
}

// openInput opens the file that the last argument names, or standard input without an argument or with "-".
func (a *app) openInput(args []string) (*input, error) {
	if len(args) == 0 || args[0] == "-" {
		return &input{in: a.In, name: "standard input", size: -1, close: func() {}}, nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, cli.PathError(args[0], err)
	}
	i := &input{in: file, name: args[0], size: -1, close: func() { _ = file.Close() }} // only read
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory, want a file of lines", args[0])
	case info.Mode().IsRegular():
		i.size = info.Size()
	}
	if err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// read returns a reader of the input that ends with ctx and moves a bar.
func (i *input) read(ctx context.Context, bar cli.Progress) io.Reader {
	return io.TeeReader(cli.UntilDone(ctx, i.in), bar)
}

// named adds the name of the input to an error.
func (i *input) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", i.name, err)
}

// loader turns lines into pairs and stores them.
type loader struct {
	format  format
	crlf    bool
	note    func(text string) // prints advice about the input
	returns bool              // the note about carriage returns was printed
	lines   int               // stored
	bytes   int64             // of their keys and values
}

// parse parses one line.
func (l *loader) parse(number int, line []byte) (key, value []byte, err error) {
	l.noteReturn(number, line)
	if l.crlf {
		n := len(line) - 1
		if n < 0 || line[n] != '\r' {
			return nil, nil, errors.New("ends without a carriage return, want one with --crlf")
		}
		line = line[:n]
	}
	key, value, err = l.format.parse(line)
	if err == nil {
		err = checkSizes(key, value)
	}
	return key, value, err
}

// printLoaded prints the number of pairs, on a terminal or as JSON.
func (a *app) printLoaded(l *loader, asJSON bool) error {
	if asJSON {
		return a.PrintJSON(struct {
			Lines int   `json:"lines"`
			Bytes int64 `json:"bytes"`
		}{l.lines, l.bytes})
	}
	if a.OutTerminal {
		fmt.Fprintf(a.Out, "%s, %s of keys and values\n", words.Plural(l.lines, "line"), words.Plural(l.bytes, "byte"))
	}
	return nil
}
