package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// TestFlagsForTablesOfOtherStores checks which flags apply to them. An encrypted one is not damaged.
func TestFlagsForTablesOfOtherStores(t *testing.T) {
	testkit.Long(t)
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

func TestAnotherKindOfStoreIsNotToBeSalvaged(t *testing.T) {
	samples, dir := filepath.Join("..", "internal", "foreign", "testdata"), t.TempDir()
	writeFile(t, filepath.Join(dir, "000005.ldb"), readFile(t, filepath.Join(samples, "goleveldb.ldb")))
	writeFile(t, filepath.Join(dir, "CURRENT"), []byte("MANIFEST-000004\n"))
	for _, args := range [][]string{
		{"check", dir}, {"scan", dir}, {"load", dir}, {"get", filepath.Join(samples, "badger0.sst"), "k"},
	} {
		r := tool{}.run(t, args...)
		if r.code != cli.ExitTrouble || !strings.Contains(r.err, "of another kind of store: bloomkv inspect shows") ||
			strings.Contains(r.err, "salvage") {
			t.Errorf("%q: exit %d, %q", args, r.code, r.err)
		}
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

// TestThePageOfOtherTablesBeginsWithWhatTheyLetThrough checks the sentence, and that tables which were not read are
// amber on the page, while damaged ones are a problem.
func TestThePageOfOtherTablesBeginsWithWhatTheyLetThrough(t *testing.T) {
	samples, dir := filepath.Join("..", "internal", "foreign", "testdata"), t.TempDir()
	add := func(name string, b []byte) { writeFile(t, filepath.Join(dir, name), b) }
	page := func() string { return tool{}.must(t, "inspect", dir, "--html", "-") }
	badger := readFile(t, filepath.Join(samples, "badger0.sst"))
	add("000001.sst", badger)
	add("000002.sst", badger)
	const (
		sentence = `<p class="lede">These 72 bytes of filters let 3.5 % of absent keys through. ` +
			`The same memory could let 0.89 % through.</p>`
		good, amber = `<strong>No problems found.</strong> All was read.`,
			`<div class="note caution"><span class="sign" aria-hidden="true">!</span><p><strong>` +
				`Caution: 1 of 3 tables was not read.</strong> 000003.sst: `
	)
	if html := page(); !strings.Contains(html, sentence) || !strings.Contains(html, good) ||
		strings.Contains(html, `f-amber"`) {
		t.Errorf("a page of two tables that were read lacks the sentence or the tick, or has amber:\n%.3000s", html)
	}
	add("000003.sst", readFile(t, filepath.Join(samples, "badger-encrypted.sst")))
	if html := page(); !strings.Contains(html, sentence) || !strings.Contains(html, amber) ||
		strings.Contains(html, "✓") || !strings.Contains(html, `f-amber"`) ||
		!strings.Contains(html, "not read</text>") {
		t.Errorf("a page with an encrypted table has a tick, or lacks the sentence or amber:\n%.3000s", html)
	}
	add("000003.sst", badger[1:])
	add("000004.sst", readFile(t, filepath.Join(samples, "pebble4.sst"))[1000:])
	r := tool{}.run(t, "inspect", dir, "--html", "-")
	if r.code != cli.ExitTrouble || !strings.Contains(r.out, "Serious problem: damaged, 000004.sst") {
		t.Errorf("a page with a damaged table: exit %d, %s\n%.3000s", r.code, r.err, r.out)
	}
}

func TestAFileOfNoStoreIsNotDamage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "README.md")
	writeFile(t, name, []byte("# A file\n\nof words.\n"))
	r := tool{}.run(t, "inspect", name)
	if r.code != cli.ExitTrouble || strings.Contains(r.err, "salvage") || strings.Contains(r.err, "magic") ||
		!strings.HasPrefix(r.err, "bloomkv: README.md is not a file of a store that inspect knows; it begins with") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}
