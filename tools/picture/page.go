package picture

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the style and the script of the page
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Page is an HTML document that loads nothing else. It suits phones and desktops, light and dark mode, and screen
// readers. A script of its own sorts tables and shows what a pointer is at; without scripts everything can be read.
type Page struct {
	Title   string
	Figures []Figure // beside the title
	Lede    string   // paragraphs above all else, the first in large letters
	Notes   []Note   // problems are above the sections, and the first other note is beside the title
	Intro   string   // paragraphs, with an empty line between two; below a section that leads
	// Sections are in order. The first may lead.
	Sections []Section
	// Scripts are run by the browser once the page is there, in this order. They must not contain "</script".
	Scripts []string
	// Connect lets the scripts connect to the server of the page.
	Connect bool
	// Data, if it is not nil, is on the page as JSON, in the element with the ID "data". Its text is escaped.
	Data any
}

// A Section is a part of a page: text and notes, then HTML, charts, a table, and folded parts.
type Section struct {
	// ID is the unique address of the section in the page: a letter, then letters, digits and '-'; not "main".
	ID      string
	Heading string
	Text    string // paragraphs, with an empty line between two
	Notes   []Note
	// Lead makes the charts the first thing on the page, without a visible heading, and with the text below them.
	Lead bool
	// HTML is put into the page as it is: whoever made it has escaped all text in it.
	HTML   HTML
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
	Caution     bool // not a problem, but something was not read
}

