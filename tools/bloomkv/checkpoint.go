package main

import (
	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
)

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
