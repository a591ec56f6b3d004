package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
)

// errAbsent is an answer rather than trouble: it has an exit code of its own.
var errAbsent = errors.New("not found")

// hexFlag makes keys and values among the arguments hexadecimal.
type hexFlag bool

func (h *hexFlag) add(c *cobra.Command, what string) {
	c.Flags().BoolVar((*bool)(h), "hex", false, what+" on the command line in hexadecimal digits, for any bytes")
}

// bytes reads one argument; what names it in errors.
func (h hexFlag) bytes(what, arg string) ([]byte, error) {
	if !h {
		return []byte(arg), nil
	}
	b, err := hex.DecodeString(arg)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, arg, err)
	}
	return b, nil
}

// writeFlags are the options of a store that a command which writes may set.
type writeFlags struct{ rate float64 }

func (w *writeFlags) add(c *cobra.Command) {
	c.Flags().Float64Var(&w.rate, "fpr", 0.01, "promised filter `RATE` of tables written now: wasted reads per absent lookup, over the whole tree; 1 is no filters")
}

func (w *writeFlags) open(dir string, o bloomkv.Options) (*bloomkv.DB, error) {
	if !(w.rate > 0) { // 0 in Options would mean the default
		return nil, fmt.Errorf("--fpr %v, want more than 0, at most 1", w.rate)
	}
	o.FilterFPR = w.rate
	return bloomkv.Open(dir, &o)
}

func (a *app) putCommand() *cobra.Command {
	var h hexFlag
	var w writeFlags
	c := &cobra.Command{
		Use:   "put DIR KEY [VALUE]",
		Short: "Store a value under a key",
		Long: `put stores VALUE under KEY and returns when it is on stable storage. The store is created where there is none.
Without VALUE the value is standard input, to the last byte. An argument that begins with a dash goes after "--".`,
		Example: `  bloomkv put ./store color green
  bloomkv put ./store photo < photo.jpg
  bloomkv put --hex ./store 00ff 68656c6c6f`,
		Args: usage(cobra.RangeArgs(2, 3)),
		RunE: func(c *cobra.Command, args []string) error {
			key, err := h.bytes("key", args[1])
			if err != nil {
				return err
			}
			var value []byte
			if len(args) == 3 {
				value, err = h.bytes("value", args[2])
			} else if value, err = io.ReadAll(io.LimitReader(untilDone(c.Context(), a.in), bloomkv.MaxValueSize+1)); err != nil {
				err = fmt.Errorf("standard input: %w", err)
			}
			if err == nil {
				err = checkSizes(key, value) // before a store is made for nothing
			}
			if err != nil {
				return err
			}
			db, err := w.open(args[0], bloomkv.Options{})
			return with(db, err, func(db *bloomkv.DB) error { return db.Put(key, value) })
		},
	}
	h.add(c, "KEY and VALUE")
	w.add(c)
	return c
}

// checkSizes refuses what no store takes.
func checkSizes(key, value []byte) error {
	if len(key) > bloomkv.MaxKeySize {
		return fmt.Errorf("key of %d bytes, want at most %d: %w", len(key), bloomkv.MaxKeySize, bloomkv.ErrTooLarge)
	}
	if len(value) > bloomkv.MaxValueSize {
		return fmt.Errorf("value of more than %d bytes: %w", bloomkv.MaxValueSize, bloomkv.ErrTooLarge)
	}
	return nil
}

func (a *app) getCommand() *cobra.Command {
	var h hexFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "get DIR KEY",
		Short: "Print the value of a key; exit status 1 if it is absent",
		Long: `get prints the value of KEY. In a pipe or a file these are its bytes and nothing else. On a terminal they are escaped,
and a line feed follows. The exit status is 0 for a key that is there, 1 for one that is absent and 2 for an error.`,
		Example: `  bloomkv get ./store color
  bloomkv get ./store photo > photo.jpg`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := h.bytes("key", args[1])
			if err != nil {
				return err
			}
			db, err := openExisting(args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				value, err := db.Get(key)
				if errors.Is(err, bloomkv.ErrNotFound) {
					return fmt.Errorf("key %s: %w", escaped(key, 64), errAbsent)
				}
				if err != nil {
					return err
				}
				switch {
				case asJSON:
					value, err = appendJSON(nil, key, value)
					value = append(value, '\n')
				case a.outTerm:
					value = append(appendEscaped(nil, value), '\n')
				}
				if err == nil {
					_, err = a.out.Write(value)
				}
				return err
			})
		},
	}
	h.add(c, "KEY")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object with key and value, as dump --format json does")
	return c
}

