package main

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// appendEscaped appends b in a form that is one line of printable text and tells every byte: printable characters stand for
// themselves, a backslash is doubled, and anything else, bytes that are not UTF-8 included, is escaped as in a Go string.
// No control character, direction mark or other invisible one is left, so that nothing stored can drive a terminal.
func appendEscaped(dst, b []byte) []byte {
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

// escaped is b escaped and, where it is longer than limit bytes, cut there with its length behind it.
func escaped(b []byte, limit int) string {
	if len(b) <= limit {
		return string(appendEscaped(nil, b))
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(b[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", appendEscaped(nil, b[:cut]), len(b))
}

// appendPrintable appends text for people, a message or a listing, with what could drive a terminal escaped; other than
// appendEscaped it leaves backslashes and tabs alone, since text is not told back.
func appendPrintable(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == '\\' || r == '\t' {
			dst = append(dst, text[:n]...)
		} else {
			dst = appendEscaped(dst, text[:n])
		}
		text = text[n:]
	}
	return dst
}
