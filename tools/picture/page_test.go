package picture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/storetest"
)

func page() *Page {
	all := charts()
	for i := range all[:5] {
		all[i].Caption = strings.Repeat("How it was measured, in a few words. ", i)
	}
	return &Page{
		Title: "Read amplification",
		Intro: "What a lookup costs.\n\nWith filters, and without.",
		Sections: []Section{
			{
				ID: "growth", Heading: "With more keys", Text: "First.\n\nSecond.", Charts: all[:2],
				Table: &Table{
					Caption: "All figures", Head: []string{
						"keys", "ns", "must", "met", "a heading of some words",
						"and one more", "another", "the_last_which_is_a_very_long_one",
					},
					Rows: [][]string{
						{"1M", "83", "≤ 1.5", "met", "–", "1", "2", "3"},
						{"5M", "120", "", "not met", "7", "1 ns", "2", "3"},
					},
				},
			},
			{ID: "rest", Heading: "The rest", Charts: all[2:]},
			{
				ID: "colors", Heading: "In colors", Notes: []Note{
					{Title: "all is well", Text: "Nothing was found."},
					{Wrong: true, Title: "fill-off", Text: "A block has more bits set than it should."},
					{Wrong: true, Serious: true, Title: "missing", Text: "A table is."},
				}, Charts: colored(),
				Table: &Table{
					Caption: "Parts", Head: []string{"part", "bytes"},
					Rows: [][]string{{"one", "1"}, {"two", "2"}}, Links: []string{"part-1", ""},
				},
				Folded: []Section{
					{
						ID: "part-1", Heading: "One", Text: "Inside.",
						Charts: all[3:4], Table: &Table{Head: []string{"a"}, Rows: [][]string{{"1"}}},
					},
					{ID: "part-2", Heading: "Two", Notes: []Note{{Wrong: true, Title: "damaged"}}},
				},
			},
		},
	}
}

func htmlOf(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	must(t, p.WriteHTML(&b))
	return b.String()
}

// elements parses a page as XML, except for its first line and elements without an end, and counts its elements.
func elements(t *testing.T, doc string) map[string]int {
	t.Helper()
	doc = regexp.MustCompile(`(?s)(<script[^>]*>).*?</script>`).ReplaceAllString(doc, "$1</script>")
	doc = regexp.MustCompile(`<input([^>]*)>`).ReplaceAllString(doc, "<input$1/>")
	doc = regexp.MustCompile(`<meta([^>]*)>`).ReplaceAllString(strings.TrimPrefix(doc, "<!DOCTYPE html>"), "<meta$1/>")
	d := xml.NewDecoder(strings.NewReader(doc))
	count := make(map[string]int)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		count[start.Name.Local]++
		has := make(map[string]string)
		for _, a := range start.Attr {
			has[a.Name.Local] = a.Value
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "src" || a.Name.Local == "href" &&
				!strings.HasPrefix(a.Value, "#") && !strings.HasPrefix(a.Value, "data:image/") {
				t.Errorf("<%s> has an attribute %s=%q", start.Name.Local, a.Name.Local, a.Value)
			}
		}
		switch start.Name.Local {
		case "svg":
			if has["class"] != "zoom" && has["class"] != "mark" && (has["role"] != "img" || has["aria-label"] == "") {
				t.Errorf("a picture that cannot be listened to: %v", has)
			}
		case "th":
			if has["scope"] != "col" && has["scope"] != "row" {
				t.Errorf("a heading of nothing: %v", has)
			}
		}
	}
}

