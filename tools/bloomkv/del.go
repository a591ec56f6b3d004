package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func (a *app) delCommand() *cobra.Command {
	var r rangeFlags
	var all bool
	c := &cobra.Command{
		Use:   "del DIR [KEY...]",
		Short: "Delete keys, or all keys in a range",
		Long: `del deletes the given keys atomically and returns when that is on stable storage. With --prefix, --from
and --to it deletes all keys that match all given flags. Deleting a range takes no longer than deleting a key, however
many keys match; compact frees their space. Absent keys and empty ranges are not errors. Deleting every key of the
store requires --all.

del does not create a store.`,
		Example: `  bloomkv del ./store color photo
  bloomkv del ./store --prefix user/17/
  bloomkv del ./store --from 2024- --to 2025-`,
		RunE: func(c *cobra.Command, args []string) error {
			var b bloomkv.Batch
			keys := args[1:]
			switch {
			case len(keys) > 0 && (all || r.given()):
				return cli.Hint(c, errors.New("keys and a range are given, want only one of them"))
			case all && r.given():
				return cli.Hint(c, errors.New("--all and a range are given, want only one of them"))
			case len(keys) == 0 && !all && !r.given():
				return cli.Hint(c, errors.New("nothing to delete: want keys, a range (--prefix, --from, --to), or "+
					"--all"))
			case len(keys) == 0:
				kr, err := r.keyRange()
				if err != nil {
					return err
				}
				if !all && everything(kr) {
					return cli.Hint(c, errors.New("the range is the whole store: use --all to delete every key"))
				}
				b.DeleteRange(kr)
			}
			for _, arg := range keys {
				key, err := r.bytes("key", arg)
				if err != nil {
					return err
				}
				b.Delete(key)
			}
			db, err := openToWrite(c.Context(), args[0])
			return with(db, err, func(db *bloomkv.DB) error { return db.Apply(&b) })
		},
	}
	r.add(c, "", "delete all keys", "KEY, PREFIX, FROM and TO")
	c.Flags().BoolVar(&all, "all", false, "delete every key of the store")
	return c
}
