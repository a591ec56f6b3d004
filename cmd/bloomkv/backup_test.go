package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cli"
)

func TestGenerationsAreMadePrunedAndRestored(t *testing.T) {
	dir := uncleanStore(t, true)
	tmp := t.TempDir()
	target := filepath.Join(tmp, "back@ups")
	if out := (tool{}).must(t, "backup", dir, target); !strings.HasPrefix(out, "generation 1: ") {
		t.Errorf("printed %q", out)
	}
	tool{}.must(t, "put", dir, "c", "4")
	if out := (tool{}).must(t, "backup", "--verify", dir, target); !strings.Contains(out, "1 of them new") {
		t.Errorf("printed %q, want one new table", out)
	}
	const want = "a\t1\nb\t3\n"
	for from, want := range map[string]string{"@1": want, "@2": want + "c\t4\n", "": want + "c\t4\n"} {
		fresh := filepath.Join(tmp, "new"+from)
		tool{}.must(t, "restore", target+from, fresh)
		if got := (tool{}).must(t, "dump", fresh); got != want {
			t.Errorf("%q has %q, want %q", from, got, want)
		}
	}
	tool{}.must(t, "backup", "--prune", "1", dir, target)
	for _, c := range []struct{ from, want string }{
		{target + "@1", "no such file"},
		{target + "@0", "no such file"},
		{filepath.Join(tmp, "none"), "has no backups"},
		{dir, "has no backups"},
	} {
		if r := (tool{}).run(t, "restore", c.from, filepath.Join(tmp, "x")); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, c.want) {
			t.Errorf("restore %s: exit %d, %q, want %q", c.from, r.code, r.err, c.want)
		}
	}
	names, err := filepath.Glob(filepath.Join(target, "tables", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(names[0])
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(names[0], b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := (tool{}).run(t, "backup", "--verify", dir, target); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "checksum") || strings.Contains(r.err, "salvage") {
		t.Errorf("a damaged table: exit %d, %q", r.code, r.err)
	}
}
