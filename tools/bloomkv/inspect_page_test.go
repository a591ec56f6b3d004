package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// treeStore returns a store of two levels that has counted some lookups. The upper level has a few runs.
func treeStore(t *testing.T, o bloomkv.Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	o.Durability, o.TableSize, o.BaseLevelSize, o.FilterSeed = bloomkv.DurabilityNoSync, 64<<10, 128<<10, 1
	db, err := bloomkv.Open(dir, &o)
	must(t, err)
	key := func(i int) []byte { return fmt.Appendf(nil, "key/%06d", i) }
	for part := range 8 { // each has some keys of the one before
		for i := range 1500 {
			if err := db.Put(key((i+part*part%3*100)*8+part-part/3%2),
				fmt.Appendf(nil, "value %d of part %d", i, part)); err != nil {
				t.Fatal(err)
			}
		}
		must(t, db.Flush(t.Context()))
		if part == 5 {
			err = db.Compact(t.Context(), bloomkv.CompactOptions{})
		}
	}
	for i := range 5000 {
		if _, getErr := db.Get(append(key(i), '!')); !errors.Is(getErr, bloomkv.ErrNotFound) {
			err = errors.Join(err, getErr)
		}
	}
	must(t, errors.Join(err, db.Put(key(0), nil), db.Close()))
	return dir
}

// pageOf returns the page of a file or a store.
func pageOf(t *testing.T, args ...string) (doc string, code int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	r := tool{}.run(t, append([]string{"inspect", "--html", name}, args...)...)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("inspect --html %q: %v, %s", args, err, r.err)
	}
	return string(b), r.code
}

// textOf parses a page as XML after adding the missing end tags. It returns the text outside of charts, and counts
// the elements.
func textOf(t *testing.T, doc string) (text string, elements map[string]int) {
	t.Helper()
	doc = regexp.MustCompile(`(?s)(<script[^>]*>).*?</script>`).ReplaceAllString(doc, "$1</script>")
	doc = regexp.MustCompile(`<(meta|input)([^>]*)>`).ReplaceAllString(doc, "<$1$2/>")
	doc = strings.TrimPrefix(doc, "<!DOCTYPE html>")
	d := xml.NewDecoder(strings.NewReader(doc))
	elements = make(map[string]int)
	var b strings.Builder
	hidden := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return ungrouped(oneLine(b.String())), elements
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
			if token.Name.Local == "svg" || token.Name.Local == "style" {
				hidden++
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "src" || a.Name.Local == "href" &&
					!strings.HasPrefix(a.Value, "#") && !strings.HasPrefix(a.Value, "data:image/") {
					t.Errorf("<%s> has an attribute %s=%q", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		case xml.EndElement:
			if token.Name.Local == "svg" || token.Name.Local == "style" {
				hidden--
			}
			b.WriteByte(' ')
		case xml.CharData:
			if hidden == 0 {
				b.Write(token)
			}
		}
	}
}

// clock is the time in a page.
var clock = regexp.MustCompile(`read at [-0-9]+ [0-9:]+ UTC`)

var thousands = regexp.MustCompile(`([0-9]),([0-9]{3})\b`)

// ungrouped returns a text without the commas between thousands.
func ungrouped(text string) string {
	for {
		plain := thousands.ReplaceAllString(text, "$1$2")
		if plain == text {
			return text
		}
		text = plain
	}
}

func TestThePageFlagsWhatIsOff(t *testing.T) {
	testkit.Long(t)
	const n = 20_000
	table := glob(t, newStore(t, manyLines(n)), "*.sst")
	half := faulty(t, table, func(seed bloomblock.Seed, add func(bloomblock.Hash)) {
		for i := 0; i < n; i += 2 {
			add(seed.Mix(lineKey(i)))
		}
	})
	doc, code := pageOf(t, half, "--verify", "--key", "key/000001")
	text, _ := textOf(t, doc)
	for _, want := range []string{
		"Problem: keys-differ. Unit 0: the bits are those of ", "Problem: fill-off.",
		"Serious problem: verify. Does NOT match the table's keys", "Serious problem: false negative. The filter of",
		"denies key key/000001",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("half of the keys missing: no %q", want)
		}
	}
	if strings.Contains(text, "No problems") || code != cli.ExitTrouble {
		t.Errorf("half of the keys missing: exit %d, want 2, and no word of all being well", code)
	}

	b := readFile(t, table)
	b[strings.Index(string(b), "bloomblk")+bloomblock.HeaderSize+3] ^= 1
	writeFile(t, table, b)
	for _, of := range []string{table, filepath.Dir(table)} {
		doc, code := pageOf(t, of)
		if text, _ := textOf(t, doc); code != cli.ExitTrouble || !strings.Contains(text, "amaged") ||
			!strings.Contains(text, filepath.Base(table)+": offset ") || strings.Contains(text, "No problems") {
			t.Errorf("%s with a damaged filter: exit %d, want 2 and the damage with its address on the page",
				filepath.Base(of), code)
		}
	}

	doc, _ = pageOf(t, glob(t, newStoreWith(t, "--fpr", "1"), "*.sst"))
	if text, _ := textOf(t, doc); !strings.Contains(text, "The table has no filter") {
		t.Error("without a filter: the page does not say so")
	}
}

// newStoreWith returns a store of some lines that was created with flags.
func newStoreWith(t *testing.T, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: manyLines(100)}.must(t, append([]string{"load", dir}, flags...)...)
	return dir
}

