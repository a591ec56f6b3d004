package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestLinesThatAreNotPairsAreErrors(t *testing.T) {
	for _, c := range []struct{ format, line, err string }{
		{"tsv", "", "no TAB"},
		{"tsv", "key", "no TAB"},
		{"hex", "6b", "no TAB"},
		{"hex", "6\t", "key: "},
		{"hex", "6b\txx", "value: "},
		{"hex", "6b\t76\t77", "value: "},
		{"hex", "6b\t76 ", "value: "},
		{"json", "", "the end of the line, want an object"},
		{"json", "[]", "[, want an object"},
		{"json", "3", "a number, want an object"},
		{"json", "{}", "no member key"},
		{"json", `{"key":"a"}`, "no member value"},
		{"json", `{"value":"a"}`, "no member key"},
		{"json", `{"key":"a","value":"b"`, "the end of the line, want a comma or }"},
		{"json", `{"key":"a","value":"b"} x`, "after the object"},
		{"json", `{"key":"a","value":"b"}{}`, "{ after the object"},
		{"json", `{"key":1,"value":"b"}`, `member "key": a number, want a string`},
		{"json", `{"key":null,"value":"b"}`, `member "key": null, want a string`},
		{"json", `{"key":["a"],"value":"b"}`, `member "key": [, want a string`},
		{"json", `{"Key":"a","value":"b"}`, `member "Key", want key`},
		{"json", `{"key":"a","value":"b","more":"c"}`, `member "more"`},
		{"json", `{"key":"a","key":"c","value":"b"}`, "there is already a key"},
		{"json", `{"key":"a","key_base64":"","value":"b"}`, "there is already a key"},
		{"json", `{"key_base64":"a","value":"b"}`, `member "key_base64": illegal base64`},
		{"json", `{"key_base64":"YR==","value":"b"}`, `member "key_base64": illegal base64`}, // bits that mean nothing
		{"json", "{\"key\":\"\xff\",\"value\":\"b\"}", "not UTF-8"},
		{"json", `{"key":"\ud800","value":"b"}`, `unpaired surrogate: \ud800`},
		{"json", `{"key":"\udc00\ud800","value":"b"}`, `unpaired surrogate: \udc00`},
		{"json", `{"key":"\ud800\u0041","value":"b"}`, `unpaired surrogate: \ud800`},
	} {
		f, err := findFormat(c.format)
		must(t, err)
		k, v, err := f.parse([]byte(c.line))
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %q: %q, %q, %v; want an error with %q", c.format, c.line, k, v, err, c.err)
		}
	}
}

func TestLinesInTheirFormats(t *testing.T) {
	for _, c := range []struct{ format, line, key, value string }{
		{"tsv", "\t", "", ""},
		{"tsv", "a\tb\tc\r", "a", "b\tc\r"},
		{"hex", "\t", "", ""},
		{"hex", "00fF\t0a\r", "\x00\xff", "\n"},
		{"json", `{"key":"","value":""}`, "", ""},
		{"json", ` { "value" : "v" , "key" : "k" } ` + "\r", "k", "v"},
		{"json", `{"key":"\ud83d\ude00\\ud800\u00e9","value":"\u0000\n\ufffd"}`, "😀\\ud800é", "\x00\n\ufffd"},
		{"json", `{"key_base64":"/w==","value_base64":""}`, "\xff", ""},
	} {
		f, err := findFormat(c.format)
		must(t, err)
		k, v, err := f.parse([]byte(c.line))
		if err != nil || string(k) != c.key || string(v) != c.value {
			t.Errorf("%s %q: %q, %q, %v; want %q, %q", c.format, c.line, k, v, err, c.key, c.value)
		}
	}
}

func TestWhatTSVCannotCarryNamesTheFormatThatCan(t *testing.T) {
	for _, c := range []struct{ name, key, value, what string }{
		{"a key with a TAB", "a\tb", "c", `key a\tb has a TAB`},
		{"a key with a line feed", "a\nb", "c", `key a\nb has a line feed`},
		{"a value with a line feed", "a", "b\nc", "the value of key a has a line feed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir() + "/store"
			tool{in: "first\tline\n"}.must(t, "load", dir)
			tool{in: c.value}.must(t, "put", dir, c.key)
			r := tool{}.run(t, "dump", dir)
			if r.code != cli.ExitTrouble || !strings.Contains(r.err, c.what) ||
				!strings.Contains(r.err, "--format json") {
				t.Errorf("exit %d, %q; want 2, %q and --format json", r.code, r.err, c.what)
			}
			if got := (tool{}).must(t, "dump", dir, "--format", "json"); !strings.Contains(got, "first") ||
				strings.Count(got, "\n") != 2 {
				t.Errorf("as JSON it is %q", got)
			}
		})
	}
}

