package inspect

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// A document contains what is known of a file or a store, in the order in which it is shown. It is written as text or
// as a page, from the same lines, notes and tables, so that both have the same digits.
type document struct {
	title    string   // of the page
	where    string   // for the page: what was read, and when
	lede     []string // paragraphs above all else
	remarks  []string // one sentence each: how it was read, first in text and last on a page
	lines    []string // one sentence each, at the top
	notes    []picture.Note
	figures  []picture.Figure // for the page
	summary  *picture.Table
	sections []section
	data     any      // for the scripts of the page
	scripts  []string // of the page
}

// A section is a part of a document. A page adds an explanation and charts. Text has a drawing in place of the charts.
type section struct {
	id, heading string // the address and the heading on a page; a section without an id is not on the page
	label       string // the heading in text
	explain     string // for the page: paragraphs
	lines       []string
	notes       []picture.Note // for the page: notes of the document, repeated where they belong
	charts      []picture.Chart
	table       *picture.Table
	brief       *picture.Table // for text, in place of table
	draw        func(w io.Writer, color bool)
	parts       []section // folded on the page
	lead        bool      // the charts are the first thing on the page
	pageOnly    bool
}

// page returns the document as a page.
func (d *document) page() *picture.Page {
	p := &picture.Page{
		Title: d.title, Lede: strings.Join(d.lede, "\n\n"), Figures: d.figures, Notes: d.notes,
		Scripts: d.scripts, Data: d.data,
		Intro: strings.Trim(d.where+"\n\n"+sentences(d.lines), "\n"),
	}
	for i := range d.sections {
		p.Sections = append(p.Sections, d.sections[i].page())
	}
	if d.summary != nil {
		facts := picture.Section{ID: "facts", Heading: "Facts", Table: d.summary}
		at := 0 // after the sections that lead, and those of units
		for at < len(p.Sections) && (p.Sections[at].Lead || strings.Contains(p.Sections[at].ID, "unit-")) {
			at++
		}
		p.Sections = slices.Insert(p.Sections, at, facts)
	}
	if len(d.remarks) > 0 {
		about := picture.Section{ID: "about", Heading: "About this page", Text: sentences(d.remarks)}
		p.Sections = append(p.Sections, about)
	}
	return p
}

// whereabouts says what was read, on which machine, when, and by which program.
func whereabouts(name string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return words.Escaped([]byte(name), 200) + " on " + words.Escaped([]byte(host), 64) + ", read at " +
		time.Now().UTC().Format("2006-01-02 15:04:05") + " UTC by bloomkv " + Version() + "."
}

func (s *section) page() picture.Section {
	p := picture.Section{
		ID: s.id, Heading: s.heading, Text: strings.Trim(s.explain+"\n\n"+sentences(s.lines), "\n"),
		Notes: s.notes, Charts: s.charts, Table: s.table, Lead: s.lead,
	}
	for i := range s.parts {
		p.Folded = append(p.Folded, s.parts[i].page())
	}
	return p
}

// sentences returns lines as paragraphs of a page.
func sentences(lines []string) string {
	all := make([]string, len(lines))
	for i, line := range lines {
		all[i] = capital(line)
		if !strings.HasSuffix(line, ".") {
			all[i] += "."
		}
	}
	return strings.Join(all, "\n\n")
}

