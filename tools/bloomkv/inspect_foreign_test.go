package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// samples returns the tables of other stores that are kept with their reader.
func samples(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join("..", "internal", "foreign", "testdata")
	var all []string
	for _, pattern := range []string{"*.ldb", "*.sst"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		all = append(all, names...)
	}
	if len(all) == 0 {
		t.Fatal("no samples")
	}
	return all
}

func TestTablesOfOtherStoresAreShown(t *testing.T) {
	paged := map[string]bool{} // stores with a page that was made without JSON
	for _, name := range samples(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			if strings.Contains(name, "encrypted") {
				r := tool{}.run(t, "inspect", name)
				if r.code != cli.ExitTrouble || !strings.Contains(r.err, "encrypted") ||
					strings.Contains(r.err, "salvage") {
					t.Errorf("exit %d, %q", r.code, r.err)
				}
				return
			}
			var f inspect.Foreign
			page := filepath.Join(t.TempDir(), "page.html")
			must(t, json.Unmarshal([]byte(tool{}.must(t, "inspect", "--json", "--html", page, name)), &f))
			if f.Entries != 40 || f.Exam == nil || f.Exam.Keys != 40 || f.Filter == nil || f.Exam.BitsPerKey < 7 ||
				f.Exam.Between == nil || f.Exam.Between.Probes < 1000 {
				t.Fatalf("%+v, %+v", f, f.Exam)
			}
			text := oneLine(tool{}.must(t, "inspect", name, "--key", f.Smallest, "--key", "0"))
			if !paged[f.Store] {
				paged[f.Store] = true
				if out := (tool{}).must(t, "inspect", name, "--html", page); out != "" {
					t.Errorf("with a page, the text is printed too: %q", out)
				}
			}
			for _, want := range []string{
				"table " + filepath.Base(name) + " of " + f.Store, "keys from " + f.Smallest + " to " + f.Largest,
				"the filter says maybe; the table has a value for the key: true positive",
				"the table has nothing of the key: ", "filter: bits per key", "filter: measured",
			} {
				if !strings.Contains(text, oneLine(want)) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
			if strings.Contains(text, "value of ") {
				t.Errorf("a value is shown:\n%s", text)
			}
			html := string(readFile(t, page))
			if !strings.Contains(html, f.Store) || !strings.Contains(html, f.Format) {
				t.Error("the page lacks the store or the format")
			}
			for _, flag := range []string{"--verify", "--hex", "--entries"} {
				if r := (tool{}).run(t, "inspect", flag, name); r.code != cli.ExitTrouble || r.out != "" {
					t.Errorf("%s: exit %d, %q", flag, r.code, r.out)
				}
			}
		})
	}
}

func TestADirectoryOfAnotherStoreIsShown(t *testing.T) {
	dir := t.TempDir()
	n := 0
	for _, name := range samples(t) {
		b := readFile(t, name)
		writeFile(t, filepath.Join(dir, filepath.Base(name)), b)
		if !strings.Contains(name, "encrypted") {
			n++
		}
	}
	writeFile(t, filepath.Join(dir, "CURRENT"), []byte("MANIFEST-000001\n"))
	writeFile(t, filepath.Join(dir, "cut.sst"), readFile(t, filepath.Join(dir, "pebble4.sst"))[:1000])
	var s inspect.ForeignStore
	must(t, json.Unmarshal([]byte(tool{}.must(t, "inspect", "--json", dir)), &s))
	if s.Tables != n || s.Entries != uint64(40*n) || s.PerKey < 7 || s.Rate <= 0 || s.Rate > 0.05 {
		t.Errorf("%+v, want %d tables", s, n)
	}
	text := oneLine(tool{}.must(t, "inspect", dir, "--key", "0"))
	for _, want := range []string{
		"goleveldb.ldb", "tables", "bits per key", "Not read: badger-encrypted.sst", "Not read: cut.sst",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "CURRENT")))
	tool{}.must(t, "inspect", dir)
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