func TestLongValuesInJSONAreBase64(t *testing.T) {
	value := bytes.Repeat([]byte{0}, longText+1)
	line, err := appendJSON(nil, []byte("k"), value)
	if err != nil || len(line) > 2*len(value) {
		t.Fatalf("%d bytes, %v; want at most twice the %d of the value", len(line), err, len(value))
	}
	if _, got, err := parseJSON(line); err != nil || !bytes.Equal(got, value) {
		t.Errorf("came back as %d bytes, %v", len(got), err)
	}
}

func TestTheLongestPairFitsALineOfEachFormat(t *testing.T) {
	// Compare the limits only: a line of the longest pair takes half a gigabyte.
	text := 6 * (bloomkv.MaxKeySize + longText) // every byte escaped
	coded := (bloomkv.MaxKeySize+bloomkv.MaxValueSize)/3*4 + 6*bloomkv.MaxKeySize
	lines := lineFlags{format: "tsv", crlf: true}
	l, err := lines.loader()
	must(t, err)
	if want := bloomkv.MaxKeySize + 1 + bloomkv.MaxValueSize + 1; l.format.longest != want {
		t.Errorf("--crlf: the longest line that is read has %d bytes, want %d", l.format.longest, want)
	}
	for _, f := range formats {
		want := map[string]int{
			"tsv":  bloomkv.MaxKeySize + 1 + bloomkv.MaxValueSize,
			"hex":  2*bloomkv.MaxKeySize + 1 + 2*bloomkv.MaxValueSize,
			"json": max(text, coded) + 64,
		}[f.name]
		if f.longest < want {
			t.Errorf("%s: the longest line that is read has %d bytes, want %d", f.name, f.longest, want)
		}
	}
}

// FuzzLine uses its input as the two halves of a pair, which every format must restore, and as a line, which must be
// refused or mean the same pair when it is written again.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		"", "a\tb", "\t", "6b\t76", `{"key":"a","value":"b"}`, `{"key_base64":"/w==","value":"\ud83d\ude00"}`,
		`{"value":"\u001b[2J","key":"\u202e"}`, "\xff\xfe\t\x00", hostile, "a\tb\tc\r", `{"key":"\ud800","value":""}`,
		"\U000e0001\u2028",
	} {
		f.Add([]byte(seed), len(seed)/2)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = min(max(cut, 0), len(data))
		for _, f := range formats {
			roundTrip(t, f, data[:cut], data[cut:])
			line := bytes.ReplaceAll(data, []byte{'\n'}, nil)
			key, value, err := f.parse(line)
			if err != nil {
				continue
			}
			roundTrip(t, f, bytes.Clone(key), bytes.Clone(value))
		}
		if escaped := words.AppendEscaped(nil, data); !bytes.Equal(escaped, words.AppendPrintable(nil, escaped)) ||
			!utf8.Valid(escaped) {
			t.Errorf("%q is escaped as %q, which is not printable", data, escaped)
		}
	})
}

func roundTrip(t *testing.T, f format, key, value []byte) {
	t.Helper()
	line, err := f.append([]byte("before"), key, value)
	if err != nil {
		if f.name != "tsv" || !bytes.ContainsAny(key, "\t\n") && !bytes.ContainsAny(value, "\n") {
			t.Errorf("%s can't carry %q, %q: %v", f.name, key, value, err)
		}
		return
	}
	line = line[len("before"):]
	if bytes.ContainsAny(line, "\n") {
		t.Errorf("%s: %q has a line feed", f.name, line)
	}
	if f.name != "tsv" && !bytes.Equal(line, words.AppendPrintable(nil, line)) {
		t.Errorf("%s: %q is not printable", f.name, line)
	}
	k, v, err := f.parse(line)
	if err != nil || !bytes.Equal(k, key) || !bytes.Equal(v, value) {
		t.Errorf("%s: %q gives %q, %q, %v; want %q, %q", f.name, line, k, v, err, key, value)
	}
}
