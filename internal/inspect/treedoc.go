package inspect

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/picture"
	"github.com/bloomkv/bloomkv/internal/words"
)

const (
	treeWidth = 60   // columns of the drawing of a tree
	mostRuns  = 64   // rows of the drawing
	pageBoxes = 2000 // tables in the chart of the tree
	pageRuns  = 40   // rows of the chart
)

// treeSection shows where the tables lie and how good their filters are.
func (s *Store) treeSection() section {
	tree := section{
		id: "tree", heading: "The tree", label: "levels, with filters in bytes",
		explain: "A lookup asks the rows from top to bottom, newest data first: in each row the filter of the table " +
			"that covers its key.",
		table: s.levelTable(), draw: s.drawTree,
	}
	if c := s.treeChart(); c != nil {
		tree.charts = []picture.Chart{*c}
	}
	return tree
}

// levelTable returns what each level has, and all of them.
func (s *Store) levelTable() *picture.Table {
	t := newTable("What each level has; filters in bytes",
		"level", "runs", "tables", "entries", "keys", "bytes", "filters", "in memory", "bits/key")
	s.eachLevel(func(name string, f *Figures) {
		t.Rows = append(t.Rows, []string{
			name, count(f.Runs), count(f.Tables), count(f.Entries), count(f.Keys), count(f.Bytes), count(f.FilterDisk),
			count(f.FilterBytes), fmt.Sprintf("%.2f", f.BitsPerKey),
		})
	})
	return t
}

// eachLevel calls row for each level, and for all of them.
func (s *Store) eachLevel(row func(name string, f *Figures)) {
	for i := range s.Levels {
		row(count(s.Levels[i].Level), &s.Levels[i].Figures)
	}
	row("all", &s.Tree)
}

// drawTree draws a row for each run. A table lies where its keys lie among those of the store, and its digit is the
// rate of its filter.
func (s *Store) drawTree(w io.Writer, color bool) {
	type row struct {
		level int
		run   uint64
		cells [treeWidth]cell
	}
	var rows []row
	left := 0
	for i := range s.Tables {
		t := &s.Tables[i]
		if n := len(rows); n == 0 || rows[n-1].run != *t.Run || rows[n-1].level != *t.Level {
			if n == mostRuns {
				left++
				continue
			}
			rows = append(rows, row{level: *t.Level, run: *t.Run})
		}
		place(rows[len(rows)-1].cells[:], t.Place)
	}
	fmt.Fprint(w, "\nlevel     run\n")
	for _, r := range rows {
		var b strings.Builder
		for _, c := range r.cells {
			c.draw(&b, color)
		}
		line := b.String()
		if !color {
			line = strings.TrimRight(line, " ")
		}
		fmt.Fprintf(w, "%5d %7d  %s\n", r.level, r.run, line)
	}
	if left > 0 {
		fmt.Fprintf(w, "and %s of further runs\n", words.Plural(left, "table"))
	}
	words.Wrapped(w, fmt.Sprintf("a column is a %dth of the keys of the store, in their order, so a table is as wide "+
		"as the share of absent keys for which it is asked; the digit n means that its filter lets at most one in "+
		"10ⁿ of them through (0: more than one in ten; !: no filter); of several tables in a column the worst "+
		"counts; [ and ] are the ends of a wide table", treeWidth))
}

// A cell is a column of a row of the drawing.
type cell struct {
	there bool
	worst float64 // the highest rate of the tables in it
	edge  string  // "[", "]" or empty
}

// place puts a table into the cells of its row.
func place(row []cell, p *Place) {
	n := float64(len(row))
	from := min(int(p.From*n), len(row)-1)
	to := max(min(int(math.Ceil(p.To*n-1e-9)), len(row)), from+1)
	for i := from; i < to; i++ {
		row[i] = cell{there: true, worst: max(row[i].worst, p.FPR)}
	}
	if to-from > 3 {
		row[from].edge, row[to-1].edge = "[", "]"
	}
}

// heat is the background of a digit in 256 colors: from red for filters that let everything through to blue for the
// best ones.
var heat = [...]int{196, 208, 220, 154, 46, 48, 51, 45, 39, 33}

// draw draws the cell.
func (c cell) draw(b *strings.Builder, color bool) {
	if !c.there {
		b.WriteByte(' ')
		return
	}
	digit, mark := 0, "!"
	if c.worst < 1 {
		digit = min(int(-math.Log10(max(c.worst, 1e-300))), len(heat)-1)
		mark = strconv.Itoa(digit)
	}
	if c.edge != "" {
		mark = c.edge
	}
	if color {
		mark = fmt.Sprintf("\x1b[38;5;16;48;5;%dm%s\x1b[0m", heat[digit], mark)
	}
	b.WriteString(mark)
}

