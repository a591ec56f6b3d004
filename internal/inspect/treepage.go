package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/picture"
	"github.com/bloomkv/bloomkv/internal/words"
)

// treeSection draws where tables lie and how good their filters are.
func (s *Store) treeSection() picture.Section {
	section := picture.Section{
		ID: "tree", Heading: "The tree",
		Text:  "A lookup goes down the rows, newest data first, and asks the filter of the one table in each row that lies over its key. Dark boxes, or bright ones in the dark, let more absent keys through.",
		Table: s.levelRows().table("What each level has; filters in bytes", "level"),
	}
	if c := s.treeChart(); c != nil {
		section.Charts = []picture.Chart{*c}
	}
	return section
}

// treeChart is the picture of the tree; nil where no table has a place. Its scale is the same for all stores; few rates are beyond it.
func (s *Store) treeChart() *picture.Chart {
	flagged := make(map[string]bool)
	for _, f := range s.Flags {
		flagged[f.File] = f.File != ""
	}
	spans := &picture.Spans{Scale: picture.Scale{Low: 1e-5, High: 0.1, Log: true}, First: "the first key", Last: "the last key", Marked: "flagged, or damaged"}
	type place struct {
		level int
		run   uint64
	}
	boxes, left := 0, 0
	rows := make(map[place]int)
	each := (len(s.Tables)-1)/pageBoxes + 1 // tables in a box
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.Place == nil {
			continue
		}
		at := place{*t.Level, *t.Run}
		n, known := rows[at]
		if !known {
			if len(rows) == pageRuns {
				left++
				continue
			}
			n = len(rows)
			rows[at] = n
			spans.Rows = append(spans.Rows, picture.SpanRow{Name: fmt.Sprintf("level %d, run %d", at.level, at.run)})
			boxes = 0
		}
		row := &spans.Rows[n]
		box := picture.Span{From: t.Place.From, To: t.Place.To, Value: t.Place.FPR, Name: strings.TrimSuffix(t.File, ".sst"), Marked: flagged[t.File] || t.Damage != nil || slices.ContainsFunc(t.filters(), func(r *Filter) bool { return len(r.Flags) > 0 })}
		if boxes%each == 0 {
			row.Spans = append(row.Spans, box)
		} else {
			last := &row.Spans[len(row.Spans)-1]
			last.To, last.Value, last.Marked, last.Name = max(last.To, box.To), max(last.Value, box.Value), last.Marked || box.Marked, ""
		}
		boxes++
		if t.Place.From == 0 && t.Entries > 0 {
			spans.First = t.Smallest
		}
		if t.Place.To == 1 && t.Entries > 0 {
			spans.Last = t.Largest
		}
	}
	if len(spans.Rows) == 0 {
		return nil
	}
	c := &picture.Chart{
		Name: "tree", Title: "Tables over the keys, a row for each run", X: "keys, each as wide as any other", Y: "rate of the filter in memory", FormatY: rate, Spans: spans,
		Caption: "As wide as the share of the keys that a table spans; a lookup of an absent key asks the filters above each other at its place.",
	}
	if each > 1 {
		c.Caption += fmt.Sprintf(" Each box is up to %s, in the color of the worst.", words.Plural(each, "table"))
	}
	if left > 0 {
		c.Caption += fmt.Sprintf(" %s of further runs are not drawn.", words.Plural(left, "table"))
	}
	return c
}

// eachLevel calls for each level, and for all.
func (s *Store) eachLevel(row func(name string, f *Figures)) {
	for i := range s.Levels {
		row(strconv.Itoa(s.Levels[i].Level), &s.Levels[i].Figures)
	}
	row("all", &s.Tree)
}

// levelRows are what each level has, and all.
func (s *Store) levelRows() *grid {
	g := &grid{head: []string{"level", "runs", "tables", "entries", "keys", "tables' bytes", "filters", "in memory", "bits/key"}}
	s.eachLevel(func(name string, f *Figures) {
		g.add(name, strconv.Itoa(f.Runs), strconv.Itoa(f.Tables), strconv.FormatUint(f.Entries, 10), strconv.FormatUint(f.Keys, 10), strconv.FormatUint(f.Bytes, 10),
			strconv.FormatUint(f.FilterDisk, 10), strconv.FormatUint(f.FilterBytes, 10), fmt.Sprintf("%.2f", f.BitsPerKey))
	})
	return g
}

// wasteRows are what each level wastes, and all.
func (s *Store) wasteRows() *grid {
	g := &grid{head: []string{"level", "promised", "predicted", "optimum", "evenly", "live, a run"}}
	s.eachLevel(func(name string, f *Figures) {
		g.add(name, rate(f.Promised), rate(f.Predicted), rate(f.Optimum), rate(f.Even), liveFigure(f.Live))
	})
	return g
}

