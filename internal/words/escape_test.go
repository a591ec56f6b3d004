package words

import (
	"strings"
	"testing"
)

func TestEscapedTellsEveryByte(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain é 漢", "plain é 漢"},
		{`a\b`, `a\\b`},
		{"\t\n\r\x00\x1b\x7f", `\t\n\r\x00\x1b\x7f`},
		{"\u009b\u202e", `\u009b\u202e`},
		{"\U000e0001", `\U000e0001`},
		{"\xff\xc2", `\xff\xc2`},
		{"\ufffd", "\ufffd"},
	} {
		if got := string(AppendEscaped(nil, []byte(c.in))); got != c.want {
			t.Errorf("%q is escaped as %q, want %q", c.in, got, c.want)
		}
	}
	if got, want := Escaped([]byte("aéb"), 2), "a… (4 bytes)"; got != want {
		t.Errorf("cut in a character: %q, want %q", got, want)
	}
}

func TestQuotedIsALiteralOrTheBeginningOfOne(t *testing.T) {
	long := strings.Repeat("a", KeyLimit-1)
	for _, c := range []struct{ in, want string }{
		{"a\"é\x00\xff", `"a\"é\x00\xff"`},
		{long + "b", `"` + long + `b"`},
		{long + "bc", `"` + long + `b"… (49 bytes)`},
		{long + "é", `"` + long + `"… (49 bytes)`},
	} {
		if got, of := Quoted(c.in), Quoted([]byte(c.in)); got != c.want || of != c.want {
			t.Errorf("%q: %s, of bytes %s, want %s", c.in, got, of, c.want)
		}
	}
}
