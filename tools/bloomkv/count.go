package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
)

func (a *app) countCommand() *cobra.Command {
	var r rangeFlags
	c := &cobra.Command{
		Use:   "count DIR",
		Short: "Count keys",
		Long: `count prints the number of keys in a store, or in the range of --prefix, --from and --to: keys that match
all given flags. The number is exact: deleted and overwritten versions do not count. count reads every key in the range,
and shows its progress on a terminal. size estimates quickly how many bytes a range takes; stats prints the number of
entries of the whole store, with old versions.
` + onTable,
		Example: `  bloomkv count ./store
  bloomkv count ./store --prefix user/`,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := r.options()
			if err != nil {
				return err
			}
			var keys uint64
			db, err := a.openData(c.Context(), args[0])
			err = with(db, err, func(db *bloomkv.DB) error {
				bar := a.Progress("count", -1, false)
				defer bar.End()
				most := -1 // not known in a range
				if !r.given() {
					most = int(sumTables(db).entries) //nolint:gosec // far below 2⁶³
				}
				o.KeysOnly = true
				for _, err := range db.Scan(o) {
					if err != nil {
						return err
					}
					if keys++; keys%1024 == 0 {
						if err := c.Context().Err(); err != nil {
							return err
						}
						bar.Set(int(keys), most) //nolint:gosec // far below 2⁶³
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.printResult(map[string]uint64{"keys": keys}, func() { fmt.Fprintln(a.Out, keys) })
		},
	}
	r.add(c, "", "count only keys", "PREFIX, FROM and TO")
	a.addJSON(c, "print a JSON object")
	return c
}
