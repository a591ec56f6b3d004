package inspect

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv/internal/words"
)

const (
	treeWidth = 60 // columns of the picture of a tree
	mostRuns  = 64 // rows of it
)

// drawTree draws a row for each run: its tables where their keys lie among those of the store, a digit for what their filters let
// through.
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
	words.Wrapped(w, fmt.Sprintf("a column is a %dth of the keys of the store, in their order, so that a table is as wide as the share of absent keys "+
		"for which it is asked; n is a filter that lets at most one in 10ⁿ of them through (0: more than one in ten; !: there is no filter), of several "+
		"tables in a column the worst; [ and ] are the ends of a table that is wide enough", treeWidth))
}

// A cell is a column of a row of the picture.
type cell struct {
	there bool
	worst float64 // rate of the tables in it
	edge  string  // empty is none
}

// place puts a table into its row.
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

// heat is the background of a digit, in 256 colors: red for what lets all through to blue for what lets next to nothing through.
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

// writeLevels writes what filters cost and what they give, level by level.
func (s *Store) writeLevels(w io.Writer) {
	rows := func(each func(name string, f *Figures)) {
		for i := range s.Levels {
			each(strconv.Itoa(s.Levels[i].Level), &s.Levels[i].Figures)
		}
		each("all", &s.Tree)
	}
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nfilters, in bytes:\n")
	fmt.Fprint(t, "level\truns\ttables\tkeys\ttables' bytes\tfilters\tin memory\tbits/key\t\n")
	rows(func(name string, f *Figures) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.2f\t\n", name, f.Runs, f.Tables, f.Keys, f.Bytes, f.FilterDisk, f.FilterBytes, f.BitsPerKey)
	})
	t.Flush()
	fmt.Fprint(w, "\nwasted reads by a lookup of an absent key, for the filters in memory:\n")
	fmt.Fprint(t, "level\tpromised\tpredicted\toptimum\tevenly\tlive, a run\t\n")
	rows(func(name string, f *Figures) {
		promised, live := "-", "-"
		if f.Promised > 0 {
			promised = fmt.Sprintf("%.3g", f.Promised)
		}
		if f.Live != nil {
			live = fmt.Sprintf("%.3g", f.Live.Rate)
		}
		fmt.Fprintf(t, "%s\t%s\t%.3g\t%.3g\t%.3g\t%s\t\n", name, promised, f.Predicted, f.Optimum, f.Even, live)
	})
	t.Flush()
	words.Wrapped(w, "absent keys are taken to lie as those lie that there are. Optimum is the least that so much memory can waste in these runs, "+
		"evenly what it would with as many bits for each key, and live the rate that lookups found")
}

// writeMemory writes what is in memory.
func (s *Store) writeMemory(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nmemory, with all tables loaded, in bytes:\n")
	for _, part := range s.Memory.parts() {
		fmt.Fprintf(t, "  %s\t%12d\t%s\n", part.name, part.bytes, part.when)
	}
	t.Flush()
}

// A memoryPart is one part of what is in memory, or a sum, or what is not.
type memoryPart struct {
	name  string
	bytes uint64
	when  string // it is read
}

// parts are the parts, then the sum, and then what is not in memory.
func (m *Memory) parts() []memoryPart {
	return []memoryPart{
		{"filters of keys", m.Filters, "read in the background, or by the first lookup"},
		{"prefix filters", m.PrefixFilters, "read by the first scan that asks them"},
		{"indexes", m.Indexes, "read with the filters"},
		{"range deletes", m.RangeDeletes, "read with the indexes"},
		{"bounds of tables", m.Fences, "from the manifest, when the store is opened"},
		{"all", m.Sum, "of these"},
		{"not in memory:", m.FiltersOnDisk, "units of filters that levels do not need"},
		{"", m.SamplesOnDisk, "samples, read for compactions"},
	}
}

// writeText writes what another plan would cost and give.
func (f *WhatIf) writeText(w io.Writer, now *Figures) {
	fmt.Fprintf(w, "\nwhat if %s: %s filters, %.3g promised\n", words.Cut(f.Asked, words.KeyLimit), f.Kind, f.FPR)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "level\tkeys\tbits/key\tbytes\twasted reads\t\n")
	for _, l := range f.Levels {
		fmt.Fprintf(t, "%d\t%d\t%.2f\t%d\t%.3g\t\n", l.Level, l.Keys, l.BitsPerKey, l.Bytes, l.Wasted)
	}
	t.Flush()
	words.Wrapped(w, f.line(now))
}

// line is what it would take and give.
func (f *WhatIf) line(now *Figures) string {
	more, how := f.More, "more"
	if more < 0 {
		more, how = -more, "fewer"
	}
	return fmt.Sprintf("filters would take %s in memory, %d %s than now, and a lookup of an absent key would waste %.3g reads, now %.3g",
		words.Plural(f.Bytes, "byte"), more, how, f.Wasted, now.Predicted)
}