// A Figure is a number that is shown large: its name, its value, and a remark in small letters. With a limit, a gauge
// below it shows which part of the limit is taken.
type Figure struct {
	Name, Value, Remark string
	Taken, Limit        float64
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

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageScript string

// WriteHTML writes the page. If any part of it is invalid, it writes nothing and returns an error.
func (p *Page) WriteHTML(w io.Writer) error {
	d := doc{addresses: map[string]bool{"main": true, "data": true, "figures": true}} // of elements of every page
	light, dark, classes := pageColors()
	d.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<link rel="icon" href="data:image/svg+xml;base64,%s"/>
<style>
:root {%s}
@media (prefers-color-scheme: dark) { :root {%s} }
%s%s
</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<div class="top">
<div class="name">%s<h1>%s</h1></div>
`, HTML(p.Policy()), clean(p.Title), base64.StdEncoding.EncodeToString([]byte(iconSVG)), light, dark, HTML(pageCSS),
		classes, HTML(markSVG),
		clean(p.Title))
	if len(p.Figures) > 0 {
		d.put("<dl class=\"figures\" id=\"figures\">\n%s</dl>\n", Figures(p.Figures))
	}
	fine := slices.IndexFunc(p.Notes, func(n Note) bool { return !n.Wrong && !n.Advice })
	if fine >= 0 {
		d.note(&p.Notes[fine])
	}
	d.put("</div>\n")
	if len(p.Sections) > 1 {
		d.put("<nav aria-label=\"Sections\" tabindex=\"0\"><ul>\n")
		for i := range p.Sections {
			d.put("<li><a href=\"#%s\">%s</a></li>\n", p.Sections[i].ID, clean(p.Sections[i].Heading))
		}
		d.put("</ul></nav>\n")
	}
	d.put("</header>\n<main id=\"main\" tabindex=\"-1\">\n")
	d.paragraphs("lede", p.Lede)
	for i := range p.Notes {
		if i != fine {
			d.note(&p.Notes[i])
		}
	}
	lead := len(p.Sections) > 0 && p.Sections[0].Lead
	if !lead {
		d.paragraphs("intro", p.Intro)
	}
	for i := range p.Sections {
		if err := d.section(&p.Sections[i], i, false); err != nil {
			return err
		}
		if i == 0 && lead {
			d.paragraphs("intro", p.Intro)
		}
	}
	d.put("</main>\n")
	if err := d.checkLinks(); err != nil {
		return err
	}
	if p.Data != nil {
		data, err := json.Marshal(p.Data) // which escapes what would end the element
		if err != nil {
			return fmt.Errorf("the data of the page: %w", err)
		}
		d.put("<script type=\"application/json\" id=\"data\">%s</script>\n", HTML(data))
	}
	for _, script := range p.scripts() {
		if strings.Contains(strings.ToLower(script), "</script") {
			return errors.New("a script contains its own end")
		}
		d.put("<script>%s</script>\n", HTML(script))
	}
	d.put("</body>\n</html>\n")
	if d.Len() > maxPage {
		return fmt.Errorf("the page has %d bytes, want at most %d", d.Len(), maxPage)
	}
	_, err := d.WriteTo(w)
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

// A doc is a page that is being written.
type doc struct {
	bytes.Buffer

	addresses map[string]bool // IDs of sections
	links     []link
}

// A link leads to a section, whose ID is to.
type link struct{ from, to string }

func (d *doc) put(format string, args ...any) { d.WriteString(string(Format(format, args...))) }

// HTML is text in which all that was not written by the program is escaped.
type HTML string

// Format formats like fmt.Sprintf, and escapes all arguments that are neither HTML nor numbers. Attributes must have
// quotes.
func Format(format string, args ...any) HTML {
	for i, a := range args {
		switch a.(type) {
		case HTML, int, uint64, float64:
		default:
			args[i] = HTML(html.EscapeString(fmt.Sprint(a)))
		}
	}
	return HTML(fmt.Sprintf(format, args...))
}

// when returns some HTML, or nothing.
func when(there bool, s HTML) HTML {
	if there {
		return s
	}
	return ""
}

// checkLinks reports the first link to a section that does not exist.
func (d *doc) checkLinks() error {
	for _, l := range d.links {
		if !d.addresses[l.to] {
			return fmt.Errorf("%s links to %q, which is not a section", l.from, l.to)
		}
	}
	return nil
}

// section writes section i of the page, or folded part i of a section.
func (d *doc) section(s *Section, i int, inner bool) error {
	if !isName(s.ID, "-") || s.ID[0] <= '9' || d.addresses[s.ID] {
		return fmt.Errorf("section %d: ID %q is not unique or not a letter followed by letters, digits and '-'",
			i+1, s.ID)
	}
	d.addresses[s.ID] = true
	if heading := clean(s.Heading); inner {
		d.put("<details>\n<summary><h3>%s</h3></summary>\n<div id=\"%s\">\n", heading, s.ID)
	} else {
		class := when(s.Lead, ` class="lead"`)
		d.put("<section%s aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n", class, s.ID, s.ID, heading)
	}
	err := d.parts(s, inner)
	if inner {
		d.put("</div>\n</details>\n")
	} else {
		for i := range s.Folded {
			err = cmp.Or(err, d.section(&s.Folded[i], i, true))
		}
		d.put("</section>\n")
	}
	if err != nil {
		return fmt.Errorf("section %q: %w", s.ID, err)
	}
	return nil
}

// parts writes what a section has besides its heading and folded parts.
func (d *doc) parts(s *Section, inner bool) error {
	if inner && len(s.Folded) > 0 {
		return errors.New("a folded part has folded parts")
	}
	if !s.Lead {
		d.paragraphs("", s.Text)
	}
	for i := range s.Notes {
		d.note(&s.Notes[i])
	}
	d.put("%s", s.HTML)
	if len(s.Charts) > 0 {
		d.put("<div class=\"charts\">\n")
		for i := range s.Charts {
			if err := d.chart(&s.Charts[i], s.ID, inner); err != nil {
				return err
			}
		}
		d.put("</div>\n")
	}
	if s.Lead {
		d.paragraphs("", s.Text)
	}
	if s.Table != nil {
		return d.table(s.Table, s)
	}
	return nil
}

// paragraphs writes a text that has an empty line between two of its paragraphs.
func (d *doc) paragraphs(class, text string) {
	for _, p := range paragraphs(text) {
		d.put("<p%s>%s</p>\n", when(class != "", Format(` class="%s"`, class)), p)
	}
}

// Figures returns what the list of a page's figures contains.
func Figures(all []Figure) (list HTML) {
	for _, f := range all {
		list += Format("<div><dt>%s</dt><dd class=\"value\">%s</dd>", clean(f.Name), clean(f.Value))
		if f.Limit > 0 {
			list += Format("<dd>%s</dd>", gauge(f.Taken/f.Limit))
		}
		list += Format("%s</div>\n", when(f.Remark != "", Format("<dd class=\"remark\">%s</dd>", clean(f.Remark))))
	}
	return list
}

// gauge draws a part of a limit, which has a line across. What is above the limit has another color.
func gauge(part float64) HTML {
	const limit, most = 120.0, 160.0
	end := min(part*limit, most)
	return Format(`<svg class="gauge" viewBox="0 0 160 8" role="img" aria-label="%s %% of the limit">`+
		`<rect class="track" y="2" width="160" height="4" rx="2"/><rect y="2" width="%.1f" height="4" rx="2"/>`+
		`<rect class="over" x="120" y="2" width="%.1f" height="4"/><path d="M120 0v8"/></svg>`,
		Number(100*part), min(end, limit), max(end-limit, 0))
}

func (d *doc) note(n *Note) {
	class, sign, title := "note", "✓", clean(n.Title)
	switch {
	case n.Serious:
		class, sign, title = "note wrong serious", "!", "Serious problem: "+title
	case n.Wrong:
		class, sign, title = "note wrong", "!", "Problem: "+title
	case n.Advice:
		class, sign = "note advice", "→"
	case n.Caution:
		class, sign, title = "note caution", "!", "Caution: "+title
	}
	d.put("<div class=\"%s\"><span class=\"sign\" aria-hidden=\"true\">%s</span><p><strong>%s.</strong>%s</p></div>\n",
		class, sign, title, when(n.Text != "", Format(" %s", clean(n.Text))))
}

// HTML returns the chart as it is on a page.
func (c *Chart) HTML() (HTML, error) {
	var d doc
	err := d.chart(c, "", false)
	return HTML(d.String()), err
}

// chart draws the chart in both layouts.
func (d *doc) chart(c *Chart, section string, inner bool) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Spans != nil {
		for _, span := range c.Spans.all() {
			if span.Link != "" {
				d.links = append(d.links, link{fmt.Sprintf("section %q: chart %q", section, c.Name), span.Link})
			}
		}
	}
	title, tag := clean(c.Title), HTML("h3")
	if inner {
		tag = "h4"
	}
	d.put("<figure data-name=\"%s\"%s>\n<%s>%s</%s>\n", c.Name, when(c.Wide, ` class="full"`), tag, title, tag)
	for i, class := range []string{"wide", "narrow"} {
		drawn := c.layOut([]size{c.size(), narrow}[i], false)
		d.put("<svg class=\"%s\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n", class, drawn.width,
			drawn.height, title+". "+c.summary(), HTML(drawn.svg(true)))
	}
	if c.Caption != "" {
		d.put("<figcaption>%s</figcaption>\n", clean(c.Caption))
	}
	d.put("</figure>\n")
	return nil
}

func (d *doc) table(t *Table, s *Section) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("table %q: %w", t.Caption, fmt.Errorf(format, args...))
	}
	switch {
	case len(t.Head) == 0:
		return fail("no columns")
	case len(t.Links) > 0 && len(t.Links) != len(t.Rows):
		return fail("%d links for %d rows", len(t.Links), len(t.Rows))
	case len(t.Groups) > 0 && len(t.Groups) != len(t.Rows):
		return fail("%d groups for %d rows", len(t.Groups), len(t.Rows))
	}
	for i, row := range t.Rows {
		if len(row) != len(t.Head) {
			return fail("row %d has %d cells, want %d", i+1, len(row), len(t.Head))
		}
	}
	d.put("<div class=\"scroll\" role=\"region\" aria-label=\"%s\" tabindex=\"0\">\n",
		nonEmpty(clean(t.Caption), clean(s.Heading)))
	if t.Main > 0 && t.Main < len(t.Head) {
		d.put("<p class=\"tools\"><label><input type=\"checkbox\" class=\"all\"> %d more columns</label></p>\n",
			len(t.Head)-t.Main)
	}
	d.put("<table>\n")
	if t.Caption != "" {
		d.put("<caption>%s</caption>\n", clean(t.Caption))
	}
	classes := t.classes()
	d.put("<thead><tr>")
	for j, name := range t.Head {
		d.put("<th scope=\"col\"%s>%s</th>", classes[j], clean(name))
	}
	d.put("</tr></thead>\n<tbody>\n")
	for i, row := range t.Rows {
		d.put("<tr")
		if len(t.Groups) > 0 {
			d.put(" data-group=\"%s\"", clean(t.Groups[i]))
		}
		name := Format("%s", clean(row[0]))
		if len(t.Links) > 0 && t.Links[i] != "" {
			d.links = append(d.links, link{
				fmt.Sprintf("section %q: table %q: row %d", s.ID, t.Caption, i+1), t.Links[i],
			})
			name = Format("<a href=\"#%s\">%s</a>", t.Links[i], name)
		}
		d.put("><th scope=\"row\">%s</th>", name)
		for j, cell := range row[1:] {
			d.put("<td%s>%s</td>", classes[j+1], clean(cell))
		}
		d.put("</tr>\n")
	}
	d.put("</tbody>\n</table>\n</div>\n")
	return nil
}

// classes returns the class attribute of each column: long text, words, and those that are not shown at once.
func (t *Table) classes() []HTML {
	all := make([]HTML, len(t.Head))
	for j := range t.Head {
		var class string
		for _, row := range t.Rows {
			switch cell := clean(row[j]); {
			case utf8.RuneCountInString(cell) > shortCell:
				class = "text"
			case !numeric(cell) && class == "":
				class = "text short"
			}
		}
		if t.Main > 0 && j >= t.Main {
			class = strings.TrimSpace(class + " more")
		}
		all[j] = when(class != "", Format(` class="%s"`, class))
	}
	return all
}

// shortCell is the maximum number of characters of a cell that is kept on one line.
const shortCell = 30

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
func pageColors() (light, dark, classes HTML) {
	var l, d, c strings.Builder
	for _, p := range palette {
		fmt.Fprintf(&l, " --%s: %s;", p.name, cssHex(p.light))
		fmt.Fprintf(&d, " --%s: %s;", p.name, cssHex(p.dark))
		fmt.Fprintf(&c, ".f-%s{fill:var(--%[1]s)}.s-%[1]s{stroke:var(--%[1]s);fill:none}", p.name)
	}
	return HTML(l.String() + " "), HTML(d.String() + " "), HTML(c.String())
}
