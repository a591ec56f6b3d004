package picture

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's template
	"encoding/base64"
	"encoding/json"
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
// readers. A script of its own sorts tables and shows what a pointer is at; without scripts everything can be read.
type Page struct {
	Title    string
	Intro    string // paragraphs, with an empty line between two
	Sections []Section
	// Scripts are run by the browser once the page is there, in this order. They must not contain "</script".
	Scripts []string
	// Connect lets the scripts connect to the server of the page.
	Connect bool
	// Data, if it is not nil, is on the page as JSON, in the element with the ID "data". Its text is escaped.
	Data any
}

// A Section is a part of a page: text and notes, then figures, HTML, charts, a table, and folded parts.
type Section struct {
	// ID is the unique address of the section in the page: a letter, then letters, digits and '-'; not "main".
	ID      string
	Heading string
	Text    string // paragraphs, with an empty line between two
	Notes   []Note
	Figures []Figure
	// HTML is put into the page as it is: whoever made it has escaped all text in it.
	HTML   template.HTML
	Charts []Chart
	Table  *Table
	// Folded are parts of this section that show only their heading until they are opened. They cannot have folded
	// parts.
	Folded []Section
}

// A Note is a remark that must not be missed: a problem, the absence of one, or what to do. A sign and a word mark the
// difference in addition to the color.
type Note struct {
	Wrong       bool // a problem
	Serious     bool // a problem by which data may be lost or wrong
	Title, Text string
	Advice      bool // what to do
}

// A Figure is a number that is shown large: its name, its value, and a remark in small letters.
type Figure struct {
	Name, Value, Remark string
}

// A Table has a name for each column and a cell for each column in every row. The first cell names the row. Columns of
// numbers, with or without a unit, are aligned to the right.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	// Links are the IDs of the sections that the names of the rows link to: one for each row, "" for no link, or nil.
	Links []string
	// Groups are names for groups of rows: one for each row, or nil. A reader may choose one of them, here and in the
	// charts of the page.
	Groups []string
	// Main is the number of columns that are shown at once. The others are shown when the reader asks for them. 0 shows
	// all of them.
	Main int
}

// maxPage is the maximum size of a page in bytes. Browsers struggle with larger ones.
const maxPage = 32 << 20

//go:embed page.html
var pageHTML string

//go:embed page.js
var pageScript string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

var sectionID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

// The values for the template.
type (
	pageView struct {
		Title       string
		Policy      template.HTMLAttr
		Scripts     []template.JS
		Data        template.JS
		Light, Dark template.CSS
		Classes     template.CSS
		Intro       []string
		Sections    []sectionView
	}
	sectionView struct {
		ID, Heading string
		Text        []string
		Notes       []Note
		Figures     []Figure
		HTML        template.HTML
		Charts      []chartView
		Table       *tableView
		Folded      []sectionView
	}
	chartView struct {
		Name           string
		Title, Caption string
		SVGs           []template.HTML
		Inner          bool // in a folded part
		Wide           bool
	}
	tableView struct {
		Label, Caption string
		Head           []cellView
		Rows           []rowView
		More           int // columns that are not shown at once
	}
	rowView struct {
		Group string
		Cells []cellView
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
		Title: clean(p.Title), Intro: paragraphs(p.Intro), Policy: template.HTMLAttr(`content="` + p.Policy() + `"`),
	}
	for _, script := range p.scripts() {
		if strings.Contains(strings.ToLower(script), "</script") {
			return errors.New("a script contains its own end")
		}
		view.Scripts = append(view.Scripts, template.JS(script))
	}
	if p.Data != nil {
		data, err := json.Marshal(p.Data) // which escapes what would end the element
		if err != nil {
			return fmt.Errorf("the data of the page: %w", err)
		}
		view.Data = template.JS(data)
	}
	view.Light, view.Dark, view.Classes = pageColors()
	addresses := map[string]bool{mainID: true, dataID: true}
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

// scripts returns the scripts of the page, its own first.
func (p *Page) scripts() []string { return append([]string{pageScript}, p.Scripts...) }

// Policy returns the Content-Security-Policy of the page, which is also in the page: it loads nothing, and runs nothing
// but its scripts.
func (p *Page) Policy() string {
	var b strings.Builder
	b.WriteString("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src")
	for _, script := range p.scripts() {
		sum := sha256.Sum256([]byte(script))
		b.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	if p.Connect {
		b.WriteString("; connect-src 'self'")
	}
	return b.String()
}

// IDs of elements of the page: the content after the list of sections, and Page.Data.
const (
	mainID = "main"
	dataID = "data"
)

// checkLinks reports the first link to a section that does not exist.
func (p *Page) checkLinks(addresses map[string]bool) error {
	for _, s := range p.Sections {
		for _, part := range append([]Section{s}, s.Folded...) {
			for _, c := range part.Charts {
				for _, link := range c.links() {
					if !addresses[link] {
						return fmt.Errorf("section %q: chart %q links to %q, which is not a section", part.ID, c.Name,
							link)
					}
				}
			}
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
	for _, f := range s.Figures {
		v.Figures = append(v.Figures, Figure{clean(f.Name), clean(f.Value), clean(f.Remark)})
	}
	for _, n := range s.Notes {
		v.Notes = append(v.Notes, Note{n.Wrong, n.Serious, clean(n.Title), clean(n.Text), n.Advice})
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
	v := chartView{Name: c.Name, Title: clean(c.Title), Caption: clean(c.Caption), Wide: c.Wide}
	if err := c.check(); err != nil {
		return v, err
	}
	for _, layout := range []struct {
		class string
		size  size
	}{{"wide", c.size()}, {"narrow", narrow}} {
		d := c.layOut(layout.size, false)
		body := d.svg(true)
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
	if len(t.Groups) > 0 && len(t.Groups) != len(t.Rows) {
		return nil, fmt.Errorf("table %q: %d groups for %d rows", t.Caption, len(t.Groups), len(t.Rows))
	}
	v := &tableView{Caption: clean(t.Caption)}
	if t.Main > 0 {
		v.More = max(len(t.Head)-t.Main, 0)
	}
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
	for j := range classes[len(t.Head)-v.More:] {
		class := &classes[len(t.Head)-v.More+j]
		*class = strings.TrimSpace(*class + " " + classMore)
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
		row := rowView{Cells: cells}
		if len(t.Groups) > 0 {
			row.Group = clean(t.Groups[len(v.Rows)])
		}
		v.Rows = append(v.Rows, row)
	}
	return v, nil
}

// shortCell is the maximum number of characters of a cell that is kept on one line.
const shortCell = 30

// Classes of columns: long text, words, and those that are not shown at once.
const (
	classText  = "text"
	classShort = "text short"
	classMore  = "more"
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

// pageColors returns the palette as CSS variables, and the classes of charts.
func pageColors() (light, dark, classes template.CSS) {
	var l, d, c strings.Builder
	for _, p := range palette {
		fmt.Fprintf(&l, " --%s: %s;", p.name, cssHex(p.light))
		fmt.Fprintf(&d, " --%s: %s;", p.name, cssHex(p.dark))
		fmt.Fprintf(&c, ".f-%s{fill:var(--%[1]s)}.s-%[1]s{stroke:var(--%[1]s);fill:none}", p.name)
	}
	return template.CSS(l.String() + " "), template.CSS(d.String() + " "), template.CSS(c.String())
}
