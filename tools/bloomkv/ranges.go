package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func (a *app) scanCommand() *cobra.Command {
	var r rangeFlags
	var limit int
	var reverse, keysOnly bool
	c := &cobra.Command{
		Use:   "scan DIR",
		Short: "Print keys and values in order",
		Long: `scan prints pairs in the order of their keys, one per line with a TAB between key and value, both
escaped, on a terminal as well as in a pipe. For the unescaped bytes use dump or --json. With --prefix, --from and
--to, only keys that match all given flags are printed. --reverse starts at the last key of the range and goes
backwards, so --limit then selects the last pairs.
` + onTable,
		Example: `  bloomkv scan ./store --prefix user/ --limit 10
  bloomkv scan ./store --from a --to b --keys
  bloomkv scan ./store --prefix log/ --reverse --limit 1`,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := r.options()
			if err != nil {
				return err
			}
			o.KeysOnly, o.Limit, o.Reverse = keysOnly, limit, reverse
			if limit < 0 {
				return fmt.Errorf("--limit %d, want 0 (all) or more", limit)
			}
			line := func(dst, key, value []byte) ([]byte, error) {
				switch {
				case a.asJSON && keysOnly:
					return append(appendMember(append(dst, '{'), "key", key), '}'), nil
				case a.asJSON:
					return appendJSON(dst, key, value)
				case keysOnly:
					return words.AppendEscaped(dst, key), nil
				default:
					return words.AppendEscaped(append(words.AppendEscaped(dst, key), '\t'), value), nil
				}
			}
			db, err := a.openData(c.Context(), args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				_, err := a.printLines(c, db, o, line)
				return err
			})
		},
	}
	r.add(c, "", "print only keys", "PREFIX, FROM and TO")
	c.Flags().BoolVar(&reverse, "reverse", false, "start at the last key and go backwards")
	c.Flags().IntVar(&limit, "limit", 0, "print at most `N` pairs; 0 means all")
	c.Flags().BoolVar(&keysOnly, "keys", false, "print keys without values")
	a.addJSON(c, "print one JSON object per line, like dump --format json")
	return c
}

// printLines prints the pairs of a range, one per line, and returns their number. line appends a line without its end.
func (a *app) printLines(c *cobra.Command, db *bloomkv.DB, o bloomkv.IterOptions,
	line func(dst, key, value []byte) ([]byte, error),
) (n int, err error) {
	out := bufio.NewWriterSize(a.Out, 64<<10)
	defer func() { // print the lines before an error too
		if flush := out.Flush(); !errors.Is(err, flush) {
			err = errors.Join(err, flush)
		}
	}()
	var buf []byte
	return each(c.Context(), db, o, cli.Progress{}, -1, func(kv bloomkv.KV) (err error) {
		if buf, err = line(buf[:0], kv.Key, kv.Value); err == nil {
			_, err = out.Write(append(buf, '\n'))
		}
		return err
	})
}

