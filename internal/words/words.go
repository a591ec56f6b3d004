// Package words formats facts as text for people: lines that fit a terminal and contain nothing that could control it.
package words

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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

// Plural returns a number, 0 or more, with a noun, such as "1 table" or "2,000 tables", for the nouns of this tool.
func Plural[N int | int64 | uint64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "sh"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "x"):
		noun += "es"
	case strings.HasSuffix(noun, "ry"): // entry
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Count formats a number, 0 or more, with commas between thousands.
func Count[N int | int64 | uint64](n N) string {
	s := strconv.AppendUint(nil, uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = slices.Insert(s, i, ',')
	}
	return string(s)
}

// MiB returns text like "64 MiB" for a number of bytes, 0 or more; a part of one is rounded to a tenth.
func MiB(bytes int64) string {
	if bytes%(1<<20) == 0 {
		return Count(bytes>>20) + " MiB"
	}
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 1, 64) + " MiB"
}

// Width is the width of text in characters.
const Width = 80

// Wrapped breaks text at spaces into lines of at most Width and indents all but the first. A longer word is broken too.
func Wrapped(w io.Writer, text string) {
	const indent = "  "
	line, empty := []rune{}, true
	flush := func() {
		fmt.Fprintln(w, strings.TrimRight(string(line), " "))
		line, empty = []rune(indent), true
	}
	for part := range strings.SplitSeq(text, " ") {
		word := []rune(part)
		if !empty && len(line)+1+len(word) > Width {
			flush()
		}
		if !empty {
			line = append(line, ' ')
		}
		for len(line)+len(word) > Width {
			n := Width - len(line)
			line, word = append(line, word[:n]...), word[n:]
			flush()
		}
		line, empty = append(line, word...), false
	}
	flush()
}

// Columns writes rows of cells under a head, aligned to the right. A column other than the first in which no row has a
// figure (all cells are empty, "0" or "-") is left out. The columns are one space apart if they would not fit into
// Width with two.
func Columns(w io.Writer, head []string, rows [][]string) {
	var kept []int
	total := 0
	widths := make([]int, len(head))
	for i, name := range head {
		figure := func(r []string) bool { return r[i] != "" && r[i] != "0" && r[i] != "-" }
		if i > 0 && !slices.ContainsFunc(rows, figure) {
			continue
		}
		widths[i] = utf8.RuneCountInString(name)
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
		kept = append(kept, i)
		total += widths[i]
	}
	gap := "  "
	if total+len(gap)*(len(kept)-1) > Width {
		gap = " "
	}
	for _, r := range slices.Concat([][]string{head}, rows) {
		var cells []string
		for _, i := range kept {
			cells = append(cells, fmt.Sprintf("%*s", widths[i], r[i]))
		}
		fmt.Fprintln(w, strings.Join(cells, gap))
	}
}

// Size formats a number of bytes with three digits and a decimal unit, such as "512 bytes" or "12.3 MB".
func Size[N int | int64 | uint64](n N) string {
	if n < 1000 {
		return Plural(n, "byte")
	}
	const most = 999.5 // from here on, three digits are a thousand
	size, units := float64(n)/1000, []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	for size >= most { // no number of bytes is above the last unit
		size, units = size/1000, units[1:]
	}
	return fmt.Sprintf("%.3g %s", size, units[0])
}
