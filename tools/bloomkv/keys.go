package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
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

// errAbsent is a negative answer, which has an exit code of its own.
var errAbsent = errors.New("not found")

func (a *app) getCommand() *cobra.Command {
	var h byteFlags
	c := &cobra.Command{
		Use:   "get DIR KEY",
		Short: "Print the value of a key; exit status 1 if it is not found",
		Long: `get prints the value of KEY. In a pipe or a file it prints exactly the bytes of the value. On a terminal
it escapes them and adds a line feed. The exit status is 0 if the key was found, 1 if it was not, and 2 after an
error.
` + onTable,
		Example: `  bloomkv get ./store color
  bloomkv get ./store photo > photo.jpg`,
		RunE: func(c *cobra.Command, args []string) error {
			key, err := h.bytes("key", args[1])
			if err != nil {
				return err
			}
			db, err := a.openData(c.Context(), args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				value, err := db.Get(key)
				if errors.Is(err, bloomkv.ErrNotFound) {
					err := fmt.Errorf("key %s: %w", words.Escaped(key, 64), errAbsent)
					plain, bad := words.Unescaped(args[1])
					if bad == nil && !h.hex && !h.escaped && string(plain) != args[1] {
						err = fmt.Errorf("%w; if KEY was printed by scan or inspect, use --escaped", err)
					}
					return err
				}
				if err != nil {
					return err
				}
				switch {
				case a.asJSON:
					value, err = appendJSON(nil, key, value)
					value = append(value, '\n')
				case a.OutTerminal:
					value = append(words.AppendEscaped(nil, value), '\n')
				}
				if err == nil {
					_, err = a.Out.Write(value)
				}
				return err
			})
		},
	}
	h.add(c, "KEY")
	a.addJSON(c, "print a JSON object with key and value, like dump --format json")
	return c
}

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
