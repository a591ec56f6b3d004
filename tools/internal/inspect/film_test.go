package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// tableFrom returns a table of 1,000 keys from lo to hi.
func tableFrom(number uint64, lo, hi string) *manifest.Table {
	return &manifest.Table{
		Number: number, ID: number, Size: 1 << 20, FilterLen: 1 << 10, Smallest: []byte(lo), Largest: []byte(hi),
		MinSeq: ikey.Seq(number), MaxSeq: ikey.Seq(number), Entries: 1000, FilterRate: 0.01,
	}
}

func TestAFilmSaysWhatEachStepDid(t *testing.T) {
	a, b, c, d := tableFrom(1, "a", "m"), tableFrom(2, "a", "z"), tableFrom(3, "n", "z"), tableFrom(4, "a", "z")
	ingested := tableFrom(5, "b", "c")
	ingested.Flags = manifest.SeqOverridden
	var f film
	for i, e := range []manifest.Edit{
		{Added: []manifest.Added{{Level: 6, Run: 1, Table: a}}},
		{NextFile: 9}, // no step
		{Added: []manifest.Added{{Level: 0, Run: 2, Table: b}}},
		{Added: []manifest.Added{{Level: 0, Run: 3, Table: c}}},
		{Added: []manifest.Added{{Level: 0, Run: 4, Table: ingested}}},
		{
			Deleted: []manifest.Deleted{{Level: 0, Number: 3}},
			Added:   []manifest.Added{{Level: 5, Run: 5, Table: c}},
		},
		{
			Deleted: []manifest.Deleted{{Level: 0, Number: 2}, {Level: 6, Number: 1}},
			Added:   []manifest.Added{{Level: 6, Run: 6, Table: d}},
		},
		{Deleted: []manifest.Deleted{{Level: 6, Number: 4}}},
		{Deleted: []manifest.Deleted{{Level: 6, Number: 4}}}, // does not fit
	} {
		f.add(&e, int64(100*i))
	}
	f.place()
	var got []string
	for i := range f.Steps {
		var there []string
		for _, p := range f.after(i + 1) {
			there = append(there, fmt.Sprintf("%d at %d", f.Tables[p.Table].Number, p.Level))
		}
		slices.Sort(there)
		got = append(got, fmt.Sprintf("%d: %s; %v", f.Steps[i].Offset, f.Steps[i].What, there))
	}
	want := []string{
		"0: The manifest begins with 1 table of 1.05 MB; [1 at 6]",
		"200: A flush writes 1 table of 1.05 MB to level 0; [1 at 6 2 at 0]",
		"300: A flush writes 1 table of 1.05 MB to level 0; [1 at 6 2 at 0 3 at 0]",
		"400: An ingest adds 1 table of 1.05 MB to level 0; [1 at 6 2 at 0 3 at 0 5 at 0]",
		"500: 1 table of 1.05 MB of level 0 moves to level 5 without being read; [1 at 6 2 at 0 3 at 5 5 at 0]",
		"600: A compaction merges 2 tables of 2.1 MB of level 0 and level 6 into 1 table of 1.05 MB of level 6; " +
			"[3 at 5 4 at 6 5 at 0]",
		"700: 1 table of 1.05 MB of level 6 is removed: no reader needs it; [3 at 5 5 at 0]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%q\nwant:\n%q", got, want)
	}
	if want := []int{3, 0, 0, 0, 0, 1, 1}; !slices.Equal(f.Slots, want) {
		t.Errorf("rows of the levels: %v, want %v", f.Slots, want)
	}
	if a, c := f.Tables[0], f.Tables[2]; a.From != 0 || a.To <= 0 || a.To > c.From || c.To != 1 {
		t.Errorf("a … m from %g to %g, n … z from %g to %g", a.From, a.To, c.From, c.To)
	}
	charts := f.charts()
	if n := len(charts[0].Spans.Rows); n != 5 {
		t.Errorf("%d rows, want 5", n)
	}
	if n := len(charts[0].Spans.Rows[0].Spans); n != 1 || charts[0].Spans.Rows[0].Spans[0].ID != "000005.sst" {
		t.Errorf("the first row has %d tables: %+v", n, charts[0].Spans.Rows[0].Spans)
	}
}

func TestAFilmKnowsImports(t *testing.T) {
	added := func(level int, number uint64) []manifest.Added {
		return []manifest.Added{{Level: level, Run: number, Table: tableFrom(number, "a", "z")}}
	}
	var f film
	for _, e := range []manifest.Edit{
		{NextFile: 1}, // an empty store
		{LastSeq: 1, Added: added(6, 1)},
		{LastSeq: 2, Added: added(0, 2)},
		{Added: added(6, 3), Deleted: []manifest.Deleted{{Level: 0, Number: 2}, {Level: 6, Number: 1}}},
		{LastSeq: 3, Added: added(0, 4), Deleted: []manifest.Deleted{{Level: 6, Number: 3}}},
		{LastSeq: 4, Deleted: []manifest.Deleted{{Level: 0, Number: 4}}},
	} {
		f.add(&e, 0)
	}
	var got []string
	for i := range f.Steps {
		got = append(got, f.Steps[i].What)
	}
	want := []string{
		"An import brings 1 table of 1.05 MB",
		"A flush writes 1 table of 1.05 MB to level 0",
		"A compaction merges 2 tables of 2.1 MB of level 0 and level 6 into 1 table of 1.05 MB of level 6",
		"An import brings 1 table of 1.05 MB, in place of 1 table of 1.05 MB",
		"An import brings 0 tables of 0 bytes, in place of 1 table of 1.05 MB",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%q\nwant:\n%q", got, want)
	}
	if f.counts.flushes != 1 || f.counts.merges != 1 {
		t.Errorf("%d flushes and %d compactions, want one each", f.counts.flushes, f.counts.merges)
	}
}

func TestAFilmOfManyRunsHasFewRows(t *testing.T) {
	var f film
	for i := range uint64(100) {
		t := tableFrom(i+1, "a", "z")
		f.add(&manifest.Edit{Added: []manifest.Added{{Run: i + 1, Table: t}}}, 0)
	}
	f.place()
	tree := f.charts()[0]
	tables := 0
	for _, r := range tree.Spans.Rows {
		tables += len(r.Spans)
	}
	if n := len(tree.Spans.Rows); n != pageRuns || tables != 100 {
		t.Errorf("%d tables in %d rows, want 100 in %d", tables, n, pageRuns)
	}
}

func TestAFilmOfManyTablesIsShown(t *testing.T) {
	const tables = 5000
	var m Manifest
	var e manifest.Edit
	for i := range uint64(tables) {
		key := fmt.Sprintf("%05d", i)
		table := tableFrom(i+1, key, key+"z")
		table.FilterRate = 1 / float64(i+1)
		e.Added = append(e.Added, manifest.Added{Level: 6, Run: 1, Table: table})
	}
	m.film.add(&e, 0)
	must(t, m.Page().WriteHTML(io.Discard))
	drawn := map[string]bool{}
	for _, s := range m.film.charts()[0].Spans.Rows[0].Spans {
		files := strings.Fields(s.ID)
		for _, name := range files {
			drawn[name] = true
		}
		var first int
		if _, err := fmt.Sscanf(files[0], "%06d.sst", &first); err != nil || s.Value != 1/float64(first) {
			t.Errorf("the box of %q has the rate %g, %v; want that of the worst", files, s.Value, err)
		}
	}
	if len(drawn) != tables {
		t.Errorf("%d tables are drawn, want %d", len(drawn), tables)
	}
}
