package inspect

import (
	"cmp"
	_ "embed" // the script of the film
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

//go:embed film.js
var filmScript string

// mostPlayed is the number of tables of a film. A manifest with more is of a store with many tables.
const mostPlayed = 20_000

const mostPoints = 500 // of a line

// A film shows what the edits of a manifest did to the tables of the store, one step after the other. Edits that change
// no table are no steps. The script reads it by the names in JSON.
type film struct {
	Tables []filmTable `json:"tables"` // all that ever were
	Steps  []filmStep  `json:"steps"`
	Slots  []int       `json:"slots"` // the rows of each level: the most runs that it has at a time

	live   map[uint64]filmPlace               // by number
	runs   [manifest.NumLevels]map[uint64]int // tables of each run
	levels [manifest.NumLevels]uint64         // bytes
	counts struct{ flushes, merges, flushed, merged uint64 }
}

// A filmTable is a table. It lies between From and To of the keys, 0 to 1.
type filmTable struct {
	File  string  `json:"file"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Rate  float64 `json:"rate"` // that its filter promises
	Title string  `json:"title"`

	*manifest.Table `json:"-"`
}

// A filmStep is what one edit did.
type filmStep struct {
	Offset  int64       `json:"offset"` // of its record in the manifest
	What    string      `json:"what"`
	Added   []filmPlace `json:"added"`
	Removed []int       `json:"removed"` // tables

	levels [manifest.NumLevels]uint64 // bytes after the step
}

// A filmPlace says where a table is in the tree.
type filmPlace struct {
	Table int    `json:"table"`
	Level int    `json:"level"`
	Run   uint64 `json:"run"` // a newer one of the level is larger
}

// add adds a step for an edit that changes tables. An edit that does not fit those before it is the last one, and adds
// nothing.
func (f *film) add(e *manifest.Edit, offset int64) {
	begins := f.live == nil
	if begins {
		f.live, f.Slots = map[uint64]filmPlace{}, make([]int, manifest.NumLevels)
		for l := range f.runs {
			f.runs[l] = map[uint64]int{}
		}
	}
	if len(e.Added)+len(e.Deleted) == 0 || len(f.Tables) > mostPlayed {
		return
	}
	s := filmStep{Offset: offset, Added: []filmPlace{}, Removed: []int{}}
	gone := map[uint64]filmPlace{}
	for _, d := range e.Deleted {
		t, ok := f.live[d.Number]
		if !ok {
			return
		}
		gone[d.Number] = t
	}
	s.What = f.describe(e, gone, begins)
	for _, d := range e.Deleted {
		t := gone[d.Number]
		s.Removed = append(s.Removed, t.Table)
		delete(f.live, d.Number)
		f.levels[t.Level] -= f.Tables[t.Table].Size
		if f.runs[t.Level][t.Run]--; f.runs[t.Level][t.Run] == 0 {
			delete(f.runs[t.Level], t.Run)
		}
	}
	for _, a := range e.Added {
		p := filmPlace{len(f.Tables), a.Level, a.Run}
		if t, moved := gone[a.Table.Number]; moved {
			p.Table = t.Table
		} else {
			f.Tables = append(f.Tables, filmTable{
				File: filename.Base(filename.Table, a.Table.Number), Rate: rateOf(a.Table), Table: a.Table,
			})
		}
		s.Added = append(s.Added, p)
		f.live[a.Table.Number] = p
		f.levels[a.Level] += a.Table.Size
		f.runs[a.Level][a.Run]++
	}
	for l, runs := range f.runs {
		f.Slots[l] = max(f.Slots[l], len(runs))
	}
	s.levels = f.levels
	f.Steps = append(f.Steps, s)
}

func rateOf(t *manifest.Table) float64 {
	if t.FilterLen == 0 {
		return 1
	}
	return t.FilterRate
}

// describe says what an edit does, and counts it. The manifest begins with the first one.
func (f *film) describe(e *manifest.Edit, gone map[uint64]filmPlace, first bool) string {
	var in, out uint64 // bytes
	var from []string  // levels
	for _, t := range gone {
		in += f.Tables[t.Table].Size
		from = append(from, levelName(t.Level))
	}
	slices.Sort(from)
	levels := strings.Join(slices.Compact(from), " and ")
	moved := len(e.Added) > 0
	for _, a := range e.Added {
		out += a.Table.Size
		_, was := gone[a.Table.Number]
		moved = moved && was
	}
	one := func(n int, yes, no string) string {
		if n == 1 {
			return yes
		}
		return no
	}
	some := func(n int, bytes uint64) string {
		return words.Plural(n, "table") + " of " + words.Size(bytes)
	}
	to := func() string { return levelName(e.Added[0].Level) }
	// Only an import has the sequence number of new data and removes tables, or adds some below level 0.
	lower := slices.ContainsFunc(e.Added, func(a manifest.Added) bool { return a.Level > 0 })
	imports := e.LastSeq > 0 && (len(gone) > 0 || lower)
	switch {
	case first:
		return "The manifest begins with " + some(len(e.Added), out)
	case imports && len(gone) > 0:
		return "An import brings " + some(len(e.Added), out) + ", in place of " + some(len(gone), in)
	case imports:
		return "An import brings " + some(len(e.Added), out)
	case len(e.Added) == 0:
		return some(len(gone), in) + " of " + levels +
			one(len(gone), " is removed: no reader needs it", " are removed: no reader needs them")
	case len(gone) == 0 && e.Added[0].Table.Flags&manifest.SeqOverridden != 0:
		return "An ingest adds " + some(len(e.Added), out) + " to " + to()
	case len(gone) == 0:
		f.counts.flushes++
		f.counts.flushed += out
		return "A flush writes " + some(len(e.Added), out) + " to " + to()
	case moved:
		return some(len(gone), in) + " of " + levels + one(len(gone), " moves", " move") + " to " + to() +
			" without being read"
	default:
		f.counts.merges++
		f.counts.merged += out
		return fmt.Sprintf("A compaction merges %s of %s into %s of %s", some(len(gone), in), levels,
			some(len(e.Added), out), to())
	}
}

// place gives all tables their places among the keys.
func (f *film) place() {
	all := make([]bloomkv.TableMetrics, len(f.Tables))
	for i, t := range f.Tables {
		all[i] = bloomkv.TableMetrics{Smallest: t.Smallest, Largest: t.Upper(), Entries: t.Entries}
	}
	for i, p := range spreadTables(all) {
		t := &f.Tables[i]
		t.From, t.To = p.From, p.To
		t.Title = fmt.Sprintf("%s: %s, %s\n%s … %s\nrate promised by the filter: %s", t.File, words.Size(t.Size),
			words.Plural(t.Entries, "entry"), words.Escaped(t.Smallest, 32), words.Escaped(t.Largest, 32), rate(t.Rate))
	}
}

// after returns where the tables are after the first n steps.
func (f *film) after(n int) map[int]filmPlace {
	live := map[int]filmPlace{}
	for i := range f.Steps[:n] {
		for _, t := range f.Steps[i].Removed {
			delete(live, t)
		}
		for _, p := range f.Steps[i].Added {
			live[p.Table] = p
		}
	}
	return live
}

// charts draws the tables after the last step that leaves some, in the rows in which the script plays all steps, and
// what each level had after each step.
func (f *film) charts() []picture.Chart {
	last := len(f.Steps)
	for ; last > 0 && sum(f.Steps[last-1].levels[:]) == 0; last-- {
	}
	if last == 0 {
		return nil
	}
	for slices.Max(f.Slots) > 1 && sum(f.Slots) > pageRuns {
		f.Slots[slices.Index(f.Slots, slices.Max(f.Slots))]--
	}
	spans := &picture.Spans{Scale: treeScale}
	var first [manifest.NumLevels]int // rows
	for l, n := range f.Slots {
		first[l] = len(spans.Rows)
		spans.Rows = append(spans.Rows, make([]picture.SpanRow, n)...)
		if n > 0 {
			spans.Rows[first[l]].Name = levelName(l)
		}
	}
	live := slices.SortedFunc(maps.Values(f.after(last)), func(a, b filmPlace) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(b.Run, a.Run), cmp.Compare(a.Table, b.Table))
	})
	row, boxes := 0, 0
	each := (len(live)-1)/pageBoxes + 1 // tables in a box; the script draws every table
	for i, p := range live {
		above := row
		if i == 0 || live[i-1].Level != p.Level {
			row = first[p.Level]
		} else if live[i-1].Run != p.Run {
			row = min(row+1, first[p.Level]+f.Slots[p.Level]-1)
		}
		if row != above {
			boxes = 0
		}
		t, in := &f.Tables[p.Table], &spans.Rows[row].Spans
		if boxes%each == 0 {
			*in = append(*in, picture.Span{
				From: t.From, To: t.To, Value: t.Rate, Title: t.Title, ID: t.File, Group: levelName(p.Level),
			})
		} else {
			box := &(*in)[len(*in)-1]
			box.From, box.To, box.Value = min(box.From, t.From), max(box.To, t.To), max(box.Value, t.Rate)
			box.Title, box.ID = box.Title+"\n"+t.File, box.ID+" "+t.File
		}
		boxes++
	}
	tree := picture.Chart{
		Name: "film", Title: "Tables over the keys, a row for each run", X: "keys in order", Wide: true,
		Y: "rate promised by the filter", FormatY: rate, Spans: spans,
		Caption: "Width: share of the keys, estimated from the bounds of all tables. Dark boxes, or bright ones in " +
			"the dark, let more absent keys through. Outlined: what the step has written. Pale: what it has removed.",
	}
	sizes := picture.Chart{
		Name: "sizes", Title: "Bytes of tables after each step", X: "step", Y: "bytes", Wide: true,
		FormatY: func(v float64) string { return words.Size(uint64(v)) },
	}
	every := (len(f.Steps)-1)/mostPoints + 1
	for l, n := range f.Slots {
		if n == 0 {
			continue
		}
		line := picture.Line{Name: levelName(l), Kind: picture.Curve}
		for i := 0; i < len(f.Steps); i += every {
			line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, float64(f.Steps[i].levels[l]))
		}
		sizes.Lines = append(sizes.Lines, line)
	}
	return []picture.Chart{tree, sizes}
}

func sum[N int | uint64](numbers []N) (n N) {
	for _, i := range numbers {
		n += i
	}
	return n
}

// Page returns the manifest as a page that plays its edits.
func (m *Manifest) Page() *picture.Page { return m.document().page() }

func (m *Manifest) document() *document {
	d := &document{title: "bloomkv: " + words.Escaped([]byte(m.File), 64), where: whereabouts(m.name)}
	f := &m.film
	f.place()
	switch {
	case m.Break != nil && m.Break.Opening == openingRefused:
		d.notes = append(d.notes, serious("damaged", m.Break.String()+"; the edits before that are shown"))
	case m.Break != nil:
		d.notes = append(d.notes, problem("torn", m.Break.String()))
	case m.Error != "":
		d.notes = append(d.notes, serious("damaged", m.Error+"; the edits before that are shown"))
	}
	switch charts := f.charts(); {
	case len(f.Tables) > mostPlayed:
		d.lines = append(d.lines, "the manifest has too many tables to show them: bloomkv inspect prints its edits")
	case charts == nil:
		d.lines = append(d.lines, "no edit of the manifest adds a table")
	default:
		d.data, d.scripts = f, []string{filmScript}
		d.figures = f.figures()
		d.sections = append(d.sections, section{
			id: "film", heading: "The tree after each step", charts: charts[:1], lead: true,
			explain: "Each step is an edit of the manifest: a flush, a compaction, or another change of the tables. " +
				"A manifest begins with the tables of its moment: when a store is opened, or the last one is full.",
		}, section{id: "sizes", heading: "Sizes", charts: charts[1:]}, f.stepsSection())
	}
	return d
}

// figures returns the numbers of the first screen.
func (f *film) figures() []picture.Figure {
	c := &f.counts
	return []picture.Figure{
		{Name: "Flushes", Value: count(c.flushes), Remark: words.Size(c.flushed) + " written"},
		{Name: "Compactions", Value: count(c.merges), Remark: words.Size(c.merged) + " written"},
		{Name: "Tables at the end", Value: count(len(f.live)), Remark: words.Size(sum(f.levels[:]))},
	}
}

// stepsSection lists the steps.
func (f *film) stepsSection() section {
	t := newTable("", "step", "what", "at", "tables after it", "bytes after it")
	tables := 0
	for i := range f.Steps {
		s := &f.Steps[i]
		tables += len(s.Added) - len(s.Removed)
		if i >= len(f.Steps)-mostListed {
			addRow(t, count(i+1), s.What, count(s.Offset), count(tables), words.Size(sum(s.levels[:])))
		}
	}
	t.Caption = "The steps, with the offsets of their records in the manifest"
	if len(f.Steps) > mostListed {
		t.Caption = fmt.Sprintf("The last %d steps of %s, with the offsets of their records in the manifest",
			mostListed, count(len(f.Steps)))
	}
	return section{id: "steps", heading: "Steps", table: t}
}
