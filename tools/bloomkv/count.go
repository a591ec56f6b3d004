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
			var keys int
			db, err := a.openData(c.Context(), args[0])
			err = with(db, err, func(db *bloomkv.DB) (err error) {
				bar := a.Progress("count", -1, false)
				defer bar.End()
				most := -1 // not known in a range
				if !r.given() {
					most = int(statsOf(db.Metrics()).Entries) //nolint:gosec // far below 2⁶³
				}
				o.KeysOnly = true
				keys, err = each(c.Context(), db, o, bar, most, func(bloomkv.KV) error { return nil })
				return err
			})
			if err != nil {
				return err
			}
			return a.printResult(map[string]int{"keys": keys}, func() { fmt.Fprintln(a.Out, keys) })
		},
	}
	r.add(c, "", "count only keys", "PREFIX, FROM and TO")
	a.addJSON(c, "print a JSON object")
	return c
}
