package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

// byteFlags define how keys and values are written as arguments, for bytes that a command line cannot carry.
type byteFlags struct{ hex, escaped bool }

func (f *byteFlags) add(c *cobra.Command, what string) {
	if strings.Contains(what, " and ") {
		what += " are "
	} else {
		what += " is "
	}
	c.Flags().BoolVar(&f.hex, "hex", false, what+"written in hexadecimal digits")
	c.Flags().BoolVar(&f.escaped, "escaped", false,
		what+`escaped as scan and inspect print them: \x00 is the byte 0 and \\ a backslash`)
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

// rangeFlags define a range of keys: --prefix, --from and --to. Several flags are combined. An empty value is a bound
// too: every key has the empty prefix, and no key is before the empty key.
type rangeFlags struct {
	byteFlags

	flags [3]rangeFlag // prefix, from, to
	of    *cobra.Command
}

type rangeFlag struct{ name, arg string }

// add adds the flags to a command. lead begins their names, what begins their descriptions, and written are the
// arguments that may be written in another way.
func (r *rangeFlags) add(c *cobra.Command, lead, what, written string) {
	r.of = c
	r.byteFlags.add(c, written)
	for i, f := range []struct{ name, meaning string }{
		{"prefix", "that begin with `PREFIX`"},
		{"from", "at or after `FROM`"},
		{"to", "before `TO`"},
	} {
		r.flags[i].name = lead + f.name
		c.Flags().StringVar(&r.flags[i].arg, lead+f.name, "", what+" "+f.meaning)
	}
}

// given reports whether any of the flags was given.
func (r *rangeFlags) given() bool {
	return slices.ContainsFunc(r.flags[:], func(f rangeFlag) bool { return r.of.Flags().Changed(f.name) })
}

// options returns the flags as options of an iterator. Flags that were not given are nil.
func (r *rangeFlags) options() (o bloomkv.IterOptions, err error) {
	for i, to := range []*[]byte{&o.Prefix, &o.Lower, &o.Upper} {
		f := r.flags[i]
		if !r.of.Flags().Changed(f.name) {
			continue // nil means no bound, but an empty value is one
		}
		if *to, err = r.bytes("--"+f.name, f.arg); err != nil {
			return o, err
		}
	}
	return o, nil
}

// keyRange returns the flags as one range.
func (r *rangeFlags) keyRange() (bloomkv.KeyRange, error) {
	o, err := r.options()
	if err != nil {
		return bloomkv.KeyRange{}, err
	}
	kr := bloomkv.KeyRange{Lower: o.Lower, Upper: o.Upper}
	if bytes.Compare(o.Prefix, kr.Lower) > 0 {
		kr.Lower = o.Prefix
	}
	if end := bloomkv.PrefixRange(o.Prefix).Upper; end != nil && (kr.Upper == nil || bytes.Compare(end, kr.Upper) < 0) {
		kr.Upper = end
	}
	return kr, nil
}

// everything reports whether a range is the whole store.
func everything(r bloomkv.KeyRange) bool { return len(r.Lower) == 0 && r.Upper == nil }