func TestAPageIsWholeAndNeedsNothingElse(t *testing.T) {
	doc := htmlOf(t, page())
	count := elements(t, doc)
	for name, want := range map[string]int{
		"html": 1, "main": 1, "h1": 1, "h2": 3, "h3": 13, "h4": 1, "figure": 12,
		"svg":        27, // two of them to be stretched, and the mark
		"figcaption": 5, "table": 3, "caption": 2, "th": 16, "td": 16, "p": 9, "nav": 1,
		"details": 2, "summary": 2, "strong": 4, "script": 1, "link": 1, "img": 0,
	} {
		if count[name] != want {
			t.Errorf("%d <%s>, want %d", count[name], name, want)
		}
	}
	shown := regexp.MustCompile(`(?s)<script[^>]*>.*?</script>|;base64,[^"]*`).ReplaceAllString(doc, "")
	for _, outside := range []string{"http:", "https:", "url(", "@import", "//"} {
		if at := strings.Index(shown, outside); at >= 0 {
			t.Errorf("%q: …%s…", outside, shown[max(at-40, 0):min(at+40, len(shown))])
		}
	}
	policy := `content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-`
	if !strings.Contains(doc, policy) {
		t.Error("nothing forbids a browser to load what a page names")
	}
	for _, want := range []string{
		`<a href="#growth">With more keys</a>`, `<h2 id="growth">With more keys</h2>`, `<p>Second.</p>`,
		`<th scope="row">1M</th><td>83</td><td>≤ 1.5</td><td class="text short">met</td><td>–</td>`,
		`<a class="skip" href="#main">`, `<main id="main"`,
		`<div class="note"><span class="sign" aria-hidden="true">✓</span>` +
			`<p><strong>all is well.</strong> Nothing was found.</p></div>`,
		`<div class="note wrong"><span class="sign" aria-hidden="true">!</span>` +
			`<p><strong>Problem: fill-off.</strong> A block has more bits set than it should.</p></div>`,
		`<div class="note wrong serious"><span class="sign" aria-hidden="true">!</span>` +
			`<p><strong>Serious problem: missing.</strong> A table is.</p></div>`,
		`<th scope="row"><a href="#part-1">one</a></th>`, `<th scope="row">two</th>`,
		`<summary><h3>One</h3></summary>`, `<div id="part-1">`,
		`absent: 83 ns at 1M, 166 ns at 20M; lowest 83 ns, highest 166 ns of 3 points.`,
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, c := range palette {
		if strings.Count(doc, "--"+c.name+": "+cssHex(c.light)+";") != 1 ||
			strings.Count(doc, "--"+c.name+": "+cssHex(c.dark)+";") != 1 {
			t.Errorf("%s is not set for light and for dark", c.name)
		}
	}
	if fixed := regexp.MustCompile(`(fill|stroke):#`).FindString(doc); fixed != "" {
		t.Errorf("%s…: a color that stays the same in the dark", fixed)
	}
}

func TestAPageRunsItsScriptAndNothingElse(t *testing.T) {
	p := page()
	script := `document.title = "1 + 1 > 1 && 'ok'";`
	p.Scripts, p.Connect, p.Data = []string{script}, true, map[string]string{"a": hostile}
	p.Sections[0].HTML = `<p class="made">of the caller</p>`
	doc := htmlOf(t, p)
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src " + hash(pageScript) + " " +
		hash(script) + "; connect-src 'self'"
	if p.Policy() != policy {
		t.Errorf("the policy is %s, want %s", p.Policy(), policy)
	}
	for _, want := range []string{
		`content="` + policy + `"`, "<script>" + script + "</script>", string(p.Sections[0].HTML),
	} {
		if strings.Count(doc, want) != 1 {
			t.Errorf("%d times %s, want it once", strings.Count(doc, want), want)
		}
	}
	data := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(doc)
	var back map[string]string
	if data == nil || json.Unmarshal([]byte(data[1]), &back) != nil ||
		back["a"] != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("the data is %q, want that of the page", data)
	}
	p.Connect = false
	if strings.Contains(p.Policy(), "connect") {
		t.Errorf("the policy is %s, want no connections", p.Policy())
	}
	p.Scripts = []string{"</SCRIPT>"}
	if err := p.WriteHTML(io.Discard); err == nil {
		t.Error("a script that contains its end is accepted")
	}
}

