package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/tools/cli"
	_ "github.com/bloomkv/bloomkv/tools/internal/foreign/minlz" // for tables of Pebble
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// An inspection is one run of inspect: what to look at, and how to show it.
type inspection struct {
	*app

	options inspect.Options
	hex     bool
	tables  bool
	budget  float64 // MiB
	page    pageFlags
}

func (a *app) inspectCommand() *cobra.Command {
	i := inspection{app: a}
	var keys, whatIf []string
	c := &cobra.Command{
		Use:   "inspect FILE|DIR",
		Short: "Print details of a store, a table, a log or a manifest",
		Long: `inspect reads files and changes nothing. It takes no lock, so the result may be inconsistent while
another process writes.

For a store it prints the levels and a drawing of the tree; the memory of the filters and the reads that they waste,
level by level, with the promise and the optimum for that memory; how many keys the tables have in common; a line for
every table, with the rate of its filter by its bits, or all about it with --tables; and the logs. --what-if prints
what the filters of this tree would take and waste for another rate, a given memory in MiB, or the other kind:
fpr=0.001, memory=64, kind=ribbon, or kind=ribbon,fpr=0.001. What the store promises depends on the memory that it is
opened with: --budget is its Options.MemoryBudget.

For a log (NNNNNN.log) it prints the records, with --entries also each operation. For a manifest (MANIFEST-NNNNNN) it
prints the edits and their result. For both it prints where they are damaged, what follows the damage, and what opening
the store would do about it.

For a table (NNNNNN.sst) it prints the properties and the filter block: its header, its rates (promised, by the number
of keys, bits and probes, from the bits, and measured with random hashes), and how full the blocks of each unit are
compared with theory. A line that begins with "!" is a problem: docs/filter-block.md lists their names and what to do.
A prefix filter is printed in the same way.

--verify rebuilds all filters from the keys of their tables and compares them bit for bit. --key K prints for each table
its bounds, what K and its prefix probe, the answers of the filters, and by reading the table whether they are right. K
is escaped as inspect prints keys. --key may be repeated. --hex prints the filter block with the meaning of its bytes.

A table of LevelDB, goleveldb, RocksDB, Pebble or Badger is read too, and a directory of such tables: the kind of the
filter, its bits per key and fill, its rate by its bits and measured with absent keys between those of the table, the
properties, and --key. Values are never printed.

--html FILE writes a page about a table or a store for a browser, which loads nothing from elsewhere: the same numbers
with charts and explanations. "-" prints the page. --plot DIR saves the charts as SVG and PNG. With either, the text is
not printed, unless --hex or --entries is given. The page of a store shows some tables in full: those with problems and
the largest. The page of a manifest plays its edits: how flushes and compactions changed the tree.

The names in --json are documented in the packages tools/internal/filterexam, with the types Exam, UnitTrace and
Difference, and tools/internal/inspect. They do not change.

Keys are escaped, also in JSON. The exit status is 2 if what was read is damaged, or if a filter does not match the keys
of its table. Data blocks are only read for --entries, --key and --verify: to verify a whole store use check.`,
		Example: `  bloomkv inspect ./store
  bloomkv inspect --verify ./store
  bloomkv inspect --what-if fpr=0.001 --what-if kind=ribbon,memory=64 ./store
  bloomkv inspect --budget 256 ./store
  bloomkv inspect --key user/0042 ./store
  bloomkv inspect ./store/000012.sst --json
  bloomkv inspect ./store --html store.html --plot pictures`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := i.parse(whatIf, keys); err != nil {
				return cli.Hint(c, err)
			}
			name, isDir, err := lookAt(args[0])
			if err != nil {
				return err
			}
			if path, err := filepath.Abs(name); err == nil {
				i.options.Path = path
			}
			if err := i.page.spares(name); err != nil {
				return err
			}
			if isDir {
				return i.store(c.Context(), name)
			}
			kind, number := filename.Parse(filepath.Base(name))
			if err := i.check(kind); err != nil {
				return cli.Hint(c, fmt.Errorf("%s: %w", args[0], err))
			}
			switch kind {
			case filename.Log:
				l, err := inspect.ReadLog(c.Context(), name, number, i.options)
				return i.showRead(c.Context(), &l, err)
			case filename.Manifest:
				m, err := inspect.ReadManifest(c.Context(), name, number)
				return i.showRead(c.Context(), &m, err)
			case filename.Current, filename.Lock, filename.Temp:
				return fmt.Errorf("%s cannot be inspected, want a table, a log, a manifest or a directory", args[0])
			default: // a table may have been renamed
				return i.table(c.Context(), name)
			}
		},
	}
	a.addJSON(c, "print a JSON object")
	c.Flags().BoolVar(&i.options.Entries, "entries", false,
		"print every block and entry of a table, or every operation of a log")
	c.Flags().BoolVar(&i.options.Verify, "verify", false, "rebuild filters from the keys of their tables and compare")
	c.Flags().BoolVar(&i.hex, "hex", false, "print the bytes of the filter block of a table")
	c.Flags().BoolVar(&i.tables, "tables", false, "print all that is known of each table of a store, not only a line")
	c.Flags().StringArrayVar(&whatIf, "what-if", nil,
		"print what other filters of a store would take and waste; `ITEMS`: fpr=RATE or memory=MIB, kind=auto, "+
			"bloom or ribbon")
	c.Flags().Float64Var(&i.budget, "budget", 0, budgetUsage)
	c.Flags().StringVar(&i.page.html, "html", "", "write a page for a browser to `FILE`")
	c.Flags().StringVar(&i.page.plot, "plot", "", "save the charts of the page in `DIR` as SVG and PNG")
	c.Flags().StringArrayVar(&keys, "key", nil,
		"print how the filters answer for `KEY`, and whether that is right; may be repeated")
	return c
}