// capital makes the first letter of an English sentence a capital.
func capital(s string) string {
	if s != "" && 'a' <= s[0] && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// writeText writes the document as text.
func (d *document) writeText(w io.Writer, color bool) { d.write(w, Style{Color: color}) }

// write writes the document as text of a style.
func (d *document) write(w io.Writer, style Style) {
	for _, line := range slices.Concat(d.remarks, d.lines, d.lede) {
		words.Wrapped(w, line)
	}
	for _, n := range d.notes {
		writeNote(w, n, style.Color)
	}
	if d.summary != nil {
		fmt.Fprintln(w)
		writeTable(w, d.summary, words.Width)
	}
	for i := range d.sections {
		d.sections[i].writeText(w, style)
	}
}

func (s *section) writeText(w io.Writer, style Style) {
	width := cmp.Or(style.Width, words.Width)
	if s.pageOnly {
		return
	}
	fmt.Fprintln(w)
	if s.label != "" {
		words.Wrapped(w, s.label+":")
	}
	for _, line := range s.lines {
		words.Wrapped(w, line)
	}
	if s.brief != nil {
		writeTable(w, s.brief, width)
	} else if s.table != nil {
		writeTable(w, s.table, width)
	}
	if s.draw != nil {
		s.draw(w, style.Color)
	}
	for i := range s.parts {
		s.parts[i].writeText(w, style)
	}
}

// writeNote writes a note, red if something is wrong and text may have colors.
func writeNote(w io.Writer, n picture.Note, color bool) {
	text := strings.TrimSpace(n.Title + ". " + n.Text)
	if n.Wrong {
		text = strings.TrimSuffix("! "+n.Title+": "+n.Text, ": ")
	}
	if n.Wrong && color {
		fmt.Fprint(w, "\x1b[1;31m")
		defer fmt.Fprint(w, "\x1b[0m")
	}
	words.Wrapped(w, text)
}

// newTable returns a table without rows.
func newTable(caption string, head ...string) *picture.Table {
	return &picture.Table{Caption: caption, Head: head}
}

// addRow adds a row to a table.
func addRow(t *picture.Table, cells ...string) { t.Rows = append(t.Rows, cells) }

// addFact adds a row with a name and its value to a table.
func addFact(t *picture.Table, name, format string, args ...any) {
	addRow(t, name, fmt.Sprintf(format, args...))
}

// noCell is the cell of a table that has no value.
const noCell = "–"

// writeTable writes a table in columns, or if these do not fit a width, a paragraph for each row. The columns of
// numbers are aligned to the right.
func writeTable(w io.Writer, t *picture.Table, width int) {
	const indent = 2
	widths, text := make([]int, len(t.Head)), make([]bool, len(t.Head))
	apart := 2
	total := indent + apart*(len(t.Head)-1)
	for i := range t.Head {
		widths[i] = utf8.RuneCountInString(t.Head[i])
		for _, row := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			text[i] = text[i] || !isFigure(row[i])
		}
		total += widths[i]
	}
	if total > width && len(t.Head) > 2 {
		total -= len(t.Head) - 1
		apart = 1
	}
	if total > width && len(t.Head) > 2 {
		for _, row := range t.Rows {
			writeRecord(w, t.Head, row)
		}
		return
	}
	rows := t.Rows
	if len(t.Head) > 2 {
		rows = append([][]string{t.Head}, rows...)
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if text[i] {
				cells[i] = cell + fill
			} else {
				cells[i] = fill + cell
			}
		}
		line := trimRight(strings.Repeat(" ", indent) + strings.Join(cells, strings.Repeat(" ", apart)))
		if total <= width {
			fmt.Fprintln(w, line)
		} else { // of two columns
			words.Wrapped(w, line)
		}
	}
}

// isFigure reports whether a cell is a number, a share or a size.
func isFigure(cell string) bool {
	if number, unit, ok := strings.Cut(cell, " "); ok && slices.Contains(units, unit) {
		cell = number
	}
	return strings.Trim(cell, "0123456789,.+-e %"+noCell) == ""
}

// units are those of words.Size and words.MiB.
var units = []string{"byte", "bytes", "kB", "MB", "GB", "TB", "PB", "EB", "MiB"}

// writeRecord writes a row as a paragraph: the first cell, then the others with the names of their columns.
func writeRecord(w io.Writer, head, row []string) {
	var cells []string
	for i, cell := range row[1:] {
		if cell != noCell {
			cells = append(cells, head[i+1]+": "+cell)
		}
	}
	words.Wrapped(w, row[0]+": "+strings.Join(cells, "; "))
}

// cut shortens s to at most the given number of columns.
func cut(s string, columns int) string {
	runes := []rune(s)
	if len(runes) <= columns {
		return s
	}
	return string(runes[:columns-1]) + "…"
}

func trimRight(s string) string { return strings.TrimRight(s, " ") }

// figure returns a number with about five digits, and a large one without decimals and with commas.
func figure(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000 && size < math.MaxInt64:
		text := count(int64(math.Round(size)))
		if v < 0 {
			text = "-" + text
		}
		return text
	case size < 0.001 && v != 0:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.5g", v)
}

// errorFigure returns a standard error with about two digits.
func errorFigure(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// deviations returns a number of standard errors as text.
func deviations(z float64) string {
	if math.Abs(z) < 0.05 {
		z = 0 // without a sign
	}
	return fmt.Sprintf("%.1f", z)
}

// rate returns a false positive rate as text.
func rate(v float64) string { return fmt.Sprintf("%.3g", v) }

// percent returns a share as text.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// count returns an integer, 0 or more, as text with commas between thousands.
func count[N int | int64 | uint64](n N) string { return words.Count(n) }
