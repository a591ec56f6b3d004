package picture

import (
	"bytes"
	_ "embed" // the page's template
	"fmt"
	"html"
	"html/template"
	"io"
	"regexp"
	"strings"
	"unicode"
)

// A Page is one HTML document: it loads nothing, suits a phone and a desk, light and dark, and can be listened to.
type Page struct {
	Title    string
	Intro    string // paragraphs, with an empty line between two
	Sections []Section
}

// A Section is a part of a page: text, then charts, then a table.
type Section struct {
	// ID is its address within the page: letters, digits and '-', beginning with a letter, and no other section's.
	ID      string
	Heading string
	Text    string // paragraphs, with an empty line between two
	Charts  []Chart
	Table   *Table
}

// A Table has a name for each column and as many cells in each row, the first of which names the row. Columns whose cells
// are all numbers, with or without a unit, are aligned to the right.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

var sectionID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

// What the template is filled with.
type (
	pageView struct {
		Title       string
		Light, Dark template.CSS
		Intro       []string
		Sections    []sectionView
	}
	sectionView struct {
		ID, Heading string
		Text        []string
		Charts      []chartView
		Table       *tableView
	}
	chartView struct {
		Title, Caption string
		SVGs           []template.HTML
	}
	tableView struct {
		Label, Caption string
		Head           []cellView
		Rows           [][]cellView
	}
	cellView struct {
		Cell string
		Text bool // aligned to the left
	}
)

// WriteHTML writes the page. Nothing is written if a part of it cannot be shown.
func (p *Page) WriteHTML(w io.Writer) error {
	view := pageView{Title: clean(p.Title), Intro: paragraphs(p.Intro)}
	view.Light, view.Dark = pageColors()
	ids := make(map[string]bool)
	for i := range p.Sections {
		s := &p.Sections[i]
		if !sectionID.MatchString(s.ID) || ids[s.ID] {
			return fmt.Errorf("section %d: %q is no address of its own: want a letter, then letters, digits and '-'", i+1, s.ID)
		}
		ids[s.ID] = true
		v, err := s.view()
		if err != nil {
			return fmt.Errorf("section %q: %w", s.ID, err)
		}
		view.Sections = append(view.Sections, v)
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, view); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

func (s *Section) view() (sectionView, error) {
	v := sectionView{ID: s.ID, Heading: clean(s.Heading), Text: paragraphs(s.Text)}
	for i := range s.Charts {
		c := &s.Charts[i]
		if err := c.check(); err != nil {
			return v, err
		}
		chart := chartView{Title: clean(c.Title), Caption: clean(c.Caption)}
		for _, layout := range []struct {
			class string
			size  size
		}{{"wide", wide}, {"narrow", narrow}} {
			d := c.layOut(layout.size, false)
			body, err := d.svg(true)
			if err != nil {
				return v, fmt.Errorf("chart %q: %w", c.Name, err)
			}
			// The canvas has escaped all text in the body.
			chart.SVGs = append(chart.SVGs, template.HTML(fmt.Sprintf("<svg class=%q viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n",
				layout.class, d.width.Points(), d.height.Points(), html.EscapeString(chart.Title+". "+c.summary()), body)))
		}
		v.Charts = append(v.Charts, chart)
	}
	if s.Table != nil {
		table, err := s.Table.view()
		if err != nil {
			return v, err
		}
		table.Label = nonEmpty(table.Caption, v.Heading)
		v.Table = table
	}
	return v, nil
}

func (t *Table) view() (*tableView, error) {
	if len(t.Head) == 0 {
		return nil, fmt.Errorf("table %q: no columns", t.Caption)
	}
	v := &tableView{Caption: clean(t.Caption)}
	words := make([]bool, len(t.Head)) // columns that are not numbers
	for i, row := range t.Rows {
		if len(row) != len(t.Head) {
			return nil, fmt.Errorf("table %q: row %d has %d cells, want %d", t.Caption, i+1, len(row), len(t.Head))
		}
		for j, cell := range row {
			words[j] = words[j] || !numeric(clean(cell))
		}
	}
	for j, name := range t.Head {
		v.Head = append(v.Head, cellView{clean(name), words[j]})
	}
	for _, row := range t.Rows {
		cells := make([]cellView, 0, len(row))
		for j, cell := range row {
			cells = append(cells, cellView{clean(cell), words[j]})
		}
		v.Rows = append(v.Rows, cells)
	}
	return v, nil
}

// numeric reports whether a cell is empty, a dash, or begins as a number does.
func numeric(s string) bool {
	s = strings.TrimLeft(s, "+-−–—±×<>≤≥≈~ ")
	return s == "" || unicode.IsDigit(rune(s[0]))
}

// paragraphs are what empty lines divide.
func paragraphs(s string) []string {
	var all []string
	for part := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		if part = clean(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// pageColors are the palette as variables.
func pageColors() (light, dark template.CSS) {
	var l, d strings.Builder
	for _, c := range palette {
		fmt.Fprintf(&l, " --%s: %s;", c.name, cssHex(c.light))
		fmt.Fprintf(&d, " --%s: %s;", c.name, cssHex(c.dark))
	}
	return template.CSS(l.String() + " "), template.CSS(d.String() + " ")
}