func (a *app) delCommand() *cobra.Command {
	var h hexFlag
	var w writeFlags
	c := &cobra.Command{
		Use:   "del DIR KEY...",
		Short: "Delete keys, all of them at once",
		Long: `del deletes all the keys given, atomically, and returns when that is on stable storage. A key that is absent is no error.
A store that does not exist is one: del creates none.`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			var b bloomkv.Batch
			for _, arg := range args[1:] {
				key, err := h.bytes("key", arg)
				if err != nil {
					return err
				}
				b.Delete(key)
			}
			db, err := w.open(args[0], bloomkv.Options{ErrorIfMissing: true})
			return with(db, err, func(db *bloomkv.DB) error { return db.Apply(&b, bloomkv.Sync) })
		},
	}
	h.add(c, "KEY")
	w.add(c)
	return c
}

func (a *app) scanCommand() *cobra.Command {
	var h hexFlag
	var prefix, from, to string
	var limit int
	var keysOnly, asJSON bool
	c := &cobra.Command{
		Use:   "scan DIR",
		Short: "Print keys and values in order",
		Long: `scan prints keys and values in the order of the keys, one pair a line with a TAB between, both escaped, on a terminal
and in a pipe alike. To get the bytes back use dump, or --json.`,
		Example: `  bloomkv scan ./store --prefix user/ --limit 10
  bloomkv scan ./store --from a --to b --keys`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var o bloomkv.ScanOptions
			for _, f := range []struct {
				name, arg string
				to        *[]byte
			}{{"prefix", prefix, &o.Prefix}, {"from", from, &o.Lower}, {"to", to, &o.Upper}} {
				if !c.Flags().Changed(f.name) {
					continue // nil is no bound, empty is one
				}
				b, err := h.bytes("--"+f.name, f.arg)
				if err != nil {
					return err
				}
				*f.to = b
			}
			if limit < 0 {
				return fmt.Errorf("--limit %d, want 0 (all) or more", limit)
			}
			line := func(dst []byte, kv bloomkv.KV) ([]byte, error) {
				switch {
				case asJSON && keysOnly:
					return append(appendMember(append(dst, '{'), "key", kv.Key), '}'), nil
				case asJSON:
					return appendJSON(dst, kv.Key, kv.Value)
				case keysOnly:
					return appendEscaped(dst, kv.Key), nil
				default:
					return appendEscaped(append(appendEscaped(dst, kv.Key), '\t'), kv.Value), nil
				}
			}
			db, err := openExisting(args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				_, err := a.printLines(c, db, o, limit, line)
				return err
			})
		},
	}
	h.add(c, "PREFIX, FROM and TO")
	c.Flags().StringVar(&prefix, "prefix", "", "only keys that begin with `PREFIX`")
	c.Flags().StringVar(&from, "from", "", "only keys at or after `FROM`")
	c.Flags().StringVar(&to, "to", "", "only keys before `TO`")
	c.Flags().IntVar(&limit, "limit", 0, "at most `N` pairs; 0 is all")
	c.Flags().BoolVar(&keysOnly, "keys", false, "print no values")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON objects, one a line, as dump --format json does")
	return c
}

// printLines prints pairs of a store, at most limit (0 is all), each as line makes it, and returns how many.
func (a *app) printLines(c *cobra.Command, db *bloomkv.DB, o bloomkv.ScanOptions, limit int, line func([]byte, bloomkv.KV) ([]byte, error)) (n int, err error) {
	out := bufio.NewWriterSize(a.out, 64<<10)
	defer func() { // what came before an error is printed
		if flush := out.Flush(); !errors.Is(err, flush) {
			err = errors.Join(err, flush)
		}
	}()
	var buf []byte
	for kv, err := range db.Scan(o) {
		if err != nil {
			return n, err
		}
		if n%64 == 0 && c.Context().Err() != nil {
			return n, c.Context().Err()
		}
		if buf, err = line(buf[:0], kv); err != nil {
			return n, err
		}
		if _, err := out.Write(append(buf, '\n')); err != nil {
			return n, err
		}
		if n++; n == limit {
			break
		}
	}
	return n, nil
}
