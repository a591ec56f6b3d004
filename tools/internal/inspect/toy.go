package inspect

import (
	_ "embed" // the toy

	"github.com/bloomkv/bloomkv/tools/picture"
)

//go:embed toy.html
var toyHTML string

//go:embed toy.js
var toyScript string

// Toy returns a page with a filter of 64 cells, to which keys can be added, to see how filters of each kind answer. If
// back is not "", the page has a link to it.
func Toy(back string) *picture.Page {
	kinds := newTable("", "kind", "where bloomkv has it")
	kinds.Rows = [][]string{
		{"classic", "package bloom, LayoutClassic"},
		{"blocked", "the filters of tables, with blocks of 512 bits, and the sets of package bloom"},
		{"partitioned", "package bloom, LayoutPartitioned"},
		{"counting", "package bloom, Counting"},
		{"two units", "the filters of tables near the top of the tree, where rates are low"},
	}
	toy := picture.Section{ID: "filter", Heading: "A filter of 64 cells", Lead: true, HTML: picture.HTML(toyHTML)}
	if back != "" {
		toy.HTML += picture.Format("<p><a href=\"%s\">Back to the store</a></p>\n", back)
	}
	return &picture.Page{
		Title: "How a filter answers", Scripts: []string{toyScript},
		Sections: []picture.Section{toy, {ID: "kinds", Heading: "Where these filters are", Table: kinds}},
	}
}
