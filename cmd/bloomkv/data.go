package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// errAbsent is an answer rather than trouble: it has an exit code of its own.
var errAbsent = errors.New("not found")

// byteFlags say how keys and values among the arguments are written, for bytes that a command line can't carry.
type byteFlags struct{ hex, escaped bool }

func (f *byteFlags) add(c *cobra.Command, what string) {
	c.Flags().BoolVar(&f.hex, "hex", false, what+" on the command line in hexadecimal digits, for any bytes")
	c.Flags().BoolVar(&f.escaped, "escaped", false, what+` on the command line as scan and inspect print them, \x00 for the byte 0 and \\ for a backslash`)
}

// bytes reads one argument; what names it in errors.
func (f byteFlags) bytes(what, arg string) ([]byte, error) {
	switch {
	case f.hex && f.escaped:
		return nil, errors.New("--hex and --escaped, want only one of them")
	case f.hex:
		b, err := hex.DecodeString(arg)
		if err != nil {
			return nil, fmt.Errorf("%s %q: want pairs of hexadecimal digits", what, arg)
		}
		return b, nil
	case f.escaped:
		b, err := words.Unescaped(arg)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", what, arg, err)
		}
		return append([]byte{}, b...), nil // not nil
	default:
		return []byte(arg), nil
	}
}

// writeFlags are the options for filters that a command which writes may set. What is not set is as the store was last written with.
type writeFlags struct {
	of     *cobra.Command
	rate   float64
	ribbon bool
	prefix bloomkv.PrefixRule
	seed   uint64
}

func (w *writeFlags) add(c *cobra.Command) {
	w.of = c
	c.Flags().Float64Var(&w.rate, "fpr", 0.01, "promised filter `RATE` of tables written now: wasted reads per absent lookup, over the whole tree; 1 is no filters;\nwithout it, and the next two, they are as the store was written last")
	c.Flags().BoolVar(&w.ribbon, "ribbon", false, "build filters of tables written now as Ribbon filters: three tenths smaller, slower to build and to ask")
	c.Flags().TextVar(&w.prefix, "filter-prefix", bloomkv.PrefixRule{},
		"give tables written now a second filter, of keys' prefixes by `RULE`: the first N bytes, len:N, or all up to the Nth separator C, sep:C:N")
	c.Flags().Uint64Var(&w.seed, "filter-seed", 0, "of a new store, the `SEED` of its filters, to get the same filters again; 0 is a random one,\nfor which nobody can choose keys that waste reads")
}

func (w *writeFlags) open(dir string, o bloomkv.Options) (*bloomkv.DB, error) {
	o, err := w.options(dir, o)
	if err != nil {
		return nil, err
	}
	return bloomkv.Open(dir, &o)
}

// options is o with the options for filters that flags and the manifest of the store in dir say.
func (w *writeFlags) options(dir string, o bloomkv.Options) (bloomkv.Options, error) {
	if !(w.rate > 0) { // 0 in Options would mean the default
		return o, fmt.Errorf("--fpr %v, want more than 0, at most 1", w.rate)
	}
	if err := storeDir(dir); err != nil {
		return o, err
	}
	o.FilterFPR, o.FilterPrefix, o.FilterSeed = w.rate, w.prefix, w.seed
	if w.ribbon {
		o.FilterKind = bloomkv.RibbonFilter
	}
	return w.kept(dir, o), nil
}

// openAs opens a store with the options for filters that it was last written with, as far as no flag says otherwise.
func (w *writeFlags) openAs(dir string, o bloomkv.Options) (*bloomkv.DB, error) {
	o = w.kept(dir, o)
	return bloomkv.Open(dir, &o)
}

// kept is o with the options for filters that a store was last written with, as far as no flag says otherwise.
func (w *writeFlags) kept(dir string, o bloomkv.Options) bloomkv.Options {
	if s, err := manifest.Load(vfs.OS, dir); err == nil && s.Filters != nil { // else Open says what is wrong, or makes a store
		if kept := w.keep(s.Filters, o); canPlan(&kept) {
			return kept
		}
	}
	return o
}

// changed says whether a flag was given; without a command none was.
func (w *writeFlags) changed(name string) bool { return w.of != nil && w.of.Flags().Changed(name) }

