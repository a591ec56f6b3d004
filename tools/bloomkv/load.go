package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func (a *app) loadCommand() *cobra.Command {
	var w writeFlags
	var lf lineFlags
	c := &cobra.Command{
		Use:   "load DIR [FILE]",
		Short: "Store the pairs of a file or of standard input",
		Long: `load stores one pair for each line of FILE. Without FILE, or with "-", it reads standard input. If the
store does not exist, load creates it in a new or empty directory. The last of several lines with the same key counts.
When load returns, everything is on stable storage.

` + formatHelp + crlfHelp + `

At a line that cannot be read or stored, load stops, prints its number and returns exit status 2. If the store existed
before, the lines before that one are stored; a store that load created is removed. After correcting the line, load the
whole file again. After an interrupt, the lines before it are stored.`,
		Example: `  bloomkv load ./store pairs.tsv
  bloomkv dump ./old --format json | bloomkv load ./new --format json`,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := lf.loader()
			if err != nil {
				return err
			}
			return a.store(c, args, &w, l, func(db *bloomkv.DB, in io.Reader, isNew bool) (bool, error) {
				return l.load(c.Context(), db, in, isNew)
			})
		},
	}
	lf.add(c)
	a.addJSON(c, "print a JSON object with the number of lines and bytes")
	w.add(c)
	return c
}

// store runs body on the input and the store that the arguments name, and prints what l has read. As in create, body
// returns whether to keep a new store after an error.
func (a *app) store(c *cobra.Command, args []string, w *writeFlags, l *loader,
	body func(db *bloomkv.DB, in io.Reader, isNew bool) (keep bool, err error),
) error {
	in, err := a.openInput(c.Context(), args[1:])
	if err != nil {
		return err
	}
	defer in.close()
	bar := a.Progress(c.Name(), in.size, true)
	defer bar.End()
	l.note = func(text string) { a.note(bar, in.name, text) }
	o := bloomkv.Options{Durability: bloomkv.DurabilityNoSync} // load syncs once, at the end
	err = w.create(c.Context(), args[0], o, func(db *bloomkv.DB, isNew bool) (keep bool, err error) {
		keep, err = body(db, in.read(c.Context(), bar), isNew)
		return keep, in.named(err)
	})
	bar.End()
	if err != nil {
		return err
	}
	return a.printResult(struct {
		Lines int   `json:"lines"`
		Bytes int64 `json:"bytes"`
	}{l.lines, l.bytes}, func() {
		if a.OutTerminal {
			fmt.Fprintf(a.Out, "%s, %s of keys and values\n", words.Plural(l.lines, "line"),
				words.Plural(l.bytes, "byte"))
		}
	})
}

const batchBytes = 256 << 10

// load stores every line of in. It writes without syncing and syncs once at the end, also after an error, so that the
// lines it reports as stored are durable. After an error a new store is not to be kept, unless an interrupt followed
// some lines.
func (l *loader) load(ctx context.Context, db *bloomkv.DB, in io.Reader, isNew bool) (keep bool, err error) {
	err = l.stream(ctx, db, in)
	keep = !isNew || l.lines > 0 && errors.Is(err, context.Canceled)
	if err != nil && !keep {
		return keep, fmt.Errorf("%w (the new store was removed)", err)
	}
	if sync := db.Sync(); sync != nil {
		return keep, errors.Join(err, sync)
	}
	if err != nil {
		err = fmt.Errorf("%w (%s stored before it)", err, words.Plural(l.lines, "line"))
	}
	return keep, err
}

func (l *loader) stream(ctx context.Context, db *bloomkv.DB, in io.Reader) (err error) {
	var batch bloomkv.Batch
	var bytes int64
	apply := func() error {
		if batch.Len() == 0 {
			return nil
		}
		first := l.lines + 1
		if err := db.Apply(&batch); err != nil {
			return fmt.Errorf("lines %d to %d: %w", first, l.lines+batch.Len(), err)
		}
		l.lines += batch.Len()
		l.bytes += bytes
		bytes = 0
		batch.Reset()
		return nil
	}
	for kv, err := range l.pairs(in) {
		if err != nil {
			return errors.Join(err, apply())
		}
		key, value := kv.Key, kv.Value
		if batch.Size() > 0 && batch.Size()+len(key)+len(value) > batchBytes {
			if err := ctx.Err(); err != nil {
				return errors.Join(fmt.Errorf("line %d: %w", l.number, err), apply())
			}
			if err := apply(); err != nil {
				return err
			}
		}
		if len(value) > batchBytes { // a batch would copy it
			if err := db.Put(key, value); err != nil {
				return fmt.Errorf("line %d: %w", l.number, err)
			}
			l.lines++
			l.bytes += int64(len(key)) + int64(len(value))
			continue
		}
		batch.Put(key, value)
		bytes += int64(len(key)) + int64(len(value))
	}
	return apply()
}