// treeChart returns the chart of the tree, or nil if no table has a place. Its scale is the same for all stores.
func (s *Store) treeChart() *picture.Chart {
	flagged := make(map[string]bool)
	for _, f := range s.Flags {
		flagged[f.File] = f.File != ""
	}
	spans := &picture.Spans{
		Scale: picture.Scale{
			Low: 1e-5, High: 0.1,
			Log: true,
		}, First: "the first key", Last: "the last key", Marked: "flagged, or damaged",
	}
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
		box := picture.Span{
			From: t.Place.From, To: t.Place.To, Value: t.Place.FPR, Name: strings.TrimSuffix(t.File, ".sst"),
			Marked: flagged[t.File] || t.Damage != nil || t.flagged(),
		}
		if boxes%each == 0 {
			row.Spans = append(row.Spans, box)
		} else {
			last := &row.Spans[len(row.Spans)-1]
			last.To, last.Value, last.Marked, last.Name = max(last.To, box.To), max(last.Value, box.Value),
				last.Marked || box.Marked, ""
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
		Name: "tree", Title: "Tables over the keys, a row for each run", X: "keys, each as wide as any other",
		Y: "rate of the filter in memory", FormatY: rate, Spans: spans,
		Caption: "A box is as wide as the share of the keys that its table spans. A lookup of an absent key asks the " +
			"filters of the boxes above and below its position. Dark boxes, or bright ones in the dark, let more " +
			"absent keys through.",
	}
	if each > 1 {
		c.Caption += fmt.Sprintf(" Each box is up to %s, in the color of the worst.", words.Plural(each, "table"))
	}
	if left > 0 {
		c.Caption += fmt.Sprintf(" %s of further runs are not drawn.", words.Plural(left, "table"))
	}
	return c
}

// flagged reports whether a filter of the table has a flag.
func (t *Table) flagged() bool {
	return slices.ContainsFunc(t.filters(), func(r *Filter) bool { return len(r.Flags) > 0 })
}

// wasteSection shows what lookups of absent keys cost, by level.
func (s *Store) wasteSection() section {
	c := picture.Chart{
		Name: "waste", Title: "Wasted reads of a lookup of an absent key, by level",
		Y: "wasted reads per lookup", LogY: true, FormatY: rate,
		Caption: "The promise is kept where predicted is at or below promised. The memory lies where it helps most " +
			"where predicted is near the optimum. Zero is not drawn.",
	}
	lines := []picture.Line{
		{Name: "promised"},
		{Name: "predicted"},
		{Name: "optimum"},
		{Name: "evenly"},
		{Name: "live, a run"},
	}
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
		add(fmt.Sprintf("level %d", s.Levels[i].Level), &s.Levels[i].Figures)
	}
	if len(s.Levels) > 1 {
		add("all", &s.Tree)
	}
	for _, l := range lines {
		if l.Kind = picture.Points; len(l.X) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	table := newTable("Wasted reads by a lookup of an absent key", "level", "promised", "predicted", "optimum",
		"evenly", "live, a run")
	counts := newTable("Answers that lookups have counted", "level", "rate", "false positives", "true positives",
		"negatives", "not asked")
	s.eachLevel(func(name string, f *Figures) {
		live := noCell
		if l := f.Live; l != nil {
			live = rate(l.Rate)
			counts.Rows = append(counts.Rows, []string{
				name, live, count(l.FalsePositives), count(l.TruePositives), count(l.FilterNegatives),
				count(l.Unfiltered),
			})
		}
		row := []string{name, rate(f.Promised), rate(f.Predicted), rate(f.Optimum), rate(f.Even), live}
		table.Rows = append(table.Rows, row)
	})
	waste := section{
		id: "waste", heading: "Wasted reads", label: "wasted reads by a lookup of an absent key, with the filters in " +
			"memory", table: table,
		explain: "A wasted read is a search of a table that has no version of the key, because its filter let the " +
			"key through or because it has no filter.",
		lines: []string{
			"absent keys are assumed to be distributed like the present ones; optimum is the least that the same " +
				"memory can waste in these runs, evenly what it wastes with the same number of bits for every key, " +
				"and live the rate that lookups measured",
		},
	}
	if len(c.Lines) > 0 {
		waste.charts = []picture.Chart{c}
	}
	if len(counts.Rows) > 0 {
		waste.parts = []section{{
			id: "live", heading: "Answers of the filters", label: "answers of the filters",
			table: counts,
		}}
	}
	return waste
}

// memorySection shows memory by part.
func (s *Store) memorySection() section {
	m := &s.Memory
	c := picture.Chart{
		Name: "memory", Title: "Memory for the tables, by part", Y: "bytes", FormatY: picture.Bytes,
		Caption: "The memory of a store whose tables are all loaded, without the cache of data blocks.",
	}
	bar := picture.Line{Kind: picture.Bars}
	t := newTable("Bytes in memory, and those that are only on disk", "part", "bytes", "details")
	for i, part := range []struct {
		name    string
		bytes   uint64
		details string
	}{
		{"filters of keys", m.Filters, "read in the background, or by the first lookup"},
		{"prefix filters", m.PrefixFilters, "read by the first scan that asks them"},
		{"indexes", m.Indexes, "read with the filters"},
		{"range deletes", m.RangeDeletes, "read with the indexes"},
		{"bounds of tables", m.Fences, "from the manifest, when the store is opened"},
		{"all", m.Sum, "the sum of these"},
		{"only on disk", m.FiltersOnDisk, "units of filters that levels do not need"},
		{"only on disk", m.SamplesOnDisk, "samples, read for compactions"},
	} {
		t.Rows = append(t.Rows, []string{part.name, count(part.bytes), part.details})
		if i < 5 { // what follows is the sum, or not in memory
			bar.X, bar.Y = append(bar.X, float64(i)), append(bar.Y, float64(part.bytes))
			c.Categories = append(c.Categories, part.name)
		}
	}
	c.Lines = []picture.Line{bar}
	return section{
		id: "memory", heading: "Memory", label: "memory, with all tables loaded", charts: []picture.Chart{c}, table: t,
	}
}