func TestAPageShowsAttacksAsText(t *testing.T) {
	x := []float64{1, 2}
	p := &Page{Title: hostile, Intro: hostile, Figures: []Figure{
		{Name: hostile, Value: hostile, Remark: hostile, Taken: 3, Limit: 2},
	}, Notes: []Note{{Title: hostile, Text: hostile}}, Sections: []Section{
		{
			ID: "a", Heading: hostile, Text: hostile,
			Charts: []Chart{{
				Name: "c", Title: hostile, Caption: hostile, X: hostile, Y: hostile,
				FormatX: func(float64) string { return hostile }, Lines: []Line{{Name: hostile, X: x, Y: x}},
			}},
			Table: &Table{
				Caption: hostile, Head: []string{hostile, hostile},
				Rows: [][]string{{hostile, hostile}}, Links: []string{"c"}, Groups: []string{hostile}, Main: 1,
			},
			Notes: []Note{{Wrong: true, Title: hostile, Text: hostile}, {Advice: true, Title: "restore it"}},
			Folded: []Section{{ID: "c", Heading: hostile, Text: hostile, Charts: []Chart{
				{
					Name: "d", Title: hostile, X: hostile, Y: hostile, FormatY: func(float64) string { return hostile },
					Grid: &Grid{
						Values: [][]float64{{1, 2}}, Rows: []string{hostile},
						Columns: []string{hostile, hostile}, Labels: true,
					},
				},
				{
					Name: "e", Title: hostile, X: hostile, Y: hostile,
					Spans: &Spans{
						Rows: []SpanRow{{Name: hostile, Spans: []Span{{
							To: 1, Name: hostile, Marked: true, Title: hostile, Link: "c", Group: hostile,
						}}}},
						Ticks: []SpanTick{{0, hostile}, {1, hostile}}, Marked: hostile,
					},
				},
			}}},
		},
		{ID: "b", Heading: hostile},
	}}
	doc := htmlOf(t, p)
	count := elements(t, doc)
	if count["script"] != 1 || count["img"] != 0 || count["svg"] != 10 || // two of them to be stretched
		strings.ContainsAny(doc, "\x00\x1b\u202e\u2028") {
		t.Errorf("elements %v, want one script, no img and 10 svg", count)
	}
	if shown := html.EscapeString(clean(hostile)); !strings.Contains(doc, strings.ReplaceAll(shown, "'", "&#39;")) {
		t.Error("the text is not shown as it is")
	}
}

func TestAPageThatCannotBeShownIsAnError(t *testing.T) {
	rows, folded := [][]string{{"1"}, {"2"}}, func(parts ...Section) Section { return Section{ID: "s", Folded: parts} }
	table := func(id string, t Table) Section {
		t.Caption = "t"
		return Section{ID: id, Table: &t}
	}
	for _, tt := range []struct {
		name    string
		section Section
		want    string
	}{
		{"no address", Section{}, `section 2: ID "" is not unique or not a letter`},
		{"the other's address", Section{ID: "first"}, `section 2: ID "first" is not unique`},
		{"an address with a space", Section{ID: "a b"}, `ID "a b" is not unique or not a letter`},
		{"a table without columns", table("s", Table{}), `section "s": table "t": no columns`},
		{"a short row", table("s", Table{Head: rows[0], Rows: [][]string{{"1"}, {}}}), `row 2 has 0 cells, want 1`},
		{"the address of the content", Section{ID: "main"}, `section 2: ID "main" is not unique`},
		{
			"a part with the address of another section", folded(Section{ID: "p"}, Section{ID: "first"}),
			`section "s": section 2: ID "first" is not unique`,
		},
		{
			"parts of a part", folded(Section{ID: "p", Folded: []Section{{ID: "q"}}}),
			`section "s": section "p": a folded part has folded parts`,
		},
		{
			"a link to nowhere", folded(table("p", Table{Head: rows[0], Rows: rows, Links: []string{"s", "q"}})),
			`section "p": table "t": row 2 links to "q", which is not a section`,
		},
		{
			"links for some rows", table("s", Table{Head: rows[0], Rows: rows, Links: []string{"s"}}),
			`section "s": table "t": 1 links for 2 rows`,
		},
		{"a page too large", Section{ID: "s", Text: strings.Repeat("a", maxPage)}, "bytes, want at most 33554432"},
		{
			"a chart without points",
			Section{ID: "s", Charts: []Chart{{Name: "c", Lines: []Line{{Name: "l"}}}}},
			`section "s": chart "c": line 1, "l": no points`,
		},
	} {
		var b bytes.Buffer
		p := Page{Sections: []Section{{ID: "first"}, tt.section}}
		if err := p.WriteHTML(&b); err == nil || !strings.Contains(err.Error(), tt.want) || b.Len() > 0 {
			t.Errorf("%s: got %v and %d bytes, want an error that says %q", tt.name, err, b.Len(), tt.want)
		}
	}
}

