package picture

import (
	"bytes"
	_ "embed" // the page's template
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Page is one HTML document: it loads nothing, suits a phone and a desk, light and dark, and can be listened to.
type Page struct {
	Title    string
	Intro    string // paragraphs, with an empty line between two
	Sections []Section
}

// A Section is a part of a page: text and notes, then charts, then a table, and then what is folded.
type Section struct {
	// ID is its address within the page: letters, digits and '-', beginning with a letter, and no other section's; not "main".
	ID      string
	Heading string
	Text    string // paragraphs, with an empty line between two
	Notes   []Note
	Charts  []Chart
	Table   *Table
	// Folded are parts of this section of which at first only the heading is shown. They have none themselves.
	Folded []Section
}

// A Note is a remark that nobody should miss: that something is wrong, or that nothing is. A sign and a word tell which, beside
// the color.
type Note struct {
	Wrong       bool
	Title, Text string
}

// A Table has a name for each column and as many cells in each row, the first of which names the row. Columns whose cells
// are all numbers, with or without a unit, are aligned to the right.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	// Links are the addresses of the sections that the names of the rows lead to: none, or one for each row, "" for nowhere.
	Links []string
}

// maxPage is how many bytes a page may have: what is larger is nothing to look at in a browser.
const maxPage = 32 << 20

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
		Notes       []Note
		Charts      []chartView
		Table       *tableView
		Folded      []sectionView
	}
	chartView struct {
		Title, Caption string
		SVGs           []template.HTML
		Inner          bool // in what is folded
	}
	tableView struct {
		Label, Caption string
		Head           []cellView
		Rows           [][]cellView
	}
	cellView struct {
		Cell  string
		Class string // of its column
		Link  string // address of a section
	}
)

// WriteHTML writes the page. Nothing is written if a part of it cannot be shown.
func (p *Page) WriteHTML(w io.Writer) error {
	view := pageView{Title: clean(p.Title), Intro: paragraphs(p.Intro)}
	view.Light, view.Dark = pageColors()
	addresses := map[string]bool{mainID: true}
	for i := range p.Sections {
		v, err := p.Sections[i].view(i, addresses, false)
		if err != nil {
			return err
		}
		view.Sections = append(view.Sections, v)
	}
	if err := p.checkLinks(addresses); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, view); err != nil {
		return err
	}
	if b.Len() > maxPage {
		return fmt.Errorf("a page of %d bytes, want %d at most", b.Len(), maxPage)
	}
	_, err := b.WriteTo(w)
	return err
}

// mainID is the address of what comes after the list of sections.
const mainID = "main"

// checkLinks reports the first link that leads nowhere.
func (p *Page) checkLinks(addresses map[string]bool) error {
	for _, s := range p.Sections {
		for _, part := range append([]Section{s}, s.Folded...) {
			if part.Table == nil {
				continue
			}
			for i, link := range part.Table.Links {
				if link != "" && !addresses[link] {
					return fmt.Errorf("section %q: table %q: row %d leads to %q, which is no section", part.ID, part.Table.Caption, i+1, link)
				}
			}
		}
	}
	return nil
}

// view checks section i of the page, or of the parts of one, and draws it. Its address is added to those of the page.
func (s *Section) view(i int, addresses map[string]bool, inner bool) (sectionView, error) {
	v := sectionView{ID: s.ID, Heading: clean(s.Heading), Text: paragraphs(s.Text)}
	if !sectionID.MatchString(s.ID) || addresses[s.ID] {
		return v, fmt.Errorf("section %d: %q is no address of its own: want a letter, then letters, digits and '-'", i+1, s.ID)
	}
	addresses[s.ID] = true
	fail := func(err error) (sectionView, error) { return v, fmt.Errorf("section %q: %w", s.ID, err) }
	for _, n := range s.Notes {
		v.Notes = append(v.Notes, Note{n.Wrong, clean(n.Title), clean(n.Text)})
	}
	for i := range s.Charts {
		chart, err := s.Charts[i].view()
		if err != nil {
			return fail(err)
		}
		chart.Inner = inner
		v.Charts = append(v.Charts, chart)
	}
	if s.Table != nil {
		table, err := s.Table.view()
		if err != nil {
			return fail(err)
		}
		table.Label = nonEmpty(table.Caption, v.Heading)
		v.Table = table
	}
	if inner && len(s.Folded) > 0 {
		return fail(errors.New("folded parts of what is folded"))
	}
	for i := range s.Folded {
		part, err := s.Folded[i].view(i, addresses, true)
		if err != nil {
			return fail(err)
		}
		v.Folded = append(v.Folded, part)
	}
	return v, nil
}

// view draws the chart in both layouts.
func (c *Chart) view() (chartView, error) {
	v := chartView{Title: clean(c.Title), Caption: clean(c.Caption)}
	if err := c.check(); err != nil {
		return v, err
	}
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
		v.SVGs = append(v.SVGs, template.HTML(fmt.Sprintf("<svg class=%q viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n",
			layout.class, d.width.Points(), d.height.Points(), html.EscapeString(v.Title+". "+c.summary()), body)))
	}
	return v, nil
}

func (t *Table) view() (*tableView, error) {
	if len(t.Head) == 0 {
		return nil, fmt.Errorf("table %q: no columns", t.Caption)
	}
	if len(t.Links) > 0 && len(t.Links) != len(t.Rows) {
		return nil, fmt.Errorf("table %q: %d links for %d rows", t.Caption, len(t.Links), len(t.Rows))
	}
	v := &tableView{Caption: clean(t.Caption)}
	classes := make([]string, len(t.Head))
	for i, row := range t.Rows {
		if len(row) != len(t.Head) {
			return nil, fmt.Errorf("table %q: row %d has %d cells, want %d", t.Caption, i+1, len(row), len(t.Head))
		}
		for j, cell := range row {
			switch cell = clean(cell); {
			case utf8.RuneCountInString(cell) > shortCell:
				classes[j] = classText
			case !numeric(cell) && classes[j] == "":
				classes[j] = classShort
			}
		}
	}
	for j, name := range t.Head {
		v.Head = append(v.Head, cellView{Cell: clean(name), Class: classes[j]})
	}
	for _, row := range t.Rows {
		cells := make([]cellView, 0, len(row))
		for j, cell := range row {
			cells = append(cells, cellView{Cell: clean(cell), Class: classes[j]})
		}
		if len(t.Links) > 0 {
			cells[0].Link = t.Links[len(v.Rows)]
		}
		v.Rows = append(v.Rows, cells)
	}
	return v, nil
}

// shortCell is how many characters are kept in one line; a cell of more is broken.
const shortCell = 30

// The classes of columns that are not numbers: of text that may be long, and of words.
const (
	classText  = "text"
	classShort = "text short"
)

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
