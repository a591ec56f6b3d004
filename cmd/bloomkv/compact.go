package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

func (a *app) compactCommand() *cobra.Command {
	var h byteFlags
	var w writeFlags
	var r rangeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "compact DIR",
		Short: "Merge a store, or a range of it, into its last level",
		Long: `compact merges all tables into the last level, where reads are cheapest, and gives back the space of what was deleted or
overwritten. Stores do that by themselves as they are written, but not to the end. It prints how many tables there are,
and their bytes, before and after; what only logs hold, after an unclean end of the last use, is written into tables
first, and counts in both.

With --prefix, --from and --to, which all hold where several are given, it merges the tables that have a key in the
range; the figures are those of the whole store. A table of the last level that nothing was merged with stays as it is,
with its filter.

An interrupt leaves the store whole, merged as far as the work had come. While it works, compact needs space for what it
merges, at most as much again as the store has.`,
		Example: `  bloomkv compact ./store
  bloomkv del ./store --prefix user/ && bloomkv compact ./store --prefix user/`,
		Args: arguments,
		RunE: func(c *cobra.Command, args []string) error {
			kr, err := r.keyRange(h)
			if err != nil {
				return err
			}
			var before, after tableSum
			bar := a.newProgress("compact", -1, true)
			defer bar.end()
			db, err := w.open(args[0], bloomkv.Options{ErrorIfMissing: true})
			err = with(db, err, func(db *bloomkv.DB) error {
				before = sumTables(db) // Open has written out what logs held
				if !nothing(kr) {
					stop := bar.follow(func() int64 { return clampInt64(db.Metrics().Writes.CompactedRead) })
					err := db.Compact(c.Context(), kr.Lower, kr.Upper)
					stop()
					if err != nil {
						return err
					}
				}
				after = sumTables(db)
				return nil
			})
			bar.end()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					TablesBefore int    `json:"tables_before"`
					BytesBefore  uint64 `json:"bytes_before"`
					TablesAfter  int    `json:"tables_after"`
					BytesAfter   uint64 `json:"bytes_after"`
				}{before.tables, before.bytes, after.tables, after.bytes})
			}
			fmt.Fprintf(a.out, "before: %s\nafter: %s\n", before, after)
			return nil
		},
	}
	r.add(c, "", "only tables with keys")
	h.add(c, "PREFIX, FROM and TO")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object with tables and bytes, before and after")
	w.add(c)
	return c
}

// tableSum is what all tables of a store are together.
type tableSum struct {
	tables int
	bytes  uint64
}

func sumTables(db *bloomkv.DB) (s tableSum) {
	for _, l := range db.Metrics().Levels {
		s.tables += l.Tables
		s.bytes += l.Bytes
	}
	return s
}

func (s tableSum) String() string {
	return words.Plural(s.tables, "table") + ", " + words.Plural(s.bytes, "byte")
}
