package words

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrappedFitsTheWidthAndLosesNothing(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "\n"},
		{"a short line", "a  b", "a  b\n"},
		{"an indented line", "  a b", "  a b\n"},
		{"a break at a space", strings.Repeat("x", 78) + " yz", strings.Repeat("x", 78) + "\n  yz\n"},
		{"a line that just fits", strings.Repeat("x", 78) + " y", strings.Repeat("x", 78) + " y\n"},
		{"a long word", strings.Repeat("é", 100), strings.Repeat("é", 80) + "\n  " + strings.Repeat("é", 20) + "\n"},
		{"two long words", "a " + strings.Repeat("b", 90), "a\n  " + strings.Repeat("b", 78) + "\n  " +
			strings.Repeat("b", 12) + "\n"},
	} {
		var b strings.Builder
		Wrapped(&b, c.text)
		if got := b.String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for line := range strings.Lines(b.String()) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > Width {
				t.Errorf("%s: %q is too long", c.name, line)
			}
		}
	}
}
