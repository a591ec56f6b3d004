package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/words"
)

func (a *app) compactCommand() *cobra.Command {
	var h byteFlags
	var w writeFlags
	var r rangeFlags
	var asJSON bool
	var compression string
	o := bloomkv.Options{ErrorIfMissing: true}
	c := &cobra.Command{
		Use:   "compact DIR",
		Short: "Merge a store, or a range of it, into its last level",
		Long: `compact merges all tables into the last level, where reads are cheapest, and gives back the space of what was deleted or
overwritten. Stores do that by themselves as they are written, but not to the end. It prints how many tables there are,
and their bytes, before and after; what only logs hold, after an unclean end of the last use, is written into tables
first, and counts in both.

With --prefix, --from and --to, which all hold where several are given, it merges the tables that have a key in the
range; the figures are those of the whole store. A table that nothing is merged with stays as it is, unless its filter is
not the one that --fpr, --ribbon and --filter-prefix ask for, or that the store was last written with: then it is written
anew. stats says how many such tables there are. With --compression or --block-size all tables of the range are written
anew, in that way; other commands that write know nothing of these, and write blocks of 4096 bytes with s2.

An interrupt leaves the store whole, merged as far as the work had come. While it works, compact needs space for what it
merges, at most as much again as the store has.`,
		Example: `  bloomkv compact ./store
  bloomkv del ./store --prefix user/ && bloomkv compact ./store --prefix user/
  bloomkv compact ./store --fpr 0.001
  bloomkv compact ./store --compression zstd`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			kr, err := r.keyRange(h)
			if err != nil {
				return err
			}
			rewrite := c.Flags().Changed("compression") || c.Flags().Changed("block-size")
			if o.Compression, err = parseCompression(compression); err != nil {
				return err
			}
			var before, after tableSum
			var writes bloomkv.WriteMetrics
			bar := a.Progress("compact", -1, true)
			defer bar.End()
			db, err := w.open(args[0], o)
			err = with(db, err, func(db *bloomkv.DB) error {
				before = sumTables(db) // Open has written out what logs held
				if !nothing(kr) {
					stop := bar.Follow(func() uint64 { return db.Metrics().Writes.CompactedRead })
					work := db.Compact
					if rewrite {
						work = db.Rewrite
					}
					err := work(c.Context(), kr.Lower, kr.Upper)
					stop()
					if err != nil {
						return err
					}
				}
				after, writes = sumTables(db), db.Metrics().Writes
				return nil
			})
			bar.End()
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(struct {
					TablesBefore   int    `json:"tables_before"`
					BytesBefore    uint64 `json:"bytes_before"`
					TablesAfter    int    `json:"tables_after"`
					BytesAfter     uint64 `json:"bytes_after"`
					CompactedBytes uint64 `json:"compacted_bytes"`
					RewrittenBytes uint64 `json:"rewritten_bytes"`
				}{before.tables, before.bytes, after.tables, after.bytes, writes.CompactedBytes, writes.RewrittenBytes})
			}
			fmt.Fprintf(a.Out, "before: %s\nafter: %s\nwritten: %s, %d of them of tables that were only written anew\n", before, after,
				words.Plural(writes.CompactedBytes, "byte"), writes.RewrittenBytes)
			return nil
		},
	}
	r.add(c, "", "only tables with keys")
	h.add(c, "PREFIX, FROM and TO")
	c.Flags().StringVar(&compression, "compression", "s2", "write all tables of the range anew, blocks by `CODEC`: s2, zstd (in the last level, s2 above) or none")
	c.Flags().IntVar(&o.BlockSize, "block-size", 4096, "write all tables of the range anew, in blocks of `BYTES` before compression")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object with tables and bytes, before and after, and the bytes written")
	w.add(c)
	return c
}

// parseCompression is Options.Compression by its name.
func parseCompression(name string) (bloomkv.Compression, error) {
	switch name {
	case "s2":
		return bloomkv.S2, nil
	case "zstd":
		return bloomkv.ZstdBottom, nil
	case "none":
		return bloomkv.NoCompression, nil
	}
	return 0, fmt.Errorf("--compression %q, want s2, zstd or none", name)
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
