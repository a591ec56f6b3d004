package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/inspect"
)

// An inspection is one run of inspect: what is looked at beside what the files say of themselves, and how it is shown.
type inspection struct {
	*app

	options inspect.Options
	asJSON  bool
	hex     bool
	page    pageFlags
}

func (a *app) inspectCommand() *cobra.Command {
	i := inspection{app: a}
	var keys, whatIf []string
	c := &cobra.Command{
		Use:   "inspect FILE|DIR",
		Short: "Look inside a store, a table, a log or a manifest",
		Long: `inspect reads files and changes nothing. It takes no lock, so that what another process is writing may look torn.

Of a store it shows the manifest, the tree as a picture, what filters take in memory and what they waste, level by level, beside what they
promise and the least that so much memory can waste, what tables have in common, every table with its filter, and the logs. --what-if
tells what the filters of just this tree would take and waste if they were built for another rate, for so much memory, or of the other
kind: fpr=0.001, memory=64 (MiB), kind=ribbon, or kind=ribbon,fpr=0.001. Of a log (NNNNNN.log) it shows the records, with
--entries also each operation; of a manifest (MANIFEST-NNNNNN) the edits, and what they add up to; of both, what is damaged, what is
behind it, and what opening the store would do about it. Of a table (NNNNNN.sst) it shows the properties and the filter block: header,
rates (promised, by the number of keys, bits and probes, from the bits, and measured with random hashes), and of each unit
how full its blocks are beside what theory says. What is off by more than it should be is flagged, with "!".
So it shows the prefix filter, if there is one, with its rule.

--verify builds filters, prefix filters too, again from their tables' keys and compares bit for bit. --key K shows, table by table,
fences, what K and its prefix probe, how the filters answer, and by reading whether that is right; K is as inspect prints keys, and --key may be repeated. --hex prints the filter
block with what its bytes are.

--html FILE writes a page of a table or a store for a browser, light or dark, which loads nothing: the same numbers, drawn, with a
sentence on what each picture means; "-" prints it instead of the text. --plot DIR saves its pictures as SVG and PNG. With --verify and
--key they show what these find. Of a store they show some tables in full, those with something wrong and the largest first.

The names in --json are documented with the types Exam, UnitTrace and Difference of package
bloomblock, and of package internal/inspect; they do not change.

Keys are escaped, in JSON too. The exit status is 2 where what it reads is damaged, or a filter is not that of its table's
keys; it reads no data blocks but with --entries, --key and --verify, so that only check tells a store to be whole.`,
		Example: `  bloomkv inspect ./store
  bloomkv inspect --verify ./store
  bloomkv inspect --what-if fpr=0.001 --what-if kind=ribbon,memory=64 ./store
  bloomkv inspect --key user/0042 ./store
  bloomkv inspect ./store/000012.sst --json
  bloomkv inspect ./store --html store.html --plot pictures`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			if err := i.parse(whatIf, keys); err != nil {
				return cli.Hint(c, err)
			}
			name, isDir, err := lookAt(args[0])
			if err != nil {
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
				return i.showRead(c.Context(), l, err, func() { l.WriteText(a.Out) })
			case filename.Manifest:
				m, err := inspect.ReadManifest(c.Context(), name, number)
				return i.showRead(c.Context(), m, err, func() { m.WriteText(a.Out) })
			case filename.Current, filename.Lock, filename.Temp:
				return fmt.Errorf("%s holds nothing to look at; want a table, a log, a manifest or a directory", args[0])
			default: // a table may have been renamed
				return i.table(c.Context(), name)
			}
		},
	}
	c.Flags().BoolVar(&i.asJSON, "json", false, "print a JSON object")
	c.Flags().BoolVar(&i.options.Entries, "entries", false, "of a table also every block and entry, as text; of a log every operation")
	c.Flags().BoolVar(&i.options.Verify, "verify", false, "build filters again from the keys of their tables, and compare")
	c.Flags().BoolVar(&i.hex, "hex", false, "of a table also the bytes of its filter block, as text")
	c.Flags().StringArrayVar(&whatIf, "what-if", nil, "of a store what other filters would take and give: `ITEMS` fpr=RATE or memory=MIB, kind=bloom or ribbon")
	c.Flags().StringVar(&i.page.html, "html", "", "write a page for a browser into `FILE`")
	c.Flags().StringVar(&i.page.plot, "plot", "", "save the pictures of the page in `DIR`, as SVG and PNG")
	c.Flags().StringArrayVar(&keys, "key", nil, "show how the filters answer for `KEY`, and whether that is right; may be repeated")
	return c
}

