package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTableHasEveryKind(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-keys", "2000", "-rounds", "2", "-positives", "100"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, k := range append(own, others...) {
		if n := strings.Count(out.String(), " "+k.name+"  "); n != 2 {
			t.Errorf("%s is in the table %d times, want twice:\n%s", k.name, n, &out)
		}
	}
}

func TestTheChartsAreDrawn(t *testing.T) {
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-keys", "2000", "-positives", "100", "-draw", dir}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sets-load.svg", "sets-memory.png"} {
		if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArgumentsOutOfRange(t *testing.T) {
	for _, args := range []string{"-keys 10", "-rounds 0", "more", "-unknown"} {
		if err := run(t.Context(), strings.Fields(args), nil); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}