// parse parses the flags that have a syntax and checks which may be combined.
func (i *inspection) parse(whatIf, keys []string) error {
	if i.page.html == toOutput && (i.asJSON || i.hex || i.options.Entries) {
		return errors.New("--json, --hex and --entries also print to standard output, want a file for --html")
	}
	if err := i.page.check(); err != nil {
		return err
	}
	for _, text := range keys {
		key, err := inspect.ParseKey(text)
		if err != nil {
			return fmt.Errorf("--%w", err)
		}
		i.options.Keys = append(i.options.Keys, key)
	}
	for _, text := range whatIf {
		q, err := inspect.ParseWhatIf(text)
		if err != nil {
			return fmt.Errorf("--what-if: %w", err)
		}
		i.options.WhatIf = append(i.options.WhatIf, q)
	}
	if err := checkBudget(i.budget); err != nil {
		return err
	}
	i.options.Budget = int64(i.budget * (1 << 20))
	if i.asJSON && i.hex {
		return errors.New("--hex prints text, use it without --json")
	}
	return nil
}

// check returns an error if the flags do not apply to a kind of file.
func (i *inspection) check(kind filename.Kind) error {
	switch {
	case len(i.options.WhatIf) > 0:
		return errors.New("--what-if is for stores, want a directory")
	case i.budget != 0:
		return errors.New("--budget is for stores, want a directory")
	case i.asJSON && i.options.Entries && kind != filename.Log:
		return errors.New("--entries of a table prints text, use it without --json")
	case i.page.asked() && kind == filename.Log:
		return errors.New("--html and --plot are for tables, manifests and stores")
	}
	return nil
}

func (i *inspection) store(ctx context.Context, dir string) error {
	i.options.Full = i.page.asked()
	stop := func() {}
	if i.options.Verify {
		bar := i.Progress("verify", -1, false)
		i.options.Progress, stop = bar.Set, bar.End
	}
	s, err := inspect.ReadStore(ctx, dir, i.options)
	stop()
	if err != nil {
		foreign, foreignErr := inspect.ReadForeignStore(ctx, dir, i.options)
		switch {
		case foreignErr == nil:
			return i.showForeign(ctx, foreign, foreign.Wrong(), "")
		case !errors.Is(foreignErr, inspect.ErrNotForeign):
			return notOurs(foreignErr)
		}
		return err
	}
	return i.show(ctx, s, s.Wrong())
}

func (i *inspection) table(ctx context.Context, name string) error {
	foreign, err := inspect.ReadForeign(ctx, name, i.options)
	switch {
	case err == nil:
		about := fmt.Sprintf("%s is of %s: ", filepath.Base(name), foreign.Store)
		return i.showForeign(ctx, foreign, foreign.Wrong(), about)
	case !errors.Is(err, inspect.ErrNotForeign):
		return notOurs(err)
	}
	t, err := inspect.ReadTable(ctx, name, i.options)
	if err != nil {
		return err
	}
	err = i.show(ctx, t, t.Wrong())
	if i.options.Entries && ctx.Err() == nil {
		fmt.Fprintln(i.Out)
		err = errors.Join(err, inspect.WriteEntries(outfile.UntilDone(ctx, i.Out), name))
	}
	return err
}

// facts are those of a file or a directory. All but those of a log also have a page.
type facts interface {
	WriteText(w io.Writer, s inspect.Style)
}

// show writes facts as requested: as a page, as JSON, or else as text. wrong is the damage.
func (i *inspection) show(ctx context.Context, f facts, wrong error) error {
	var written error
	if drawn, ok := f.(interface{ Page() *picture.Page }); ok && i.page.asked() {
		written = i.page.write(ctx, i.app, drawn.Page())
	}
	switch {
	case i.asJSON:
		return errors.Join(i.PrintJSON(f), wrong, written)
	case !i.page.asked() || i.hex || i.options.Entries: // the page has neither bytes nor entries
		f.WriteText(outfile.UntilDone(ctx, i.Out), // the bytes of a filter may be many
			inspect.Style{Color: i.Color, Hex: i.hex, Tables: i.tables, Width: i.Width})
	}
	return errors.Join(wrong, written, ctx.Err())
}

// showRead writes what was read of a log or a manifest: everything, or the part before the damage, which is the
// error.
func (i *inspection) showRead(ctx context.Context, f facts, err error) error {
	if err != nil && !errors.Is(err, bloomkv.ErrCorruption) {
		return err // the file was not read
	}
	return i.show(ctx, f, err)
}

// lookAt resolves the links of a file or directory that can be inspected. It fails at once for anything else, such as
// a pipe.
func lookAt(arg string) (name string, isDir bool, err error) {
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		return "", false, cli.PathError(arg, err)
	case info.IsDir():
		return arg, true, nil
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("%s: not a regular file (mode %v), want a table, a log, a manifest or a directory",
			arg, info.Mode())
	}
	name, err = filepath.EvalSymlinks(arg)
	return name, false, err
}

// showForeign shows what was read of another store, unless the flags do not apply to that. Then the error begins with
// about.
func (i *inspection) showForeign(ctx context.Context, f facts, wrong error, about string) error {
	switch {
	case i.options.Verify, i.options.Entries, i.hex:
		return errors.New(about + "--verify, --entries and --hex are for tables of bloomkv")
	case len(i.options.WhatIf) > 0:
		return errors.New(about + "--what-if is for stores of bloomkv")
	}
	return notOurs(i.show(ctx, f, wrong))
}

// notOurs returns damage of another store or of a backup as an error without the advice for a damaged bloomkv store.
func notOurs(err error) error {
	if errors.Is(err, bloomkv.ErrCorruption) {
		return errors.New(err.Error())
	}
	return err
}
