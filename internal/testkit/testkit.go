// Package testkit holds what tests of all packages share. It imports no other package of the project, so any test can
// use it.
package testkit

import (
	"flag"
	"os"
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
		tb.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}
