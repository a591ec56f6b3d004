package cli

import "testing"

func TestHelpIsBrokenBetweenWords(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "\n"},
		{"a paragraph is joined", "one two\nthree", "one two three\n"},
		{"a line that just fits", "0123456789 0123456789", "0123456789 0123456789\n"},
		{"a line that does not", "0123456789 0123456789 x", "0123456789 0123456789\nx\n"},
		{"a long word stays whole", "a 0123456789012345678901234 b", "a\n0123456789012345678901234\nb\n"},
		{"paragraphs", "a\n\n\nb", "a\n\n\nb\n"},
		{"items", "List:\n  a    the first of two letters\n  bcd  the last\nend", "List:\n  a    the first of\n" +
			"       two letters\n  bcd  the last\nend\n"},
		{"an item of two lines", "  a    the\n       first one of them\n  b  2", "  a    the first one\n" +
			"       of them\n  b  2\n"},
		{"a command", "Run\n\n\tbloomkv help and some more words", "Run\n\n\tbloomkv help and some more words\n"},
	} {
		if got := Fit(c.text, 21); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