// planSection shows the plan by which the filters were built, if it is known.
func (s *Store) planSection() section {
	plan := section{id: "plan", heading: "The plan", lines: []string{s.Plan.String()}}
	if p := s.Plan; p != nil {
		plan.table = newTable("The rate that each run of a level may have, and that of filters built for it",
			"level", "promised", "predicted", "bits/key")
		for _, l := range p.Levels {
			row := []string{count(l.Level), rate(l.FPR), rate(l.Predicted), fmt.Sprintf("%.2f", l.BitsPerKey)}
			plan.table.Rows = append(plan.table.Rows, row)
		}
	}
	return plan
}

// String describes the plan.
func (p *Plan) String() string {
	switch {
	case p == nil:
		return "the plan of the filters is not known, as with a memory limit in place of a rate: all of their units " +
			"are assumed to be in memory"
	case p.FPR >= 1:
		return "the store was last written without filters, as " + words.Plural(p.Tables, "table") + p.off()
	}
	s := fmt.Sprintf("the store was last written with filters for %g wasted reads over the whole tree, %s, level "+
		"ratio %d",
		p.FPR, p.Kind, p.Ratio)
	if p.Prefix != "" {
		s += ", and prefix filters by the rule " + p.Prefix
	}
	return s + ", as in " + words.Plural(p.Tables, "table") + p.off()
}

// off describes the tables that were not built by the plan.
func (p *Plan) off() string {
	if p.TablesOffPlan == 0 {
		return ""
	}
	return fmt.Sprintf("; %s with %s have other filters, which compact rebuilds",
		words.Plural(p.TablesOffPlan, "table"), words.Plural(p.BytesOffPlan, "byte"))
}

// whatIfSection shows what filters by other options would take and waste, and the present ones.
func (s *Store) whatIfSection() section {
	c := picture.Chart{
		Name: "what-if", Title: "Memory of filters against wasted reads", X: "filters in memory",
		Y:    "wasted reads per absent key",
		LogY: true, FormatX: picture.Bytes, FormatY: rate,
		Caption: "Lower is fewer wasted reads, and further left is less memory. All tables would have to be rewritten.",
	}
	add := func(name string, bytes uint64, wasted float64) {
		if wasted > 0 {
			c.Lines = append(c.Lines, picture.Line{
				Name: name, Kind: picture.Points, X: []float64{float64(bytes)},
				Y: []float64{wasted},
			})
		}
	}
	add("now", s.Tree.FilterBytes, s.Tree.Predicted)
	whatIf := section{id: "what-if", heading: "What if", label: "what if all tables were rewritten with other filters"}
	whatIf.table = newTable("If all tables were rewritten with other filters",
		"asked", "kind", "promised", "memory", "filters", "more", "wasted reads")
	for i := range s.WhatIf {
		f := &s.WhatIf[i]
		whatIf.table.Rows = append(whatIf.table.Rows, []string{
			f.Asked, f.Kind, rate(f.FPR), count(f.Memory), count(f.Bytes), fmt.Sprintf("%+d", f.More), rate(f.Wasted),
		})
		if i < 20 {
			add(f.Asked, f.Bytes, f.Wasted)
		}
		levels := newTable("", "level", "keys", "bits/key", "filters in memory", "wasted reads")
		for _, l := range f.Levels {
			row := []string{
				count(l.Level), count(l.Keys), fmt.Sprintf("%.2f", l.BitsPerKey), count(l.Bytes),
				rate(l.Wasted),
			}
			levels.Rows = append(levels.Rows, row)
		}
		whatIf.parts = append(whatIf.parts, section{
			id: fmt.Sprintf("what-if-%d", i), heading: "What if " + f.Asked + ", by level", label: "what if " + f.Asked,
			lines: []string{f.line(&s.Tree)}, table: levels,
		})
	}
	if len(c.Lines) > 0 {
		whatIf.charts = []picture.Chart{c}
	}
	return whatIf
}

// line describes what the filters would take and waste.
func (f *WhatIf) line(now *Figures) string {
	more, how := f.More, "more"
	if more < 0 {
		more, how = -more, "fewer"
	}
	return fmt.Sprintf("filters would take %s in memory, %d %s than now, and a lookup of an absent key would waste "+
		"%.3g reads, now %.3g",
		words.Plural(f.Bytes, "byte"), more, how, f.Wasted, now.Predicted)
}