// wasteSection draws what lookups of absent keys cost, by level.
func (s *Store) wasteSection() picture.Section {
	c := picture.Chart{
		Name: "waste", Title: "Wasted reads of a lookup of an absent key, by level", Y: "wasted reads per lookup", LogY: true, FormatY: rate,
		Caption: "Predicted marks at or below the promised ones keep the promise; near the optimum, the least that so much memory can waste in these runs, it lies where it helps most. Evenly is the same memory with as many bits for every key. What is zero is not drawn.",
	}
	lines := []picture.Line{{Name: "promised"}, {Name: "predicted"}, {Name: "optimum"}, {Name: "evenly"}, {Name: "live, a run"}}
	add := func(name string, f *Figures) {
		x := float64(len(c.Categories))
		c.Categories = append(c.Categories, name)
		live := 0.0
		if f.Live != nil {
			live = f.Live.Rate
		}
		for i, y := range []float64{f.Promised, f.Predicted, f.Optimum, f.Even, live} {
			if y > 0 {
				lines[i].X, lines[i].Y = append(lines[i].X, x), append(lines[i].Y, y)
			}
		}
	}
	for i := range s.Levels {
		add(levelName(s.Levels[i].Level), &s.Levels[i].Figures)
	}
	if len(s.Levels) > 1 {
		add("all", &s.Tree)
	}
	for _, l := range lines {
		if l.Kind = picture.Points; len(l.X) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	section := picture.Section{
		ID: "waste", Heading: "Wasted reads",
		Text:  "A wasted read is the search of a table that has no version of the key, let through by its filter or by there being none.",
		Table: s.wasteRows().table("Wasted reads by a lookup of an absent key", "level"),
	}
	if len(c.Lines) > 0 {
		section.Charts = []picture.Chart{c}
	}
	return section
}

// memorySection draws memory by part.
func (s *Store) memorySection() picture.Section {
	m := &s.Memory
	c := picture.Chart{
		Name: "memory", Title: "Memory for the tables, by part", Y: "bytes", FormatY: picture.Bytes,
		Caption: "What a store has in memory once all its tables are loaded, without the cache of data blocks, whose size is the budget's business.",
	}
	bar := picture.Line{Kind: picture.Bars}
	g := &grid{head: []string{"part", "bytes", "which are"}}
	parts := m.parts()
	for i, part := range parts {
		g.add(cmp.Or(strings.TrimSuffix(part.name, ":"), "not in memory"), strconv.FormatUint(part.bytes, 10), part.when)
		if i < len(parts)-3 { // the sum is no part, and what is behind it is not in memory
			bar.X, bar.Y = append(bar.X, float64(i)), append(bar.Y, float64(part.bytes))
			c.Categories = append(c.Categories, part.name)
		}
	}
	c.Lines = []picture.Line{bar}
	return picture.Section{
		ID: "memory", Heading: "Memory", Charts: []picture.Chart{c}, Table: g.table("Bytes in memory, and those that are only on disk", "part"),
		Text: "Units of filters that a table's level does not need stay on disk, and so do samples, which compactions alone read.",
	}
}

// planSection shows the plan by which the filters were built, if it is known.
func (s *Store) planSection() picture.Section {
	section := picture.Section{ID: "plan", Heading: "The plan", Text: capital(s.Plan.String()) + "."}
	if p := s.Plan; p != nil {
		g := &grid{head: []string{"level", "promised", "predicted", "bits/key"}}
		for _, l := range p.Levels {
			g.add(strconv.Itoa(l.Level), rate(l.FPR), rate(l.Predicted), fmt.Sprintf("%.2f", l.BitsPerKey))
		}
		section.Table = g.table("What each run of a level is promised, and what filters that are built for it give", "level")
	}
	return section
}

// whatIfSection draws what other options would take and give, beside what there is.
func (s *Store) whatIfSection() picture.Section {
	c := picture.Chart{
		Name: "what-if", Title: "Memory of filters against wasted reads", X: "filters in memory", Y: "wasted reads per absent key", LogY: true, FormatX: picture.Bytes, FormatY: rate,
		Caption: "Down is fewer wasted reads, left is less memory. All tables would have to be written anew.",
	}
	add := func(name string, bytes uint64, wasted float64) {
		if wasted > 0 {
			c.Lines = append(c.Lines, picture.Line{Name: name, Kind: picture.Points, X: []float64{float64(bytes)}, Y: []float64{wasted}})
		}
	}
	add("now", s.Tree.FilterBytes, s.Tree.Predicted)
	g := &grid{head: []string{"asked", "kind", "promised", "memory asked", "filters in memory", "more than now", "wasted reads"}}
	section := picture.Section{ID: "what-if", Heading: "What if"}
	for i := range s.WhatIf {
		w := &s.WhatIf[i]
		g.add(w.Asked, w.Kind, rate(w.FPR), strconv.FormatUint(w.Memory, 10), strconv.FormatUint(w.Bytes, 10), fmt.Sprintf("%+d", w.More), rate(w.Wasted))
		if i < 20 {
			add(w.Asked, w.Bytes, w.Wasted)
		}
		levels := &grid{head: []string{"level", "keys", "bits/key", "filters in memory", "wasted reads"}}
		for _, l := range w.Levels {
			levels.add(strconv.Itoa(l.Level), strconv.FormatUint(l.Keys, 10), fmt.Sprintf("%.2f", l.BitsPerKey), strconv.FormatUint(l.Bytes, 10), rate(l.Wasted))
		}
		section.Folded = append(section.Folded, picture.Section{ID: fmt.Sprintf("what-if-%d", i), Heading: "What if " + w.Asked + ", by level", Text: capital(w.line(&s.Tree)) + ".", Table: levels.table("", "level")})
	}
	if len(c.Lines) > 0 {
		section.Charts = []picture.Chart{c}
	}
	section.Table = g.table("If all tables were written anew with other options", "asked")
	return section
}