func (a *app) ingestCommand() *cobra.Command {
	var w writeFlags
	var lf lineFlags
	var r rangeFlags
	var replace bool
	c := &cobra.Command{
		Use:   "ingest DIR [FILE]",
		Short: "Store many sorted pairs in one step",
		Long: `ingest stores one pair for each line of FILE, like load, but writes tables directly and adds them in one
step: readers and crashes see either all pairs or none. Without FILE, or with "-", it reads standard input. If the
store does not exist, ingest creates it in a new or empty directory. When ingest returns, everything is on stable
storage.

The keys must be unique and in ascending order of bytes: the order in which dump writes them, and "LC_ALL=C sort" sorts
most lines of tsv and hex. At a line that is out of order or cannot be read, ingest stops, prints its number and returns
exit status 2. Then nothing has been stored, and no store is created.

With --replace, every key of the store that is not in the input is deleted in the same step. --replace-prefix,
--replace-from and --replace-to limit this to the keys that match all given flags. The input may have keys outside of
that range. Replacing keys by an empty input is an error.

` + formatHelp + crlfHelp,
		Example: `  bloomkv ingest ./store pairs.tsv
  LC_ALL=C sort pairs.tsv | bloomkv ingest ./store
  bloomkv dump ./old --format json | bloomkv ingest ./new --format json
  bloomkv ingest ./store users.tsv --replace-prefix user/`,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := lf.loader()
			if err != nil {
				return err
			}
			var o bloomkv.IngestOptions
			switch {
			case replace && r.given():
				return cli.Hint(c, errors.New("--replace and a range are given, want only one of them"))
			case replace:
				o.Replace = &bloomkv.KeyRange{}
			case r.given():
				kr, err := r.keyRange()
				if err != nil {
					return err
				}
				if everything(kr) {
					return cli.Hint(c, errors.New("the range is the whole store: use --replace to replace every key"))
				}
				o.Replace = &kr
			}
			return a.store(c, args, &w, l, func(db *bloomkv.DB, in io.Reader, _ bool) (bool, error) {
				return false, db.Ingest(c.Context(), l.sorted(in, o.Replace != nil), o)
			})
		},
	}
	lf.add(c)
	c.Flags().BoolVar(&replace, "replace", false, "delete all other keys of the store")
	r.add(c, "replace-", "delete other keys", "PREFIX, FROM and TO")
	a.addJSON(c, "print a JSON object with the number of lines and bytes")
	w.add(c)
	return c
}

// sorted returns the pairs of lines for one Ingest, as pairs does. A key that is out of order is bloomkv.ErrOrder, and
// if some is true, an empty input is an error too.
func (l *loader) sorted(in io.Reader, some bool) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		var last []byte
		for kv, err := range l.pairs(in) {
			if err == nil && l.lines > 0 {
				err = checkOrder(l.number, last, kv.Key)
			}
			if err == nil {
				last = append(last[:0], kv.Key...)
				l.lines++
				l.bytes += int64(len(kv.Key)) + int64(len(kv.Value))
			}
			if !yield(kv, err) || err != nil {
				return
			}
		}
		if some && l.lines == 0 {
			yield(bloomkv.KV{}, errors.New("the input is empty, want at least one line to replace keys; to delete "+
				"keys use del"))
		}
	}
}

// checkOrder returns an error if the key of a line does not follow last.
func checkOrder(line int, last, key []byte) error {
	switch bytes.Compare(last, key) {
	case 0:
		return fmt.Errorf("line %d: key %s again: %w", line, words.Escaped(key, 64), bloomkv.ErrOrder)
	case 1:
		return fmt.Errorf("line %d: key %s after %s: %w", line, words.Escaped(key, 64), words.Escaped(last, 64),
			bloomkv.ErrOrder)
	default:
		return nil
	}
}
