package inspect

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/picture"
)

func TestADocumentIsTextAndAPage(t *testing.T) {
	numbers := newTable("Numbers", "name", "n", "share")
	numbers.Rows = [][]string{{"a", "7", "1.5 %"}, {"long name", "1234", noCell}}
	wide := newTable("Wide", "file", strings.Repeat("x", 50), strings.Repeat("y", 50))
	wide.Rows = [][]string{{"1.sst", "2", "3"}, {"2.sst", noCell, "4"}}
	d := document{
		title: "title", where: "Here.", remarks: []string{"how it was read"}, lines: []string{"the first line"},
		notes: []picture.Note{problem("bad", "it is"), {Title: noProblems}},
		sections: []section{
			{
				id: "numbers", heading: "Numbers", label: "numbers", lines: []string{"a line"}, table: numbers,
				draw: func(w io.Writer, _ bool) { _, _ = io.WriteString(w, "drawn\n") },
			},
			{
				id: "wide", heading: "Wide", table: wide,
				parts: []section{{id: "part", heading: "Part", lines: []string{"a part"}}},
			},
			{id: "page", heading: "Page", lines: []string{"only there"}, pageOnly: true},
		},
	}
	const want = `how it was read
the first line
! bad: It is
No problems found.

numbers:
a line
  name          n  share
  a             7  1.5 %
  long name  1234      –
drawn

1.sst: X: 2; Y: 3
2.sst: Y: 4

a part
`
	var b strings.Builder
	d.writeText(&b, false)
	got := strings.NewReplacer(wide.Head[1], "X", "\n  "+wide.Head[2], " Y", wide.Head[2],
		"Y").Replace(b.String())
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var page bytes.Buffer
	must(t, d.page().WriteHTML(&page))
	for _, want := range []string{
		"The first line.", "Problem: bad.", "It is", "No problems found.", "A line.", "1.5 %", "1234", "A part.",
		"Only there.",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	p := d.page()
	last := p.Sections[len(p.Sections)-1]
	if p.Intro != "Here.\n\nThe first line." || last.ID != "about" || last.Text != "How it was read." {
		t.Errorf("the page begins with %q and ends with %+v, want the line first and the remark last", p.Intro, last)
	}
}
