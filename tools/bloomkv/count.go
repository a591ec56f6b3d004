package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func (a *app) countCommand() *cobra.Command {
	var r rangeFlags
	var asJSON bool
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
				keys, err = countKeys(c.Context(), db, o, bar, most)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(struct {
					Keys uint64 `json:"keys"`
				}{keys})
			}
			fmt.Fprintln(a.Out, keys)
			return nil
		},
	}
	r.add(c, "", "count only keys", "PREFIX, FROM and TO")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// countKeys returns the number of keys that an iterator visits, which are at most a given number, if that is not below
// 0.
func countKeys(ctx context.Context, db *bloomkv.DB, o bloomkv.IterOptions, bar cli.Progress, most int) (
	n uint64, err error,
) {
	o.KeysOnly = true
	it := db.Iter(o)
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		if n++; n%1024 != 0 {
			continue
		}
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		bar.Set(int(n), most) //nolint:gosec // far below 2⁶³
	}
	return n, nil
}
