package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/outfile"
)

func (a *app) exportCommand() *cobra.Command {
	var since string
	var list bool
	c := &cobra.Command{
		Use:   "export DIR [FILE]",
		Short: "Write a whole store, or its new tables, as one file",
		Long: `export writes the store DIR as one stream, to FILE or to standard output: its tables as they are, with
checksums. import makes a store of it, on this machine or another.

With --since, tables that the receiver has are left out. Name the file of an earlier export that the receiver has
imported, a list that --list wrote there, or a directory with the store itself. Only a receiver that still has these
tables can import the rest.

--list writes only the list of the store's tables, for --since. It changes nothing.

If DIR was not closed cleanly, the contents of its logs are first written into tables of DIR.`,
		Example: `  bloomkv export ./store store.export
  bloomkv export ./store | ssh host bloomkv import ./copy
  bloomkv export --since monday.export ./store tuesday.export
  ssh host bloomkv export --list ./copy > copy.list &&
    bloomkv export --since copy.list ./store new.export`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 && a.OutTerminal {
				return errors.New("standard output is a terminal: name a FILE, or use a pipe")
			}
			if a.asJSON && (len(args) < 2 || args[1] == toOutput) {
				return errors.New("--json prints to standard output too, want a FILE")
			}
			if list {
				return a.exportList(c.Context(), args)
			}
			var opts bloomkv.ExportOptions
			if since != "" {
				var err error
				if opts.Since, err = inventory(c.Context(), since); err != nil {
					return err
				}
			}
			db, err := openToWrite(c.Context(), args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				size, err := a.export(c.Context(), db, args[1:], opts)
				if err == nil && a.asJSON {
					err = a.PrintJSON(map[string]int64{"bytes": size}) // of the file
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&since, "since", "", "leave out the tables in `FILE|DIR`")
	c.Flags().BoolVar(&list, "list", false, "write only the list of the store's tables")
	a.addJSON(c, "print a JSON object with the number of bytes")
	c.MarkFlagsMutuallyExclusive("since", "list")
	c.MarkFlagsMutuallyExclusive("json", "list")
	return c
}

// export writes the stream of a store, and returns its size.
func (a *app) export(ctx context.Context, db *bloomkv.DB, file []string, opts bloomkv.ExportOptions) (
	size int64, err error,
) {
	x, err := db.Export(ctx, opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	bar := a.Progress("export", x.Size(), true)
	defer bar.End()
	return x.Size(), a.writeOut(ctx, file, writerTo(func(to io.Writer) (int64, error) {
		return x.WriteTo(io.MultiWriter(to, bar))
	}))
}

// exportList writes the list of a store's tables.
func (a *app) exportList(ctx context.Context, args []string) error {
	db, err := openToRead(ctx, args[0])
	return with(db, err, func(db *bloomkv.DB) error {
		has, err := db.Inventory(ctx)
		if err != nil {
			return err
		}
		b, err := has.MarshalBinary()
		if err != nil {
			return err
		}
		return a.writeOut(ctx, args[1:], bytes.NewReader(b))
	})
}

type writerTo func(io.Writer) (int64, error)

func (f writerTo) WriteTo(w io.Writer) (int64, error) { return f(w) }

// writeOut writes to the named file, or to standard output without a name or with "-".
func (a *app) writeOut(ctx context.Context, file []string, from io.WriterTo) error {
	if len(file) > 0 && file[0] != "-" {
		return outfile.WriteFrom(ctx, file[0], from)
	}
	return outfile.Stream(ctx, a.Out, from)
}

// inventory returns the list of the tables of a store, or that in a file.
func inventory(ctx context.Context, name string) (*bloomkv.Inventory, error) {
	return fromEither(ctx, name, "want an export, or a list that export --list wrote", bloomkv.ReadInventory,
		func(db *bloomkv.DB) (*bloomkv.Inventory, error) { return db.Inventory(ctx) })
}

func (a *app) importCommand() *cobra.Command {
	var opts bloomkv.NewStoreOptions
	c := &cobra.Command{
		Use:   "import NEW [FILE]",
		Short: "Make a store of what export wrote",
		Long: `import makes a store in NEW, a directory that must be empty or not exist, of a stream that export wrote,
from FILE or from standard input. It verifies every byte, and puts the store on stable storage. After an error or an
interrupt, nothing is left in NEW. Then it checks the store, as check does: if tables were damaged before they were
exported, or in the store of --base, the exit status is 2, and NEW stays. An interrupt of the check leaves NEW too.

An export with --since leaves out tables. --base names the directory of a store that has them; it is not changed, and
the tables are hard-linked, or copied where that is not possible.

To load lines of keys and values, see load and ingest.`,
		Example: `  bloomkv import ./copy store.export
  ssh host bloomkv export ./store | bloomkv import ./copy
  bloomkv import --base ./monday ./tuesday tuesday.export`,
		RunE: func(c *cobra.Command, args []string) error {
			in, err := a.openInput(c.Context(), args[1:])
			if err != nil {
				return err
			}
			defer in.close()
			bar := a.Progress("import", in.size, true)
			defer bar.End()
			err = bloomkv.Import(c.Context(), in.read(c.Context(), bar), args[0], opts)
			if damage, ok := errors.AsType[*bloomkv.CorruptionError](err); ok && damage.File == "stream" {
				//nolint:errorlint // not %w: the advice for corruption is to salvage the store
				err = fmt.Errorf("%v; want all of what \"bloomkv export\" wrote", err)
			}
			bar.End()
			if err != nil {
				return in.named(err)
			}
			return a.checkCopy(c.Context(), args[0], 0)
		},
	}
	c.Flags().StringVar(&opts.Base, "base", "", "take the tables that the export leaves out from the store `DIR`")
	a.addJSON(c, "print a JSON object with the number of tables, entries and bytes")
	return c
}

func (a *app) checkpointCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoint DIR DEST",
		Short: "Make a copy of a store that shares its tables",
		Long: `checkpoint copies the store DIR into DEST, a directory that must be empty or not exist, and returns when
the copy is on stable storage. The tables are not copied but hard-linked, which takes no time and no space. If DEST is
on another file system they are copied. The copy is an independent store: either may be written, moved or removed.

If DIR was not closed cleanly, the contents of its logs are first written into tables of DIR. Nothing is left in DEST
after an error or an interrupt.`,
		Example: `  bloomkv checkpoint ./store ./store-monday`,
		RunE: func(c *cobra.Command, args []string) error {
			db, err := openToWrite(c.Context(), args[0])
			err = with(db, err, func(db *bloomkv.DB) error { return db.Checkpoint(c.Context(), args[1]) })
			if err != nil || !a.asJSON {
				return err
			}
			db, err = openToRead(c.Context(), args[1])
			return with(db, err, func(db *bloomkv.DB) error {
				made := statsOf(db.Metrics())
				return a.PrintJSON(copyReport{Tables: made.Tables, Bytes: made.Bytes})
			})
		},
	}
	a.addJSON(c, "print a JSON object with the number of tables and bytes")
	return c
}

// checkCopy checks a store that was just made of another, perhaps of a generation of a backup, and with --json prints
// what it has. Damage in tables travels with them.
func (a *app) checkCopy(ctx context.Context, dir string, generation uint64) error {
	bar := a.Progress("check", -1, true)
	r, err := bloomkv.Check(ctx, dir, bloomkv.CheckOptions{Progress: bar.SetBytes})
	bar.End()
	switch {
	case errors.Is(err, bloomkv.ErrCorruption):
		err = fmt.Errorf("%s is complete, and is damaged as its original was: %w", dir, err)
	case err != nil:
		err = fmt.Errorf("%s is complete, but was not checked: %w", dir, err)
	case a.asJSON:
		err = a.PrintJSON(copyReport{generation, r.Tables, &r.Entries, r.Bytes})
	}
	return err
}

// copyReport says in JSON how much a command has copied.
type copyReport struct {
	Generation uint64  `json:"generation,omitempty"` // of a backup
	Tables     int     `json:"tables"`
	Entries    *uint64 `json:"entries,omitempty"` // versions, if the tables were read
	Bytes      uint64  `json:"bytes"`             // of the tables
}
