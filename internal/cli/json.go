package cli

import (
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// PrintJSON prints one value to Out, indented. The output has only printable characters, so it cannot control a terminal.
func (s *Streams) PrintJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = s.Out.Write(append(plainJSON(b), '\n'))
	return err
}

// plainJSON escapes the characters that encoding/json leaves in strings but that are not printable.
func plainJSON(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if unicode.IsPrint(r) || r == '\n' {
			out = append(out, string(r)...)
			continue
		}
		quoted := AppendJSONString(nil, []byte(string(r)))
		out = append(out, quoted[1:len(quoted)-1]...)
	}
	return out
}

// AppendJSONString appends a JSON string of valid UTF-8 that has only printable characters.
func AppendJSONString(dst, b []byte) []byte {
	dst = append(dst, '"')
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case unicode.IsPrint(r):
			dst = append(dst, b[:n]...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r < 1<<16:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
		}
		b = b[n:]
	}
	return append(dst, '"')
}
