package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func (a *app) putCommand() *cobra.Command {
	var h byteFlags
	c := &cobra.Command{
		Use:   "put DIR KEY [VALUE]",
		Short: "Store a value under a key",
		Long: `put stores VALUE under KEY and returns when it is on stable storage. If the store does not exist, put
creates it in a new or empty directory.

Without VALUE, put reads the value from standard input. An argument that begins with a dash must follow "--".`,
		Example: `  bloomkv put ./store color green
  bloomkv put ./store photo < photo.jpg
  bloomkv put --hex ./store 00ff 68656c6c6f`,
		RunE: func(c *cobra.Command, args []string) error {
			key, err := h.bytes("key", args[1])
			if err != nil {
				return err
			}
			var value []byte
			if len(args) == 3 {
				value, err = h.bytes("value", args[2])
			} else if value,
				err = io.ReadAll(io.LimitReader(cli.UntilDone(c.Context(), a.In), bloomkv.MaxValueSize+1)); err != nil {
				err = fmt.Errorf("standard input: %w", err)
			}
			if err == nil {
				err = checkSizes(key, value) // before a store is created
			}
			if err != nil {
				return err
			}
			kept := new(writeFlags)
			return kept.create(c.Context(), args[0], bloomkv.Options{}, func(db *bloomkv.DB, _ bool) (bool, error) {
				return false, db.Put(key, value)
			})
		},
	}
	h.add(c, "KEY and VALUE")
	return c
}