// look is a script at the end of a page in a frame. It checks the layout and writes the result next to the frame.
const look = `<script>
for (const d of document.querySelectorAll("details")) d.open = true;
const seen = {width: innerWidth, scroll: document.documentElement.scrollWidth,
	background: getComputedStyle(document.body).backgroundColor, svgs: 0, wrong: []};
for (const svg of document.querySelectorAll("figure > svg")) {
	const box = svg.getBoundingClientRect();
	if (box.width === 0) continue;
	seen.svgs++;
	if (box.right > innerWidth) seen.wrong.push("a picture " + box.right + " px to the right");
	const scale = box.width / svg.viewBox.baseVal.width;
	const upright = [];
	for (const text of svg.querySelectorAll("text")) {
		const b = text.getBoundingClientRect(), size = parseFloat(getComputedStyle(text).fontSize) * scale;
		if (size < 11 || size > 18) seen.wrong.push(text.textContent + ": letters of " + size + " px");
		if (b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1 || b.bottom > box.bottom + 1)
			seen.wrong.push(text.textContent + ": outside its picture");
		if (b.height > 1.7 * size) continue; // rotated text
		for (const [other, o] of upright) {
			if (b.left < o.right && o.left < b.right && b.top + 3 < o.bottom && o.top + 3 < b.bottom)
				seen.wrong.push(text.textContent + ": over " + other);
		}
		upright.push([text.textContent, b]);
	}
	seen.ink = getComputedStyle(svg.querySelector("text")).fill;
}
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
if (new Set(ids).size !== ids.length) seen.wrong.push("ids twice: " + ids);
frameElement.setAttribute("data-seen", JSON.stringify(seen));
</script>
</body>`

func TestABrowserShowsThePageOnAPhoneAndOnADesk(t *testing.T) {
	browser := storetest.Browser(t)
	doc := htmlOf(t, page())
	// The policy forbids the script.
	doc = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(doc, "")
	doc = html.EscapeString(strings.Replace(doc, "</body>", look, 1))
	widths := []int{320, 390, 570, 600, 1000, 1400}
	var frames strings.Builder
	frames.WriteString(`<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>`)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range widths { // a window cannot be as narrow as a phone
			fmt.Fprintf(&frames, `<iframe style="width: %dpx; height: 900px; border: 0; color-scheme: %s" `+
				`srcdoc="%s"></iframe>`, width, scheme, doc)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "frames.html")
	must(t, os.WriteFile(file, []byte(frames.String()+"</body></html>"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--disable-dev-shm-usage", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--window-size=1400,900", "--dump-dom", "file://"+filepath.ToSlash(file))
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("%s does not run here: %v", browser, err)
	}
	found := regexp.MustCompile(`data-seen="([^"]*)"`).FindAllSubmatch(out, -1)
	if len(found) != 2*len(widths) {
		t.Fatalf("the browser shows %d frames of %d", len(found), 2*len(widths))
	}
	for i, match := range found {
		width, dark := widths[i%len(widths)], i >= len(widths)
		var seen struct {
			Width, Scroll, SVGs int
			Background, Ink     string
			Wrong               []string
		}
		must(t, json.Unmarshal([]byte(html.UnescapeString(string(match[1]))), &seen))
		if seen.Width != width || seen.Scroll > width || seen.SVGs != 12 || len(seen.Wrong) > 0 {
			t.Errorf("dark %t, a window of %d px: %d px wide, %d pictures, %q; "+
				"want %d px at most, 12 and nothing wrong", dark, seen.Width, seen.Scroll, seen.SVGs, seen.Wrong, width)
		}
		paper, letters := palette[background].light, palette[ink].light
		if dark {
			paper, letters = palette[background].dark, palette[ink].dark
		}
		if want := fmt.Sprintf("rgb(%d, %d, %d)", paper.R, paper.G, paper.B); seen.Background != want {
			t.Errorf("dark %t, %d px: the background is %s, want %s", dark, width, seen.Background, want)
		}
		if want := fmt.Sprintf("rgb(%d, %d, %d)", letters.R, letters.G, letters.B); seen.Ink != want && seen.SVGs > 0 {
			t.Errorf("dark %t, %d px: the letters are %s, want %s", dark, width, seen.Ink, want)
		}
	}
}

type name string

func (n name) String() string { return string(n) }

func TestFormatEscapesAllButNumbersAndHTML(t *testing.T) {
	got := Format("%s %v %v %d %.1f %s", "<a>", name("<b>"), errors.New("<c>"), 5, 0.5, HTML("<e>"))
	if want := "&lt;a&gt; &lt;b&gt; &lt;c&gt; 5 0.5 <e>"; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
