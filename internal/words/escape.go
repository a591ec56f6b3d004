// Package words formats facts as text for people: lines that fit a terminal and contain nothing that could control it.
package words

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// AppendEscaped appends b as one line of printable text from which b can be restored: printable characters are
// unchanged, a backslash is doubled, and all other bytes, including invalid UTF-8, are escaped as in a Go string. No
// control character, direction mark or other invisible character is left, so stored data cannot control a terminal.
func AppendEscaped(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == '\\':
			dst = append(dst, `\\`...)
		case r == utf8.RuneError && n <= 1:
			dst = fmt.Appendf(dst, `\x%02x`, b[0])
		case unicode.IsPrint(r):
			dst = append(dst, b[:n]...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r < utf8.RuneSelf:
			dst = fmt.Appendf(dst, `\x%02x`, r)
		case r < 1<<16:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = fmt.Appendf(dst, `\U%08x`, r)
		}
		b = b[n:]
	}
	return dst
}

// KeyLimit is the number of bytes of a key that are shown.
const KeyLimit = 48

// Escaped returns b escaped. If b is longer than limit bytes, it is cut there, and its length is added.
func Escaped(b []byte, limit int) string {
	if len(b) <= limit {
		return string(AppendEscaped(nil, b))
	}
	return fmt.Sprintf("%s… (%d bytes)", AppendEscaped(nil, first(b, limit)), len(b))
}

// Quoted returns b as a Go string literal, for an error. If b is longer than KeyLimit bytes, it is cut there, and its
// length is added.
func Quoted[T ~[]byte | ~string](b T) string {
	if len(b) <= KeyLimit {
		return strconv.Quote(string(b))
	}
	return fmt.Sprintf("%q… (%d bytes)", string(first(b, KeyLimit)), len(b)) // a copy: b may be on the stack
}

// first returns the first bytes of b, limit or up to four fewer, so that no character is cut in two.
func first[T ~[]byte | ~string](b T, limit int) T {
	n := limit
	for n > limit-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}

// AppendPrintable appends text, such as a message, and escapes characters that could control a terminal. Unlike
// AppendEscaped, it leaves backslashes and tabs unchanged, since the text need not be restored.
func AppendPrintable(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == '\\' || r == '\t' {
			dst = append(dst, text[:n]...)
		} else {
			dst = AppendEscaped(dst, text[:n])
		}
		text = text[n:]
	}
	return dst
}

var errEscape = errors.New(`invalid escape, want one such as \\, \n, \x00 or \u0000`)

// Unescaped decodes the output of AppendEscaped.
func Unescaped(text string) (key []byte, err error) {
	for text != "" {
		if text[0] != '\\' { // including a byte that is not UTF-8
			key, text = append(key, text[0]), text[1:]
			continue
		}
		var (
			r    rune
			wide bool
		)
		if r, wide, text, err = strconv.UnquoteChar(text, 0); err != nil {
			return nil, errEscape
		}
		if wide {
			key = utf8.AppendRune(key, r)
		} else {
			key = append(key, byte(r)) //nolint:gosec // a byte, if not wide
		}
	}
	return key, nil
}

// A Printable escapes characters that could control a terminal. Each Write must consist of whole lines.
type Printable struct {
	To io.Writer
}

func (p Printable) Write(b []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(b) {
		body := bytes.TrimSuffix(line, []byte{'\n'})
		out = AppendPrintable(out, body)
		if len(body) < len(line) {
			out = append(out, '\n')
		}
	}
	if _, err := p.To.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
