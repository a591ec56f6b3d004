// Package testkit holds what tests of all packages share. It imports no other package of the project, so any test can
// use it.
package testkit

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// Update reports whether tests write their golden files anew instead of comparing them.
var Update = flag.Bool("update", false, "write the golden files anew")

// Must ends the test if err is not nil.
func Must(tb testing.TB, err error) { //nolint:thelper // Helper takes longer than most calls
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// Golden compares got with a file, which -update writes.
func Golden(tb testing.TB, file, got string) {
	tb.Helper()
	if *Update {
		Must(tb, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	Must(tb, err)
	if got != string(want) {
		line, g, w := difference(got, string(want))
		tb.Errorf("%s:%d: got\n%s\nwant\n%s", file, line, g, w)
	}
}

// difference returns the number of the first line that differs, and some lines from there on.
func difference(got, want string) (line int, g, w string) {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for line < min(len(a), len(b)) && a[line] == b[line] {
		line++
	}
	const shown = 10
	some := func(lines []string) string { return strings.Join(lines[line:min(line+shown, len(lines))], "\n") }
	return line + 1, some(a), some(b)
}

// Script tests the cases of a file, each by its name:
//
//	# the name
//	the input, which run gets
//	= the output, which run returns
//
// Input and output may have several lines. -update writes the outputs.
func Script(t *testing.T, file string, run func(t *testing.T, input string) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	Must(t, err)
	cases := strings.Split("\n"+strings.TrimRight(string(text), "\n"), "\n# ")
	if len(cases) < 2 {
		t.Fatalf("%s has no case", file)
	}
	for i, c := range cases[1:] {
		name, body, _ := strings.Cut(c, "\n")
		input, want, ok := strings.Cut(body, "\n=")
		end := want[len(strings.TrimRight(want, "\n")):] // blank lines before the next case
		t.Run(name, func(t *testing.T) {
			lines := strings.Split(run(t, input), "\n")
			for i, line := range lines {
				lines[i] = strings.TrimRight(" "+line, " ")
			}
			got := strings.Join(lines, "\n=")
			if want := strings.TrimRight(want, "\n"); !*Update && (got != want || !ok) {
				t.Errorf("%s\ngot\n=%s\nwant\n=%s", input, got, want)
			}
			cases[1+i] = name + "\n" + input + "\n=" + got + end
		})
	}
	if *Update {
		Must(t, os.WriteFile(file, []byte(strings.TrimPrefix(strings.Join(cases, "\n# "), "\n")+"\n"), 0o600))
	}
}
