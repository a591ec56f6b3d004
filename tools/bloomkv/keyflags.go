package main

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/internal/words"
)

// byteFlags define how keys and values are written as arguments, for bytes that a command line cannot carry.
type byteFlags struct{ hex, escaped bool }

func (f *byteFlags) add(c *cobra.Command, what string) {
	c.Flags().BoolVar(&f.hex, "hex", false, what+" are hexadecimal digits")
	c.Flags().BoolVar(&f.escaped, "escaped", false,
		what+` are escaped as scan and inspect print them: \x00 is the byte 0 and \\ a backslash`)
}

// bytes decodes one argument. Errors begin with what.
func (f byteFlags) bytes(what, arg string) ([]byte, error) {
	switch {
	case f.hex && f.escaped:
		return nil, errors.New("--hex and --escaped are given, want only one of them")
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