// each calls f for each pair of a range until f fails or ctx ends. It returns the number of pairs before that, which
// the bar shows, and the total; a total below 0 is unknown.
func each(
	ctx context.Context, db *bloomkv.DB, o bloomkv.IterOptions, bar cli.Progress, total int, f func(bloomkv.KV) error,
) (n int, err error) {
	for kv, err := range db.Scan(o) {
		if err == nil {
			err = f(kv)
		}
		if err != nil {
			return n, err
		}
		if n++; n%64 == 0 {
			bar.Set(n, total)
			if err := ctx.Err(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (a *app) dumpCommand() *cobra.Command {
	var formatName string
	c := &cobra.Command{
		Use:   "dump DIR",
		Short: "Print every pair in a form that load reads",
		Long: `dump prints every pair in the order of the keys, in a form that load reads back exactly. A key or value
that the format cannot represent is an error.

` + formatHelp + `

On a terminal, tsv is escaped as by scan, and load cannot read it back. Unescaped bytes are only written to a pipe or a
file.
` + onTable,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := findFormat(formatName)
			if err != nil {
				return fmt.Errorf("--format: %w", err)
			}
			line := f.append
			if f.name == "tsv" && a.OutTerminal {
				line = func(dst, key, value []byte) ([]byte, error) {
					if _, err := f.append(dst, key, value); err != nil {
						return dst, err
					}
					return words.AppendEscaped(append(words.AppendEscaped(dst, key), '\t'), value), nil
				}
			}
			db, err := a.openData(c.Context(), args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				n, err := a.printLines(c, db, bloomkv.IterOptions{}, line)
				if err != nil {
					err = fmt.Errorf("after %s: %w", words.Plural(n, "line"), err)
				}
				return err
			})
		},
	}
	addFormat(c, &formatName)
	return c
}

func (a *app) countCommand() *cobra.Command {
	var r rangeFlags
	c := &cobra.Command{
		Use:   "count DIR",
		Short: "Count keys",
		Long: `count prints the number of keys in a store, or in the range of --prefix, --from and --to: keys that match
all given flags. The number is exact: deleted and overwritten versions do not count. count reads every key in the range,
and shows its progress on a terminal. size estimates quickly how many bytes a range takes; stats prints the number of
entries of the whole store, with old versions.
` + onTable,
		Example: `  bloomkv count ./store
  bloomkv count ./store --prefix user/`,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := r.options()
			if err != nil {
				return err
			}
			var keys int
			db, err := a.openData(c.Context(), args[0])
			err = with(db, err, func(db *bloomkv.DB) (err error) {
				bar := a.Progress("count", -1, false)
				defer bar.End()
				most := -1 // not known in a range
				if !r.given() {
					most = int(statsOf(db.Metrics()).Entries) //nolint:gosec // far below 2⁶³
				}
				o.KeysOnly = true
				keys, err = each(c.Context(), db, o, bar, most, func(bloomkv.KV) error { return nil })
				return err
			})
			if err != nil {
				return err
			}
			return a.printResult(map[string]int{"keys": keys}, func() { fmt.Fprintln(a.Out, keys) })
		},
	}
	r.add(c, "", "count only keys", "PREFIX, FROM and TO")
	a.addJSON(c, "print a JSON object")
	return c
}

func (a *app) sizeCommand() *cobra.Command {
	var r rangeFlags
	c := &cobra.Command{
		Use:   "size DIR",
		Short: "Print about how many bytes a range of keys takes on disk",
		Long: `size prints about how many bytes the tables of a store take for its keys, or for those in the range of
--prefix, --from and --to: keys that match all given flags. It includes deleted and overwritten versions that compaction
has not removed yet, so a smaller number after compact shows what they took. It does not include what is only in logs.
At the edges of the range whole blocks count. size reads no keys, only indexes, so it is quick; count reads every key.
` + onTable,
		Example: `  bloomkv size ./store
  bloomkv size ./store --prefix user/`,
		RunE: func(c *cobra.Command, args []string) error {
			kr, err := r.keyRange()
			if err != nil {
				return err
			}
			var size uint64
			db, err := a.openData(c.Context(), args[0])
			err = with(db, err, func(db *bloomkv.DB) error {
				size, err = db.ApproximateSize(kr)
				return err
			})
			if err != nil {
				return err
			}
			// a single table has no logs
			if n, err := countLogs(c.Context(), args[0]); err == nil && n > 0 {
				fmt.Fprintf(a.Err, "bloomkv: what is in %s is not included; compact writes it into tables\n",
					words.Plural(n, "log"))
			}
			return a.printResult(map[string]uint64{"bytes": size}, func() { fmt.Fprintln(a.Out, size) })
		},
	}
	r.add(c, "", "size of keys", "PREFIX, FROM and TO")
	a.addJSON(c, "print a JSON object")
	return c
}