func TestNoKeyDrivesThePage(t *testing.T) {
	const attack = "</p></text></svg><script>alert(1)</script>\"'><img src=x " +
		"onerror=y>&amp;{{.}}\x00\x1b\xff\u202e\u2028]]>-->"
	dir := filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	for _, k := range []string{attack[:40], attack, "\x00" + attack} {
		err = errors.Join(err, db.Put([]byte(k), []byte(attack)))
	}
	err = errors.Join(err, db.DeleteRange(bloomkv.KeyRange{Lower: []byte(attack + "a"), Upper: []byte(attack + "b")}))
	must(t, errors.Join(err, db.Close()))
	table := filepath.Join(t.TempDir(), "<script>alert(2)<"+"&\".sst")
	b := readFile(t, glob(t, dir, "*.sst"))
	if err := os.WriteFile(table, b, 0o600); err != nil {
		t.Skip("no such name here: ", err)
	}
	writeFile(t, filepath.Join(dir, "<img src=z>"), nil)
	for _, of := range []string{dir, table} {
		doc, _ := pageOf(t, of, "--key", `</p><script>alert(1)</script>\x00`)
		text, elements := textOf(t, doc)
		if elements["script"] > 3 || elements["img"] > 0 || strings.ContainsAny(doc, "\x00\x1b\u202e\u2028") {
			t.Errorf("%s: elements %v, want no script and no img", of, elements)
		}
		if !strings.Contains(text, "<script>alert(1)") ||
			!strings.Contains(doc, html.EscapeString("<script>alert(1)")) {
			t.Errorf("%s: the key is not shown as it is", of)
		}
	}
}

func TestAPageIsWrittenAsAWholeOrNotAtAll(t *testing.T) {
	testkit.Long(t)
	dir := treeStore(t, bloomkv.Options{})
	tables, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	out := t.TempDir()
	name := filepath.Join(out, "page.html")
	writeFile(t, name, []byte("what was there"))
	before := readFile(t, tables[0])
	foreign, renamed := filepath.Join(t.TempDir(), "000005.ldb"), filepath.Join(t.TempDir(), "renamed")
	writeFile(t, foreign, readFile(t, filepath.Join("..", "internal", "foreign", "testdata", "goleveldb.ldb")))
	writeFile(t, renamed, before)
	logFile := filepath.Join(t.TempDir(), "000009.log")
	writeFile(t, logFile, nil)
	for _, c := range []struct {
		name string
		args []string
		err  string
	}{
		{"over the table itself", []string{tables[0], "--html", tables[0]}, "the name of a file of a store"},
		{"over a table with another name", []string{renamed, "--html", renamed}, "renamed: is a table, want another"},
		{"over a table of another store", []string{foreign, "--html", foreign}, "000005.ldb: is a table, want another"},
		{
			"over a table in a store",
			[]string{filepath.Dir(foreign), "--html", foreign},
			"000005.ldb: is a table, want another",
		},
		{
			"under the name of a manifest",
			[]string{dir, "--html", filepath.Join(out, "MANIFEST-000007")},
			"the name of a file of a store",
		},
		{
			"into a directory that is not there",
			[]string{dir, "--html", filepath.Join(out, "none", "page.html")},
			"no such file",
		},
		{"over a directory", []string{tables[0], "--html", out}, filepath.Base(out) + ": is a directory, want a file"},
		{"pictures into a file", []string{tables[0], "--plot", name}, "page.html"},
		{"both to the output", []string{dir, "--json", "--html", "-"}, "want a file for --html"},
		{"of a log", []string{logFile, "--html", name}, "for tables, manifests and stores"},
	} {
		if r := (tool{}).run(t, append([]string{"inspect"}, c.args...)...); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, c.err) {
			t.Errorf("%s: exit %d, %q; want 2, %q", c.name, r.code, r.err, c.err)
		}
	}
	names, err := os.ReadDir(out)
	if b, readErr := os.ReadFile(name); err != nil || readErr != nil || string(b) != "what was there" ||
		len(names) != 1 {
		t.Errorf("after what could not be written there are %v, and %q in the page", names, b)
	}
	if after, err := os.ReadFile(tables[0]); err != nil || string(after) != string(before) {
		t.Errorf("the table was changed, %v", err)
	}

	if text := (tool{}).must(t, "inspect", tables[0], "--hex", "--html", name); text == "" {
		t.Error("beside a page, --hex prints nothing")
	}
	text := tool{}.must(t, "inspect", dir, "--html", name, "--plot", filepath.Join(out, "pictures"))
	if text != "" {
		t.Errorf("with a page, the text is printed too: %q", text)
	}
	b := readFile(t, name)
	got := (tool{}).must(t, "inspect", dir, "--html", "-")
	got, b = clock.ReplaceAllString(got, ""), clock.ReplaceAll(b, nil)
	if got != strings.TrimSpace(string(b)) && got != string(b) {
		t.Errorf("as output the page has %d bytes, as a file %d", len(got), len(b))
	}
	pictures, err := os.ReadDir(filepath.Join(out, "pictures"))
	figures := strings.Count(string(b), "<figure ")
	if err != nil || len(pictures) != 2*figures || figures == 0 {
		t.Errorf("%d files of %d pictures, %v; want an SVG and a PNG of each", len(pictures), figures, err)
	}
	names, err = os.ReadDir(out)
	if err != nil || len(names) != 2 {
		t.Errorf("beside the page and the pictures there are %v, %v", names, err)
	}
}
