package main

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/internal/words"
)

// byteFlags say how keys and values among the arguments are written, for bytes that a command line can't carry.
type byteFlags struct{ hex, escaped bool }

func (f *byteFlags) add(c *cobra.Command, what string) {
	c.Flags().BoolVar(&f.hex, "hex", false, what+" on the command line in hexadecimal digits, for any bytes")
	c.Flags().BoolVar(&f.escaped, "escaped", false, what+` on the command line as scan and inspect print them, \x00 for the byte 0 and \\ for a backslash`)
}

// bytes reads one argument; what names it in errors.
func (f byteFlags) bytes(what, arg string) ([]byte, error) {
	switch {
	case f.hex && f.escaped:
		return nil, errors.New("--hex and --escaped, want only one of them")
	case f.hex:
		b, err := hex.DecodeString(arg)
		if err != nil {
			return nil, fmt.Errorf("%s %q: want pairs of hexadecimal digits", what, arg)
		}
		return b, nil
	case f.escaped:
		b, err := words.Unescaped(arg)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", what, arg, err)
		}
		return append([]byte{}, b...), nil // not nil
	default:
		return []byte(arg), nil
	}
}
