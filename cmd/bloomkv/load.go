package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/words"
)

func (a *app) loadCommand() *cobra.Command {
	var w writeFlags
	var lf lineFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "load DIR [FILE]",
		Short: "Store the pairs of a file or of standard input",
		Long: `load stores one pair for each line of FILE, or of standard input without FILE or where it is "-". The store is created
where there is none, in a new or empty directory. Of lines with equal keys the last one counts. All is on stable storage when load ends.

` + formatHelp + crlfHelp + `

At a line that can't be read or stored, load ends with its number and an exit status of 2. In a store that was there, the
lines before it are stored, that line and those behind it are not; a store that load has created is removed again. When
the line is put right, load may read the whole file again. After an interrupt the lines before it are stored.`,
		Example: `  bloomkv load ./store pairs.tsv
  bloomkv dump ./old --format json | bloomkv load ./new --format json`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := lf.loader()
			if err != nil {
				return err
			}
			in, err := a.openInput(args[1:])
			if err != nil {
				return err
			}
			defer in.close()
			bar := a.Progress("load", in.size, true)
			defer bar.End()
			l.note = func(text string) { a.note(bar, in.name, text) }
			err = w.create(args[0], func(db *bloomkv.DB, isNew bool) (keep bool, err error) {
				keep, err = l.load(c.Context(), db, in.read(c.Context(), bar), isNew)
				return keep, in.named(err)
			})
			bar.End()
			if err != nil {
				return err
			}
			return a.printLoaded(l, asJSON)
		},
	}
	lf.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object with lines and bytes when done")
	w.add(c)
	return c
}

const batchBytes = 256 << 10

// load stores every line of in. It writes without syncing, and syncs once, also after an error: what it says is stored is
// durable. A new store is not to be kept after an error, except for the lines before an interrupt.
func (l *loader) load(ctx context.Context, db *bloomkv.DB, in io.Reader, isNew bool) (keep bool, err error) {
	lines, err := l.open(in)
	if err == nil {
		err = l.stream(ctx, db, lines)
	}
	keep = !isNew || l.lines > 0 && errors.Is(err, context.Canceled)
	if err != nil && !keep {
		return keep, fmt.Errorf("%w (the new store is removed again)", err)
	}
	if sync := db.Sync(); sync != nil {
		return keep, errors.Join(err, sync)
	}
	if err != nil {
		err = fmt.Errorf("%w (stored before it: %s)", err, words.Plural(l.lines, "line"))
	}
	return keep, err
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
		key, value, err := l.parse(in.number, line)
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
