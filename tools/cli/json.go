package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// PrintJSON prints one value to Out, indented. The output has only printable characters, so it cannot control a
// terminal.
func (s *Streams) PrintJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = s.Out.Write(append(appendPrintable(nil, b), '\n'))
	return err
}

// AppendJSONString appends a JSON string of valid UTF-8 that has only printable characters.
func AppendJSONString(dst, text []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(text)) // neither a string nor a Buffer fails
	return appendPrintable(dst, bytes.TrimSuffix(b.Bytes(), []byte{'\n'}))
}

// appendPrintable appends JSON and escapes the characters that package json leaves in strings although they are not
// printable.
func appendPrintable(dst, encoded []byte) []byte {
	for _, r := range string(encoded) {
		if unicode.IsPrint(r) || r == '\n' {
			dst = utf8.AppendRune(dst, r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			dst = fmt.Appendf(dst, `\u%04x`, u)
		}
	}
	return dst
}
