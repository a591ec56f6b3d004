//go:build !386 && !arm

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// facts describe a store or a table.
type facts interface {
	WriteText(w io.Writer, s inspect.Style)
	Page() *picture.Page
	Wrong() error
}

// put puts keys from..to-1 and flushes them.
func put(ctx context.Context, db *bloomkv.DB, from, to int) (err error) {
	for i := from; i < to && err == nil; i++ {
		err = db.Put(fmt.Appendf(nil, "key/%06d", i), fmt.Appendf(nil, "value %d", i*i))
	}
	return errors.Join(err, db.Flush(ctx))
}

// mix leaves tables on two levels, two versions of a key, deletes, a range delete, and ingested keys.
func mix(ctx context.Context, db *bloomkv.DB) error {
	err := errors.Join(put(ctx, db, 0, 5000), db.Compact(ctx, bloomkv.CompactOptions{}),
		db.Put([]byte("key/002500"), nil))
	before, snapErr := db.Snapshot() // keeps the version
	if err = errors.Join(err, snapErr); err != nil {
		return err
	}
	ingest := func(yield func(bloomkv.KV, error) bool) {
		_ = yield(bloomkv.KV{Key: []byte("k")}, nil) && yield(bloomkv.KV{Key: []byte("l")}, nil)
	}
	return errors.Join(put(ctx, db, 2000, 3000), before.Close(), db.Delete([]byte("key/000001")),
		db.DeleteRange(bloomkv.KeyRange{Lower: []byte("key/000100"), Upper: []byte("key/000200")}), db.Flush(ctx),
		db.Ingest(ctx, ingest, bloomkv.IngestOptions{
			Replace: &bloomkv.KeyRange{Lower: []byte("a"), Upper: []byte("c")},
		}))
}

// strange puts keys that do not print, and that are long.
func strange(_ context.Context, db *bloomkv.DB) error {
	return errors.Join(db.Put([]byte("\x01\x02\x1b[31m"), nil), db.Put([]byte(strings.Repeat("ключ", 60)), nil),
		db.Put([]byte("<script>alert(1)</script>"), nil))
}

