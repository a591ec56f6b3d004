package words

import (
	"strings"
	"testing"
)

func TestColumnsFitAndLeaveOutWhatIsZero(t *testing.T) {
	for _, c := range []struct {
		name, head, rows, want string
	}{
		{"two rows", "level runs", "0 3|6 1", "level  runs\n    0     3\n    6     1\n"},
		{"zeros", "level deletes runs rate", "0 0 3 -|6 0 1 -", "level  runs\n    0     3\n    6     1\n"},
		{"a zero among others", "level deletes", "0 0|6 12", "level  deletes\n    0        0\n    6       12\n"},
		{"only zeros in the first column", "level runs", "0 0", "level\n    0\n"},
		{"no rows", "level runs", "", "level\n"},
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
