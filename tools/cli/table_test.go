package cli

import (
	"strings"
	"testing"
)

func TestATableIsPrintedAsAWholeOrAsItGrows(t *testing.T) {
	rows := [][]string{{"one", "1", "2"}, {"the second", "100", "µs"}, {"third", "12345678"}}
	for _, c := range []struct {
		name, want  string
		least, each int // each: rows that are added before a call of Print
	}{
		{"as a whole", "two rows:\n" +
			"name               n  unit\n" +
			"one                1     2\n" +
			"the second       100    µs\n" +
			"third       12345678\n", 0, 3},
		{"as it grows", "two rows:\n" +
			"name      n   unit\n" +
			"one       1      2\n" +
			"the second    100     µs\n" +
			"third       12345678\n", 5, 1},
		{"without rows", "two rows:\nname  n  unit\n", 0, 0},
	} {
		var out strings.Builder
		table := Table{Intro: "two rows:\n", Head: []string{"name", "n", "unit"}, Least: c.least}
		for i, row := range rows {
			if c.each == 0 {
				break
			}
			table.Add(row...)
			if (i+1)%c.each == 0 {
				if err := table.Print(&out); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := table.Print(&out); err != nil { // nothing new, except the head of a table without rows
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.name, &out, c.want)
		}
	}
}
