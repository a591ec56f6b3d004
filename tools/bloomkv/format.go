package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// A format defines how a line holds one key and its value. load reads back exactly what dump writes. A line ends with
// a line feed, which the last line may lack. Other bytes before the line feed belong to the line, including a
// carriage return.
type format struct {
	name string
	// append appends a line without its end. It fails if the format cannot represent the pair.
	append func(dst, key, value []byte) ([]byte, error)
	// parse parses a line without its end. Its results may share the memory of the line.
	parse func(line []byte) (key, value []byte, err error)
	// longest is the maximum length of a line without its end.
	longest int
}

var formats = []format{
	{"tsv", appendTSV, parseTSV, bloomkv.MaxKeySize + 1 + bloomkv.MaxValueSize},
	{"hex", appendHex, parseHex, 2*bloomkv.MaxKeySize + 1 + 2*bloomkv.MaxValueSize + 1},
	{"json", appendJSON, parseJSON, 2*(bloomkv.MaxKeySize+bloomkv.MaxValueSize) + 4096},
}

func findFormat(name string) (format, error) {
	var names []string
	for _, f := range formats {
		if f.name == name {
			return f, nil
		}
		names = append(names, f.name)
	}
	return format{}, fmt.Errorf("format %q, want %s", name, strings.Join(names, ", "))
}

var errFormat = errors.New("tsv cannot represent it; use --format json (or hex)")

func appendTSV(dst, key, value []byte) ([]byte, error) {
	if bytes.IndexByte(key, '\t') >= 0 {
		return dst, fmt.Errorf("key %s has a TAB: %w", words.Escaped(key, 64), errFormat)
	}
	if bytes.IndexByte(key, '\n') >= 0 {
		return dst, fmt.Errorf("key %s has a line feed: %w", words.Escaped(key, 64), errFormat)
	}
	if bytes.IndexByte(value, '\n') >= 0 {
		return dst, fmt.Errorf("the value of key %s has a line feed: %w", words.Escaped(key, 64), errFormat)
	}
	dst = append(dst, key...)
	dst = append(dst, '\t')
	return append(dst, value...), nil
}

func parseTSV(line []byte) (key, value []byte, err error) {
	key, value, ok := bytes.Cut(line, []byte{'\t'})
	if !ok {
		return nil, nil, errors.New("no TAB, want key TAB value")
	}
	return key, value, nil
}

func appendHex(dst, key, value []byte) ([]byte, error) {
	dst = hex.AppendEncode(dst, key)
	dst = append(dst, '\t')
	return hex.AppendEncode(dst, value), nil
}

func parseHex(line []byte) (key, value []byte, err error) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	key, value, ok := bytes.Cut(line, []byte{'\t'})
	if !ok {
		return nil, nil, errors.New("no TAB, want key TAB value, both in hexadecimal digits")
	}
	out := make([]byte, 0, len(line)/2)
	if out, err = hex.AppendDecode(out, key); err != nil {
		return nil, nil, fmt.Errorf("key: %w", err)
	}
	n := len(out)
	if out, err = hex.AppendDecode(out, value); err != nil {
		return nil, nil, fmt.Errorf("value: %w", err)
	}
	return out[:n:n], out[n:], nil
}

// longText is the maximum length of a JSON string that is written as text: escapes make text up to six times as long,
// base64 does not.
const longText = 1 << 20

func appendJSON(dst, key, value []byte) ([]byte, error) {
	dst = append(dst, '{')
	dst = appendMember(dst, "key", key)
	dst = append(dst, ',')
	dst = appendMember(dst, "value", value)
	return append(dst, '}'), nil
}