// TestGoldenFactsOfStores inspects stores of all kinds and each of their tables. The text is kept in testdata, and of
// some stores JSON and the page.
func TestGoldenFactsOfStores(t *testing.T) {
	some := func(from, to int) func(context.Context, *bloomkv.DB) error {
		return func(ctx context.Context, db *bloomkv.DB) error { return put(ctx, db, from, to) }
	}
	questions := []inspect.Question{whatIf(t, "fpr=0.001"), whatIf(t, "memory=1,kind=ribbon")}
	for name, c := range map[string]struct {
		o    bloomkv.Options
		fill func(context.Context, *bloomkv.DB) error
		keys []string
		full bool // JSON and the page of the store too
	}{
		"empty":   {fill: func(context.Context, *bloomkv.DB) error { return nil }},
		"strange": {fill: strange},
		"loose": {
			o: bloomkv.Options{FilterFPR: 0.99}, keys: []string{"key/000007", "key/000500/1", "key/000500/697"},
			fill: func(ctx context.Context, db *bloomkv.DB) error {
				return errors.Join(put(ctx, db, 0, 3000), db.Compact(ctx, bloomkv.CompactOptions{}))
			},
		},
		"none":  {o: bloomkv.Options{FilterFPR: 1}, fill: some(0, 3000)},
		"units": {o: bloomkv.Options{FilterFPR: 0.0001}, fill: some(0, 20_000)},
		"ribbon": {
			o: bloomkv.Options{FilterKind: bloomkv.FilterRibbon}, fill: some(0, 20_000), keys: []string{"key/000007"},
		},
		"prefix": {
			o: bloomkv.Options{FilterPrefix: bloomkv.PrefixLen(8)}, fill: some(0, 3000), full: true,
			keys: []string{"key/000007", "key/0020!", "key"},
		},
		"mixed": {fill: mix, full: true, keys: []string{
			"key/000007", "key/000001", "key/000150", "key/000500/1", "z", `key\x00\u00e9\\`, `k\xff\\xfe`, "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			c.o.FilterSeed, c.o.Durability = 1, bloomkv.DurabilityNoSync
			c.o.Compression = bloomkv.CompressionNone // other processors compress to other sizes
			db, err := bloomkv.Open(dir, &c.o)
			must(t, err)
			must(t, errors.Join(c.fill(t.Context(), db), db.Close()))
			o := inspect.Options{
				Path: "/the/store", Verify: true, WhatIf: questions, Full: c.full,
			}
			for _, text := range c.keys {
				key, err := inspect.ParseKey(text)
				must(t, err)
				o.Keys = append(o.Keys, key)
			}
			s, err := inspect.ReadStore(t.Context(), dir, o)
			must(t, err)
			var b strings.Builder
			transcribe(t, &b, "store", s, c.full)
			for i := range s.Tables {
				table, err := inspect.ReadTable(t.Context(), filepath.Join(dir, s.Tables[i].File), o)
				must(t, err)
				transcribe(t, &b, s.Tables[i].File, table, c.full && len(s.Tables) == 1)
			}
			writeFiles(t, &b, dir, name == "strange")
			testkit.Golden(t, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

// TestGoldenTablesOfOtherStores inspects the samples of package foreign one by one, and a directory of them and a table
// that is cut off. Each is asked for two keys.
func TestGoldenTablesOfOtherStores(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("..", "foreign", "testdata", "*.[sl]*"))
	must(t, err)
	o := inspect.Options{Path: "/the/table", Keys: [][]byte{[]byte("0000000000000000"), []byte("0")}}
	dir := t.TempDir()
	var b strings.Builder
	for _, name := range names {
		whole, err := os.ReadFile(name)
		must(t, err)
		base := filepath.Base(name)
		must(t, os.WriteFile(filepath.Join(dir, base), whole, 0o600))
		table, err := inspect.ReadForeign(t.Context(), name, o)
		if err != nil {
			fmt.Fprintf(&b, "==== %s\n\n%v\n\n", base, err)
			continue
		}
		transcribe(t, &b, base, table, base == "pebble-fuse.sst")
		if base == "pebble4.sst" {
			must(t, os.WriteFile(filepath.Join(dir, "cut.sst"), whole[:1000], 0o600))
		}
	}
	s, err := inspect.ReadForeignStore(t.Context(), dir, o)
	must(t, err)
	transcribe(t, &b, "directory", s, false)
	testkit.Golden(t, filepath.Join("testdata", "foreign.txt"), b.String())
}

// writeFiles writes the manifest of a store, and if they are few the entries of its tables and the bytes of filters.
func writeFiles(t *testing.T, b *strings.Builder, dir string, few bool) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		switch kind, number := filename.Parse(f.Name()); {
		case kind == filename.Manifest:
			m, err := inspect.ReadManifest(t.Context(), name, number)
			must(t, err)
			m.WriteText(b, inspect.Style{})
		case kind == filename.Table && few:
			table, err := inspect.ReadTable(t.Context(), name, inspect.Options{})
			must(t, err)
			var text, entries strings.Builder
			table.WriteText(&text, inspect.Style{Hex: true})
			_, hex, _ := strings.Cut(text.String(), "what they are\n")
			must(t, inspect.WriteEntries(&entries, name))
			b.WriteString(hex + tableID.ReplaceAllString(entries.String(), "table ID:"))
		}
	}
}

func whatIf(t *testing.T, text string) inspect.Question {
	t.Helper()
	q, err := inspect.ParseWhatIf(text)
	must(t, err)
	return q
}

// transcribe writes facts as text, and if they are to be complete in JSON and as a page. Lines of text have at most
// words.Width characters, and all of them can be printed.
func transcribe(t *testing.T, b *strings.Builder, what string, f facts, full bool) {
	t.Helper()
	must(t, f.Wrong())
	var text, colored strings.Builder
	f.WriteText(&text, inspect.Style{})
	f.WriteText(&colored, inspect.Style{Color: true})
	for line := range strings.Lines(text.String() + color.ReplaceAllString(colored.String(), "")) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > words.Width ||
			line != string(words.AppendPrintable(nil, []byte(line))) {
			t.Errorf("%s: a line of %d characters: %q", what, n, line)
		}
	}
	fmt.Fprintf(b, "==== %s\n\n%s\n", what, text.String())
	if !full {
		return
	}
	object, err := json.Marshal(f)
	must(t, err)
	var value any
	must(t, json.Unmarshal(object, &value))
	fmt.Fprintf(b, "---- %s in JSON\n\n", what)
	writeValue(b, "", value)
	p := f.Page()
	must(t, p.WriteHTML(io.Discard))
	fmt.Fprintf(b, "\n---- %s as a page\n\n%s\n%s\n", what, p.Title, read.ReplaceAllString(p.Intro, "read on H at T."))
	for _, n := range p.Notes {
		fmt.Fprintf(b, "note %+v\n", n)
	}
	for _, f := range p.Figures {
		fmt.Fprintf(b, "figure %+v\n", f)
	}
	for i := range p.Sections {
		writeSection(b, &p.Sections[i])
	}
	b.WriteByte('\n')
}

var (
	color   = regexp.MustCompile("\x1b\\[[0-9;]*m")
	tableID = regexp.MustCompile(`table [0-9a-f]{16}:`) // chosen at random
	read    = regexp.MustCompile(`on \S+, read at .* by bloomkv [^.]*\.`)
)

// short returns a value in JSON that has no others in it, a number with five digits.
func short(value any) string {
	if f, ok := value.(float64); ok && f != math.Trunc(f) {
		return fmt.Sprintf("%.5g", f)
	}
	return fmt.Sprint(value)
}

// writeValue writes a line for each object in JSON, and only the beginning of long lists.
func writeValue(b *strings.Builder, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		var own, inner []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch v[key].(type) {
			case map[string]any, []any:
				inner = append(inner, key)
			default:
				own = append(own, key+" "+short(v[key]))
			}
		}
		fmt.Fprintf(b, "%s: %s\n", name, strings.Join(own, ", "))
		for _, key := range inner {
			if key != "filter" || !strings.HasPrefix(name, "tables[") { // else it is as of the table alone
				writeValue(b, strings.TrimPrefix(name+"."+key, "."), v[key])
			}
		}
	case []any:
		fmt.Fprintf(b, "%s: %d\n", name, len(v))
		for i := range v[:min(len(v), 4)] {
			writeValue(b, fmt.Sprintf("%s[%d]", name, i), v[i])
		}
	default:
		fmt.Fprintf(b, "%s: %s\n", name, short(v))
	}
}

