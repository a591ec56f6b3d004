//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAPipeIsNotWaitedFor(t *testing.T) {
	for _, base := range []string{"000001.sst", "000001.log", "MANIFEST-000001", "pipe"} {
		name := filepath.Join(t.TempDir(), base)
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := (tool{}).run(t, "inspect", name, "--verify"); r.code != exitTrouble || !strings.Contains(r.err, base) || !strings.Contains(r.err, "not a regular file") {
			t.Errorf("%s: exit %d, %q", base, r.code, r.err)
		}
	}
}
