package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestAnExportIsImportedFromAFileAndFromAPipe(t *testing.T) {
	dir := uncleanStore(t, true)
	tmp := t.TempDir()
	file := filepath.Join(tmp, "store.export")
	if out := (tool{}).must(t, "export", dir, file); out != "" {
		t.Errorf("printed %q, want nothing", out)
	}
	const want = "a\t1\nb\t3\n"
	piped := (tool{}).must(t, "export", dir)
	if b, err := os.ReadFile(file); err != nil || string(b) != piped {
		t.Errorf("a pipe gets %d bytes, the file %d, %v", len(piped), len(b), err)
	}
	one, two := filepath.Join(tmp, "one"), filepath.Join(tmp, "two")
	tool{}.must(t, "import", one, file)
	tool{in: piped}.must(t, "import", two)
	for _, copied := range []string{one, two} {
		if got := (tool{}).must(t, "dump", copied); got != want {
			t.Errorf("the copy has %q, want %q", got, want)
		}
		tool{}.must(t, "check", copied)
	}
	tool{}.must(t, "put", dir, "c", "4")
	list := filepath.Join(tmp, "list")
	tool{}.must(t, "export", "--list", one, list)
	for i, since := range []string{file, list, one} {
		fresh, three := filepath.Join(tmp, "fresh"), filepath.Join(tmp, string(rune('0'+i)))
		tool{}.must(t, "export", "--since", since, dir, fresh)
		if r := (tool{}).run(t, "import", three, fresh); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, "leaves out a table that is not here") {
			t.Errorf("without a base: exit %d, %q", r.code, r.err)
		}
		tool{}.must(t, "import", "--base", one, three, fresh)
		if got := (tool{}).must(t, "dump", three); got != want+"c\t4\n" {
			t.Errorf("the copy has %q", got)
		}
	}
	if r := (tool{in: piped[:len(piped)-1]}).run(t, "import", filepath.Join(tmp, "cut")); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "unexpected EOF") || !strings.Contains(r.err, "want all of what") ||
		strings.Contains(r.err, "salvage") {
		t.Errorf("of a part: exit %d, %q", r.code, r.err)
	}
	if r := (tool{}).run(t, "export", "--since", filepath.Join(dir, "CURRENT"), dir, file); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "want an export, or a list") {
		t.Errorf("since another file: exit %d, %q", r.code, r.err)
	}
}
