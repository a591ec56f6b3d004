package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

// TestFlagsForTablesOfOtherStores checks which flags apply to them. An encrypted one is not damaged.
func TestFlagsForTablesOfOtherStores(t *testing.T) {
	samples := filepath.Join("..", "internal", "foreign", "testdata")
	table := filepath.Join(samples, "goleveldb.ldb")
	for _, flag := range []string{"--verify", "--hex", "--entries", "--what-if=fpr=1"} {
		if r := (tool{}).run(t, "inspect", flag, table); r.code != cli.ExitTrouble || r.out != "" {
			t.Errorf("%s: exit %d, %q", flag, r.code, r.out)
		}
	}
	page := filepath.Join(t.TempDir(), "page.html")
	for _, of := range []string{table, samples} {
		out := tool{}.must(t, "inspect", of, "--html", page)
		if html := string(readFile(t, page)); out != "" || !strings.Contains(html, "goleveldb.ldb") {
			t.Errorf("%s: with a page, the text is printed too, %q, or the page lacks the table", of, out)
		}
	}
	r := tool{}.run(t, "inspect", filepath.Join(samples, "badger-encrypted.sst"))
	if r.code != cli.ExitTrouble || !strings.Contains(r.err, "encrypted") || strings.Contains(r.err, "salvage") {
		t.Errorf("an encrypted table: exit %d, %q", r.code, r.err)
	}
}

func TestDamageInATableOfAnotherStoreHasAnAddress(t *testing.T) {
	b := readFile(t, filepath.Join("..", "internal", "foreign", "testdata", "goleveldb.ldb"))
	b[10] ^= 1 // in the first data block
	name := filepath.Join(t.TempDir(), "000005.ldb")
	writeFile(t, name, b)
	r := tool{}.run(t, "inspect", name)
	if r.code != cli.ExitTrouble || !strings.Contains(r.err, "000005.ldb: offset 0: data block: checksum") ||
		!strings.Contains(r.out, "! damaged") || strings.Contains(r.err, "salvage") ||
		!strings.Contains(oneLine(r.out), "filter: measured no: not all data blocks can be read") {
		t.Errorf("exit %d, %q:\n%s", r.code, r.err, r.out)
	}
}
