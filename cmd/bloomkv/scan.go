package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/words"
)

func (a *app) scanCommand() *cobra.Command {
	var h byteFlags
	var r rangeFlags
	var limit int
	var reverse, keysOnly, asJSON bool
	c := &cobra.Command{
		Use:   "scan DIR",
		Short: "Print keys and values in order",
		Long: `scan prints keys and values in the order of the keys, one pair a line with a TAB between, both escaped, on a terminal
and in a pipe alike. To get the bytes back use dump, or --json. --prefix, --from and --to all hold where several are given.
--reverse begins at the last key of the range and goes down, so that with --limit it prints the last ones.
` + onTable,
		Example: `  bloomkv scan ./store --prefix user/ --limit 10
  bloomkv scan ./store --from a --to b --keys
  bloomkv scan ./store --prefix log/ --reverse --limit 1`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := r.options(h)
			if err != nil {
				return err
			}
			o.KeysOnly = keysOnly
			if limit < 0 {
				return fmt.Errorf("--limit %d, want 0 (all) or more", limit)
			}
			p := printer{limit: limit, reverse: reverse, line: func(dst, key, value []byte) ([]byte, error) {
				switch {
				case asJSON && keysOnly:
					return append(appendMember(append(dst, '{'), "key", key), '}'), nil
				case asJSON:
					return appendJSON(dst, key, value)
				case keysOnly:
					return words.AppendEscaped(dst, key), nil
				default:
					return words.AppendEscaped(append(words.AppendEscaped(dst, key), '\t'), value), nil
				}
			}}
			db, err := a.openData(args[0])
			return with(db, err, func(db *bloomkv.DB) error {
				_, err := a.printLines(c, db, o, p)
				return err
			})
		},
	}
	r.add(c, "", "only keys")
	h.add(c, "PREFIX, FROM and TO")
	c.Flags().BoolVar(&reverse, "reverse", false, "begin at the last key and go down")
	c.Flags().IntVar(&limit, "limit", 0, "at most `N` pairs; 0 is all")
	c.Flags().BoolVar(&keysOnly, "keys", false, "print no values")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON objects, one a line, as dump --format json does")
	return c
}
