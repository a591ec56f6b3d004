package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

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
