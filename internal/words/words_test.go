package words

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestNounsAgreeWithTheirNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Plural(0, "table"), "0 tables"},
		{Plural(1, "table"), "1 table"},
		{Plural(uint64(1), "entry"), "1 entry"},
		{Plural(uint64(2), "entry"), "2 entries"},
		{Plural(int64(3), "flush"), "3 flushes"},
		{Plural(4, "search"), "4 searches"},
		{Plural(5, "index"), "5 indexes"},
		{Plural(4, "key"), "4 keys"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestCountsHaveTheirThousandsApart(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestMemoryIsCountedInMiB(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 MiB", 64 << 20: "64 MiB", 2 << 40: "2,097,152 MiB", 25 << 19: "12.5 MiB", 1000: "0.0 MiB",
	} {
		if got := MiB(bytes); got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}

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

func TestColumnsFitAndLeaveOutWhatIsZero(t *testing.T) {
	for _, c := range []struct {
		name, head, rows, want string
	}{
		{"two rows", "level runs", "0 3|6 1", "level  runs\n    0     3\n    6     1\n"},
		{"zeros", "level deletes runs rate", "0 0 3 -|6 0 1 -", "level  runs\n    0     3\n    6     1\n"},
		{"a zero among others", "level deletes", "0 0|6 12", "level  deletes\n    0        0\n    6       12\n"},
		{"only zeros in the first column", "level runs", "0 0", "level\n    0\n"},
		{"no rows", "level runs", "", "level\n"},
		{"a figure wider than its head", "level runs", "0 1234567", "level     runs\n    0  1234567\n"},
		{
			"just fits with two spaces", "a " + strings.Repeat("b", 74) + " c", "1 2 3",
			"a  " + strings.Repeat("b", 74) + "  c\n1  " + strings.Repeat(" ", 73) + "2  3\n",
		},
		{
			"too wide for two spaces", "a " + strings.Repeat("b", 76) + " c", "1 2 3",
			"a " + strings.Repeat("b", 76) + " c\n1 " + strings.Repeat(" ", 75) + "2 3\n",
		},
	} {
		var rows [][]string
		for row := range strings.SplitSeq(c.rows, "|") {
			if row != "" {
				rows = append(rows, strings.Fields(row))
			}
		}
		var b strings.Builder
		if Columns(&b, strings.Fields(c.head), rows); b.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, b.String(), c.want)
		}
	}
}

func TestSizesHaveThreeDigits(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1 kB", 1234: "1.23 kB", 999_499: "999 kB",
		999_500: "1 MB", 64 << 20: "67.1 MB", 5_000_000_000: "5 GB", 1 << 63: "9.22 EB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestEscapedTellsEveryByte(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain é 漢", "plain é 漢"},
		{`a\b`, `a\\b`},
		{"\t\n\r\x00\x1b\x7f", `\t\n\r\x00\x1b\x7f`},
		{"\u0080\u009b\u202e", `\u0080\u009b\u202e`},
		{"\U000e0001", `\U000e0001`},
		{"\xff\xc2", `\xff\xc2`},
		{"\ufffd", "\ufffd"},
	} {
		if got := string(AppendEscaped(nil, []byte(c.in))); got != c.want {
			t.Errorf("%q is escaped as %q, want %q", c.in, got, c.want)
		}
	}
	for limit, want := range map[int]string{2: "a… (4 bytes)", 3: "aé… (4 bytes)", 4: "aéb"} {
		if got := Escaped([]byte("aéb"), limit); got != want {
			t.Errorf("%d bytes of 4: %q, want %q", limit, got, want)
		}
	}
}

// TestWhatWasEscapedComesBack also has text that AppendEscaped does not write.
func TestWhatWasEscapedComesBack(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"plain é 漢", "plain é 漢"},
		{`a\\b`, `a\b`},
		{`\t\n\r\x00\x1b`, "\t\n\r\x00\x1b"},
		{`\u009b\U000e0001`, "\u009b\U000e0001"},
		{`\xff\xc2a`, "\xff\xc2a"},
		{"\xff", "\xff"},
	} {
		if got, err := Unescaped(c.text); string(got) != c.want || err != nil {
			t.Errorf("%q is %q: %v, want %q", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{`\`, `a\q`, `\x0`, `\ud800`} {
		if got, err := Unescaped(text); got != nil || err == nil {
			t.Errorf("%q is %q: %v, want an error", text, got, err)
		}
	}
}

func TestPrintableTextKeepsBackslashesAndTabs(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"one\ttwo \\ é", "one\ttwo \\ é"},
		{"\x1b[2J\r\n\xff", `\x1b[2J\r\n\xff`},
	} {
		if got := string(AppendPrintable(nil, []byte(c.in))); got != c.want {
			t.Errorf("%q is printed as %q, want %q", c.in, got, c.want)
		}
	}
}

func TestQuotedIsALiteralOrTheBeginningOfOne(t *testing.T) {
	long := strings.Repeat("a", KeyLimit-1)
	for _, c := range []struct{ in, want string }{
		{"a\"é\x00\xff", `"a\"é\x00\xff"`},
		{long + "b", `"` + long + `b"`},
		{long + "bc", `"` + long + `b"… (49 bytes)`},
		{long + "é", `"` + long + `"… (49 bytes)`},
		{strings.Repeat("\x80", 60), `"` + strings.Repeat(`\x80`, KeyLimit-utf8.UTFMax) + `"… (60 bytes)`},
	} {
		if got, of := Quoted(c.in), Quoted([]byte(c.in)); got != c.want || of != c.want {
			t.Errorf("%q: %s, of bytes %s, want %s", c.in, got, of, c.want)
		}
	}
}

// TestFiguresAreAfterTheirNamesIfNotZero has a figure of each kind, and as many as take two lines.
func TestFiguresAreAfterTheirNamesIfNotZero(t *testing.T) {
	of := struct {
		Warm     bool          `json:"warm"`
		Tables   int           `json:"tables"`
		LogBytes uint64        `json:"log_bytes"`
		Reads    uint64        `json:"reads"`
		Memory   int64         `json:"memory"`
		Rate     float64       `json:"rate"`
		Uptime   time.Duration `json:"uptime_ns"`
		Stalls   struct {
			Count    uint64
			Duration time.Duration
		} `json:"stalls"`
		None  int `json:"none"`
		Other struct{ Count int }
		List  []int
	}{
		Warm: true, Tables: 1000, LogBytes: 2000, Reads: 3000, Memory: 4000, Rate: 0.25, Uptime: time.Second,
		List: []int{1},
	}
	of.Stalls.Count, of.Stalls.Duration, of.Other.Count = 1, time.Minute, 1
	var b strings.Builder
	Figures(&b, "store", FiguresOf(of), Figure("more", 5), Figure("zero", 0))
	Figures(&b, "nothing", Figure("zero", 0))
	const want = `store: warm, tables 1,000, log bytes 2 kB, reads 3,000, memory 4 kB, rate 0.25,
  uptime 1s, stalls 1 time for 1m0s, more 5
`
	if got := b.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
