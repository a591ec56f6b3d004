package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
)

// A PrefixRule defines the prefix of a key that a prefix filter holds: a number of bytes, or everything up to a
// separator. Rules are values that may be compared with ==, and the zero value is no rule. The text of a rule is
// "len:8" or "sep:/:2"; a separator that is no visible ASCII character is written as in "sep:0x00:1".
//
// A rule gives a key the same prefix as every key that begins with that prefix. So the prefix of the start that several
// keys have in common is the prefix of each of them; if that start has no prefix, their prefixes may differ.
type PrefixRule struct {
	kind prefixKind
	sep  byte
	n    int
}

type prefixKind uint8

const (
	noPrefix  prefixKind = iota
	firstN               // the first n bytes
	upToNth              // up to and with the nth separator
	prefixMax = maxKey   // of n
)

// PrefixLen returns the rule of the first n bytes, 1 to maxKey. A shorter key has no prefix.
func PrefixLen(n int) PrefixRule { return PrefixRule{kind: firstN, n: n} }

// PrefixSeparator returns the rule of all bytes up to and with the nth separator; n is 1 to maxKey. A key with fewer
// separators has no prefix.
func PrefixSeparator(sep byte, n int) PrefixRule { return PrefixRule{kind: upToNth, sep: sep, n: n} }

// Of returns the prefix of a key as a part of it, or nil if it has no prefix. A prefix is never empty.
func (r PrefixRule) Of(key []byte) []byte {
	if r.n < 1 {
		return nil
	}
	end := r.n
	if r.kind == upToNth {
		end = 0
		for range r.n {
			i := bytes.IndexByte(key[end:], r.sep)
			if i < 0 {
				return nil
			}
			end += i + 1
		}
	}
	if len(key) < end {
		return nil
	}
	return key[:end]
}

// Check returns an error if the rule is not valid.
func (r PrefixRule) Check() error {
	if r.kind != noPrefix && (r.n < 1 || r.n > prefixMax) {
		what := "length"
		if r.kind == upToNth {
			what = "separator number"
		}
		return fmt.Errorf("prefix up to %s %d, want 1 to %d", what, r.n, prefixMax)
	}
	return nil
}

// String returns the rule as text, empty for the zero value.
func (r PrefixRule) String() string {
	switch {
	case r.kind == firstN:
		return "len:" + strconv.Itoa(r.n)
	case r.kind != upToNth:
		return ""
	case r.sep > ' ' && r.sep < 0x7f:
		return fmt.Sprintf("sep:%c:%d", r.sep, r.n)
	default:
		return fmt.Sprintf("sep:%#02x:%d", r.sep, r.n)
	}
}

// MarshalText returns the text of String.
func (r PrefixRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses a text that String returned, and accepts no other.
func (r *PrefixRule) UnmarshalText(text []byte) error {
	rule, err := parsePrefixRule(string(text))
	if err == nil {
		*r = rule
	}
	return err
}

var errPrefixRule = errors.New(`want "len:N", "sep:C:N" or nothing`)

func parsePrefixRule(text string) (r PrefixRule, err error) {
	if text == "" {
		return r, nil
	}
	kind, number, _ := strings.Cut(text, ":")
	switch i := strings.LastIndexByte(number, ':'); {
	case kind == "len":
		r.kind = firstN
	case kind == "sep" && i > 0:
		r.kind, r.sep = upToNth, number[0]
		if i > 1 {
			sep, err := strconv.ParseUint(number[:i], 0, 8)
			if err != nil {
				return r, fmt.Errorf("prefix rule %s: separator %s, %w",
					words.Quoted(text), words.Quoted(number[:i]), errPrefixRule)
			}
			r.sep = byte(sep)
		}
		number = number[i+1:]
	default:
		return r, fmt.Errorf("prefix rule %s, %w", words.Quoted(text), errPrefixRule)
	}
	if r.n, err = strconv.Atoi(number); err != nil {
		return r, fmt.Errorf("prefix rule %s: number %s, %w", words.Quoted(text), words.Quoted(number), errPrefixRule)
	}
	if err := r.Check(); err != nil {
		return r, fmt.Errorf("prefix rule %s: %w", words.Quoted(text), err)
	}
	if want := r.String(); want != text {
		return r, fmt.Errorf("prefix rule %s, want %s", words.Quoted(text), words.Quoted(want))
	}
	return r, nil
}
