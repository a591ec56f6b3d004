package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

func (a *app) compactCommand() *cobra.Command {
	var w writeFlags
	var r rangeFlags
	var compression string
	o := bloomkv.Options{ErrorIfMissing: true}
	c := &cobra.Command{
		Use:   "compact DIR",
		Short: "Merge a store, or a range of its keys, into the last level",
		Long: `compact merges all tables into the last level, where reads are cheapest, and frees the space of deleted
and overwritten data. Stores compact themselves as they are written, but not completely. compact prints the number of
tables and their bytes before and after. If the store was not closed cleanly, the contents of its logs are first
written into tables and are included in both.

With --prefix, --from and --to, only tables with keys that match all given flags are merged. The numbers are still those
of the whole store. A table that needs no merging is left alone, unless its filter differs from what --fpr,
--filter-memory, --filter-kind and --filter-prefix ask for, or without them from what the store was last written with.
Then the table is rewritten; stats prints how many such tables there are. With --compression or --block-size all tables
in the range are rewritten that way. Other commands do not remember these two flags: they write blocks of 4096 bytes
with s2.

After an interrupt the store is intact and partly merged. compact temporarily needs at most as much disk space again as
the store takes.`,
		Example: `  bloomkv compact ./store
  bloomkv del ./store --prefix user/ && bloomkv compact ./store --prefix user/
  bloomkv compact ./store --fpr 0.001
  bloomkv compact ./store --compression zstd`,
		RunE: func(c *cobra.Command, args []string) error {
			kr, err := r.keyRange()
			if err != nil {
				return err
			}
			rewrite := c.Flags().Changed("compression") || c.Flags().Changed("block-size")
			if o.Compression, err = parseCompression(compression); err != nil {
				return err
			}
			var before, after storeStats
			bar := a.Progress("compact", -1, true)
			defer bar.End()
			db, err := w.open(c.Context(), args[0], o)
			err = with(db, err, func(db *bloomkv.DB) error {
				before = statsOf(db.Metrics()) // Open has written the contents of logs into tables
				total := int64(-1)             // of the tables in the range
				if everything(kr) {
					total = int64(before.Bytes) //nolint:gosec // the size of files
				}
				stop := bar.Follow(func() uint64 { return db.Metrics().Writes.CompactedBytesRead }, total)
				err := db.Compact(c.Context(), bloomkv.CompactOptions{Range: kr, Rewrite: rewrite})
				stop()
				after = statsOf(db.Metrics())
				return err
			})
			bar.End()
			if err != nil {
				return err
			}
			return a.printResult(struct {
				TablesBefore   int    `json:"tables_before"`
				BytesBefore    uint64 `json:"bytes_before"`
				TablesAfter    int    `json:"tables_after"`
				BytesAfter     uint64 `json:"bytes_after"`
				CompactedBytes uint64 `json:"compacted_bytes"`
				RewrittenBytes uint64 `json:"rewritten_bytes"`
			}{
				before.Tables, before.Bytes, after.Tables, after.Bytes, after.Writes.CompactedBytes,
				after.Writes.RewrittenBytes,
			}, func() {
				fmt.Fprintf(a.Out, "before: %s, %s\nafter: %s, %s\nwritten: %s, including %d to rewrite tables\n",
					words.Plural(before.Tables, "table"), words.Plural(before.Bytes, "byte"),
					words.Plural(after.Tables, "table"), words.Plural(after.Bytes, "byte"),
					words.Plural(after.Writes.CompactedBytes, "byte"), after.Writes.RewrittenBytes)
			})
		},
	}
	r.add(c, "", "merge only tables with keys", "PREFIX, FROM and TO")
	c.Flags().StringVar(&compression, "compression", "s2",
		"rewrite all tables in the range with `CODEC`: s2, zstd (in the last level, s2 above it) or none")
	c.Flags().IntVar(&o.BlockSize, "block-size", 4096,
		"rewrite all tables in the range with blocks of `BYTES` before compression")
	a.addJSON(c, "print a JSON object")
	w.add(c)
	return c
}

// parseCompression returns the Options.Compression of a name.
func parseCompression(name string) (bloomkv.Compression, error) {
	switch name {
	case "s2":
		return bloomkv.CompressionS2, nil
	case "zstd":
		return bloomkv.CompressionZstdBottom, nil
	case "none":
		return bloomkv.CompressionNone, nil
	}
	return 0, fmt.Errorf("--compression %q, want s2, zstd or none", name)
}
