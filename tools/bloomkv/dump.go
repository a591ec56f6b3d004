package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

func (a *app) dumpCommand() *cobra.Command {
	var formatName string
	c := &cobra.Command{
		Use:   "dump DIR",
		Short: "Print every pair in a form that load reads",
		Long: `dump prints every pair in the order of the keys, in a form that load reads back exactly. A key or value
that the format cannot represent is an error.

` + formatHelp + `

On a terminal, tsv is escaped as by scan, and load cannot read it back. Unescaped bytes are only written to a pipe or a
file.
` + onTable,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := findFormat(formatName)
			if err != nil {
				return fmt.Errorf("--format: %w", err)
			}
			line := f.append
			if f.name == "tsv" && a.OutTerminal {
				line = func(dst, key, value []byte) ([]byte, error) {
					if _, err := f.append(dst, key, value); err != nil {
						return dst, err
					}
					return words.AppendEscaped(append(words.AppendEscaped(dst, key), '\t'), value), nil
				}
			}
			db, err := a.openData(c.Context(), args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				n, err := a.printLines(c, db, bloomkv.IterOptions{}, line)
				if err != nil {
					err = fmt.Errorf("after %s: %w", words.Plural(n, "line"), err)
				}
				return err
			})
		},
	}
	addFormat(c, &formatName)
	return c
}
