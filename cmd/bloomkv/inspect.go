package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/inspect"
)

func (a *app) inspectCommand() *cobra.Command {
	var (
		o           inspect.Options
		key         string
		whatIf      []string
		asJSON, hex bool
		shown       pageFlags
	)
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
fences, what K and its prefix probe, how the filters answer, and by reading whether that is right; K is as inspect prints keys. --hex prints the filter
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
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if shown.html == toOutput && (asJSON || hex || o.Entries) {
				return hint(c, errors.New("--json, --hex and --entries go to the output as --html - does, want a file for the page"))
			}
			if err := shown.check(); err != nil {
				return hint(c, err)
			}
			if c.Flags().Changed("key") {
				var err error
				if o.Key, err = inspect.ParseKey(key); err != nil {
					return hint(c, fmt.Errorf("--%w", err))
				}
			}
			for _, text := range whatIf {
				q, err := inspect.ParseWhatIf(text)
				if err != nil {
					return hint(c, fmt.Errorf("--what-if: %w", err))
				}
				o.WhatIf = append(o.WhatIf, q)
			}
			name, isDir, err := lookAt(args[0])
			if err != nil {
				return err
			}
			if !isDir && len(whatIf) > 0 {
				return hint(c, fmt.Errorf("--what-if is of a store, want its directory and not %s", args[0]))
			}
			kind, number := filename.Parse(filepath.Base(name))
			isLog := !isDir && kind == filename.Log
			if asJSON && (hex || o.Entries && !isLog) {
				return hint(c, errors.New("--hex, and --entries of a table, are text, want them without --json"))
			}
			style := inspect.Style{Color: a.color, Hex: hex}
			show := func(facts any, err error, text func()) error {
				if asJSON {
					return errors.Join(a.printJSON(facts), err)
				}
				if shown.html != toOutput {
					text()
				}
				return err
			}
			if shown.asked() && !isDir && (kind == filename.Log || kind == filename.Manifest) {
				return hint(c, errors.New("--html and --plot are for tables and stores"))
			}
			if isDir {
				o.Full = shown.asked()
				stop := func() {}
				if o.Verify {
					bar := a.newProgress("verify", -1, false)
					o.Progress, stop = func(done, of int) { bar.set(int64(done), int64(of)) }, bar.end
				}
				s, err := inspect.ReadStore(c.Context(), name, o)
				stop()
				if err != nil {
					return err
				}
				var written error
				if shown.asked() {
					written = shown.write(a, s.Page())
				}
				return errors.Join(show(s, s.Wrong(), func() { s.WriteText(a.out, style) }), written)
			}
			switch kind {
			case filename.Log:
				l, err := inspect.ReadLog(c.Context(), name, number, o)
				if err != nil && !errors.Is(err, bloomkv.ErrCorruption) {
					return err
				}
				return show(l, err, func() { l.WriteText(a.out) })
			case filename.Manifest:
				m, err := inspect.ReadManifest(c.Context(), name, number)
				if err != nil && !errors.Is(err, bloomkv.ErrCorruption) {
					return err
				}
				return show(m, err, func() { m.WriteText(a.out) })
			case filename.Current, filename.Lock, filename.Temp:
				return fmt.Errorf("%s holds nothing to look at; want a table, a log, a manifest or a directory", args[0])
			default: // a table may have been renamed
				t, err := inspect.ReadTable(c.Context(), name, o)
				if err != nil {
					return err
				}
				var written error
				if shown.asked() {
					written = shown.write(a, t.Page())
				}
				err = errors.Join(show(t, t.Wrong(), func() { t.WriteText(a.out, style) }), written)
				if o.Entries {
					fmt.Fprintln(a.out)
					err = errors.Join(err, inspect.WriteEntries(a.out, name))
				}
				return err
			}
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	c.Flags().BoolVar(&o.Entries, "entries", false, "of a table also every block and entry, as text; of a log every operation")
	c.Flags().BoolVar(&o.Verify, "verify", false, "build filters again from the keys of their tables, and compare")
	c.Flags().BoolVar(&hex, "hex", false, "of a table also the bytes of its filter block, as text")
	c.Flags().StringArrayVar(&whatIf, "what-if", nil, "of a store what other filters would take and give: `ITEMS` fpr=RATE or memory=MIB, kind=bloom or ribbon")
	c.Flags().StringVar(&shown.html, "html", "", "write a page for a browser into `FILE`")
	c.Flags().StringVar(&shown.plot, "plot", "", "save the pictures of the page in `DIR`, as SVG and PNG")
	c.Flags().StringVar(&key, "key", "", "show how the filters answer for `KEY`, and whether that is right")
	return c
}

// lookAt follows links to a file or directory that can be looked at. Everything else is an error at once: nobody waits for a pipe.
func lookAt(arg string) (name string, isDir bool, err error) {
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		return "", false, err
	case info.IsDir():
		return arg, true, nil
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("%s: not a regular file but of mode %v, want a table, a log, a manifest or a directory", arg, info.Mode())
	}
	name, err = filepath.EvalSymlinks(arg)
	return name, false, err
}