// keep is o with what a store was written with, as far as no flag says otherwise.
func (w *writeFlags) keep(f *manifest.Filters, o bloomkv.Options) bloomkv.Options {
	o.LevelRatio = int(f.Ratio)
	if !w.changed("fpr") {
		o.FilterFPR, o.FilterMemory = f.FPR, int64(min(f.Memory, math.MaxInt64/2))
	}
	if o.FilterMemory > usualMemory/2 {
		o.MemoryBudget = 2 * o.FilterMemory
	}
	if !w.changed("ribbon") {
		o.FilterKind = bloomkv.FilterKind(f.Kind)
	}
	if !w.changed("filter-prefix") {
		_ = o.FilterPrefix.UnmarshalText([]byte(f.Prefix)) // a rule of a later version is not kept
	}
	return o
}

// usualMemory is Options.MemoryBudget by default, in bytes.
const usualMemory = 64 << 20

// canPlan says whether filters can be planned by o: what a store was written with may be of a later version, or of a larger machine.
func canPlan(o *bloomkv.Options) bool {
	_, _, err := bloomkv.PlanFilters(1, 1, o)
	return err == nil
}

func (a *app) putCommand() *cobra.Command {
	var h byteFlags
	var w writeFlags
	c := &cobra.Command{
		Use:   "put DIR KEY [VALUE]",
		Short: "Store a value under a key",
		Long: `put stores VALUE under KEY and returns when it is on stable storage. The store is created where there is none, in a new or
empty directory.
Without VALUE the value is standard input, to the last byte. An argument that begins with a dash goes after "--".`,
		Example: `  bloomkv put ./store color green
  bloomkv put ./store photo < photo.jpg
  bloomkv put --hex ./store 00ff 68656c6c6f`,
		Args: arguments,
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
			return w.create(args[0], func(db *bloomkv.DB, _ bool) (bool, error) { return false, db.Put(key, value) })
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
	var h byteFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "get DIR KEY",
		Short: "Print the value of a key; exit status 1 if it is absent",
		Long: `get prints the value of KEY. In a pipe or a file these are its bytes and nothing else. On a terminal they are escaped,
and a line feed follows. The exit status is 0 for a key that is there, 1 for one that is absent and 2 for an error.
` + onTable,
		Example: `  bloomkv get ./store color
  bloomkv get ./store photo > photo.jpg`,
		Args: arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := h.bytes("key", args[1])
			if err != nil {
				return err
			}
			db, err := a.openData(args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				value, err := db.Get(key)
				if errors.Is(err, bloomkv.ErrNotFound) {
					return fmt.Errorf("key %s: %w", words.Escaped(key, 64), errAbsent)
				}
				if err != nil {
					return err
				}
				switch {
				case asJSON:
					value, err = appendJSON(nil, key, value)
					value = append(value, '\n')
				case a.outTerm:
					value = append(words.AppendEscaped(nil, value), '\n')
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
	var h byteFlags
	var w writeFlags
	var r rangeFlags
	var all bool
	c := &cobra.Command{
		Use:   "del DIR [KEY...]",
		Short: "Delete keys, or all keys of a range, at once",
		Long: `del deletes all the keys given, or with --prefix, --from and --to, which all hold where several are given, all keys of
a range, atomically, and returns when that is on stable storage. A range takes no longer than a key, however many keys it
holds; compact then gives their space back. A key that is absent is no error, nor is a range that ends before it begins.
What would delete every key of the store needs --all.

A store that does not exist is an error: del creates none.`,
		Example: `  bloomkv del ./store color photo
  bloomkv del ./store --prefix user/17/
  bloomkv del ./store --from 2024- --to 2025-`,
		Args: arguments,
		RunE: func(c *cobra.Command, args []string) error {
			var b bloomkv.Batch
			keys := args[1:]
			switch {
			case len(keys) > 0 && (all || r.given()):
				return hint(c, errors.New("keys and a range, want only one of them"))
			case all && r.given():
				return hint(c, errors.New("--all and a range, want only one of them"))
			case len(keys) == 0 && !all && !r.given():
				return hint(c, errors.New("nothing to delete, want keys, a range by --prefix, --from or --to, or --all"))
			case len(keys) == 0:
				kr, err := r.keyRange(h)
				if err != nil {
					return err
				}
				if !all && everything(kr) {
					return hint(c, errors.New("the range is the whole store, want --all to delete every key"))
				}
				b.DeleteRange(kr.Lower, kr.Upper)
			}
			for _, arg := range keys {
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
	r.add(c, "", "delete all keys")
	c.Flags().BoolVar(&all, "all", false, "delete every key of the store")
	h.add(c, "KEY, PREFIX, FROM and TO")
	w.add(c)
	return c
}