// writeSection writes what a section of a page has, and of its charts what they are of.
func writeSection(b *strings.Builder, s *picture.Section) {
	fmt.Fprintf(b, "\n# %s: %s\n%s\n", s.ID, s.Heading, s.Text)
	for _, n := range s.Notes {
		fmt.Fprintf(b, "note %+v\n", n)
	}
	for i := range s.Charts {
		c := &s.Charts[i]
		fmt.Fprintf(b, "chart %s: %s; %s; %s; %s\n", c.Name, c.Title, c.X, c.Y, c.Caption)
		for _, l := range c.Lines {
			n := len(l.X) - 1
			fmt.Fprintf(b, "  %s: from %.3g, %.3g to %.3g, %.3g\n", l.Name, l.X[0], l.Y[0], l.X[n], l.Y[n])
		}
	}
	if t := s.Table; t != nil {
		fmt.Fprintf(b, "table %s, %d shown, links %q, groups %q\n%s\n", t.Caption, t.Main, t.Links, t.Groups,
			strings.Join(t.Head, " | "))
		for _, row := range t.Rows[:min(len(t.Rows), 8)] {
			fmt.Fprintln(b, strings.Join(row, " | "))
		}
	}
	for i := range s.Folded {
		writeSection(b, &s.Folded[i])
	}
}
