package inspect

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
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
		id: "tree", heading: "The tree", label: "levels, with the sizes of filters",
		explain: "A lookup asks the rows from top to bottom, newest data first: in each row the filter of the table " +
			"that covers its key.",
		table: s.levelTable(), draw: s.drawTree,
	}
	if c := s.treeChart(); c != nil {
		tree.charts, tree.lead = []picture.Chart{*c}, true
	}
	return tree
}

// levelTable returns what each level has, and all of them.
func (s *Store) levelTable() *picture.Table {
	t := newTable("What each level has",
		"level", "runs", "tables", "entries", "keys", "size", "filters", "in memory", "bits/key")
	s.eachLevel(func(name string, f *Figures) {
		addRow(t, name, count(f.Runs), count(f.Tables), count(f.Entries), count(f.Keys), words.Size(f.Bytes),
			words.Size(f.FilterDisk), words.Size(f.FilterBytes), fmt.Sprintf("%.2f", f.BitsPerKey))
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
	runs, left := s.runs(mostRuns)
	fmt.Fprint(w, "\nlevel     run\n")
	for _, run := range runs {
		var cells [treeWidth]cell
		for _, t := range run {
			place(cells[:], t.Place)
		}
		var b strings.Builder
		for _, c := range cells {
			c.draw(&b, color)
		}
		line := b.String()
		if !color {
			line = strings.TrimRight(line, " ")
		}
		fmt.Fprintf(w, "%5d %7d  %s\n", *run[0].Level, *run[0].Run, line)
	}
	if left > 0 {
		fmt.Fprintf(w, "and %s of further runs\n", words.Plural(left, "table"))
	}
	words.Wrapped(w, fmt.Sprintf("a column is a %dth of the keys of the store, in their order, so a table is as wide "+
		"as the share of absent keys for which it is asked; the digit n means that its filter lets at most one in "+
		"10ⁿ of them through (0: more than one in ten; !: no filter); of several tables in a column the worst "+
		"counts; [ and ] are the ends of a wide table", treeWidth))
}

// runs returns the tables of each run, at most the given number of runs, and the number of other tables.
func (s *Store) runs(most int) (runs [][]*Table, left int) {
	for i := range s.Tables {
		t := &s.Tables[i]
		if n := len(runs); n == 0 || *runs[n-1][0].Run != *t.Run || *runs[n-1][0].Level != *t.Level {
			if n == most {
				return runs, len(s.Tables) - i
			}
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], t)
	}
	return runs, 0
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

// treeScale is the scale of rates in pictures of trees. It is the same for all stores.
var treeScale = picture.Scale{Low: 1e-5, High: 0.1, Log: true}

// treeChart returns the chart of the tree, or nil if there are no tables.
func (s *Store) treeChart() *picture.Chart {
	flagged := make(map[string]bool)
	for _, f := range s.Flags {
		flagged[f.File] = f.File != ""
	}
	spans := &picture.Spans{Scale: treeScale, Marked: "flagged, or damaged"}
	each := (len(s.Tables)-1)/pageBoxes + 1 // tables in a box
	runs, left := s.runs(pageRuns)
	for _, run := range runs {
		level := *run[0].Level
		row := picture.SpanRow{Name: fmt.Sprintf("level %d, run %d", level, *run[0].Run)}
		for i, t := range run {
			box := picture.Span{
				From: t.Place.From, To: t.Place.To, Value: t.Place.FPR, Name: strings.TrimSuffix(t.File, ".sst"),
				Marked: flagged[t.File] || t.Damage != nil || t.flagged(),
				Title:  t.title(), Group: levelName(level), ID: t.File,
			}
			if t.Filter != nil {
				box.Link = tableID(t.File)
			}
			if i%each == 0 {
				row.Spans = append(row.Spans, box)
				continue
			}
			last := &row.Spans[len(row.Spans)-1]
			last.To, last.Value, last.Marked, last.Name = max(last.To, box.To), max(last.Value, box.Value),
				last.Marked || box.Marked, ""
			last.Title += "\n" + t.File
			last.ID += " " + t.File
		}
		spans.Rows = append(spans.Rows, row)
	}
	spans.Ticks = s.keyTicks()
	if len(spans.Rows) == 0 {
		return nil
	}
	c := &picture.Chart{
		Name: "tree", Title: "Tables over the keys, a row for each run", X: "keys in order",
		Wide: true,
		Y:    "rate of the filter in memory", FormatY: rate, Spans: spans,
		Caption: "Width: share of the keys. A lookup of an absent key asks the filters of the boxes above and below " +
			"its position. Dark boxes, or bright ones in the dark, let more absent keys through.",
	}
	if each > 1 {
		c.Caption += fmt.Sprintf(" Each box is up to %s, in the color of the worst.", words.Plural(each, "table"))
	}
	if left > 0 {
		c.Caption += fmt.Sprintf(" %s of further runs are not drawn.", words.Plural(left, "table"))
	}
	return c
}

// title describes the table beside the pointer.
func (t *Table) title() string {
	s := fmt.Sprintf("%s: level %d, run %d\n%s, %s", words.Escaped([]byte(t.File), 64), *t.Level, *t.Run,
		words.Size(t.Bytes), words.Plural(t.Entries, "entry"))
	if t.Entries > 0 {
		s += fmt.Sprintf("\nfrom %s\nto %s", t.Smallest, t.Largest)
	}
	return s + "\nrate of the filter: " + rate(t.Place.FPR)
}

// keyTicks returns keys at which tables begin or end, at most about ten that are about equally far apart.
func (s *Store) keyTicks() (ticks []picture.SpanTick) {
	var all []picture.SpanTick
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Entries > 0 {
			all = append(all, picture.SpanTick{At: t.Place.From, Name: t.Smallest},
				picture.SpanTick{At: t.Place.To, Name: t.Largest})
		}
	}
	slices.SortStableFunc(all, func(a, b picture.SpanTick) int { return cmp.Compare(a.At, b.At) })
	for i, t := range all {
		if n := len(ticks); n == 0 || t.At >= ticks[n-1].At+0.1 || i == len(all)-1 && t.At > ticks[n-1].At {
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// flagged reports whether a filter of the table has a flag.
func (t *Table) flagged() bool {
	return slices.ContainsFunc(t.filters(), func(r *Filter) bool { return len(r.Flags) > 0 })
}
