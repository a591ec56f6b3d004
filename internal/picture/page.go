package picture

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's template
	"encoding/base64"
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

// A Page is an HTML document that loads nothing else. It suits phones and desktops, light and dark mode, and screen
// readers.
type Page struct {
	Title    string
	Intro    string // paragraphs, with an empty line between two
	Sections []Section
	// Script, if it is not empty, is run by the browser once the page is there. It may connect to the server of the
	// page, and to nothing else. It must not contain "</script".
	Script string
}

// A Section is a part of a page: text and notes, then HTML, then charts, then a table, then folded parts.
type Section struct {
	// ID is the unique address of the section in the page: a letter, then letters, digits and '-'; not "main".
	ID      string
	Heading string
	Text    string // paragraphs, with an empty line between two
	Notes   []Note
	// HTML is put into the page as it is: whoever made it has escaped all text in it.
	HTML   template.HTML
	Charts []Chart
	Table  *Table
	// Folded are parts of this section that show only their heading until they are opened. They cannot have folded
	// parts.
	Folded []Section
}

// A Note is a remark that must not be missed: a problem, or the absence of one. A sign and a word mark the
// difference in addition to the color.
type Note struct {
	Wrong       bool
	Title, Text string
}

// A Table has a name for each column and a cell for each column in every row. The first cell names the row. Columns of
// numbers, with or without a unit, are aligned to the right.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	// Links are the IDs of the sections that the names of the rows link to: one for each row, "" for no link, or nil.
	Links []string
}

// maxPage is the maximum size of a page in bytes. Browsers struggle with larger ones.
const maxPage = 32 << 20

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

var sectionID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

// The values for the template.
type (
	pageView struct {
		Title       string
		Policy      template.HTMLAttr
		Script      template.JS
		Light, Dark template.CSS
		Intro       []string
		Sections    []sectionView
	}
	sectionView struct {
		ID, Heading string
		Text        []string
		Notes       []Note
		HTML        template.HTML
		Charts      []chartView
		Table       *tableView
		Folded      []sectionView
	}
	chartView struct {
		Title, Caption string
		SVGs           []template.HTML
		Inner          bool // in a folded part
	}
	tableView struct {
		Label, Caption string
		Head           []cellView
		Rows           [][]cellView
	}
	cellView struct {
		Cell  string
		Class string // class of its column
		Link  string // ID of a section
	}
)

// WriteHTML writes the page. If any part of it is invalid, it writes nothing and returns an error.
func (p *Page) WriteHTML(w io.Writer) error {
	view := pageView{
		Title: clean(p.Title), Intro: paragraphs(p.Intro), Script: template.JS(p.Script),
		Policy: template.HTMLAttr(`content="` + p.Policy() + `"`),
	}
	if strings.Contains(strings.ToLower(p.Script), "</script") {
		return errors.New("the script contains its own end")
	}
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
		return fmt.Errorf("the page has %d bytes, want at most %d", b.Len(), maxPage)
	}
	_, err := b.WriteTo(w)
	return err
}

// Policy returns the Content-Security-Policy of the page, which is also in the page: it loads nothing, and runs nothing
// but its script.
func (p *Page) Policy() string {
	policy := "default-src 'none'; style-src 'unsafe-inline'"
	if p.Script == "" {
		return policy
	}
	sum := sha256.Sum256([]byte(p.Script))
	return policy + "; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; connect-src 'self'"
}

// mainID is the ID of the content after the list of sections.
const mainID = "main"

// checkLinks reports the first link to a section that does not exist.
func (p *Page) checkLinks(addresses map[string]bool) error {
	for _, s := range p.Sections {
		for _, part := range append([]Section{s}, s.Folded...) {
			if part.Table == nil {
				continue
			}
			for i, link := range part.Table.Links {
				if link != "" && !addresses[link] {
					return fmt.Errorf("section %q: table %q: row %d links to %q, which is not a section",
						part.ID, part.Table.Caption, i+1, link)
				}
			}
		}
	}
	return nil
}

// view checks and draws section i of the page, or folded part i of a section, and adds its ID to addresses.
func (s *Section) view(i int, addresses map[string]bool, inner bool) (sectionView, error) {
	v := sectionView{ID: s.ID, Heading: clean(s.Heading), Text: paragraphs(s.Text), HTML: s.HTML}
	if !sectionID.MatchString(s.ID) || addresses[s.ID] {
		return v, fmt.Errorf("section %d: ID %q is not unique or not a letter followed by letters, digits and '-'",
			i+1, s.ID)
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
		return fail(errors.New("a folded part has folded parts"))
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
		v.SVGs = append(v.SVGs,
			template.HTML(fmt.Sprintf("<svg class=%q viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n",
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

// shortCell is the maximum number of characters of a cell that is kept on one line.
const shortCell = 30

// Classes of columns that are not numbers: long text and words.
const (
	classText  = "text"
	classShort = "text short"
)

// numeric reports whether a cell is empty, a dash, or starts like a number.
func numeric(s string) bool {
	s = strings.TrimLeft(s, "+-−–—±×<>≤≥≈~ ")
	return s == "" || unicode.IsDigit(rune(s[0]))
}

// paragraphs splits a text at empty lines.
func paragraphs(s string) []string {
	var all []string
	for part := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		if part = clean(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// pageColors returns the palette as CSS variables.
func pageColors() (light, dark template.CSS) {
	var l, d strings.Builder
	for _, c := range palette {
		fmt.Fprintf(&l, " --%s: %s;", c.name, cssHex(c.light))
		fmt.Fprintf(&d, " --%s: %s;", c.name, cssHex(c.dark))
	}
	return template.CSS(l.String() + " "), template.CSS(d.String() + " ")
}
