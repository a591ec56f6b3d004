package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

func (a *app) sizeCommand() *cobra.Command {
	var r rangeFlags
	c := &cobra.Command{
		Use:   "size DIR",
		Short: "Print about how many bytes a range of keys takes on disk",
		Long: `size prints about how many bytes the tables of a store take for its keys, or for those in the range of
--prefix, --from and --to: keys that match all given flags. It includes deleted and overwritten versions that compaction
has not removed yet, so a smaller number after compact shows what they took. It does not include what is only in logs.
At the edges of the range whole blocks count. size reads no keys, only indexes, so it is quick; count reads every key.
` + onTable,
		Example: `  bloomkv size ./store
  bloomkv size ./store --prefix user/`,
		RunE: func(c *cobra.Command, args []string) error {
			kr, err := r.keyRange()
			if err != nil {
				return err
			}
			var size uint64
			db, err := a.openData(c.Context(), args[0])
			err = with(db, err, func(db *bloomkv.DB) error {
				size, err = db.ApproximateSize(kr)
				return err
			})
			if err != nil {
				return err
			}
			// a single table has no logs
			if n, err := countLogs(c.Context(), args[0]); err == nil && n > 0 {
				fmt.Fprintf(a.Err, "bloomkv: what is in %s is not included; compact writes it into tables\n",
					words.Plural(n, "log"))
			}
			return a.printResult(map[string]uint64{"bytes": size}, func() { fmt.Fprintln(a.Out, size) })
		},
	}
	r.add(c, "", "size of keys", "PREFIX, FROM and TO")
	a.addJSON(c, "print a JSON object")
	return c
}