// appendMember appends one member of an object: "name":"text", or "name_base64":"dGV4dA==" if b is not UTF-8 or is
// long.
func appendMember(dst []byte, name string, b []byte) []byte {
	dst = append(append(dst, '"'), name...)
	if utf8.Valid(b) && len(b) <= longText {
		return cli.AppendJSONString(append(dst, `":`...), b)
	}
	dst = append(dst, `_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

// checkSizes returns an error if the key or the value is too large for any store.
func checkSizes(key, value []byte) error {
	if len(key) > bloomkv.MaxKeySize {
		return fmt.Errorf("key of %d bytes, want at most %d: %w", len(key), bloomkv.MaxKeySize, bloomkv.ErrTooLarge)
	}
	if len(value) > bloomkv.MaxValueSize {
		return fmt.Errorf("value of more than %d bytes: %w", bloomkv.MaxValueSize, bloomkv.ErrTooLarge)
	}
	return nil
}

// parseJSON is stricter than encoding/json: unknown, missing and repeated members, invalid UTF-8 and unpaired
// surrogates are errors, since each of them would silently change or lose data.
func parseJSON(line []byte) (key, value []byte, err error) {
	if !utf8.Valid(line) {
		return nil, nil, errors.New("not UTF-8; want other bytes under key_base64 and value_base64")
	}
	if err := checkSurrogates(line); err != nil {
		return nil, nil, err
	}
	in := json.NewDecoder(bytes.NewReader(line))
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("%s, want an object", tokenName(t, err))
	}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, nil, errors.New(tokenName(nil, err))
		}
		member := fmt.Sprint(name)
		t, err := in.Token()
		text, ok := t.(string)
		if err != nil || !ok {
			return nil, nil, fmt.Errorf("member %s: %s, want a string", words.Quoted(member), tokenName(t, err))
		}
		var b []byte
		field, encoded := strings.CutSuffix(member, "_base64")
		if !encoded {
			b = []byte(text)
		} else if b, err = base64.StdEncoding.Strict().DecodeString(text); err != nil {
			return nil, nil, fmt.Errorf("member %s: %w", words.Quoted(member), err)
		}
		to := &key
		switch field {
		case "key":
		case "value":
			to = &value
		default:
			return nil, nil, fmt.Errorf("member %s, want key or key_base64, and value or value_base64",
				words.Quoted(member))
		}
		if *to != nil {
			return nil, nil, fmt.Errorf("member %s, but there is already a %s", words.Quoted(member), field)
		}
		*to = b // not nil
	}
	if t, err := in.Token(); err != nil {
		return nil, nil, fmt.Errorf("%s, want a comma or }", tokenName(t, err))
	}
	if t, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%s after the object, want the end of the line", tokenName(t, err))
	}
	switch {
	case key == nil:
		return nil, nil, errors.New("no member key or key_base64")
	case value == nil:
		return nil, nil, errors.New("no member value or value_base64")
	}
	return key, value, nil
}

// tokenName describes a token that was found instead of the expected one.
func tokenName(t json.Token, err error) string {
	switch t := t.(type) {
	case json.Delim:
		return t.String()
	case string:
		return "a string"
	case float64, json.Number:
		return "a number"
	case bool:
		return "a boolean"
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the end of the line"
	case err != nil:
		return err.Error()
	default:
		return "null"
	}
}

// checkSurrogates returns an error if line contains an unpaired \uD800…\uDFFF.
func checkSurrogates(line []byte) error {
	for i := 0; i+1 < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		i++ // the escaped character
		r, ok := hexEscape(line[i-1:])
		if !ok || !utf16.IsSurrogate(r) {
			continue
		}
		low, ok := hexEscape(line[i+5:])
		if !ok || utf16.DecodeRune(r, low) == unicode.ReplacementChar {
			return fmt.Errorf("unpaired surrogate: \\u%04x", r)
		}
		i += 10
	}
	return nil
}

// hexEscape parses the \uXXXX at the front of b.
func hexEscape(b []byte) (rune, bool) {
	var code [2]byte
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	if _, err := hex.Decode(code[:], b[2:6]); err != nil {
		return 0, false
	}
	return rune(code[0])<<8 | rune(code[1]), true
}
