package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
)

const formatHelp = `Formats, each one pair a line, which ends with a line feed:
  tsv   key TAB value. The key has no TAB, neither has a line feed; the value may have TABs.
  hex   the same with key and value in hexadecimal digits: any bytes.
  json  {"key":"…","value":"…"}, or with "key_base64" or "value_base64" where bytes are not UTF-8: any bytes.`

func (a *app) loadCommand() *cobra.Command {
	var w writeFlags
	var formatName string
	var crlf, asJSON bool
	c := &cobra.Command{
		Use:   "load DIR [FILE]",
		Short: "Store the pairs of a file or of standard input",
		Long: `load stores one pair for each line of FILE, or of standard input without FILE or where it is "-". The store is created
where there is none. Of lines with equal keys the last one counts. All is on stable storage when load ends.

` + formatHelp + `

In tsv a carriage return before the line feed is the last byte of the value, since dump must give back what load was
given; with --crlf it belongs to the end of the line, which every line then must have. In hex and json it never counts.

At a line that can't be read or stored, load ends with its number and an exit status of 2. The lines before it are
stored, that line and those behind it are not; when it is put right, load may read the whole file again.`,
		Example: `  bloomkv load ./store pairs.tsv
  bloomkv dump ./old --format json | bloomkv load ./new --format json`,
		Args: usage(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := findFormat(formatName)
			if err != nil {
				return fmt.Errorf("--format: %w", err)
			}
			if crlf && f.name != "tsv" {
				return fmt.Errorf("--crlf is for tsv; in %s a carriage return never counts", f.name)
			}
			in, size, name := a.in, int64(-1), "standard input"
			if len(args) == 2 && args[1] != "-" {
				file, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }() // only read
				info, err := file.Stat()
				if err != nil {
					return err
				}
				if info.IsDir() {
					return fmt.Errorf("%s is a directory, want a file of lines", args[1])
				}
				in, name = file, args[1]
				if info.Mode().IsRegular() {
					size = info.Size()
				}
			}
			bar := a.newProgress("load", size, true)
			defer bar.end()
			l := loader{format: f, crlf: crlf}
			db, err := w.open(args[0], bloomkv.Options{})
			err = with(db, err, func(db *bloomkv.DB) error {
				err := l.load(c.Context(), db, io.TeeReader(untilDone(c.Context(), in), bar))
				if err != nil {
					err = fmt.Errorf("%s: %w", name, err)
				}
				return err
			})
			bar.end()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					Lines int   `json:"lines"`
					Bytes int64 `json:"bytes"`
				}{l.lines, l.bytes})
			}
			if a.outTerm {
				fmt.Fprintf(a.out, "%s, %s of keys and values\n", plural(l.lines, "line"), plural(l.bytes, "byte"))
			}
			return nil
		},
	}
	c.Flags().StringVar(&formatName, "format", "tsv", "`FORMAT` of the lines: tsv, hex or json")
	c.Flags().BoolVar(&crlf, "crlf", false, "lines of tsv end with carriage return and line feed")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object with lines and bytes when done")
	w.add(c)
	return c
}

// loader turns lines into batches.
type loader struct {
	format format
	crlf   bool
	lines  int   // stored
	bytes  int64 // of their keys and values
}

const batchBytes = 256 << 10

// load stores every line of in. It writes without syncing, and syncs once, also after an error: what it says is stored is
// durable.
func (l *loader) load(ctx context.Context, db *bloomkv.DB, in io.Reader) error {
	err := l.stream(ctx, db, newLineReader(in, l.format.longest))
	if sync := db.Sync(); sync != nil {
		return errors.Join(err, sync)
	}
	if err != nil {
		return fmt.Errorf("%w (stored before it: %s)", err, plural(l.lines, "line"))
	}
	return nil
}

func (l *loader) stream(ctx context.Context, db *bloomkv.DB, in *lineReader) (err error) {
	var batch bloomkv.Batch
	var bytes int64
	apply := func() error {
		if batch.Len() == 0 {
			return nil
		}
		first := l.lines + 1
		if err := db.Apply(&batch, bloomkv.NoSync); err != nil {
			return fmt.Errorf("lines %d to %d: %w", first, l.lines+batch.Len(), err)
		}
		l.lines += batch.Len()
		l.bytes += bytes
		bytes = 0
		batch.Reset()
		return nil
	}
	for {
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			return apply()
		}
		if err != nil { // it names the line
			return errors.Join(err, apply())
		}
		key, value, err := l.parse(line)
		if err != nil {
			return errors.Join(fmt.Errorf("line %d: %w", in.number, err), apply())
		}
		if batch.Size() > 0 && batch.Size()+len(key)+len(value) > batchBytes {
			if err := ctx.Err(); err != nil {
				return errors.Join(fmt.Errorf("line %d: %w", in.number, err), apply())
			}
			if err := apply(); err != nil {
				return err
			}
		}
		batch.Put(key, value)
		bytes += int64(len(key)) + int64(len(value))
	}
}

// parse reads one line.
func (l *loader) parse(line []byte) (key, value []byte, err error) {
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

func (a *app) dumpCommand() *cobra.Command {
	var formatName string
	c := &cobra.Command{
		Use:   "dump DIR",
		Short: "Print every pair, for load to read",
		Long: `dump prints every pair in the order of the keys, to the byte as load reads it. A key or value that the format can't carry
is an error.

` + formatHelp + `

On a terminal tsv is printed as scan prints it, escaped, and load would not read it: bytes as they are go into a pipe or a
file only.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := findFormat(formatName)
			if err != nil {
				return fmt.Errorf("--format: %w", err)
			}
			line := func(dst []byte, kv bloomkv.KV) ([]byte, error) { return f.append(dst, kv.Key, kv.Value) }
			if f.name == "tsv" && a.outTerm {
				line = func(dst []byte, kv bloomkv.KV) ([]byte, error) {
					if _, err := f.append(dst, kv.Key, kv.Value); err != nil {
						return dst, err
					}
					return appendEscaped(append(appendEscaped(dst, kv.Key), '\t'), kv.Value), nil
				}
			}
			db, err := openExisting(args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				n, err := a.printLines(c, db, bloomkv.ScanOptions{}, 0, line)
				if err != nil {
					err = fmt.Errorf("after %s: %w", plural(n, "line"), err)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&formatName, "format", "tsv", "`FORMAT` of the lines: tsv, hex or json")
	return c
}
