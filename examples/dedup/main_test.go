package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinesArePrintedOnceInAllRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seen")
	longest := strings.Repeat("x", 64<<10)
	for _, run := range []struct{ in, want string }{
		{"a\nb\na\n", "a\nb\n"},
		{"b\nc\n\na", "c\n\n"},
		{longest + "\r\n\n" + longest + "\n", longest + "\n"},
		{"", ""},
	} {
		var out strings.Builder
		if err := dedup(dir, strings.NewReader(run.in), &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != run.want {
			t.Errorf("%.20q: got %.20q, want %.20q", run.in, got, run.want)
		}
	}
}

func TestALineTooLongIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seen")
	var out strings.Builder
	err := dedup(dir, strings.NewReader("short\n"+strings.Repeat("x", 64<<10+1)+"\n"), &out, io.Discard)
	if err == nil || out.String() != "short\n" {
		t.Errorf("got %v and %.20q, want an error after %q", err, out.String(), "short\n")
	}
}