// parse reads the flags that have a form, and holds them against each other.
func (i *inspection) parse(whatIf, keys []string) error {
	if i.page.html == toOutput && (i.asJSON || i.hex || i.options.Entries) {
		return errors.New("--json, --hex and --entries go to the output as --html - does, want a file for the page")
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
	if i.asJSON && i.hex {
		return errors.New("--hex is text, want it without --json")
	}
	return nil
}

// check refuses what does not go with a file of a kind.
func (i *inspection) check(kind filename.Kind) error {
	switch {
	case len(i.options.WhatIf) > 0:
		return errors.New("--what-if is of a store, want its directory")
	case i.asJSON && i.options.Entries && kind != filename.Log:
		return errors.New("--entries of a table is text, want it without --json")
	case i.page.asked() && (kind == filename.Log || kind == filename.Manifest):
		return errors.New("--html and --plot are for tables and stores")
	}
	return nil
}

func (i *inspection) store(ctx context.Context, dir string) error {
	i.options.Full = i.page.asked()
	stop := func() {}
	if i.options.Verify {
		bar := i.Progress("verify", -1, false)
		i.options.Progress, stop = func(done, of int) { bar.Set(int64(done), int64(of)) }, bar.End
	}
	s, err := inspect.ReadStore(ctx, dir, i.options)
	stop()
	if err != nil {
		return err
	}
	return i.show(ctx, s, s.Wrong(), func() page { return s.Page() }, func() { s.WriteText(i.Out, inspect.Style{Color: i.Color, Hex: i.hex}) })
}

func (i *inspection) table(ctx context.Context, name string) error {
	t, err := inspect.ReadTable(ctx, name, i.options)
	if err != nil {
		return err
	}
	err = i.show(ctx, t, t.Wrong(), func() page { return t.Page() }, func() { t.WriteText(i.Out, inspect.Style{Color: i.Color, Hex: i.hex}) })
	if i.options.Entries {
		fmt.Fprintln(i.Out)
		err = errors.Join(err, inspect.WriteEntries(i.Out, name))
	}
	return err
}

// show writes facts as they were asked for: a page, if there is one to be drawn, and JSON or text. wrong is what is damaged.
func (i *inspection) show(ctx context.Context, facts any, wrong error, drawn func() page, text func()) error {
	var written error
	if i.page.asked() {
		written = i.page.write(ctx, i.app, drawn())
	}
	switch {
	case i.asJSON:
		return errors.Join(i.PrintJSON(facts), wrong, written)
	case i.page.html != toOutput:
		text()
	}
	return errors.Join(wrong, written)
}

// showRead writes what was read of a log or a manifest: all, or what is before the damage, which is the error.
func (i *inspection) showRead(ctx context.Context, facts any, err error, text func()) error {
	if err != nil && !errors.Is(err, bloomkv.ErrCorruption) {
		return err // nothing was read
	}
	return i.show(ctx, facts, err, nil, text)
}

// lookAt follows links to a file or directory that can be looked at. Everything else is an error at once: nobody waits for a pipe.
func lookAt(arg string) (name string, isDir bool, err error) {
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		return "", false, cli.PathError(arg, err)
	case info.IsDir():
		return arg, true, nil
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("%s: not a regular file but of mode %v, want a table, a log, a manifest or a directory", arg, info.Mode())
	}
	name, err = filepath.EvalSymlinks(arg)
	return name, false, err
}
