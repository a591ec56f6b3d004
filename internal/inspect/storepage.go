package inspect

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/picture"
	"github.com/bloomkv/bloomkv/internal/words"
)

// What a page of a store has at most: more would be nothing to look at, and too much for a phone.
const (
	pagePairs = 60   // rows of overlaps
	pageBoxes = 2000 // tables in the picture of the tree
	pageRuns  = 40   // rows of it
	pageLogs  = 100  // logs, and as many other files
)

// Page is the store as a page: the tree and what its filters cost and give, then its tables, some of which, if Options.Full was
// set, are there in full.
func (s *Store) Page() *picture.Page {
	p := &picture.Page{
		Title: "bloomkv: a store",
		Intro: "Read without the store's lock: what another process changes meanwhile may look torn.",
	}
	if s.NoManifest == nil {
		p.Intro += "\n\n" + s.line() + "."
	}
	glance := picture.Section{ID: "glance", Heading: "At a glance", Text: capital(strings.TrimPrefix(s.Opening.String(), "! ")) + ".", Notes: s.notes()}
	if s.NoManifest == nil {
		glance.Table = s.rows().table("The whole tree", "what")
	}
	p.Sections = append(p.Sections, glance)
	if len(s.Loose) > 0 {
		p.Sections = append(p.Sections, s.looseSection())
	}
	if len(s.Tables) > 0 {
		p.Sections = append(p.Sections, s.treeSection(), s.wasteSection(), s.memorySection(), s.planSection())
	}
	if len(s.WhatIf) > 0 {
		p.Sections = append(p.Sections, s.whatIfSection())
	}
	if s.Overlap != nil {
		p.Sections = append(p.Sections, s.Overlap.section())
	}
	if len(s.Tables) > 0 {
		p.Sections = append(p.Sections, s.tablesSection())
	}
	p.Sections = append(p.Sections, s.Keys.sections()...)
	if len(s.Logs)+len(s.Others)+len(s.Vanished) > 0 {
		p.Sections = append(p.Sections, s.filesSection())
	}
	return p
}

// notes say what is off of the store, or that nothing is.
func (s *Store) notes() (notes []picture.Note) {
	wrong := func(title, text string) {
		notes = append(notes, picture.Note{Wrong: true, Title: title, Text: capital(text)})
	}
	for i, f := range s.Flags {
		if i == mostFlags {
			wrong("and "+words.Plural(len(s.Flags)-i, "flag")+" more", "")
			break
		}
		title := string(f.Name)
		if f.File != "" {
			title += ", " + words.Escaped([]byte(f.File), 64)
		}
		wrong(title, string(words.AppendPrintable(nil, []byte(f.Meaning))))
	}
	verified := 0
	for i := range s.Tables {
		t := &s.Tables[i]
		_, bad := t.verifyNotes()
		for _, n := range bad {
			wrong(n.Title+", "+t.File, n.Text)
		}
		if t.verified && len(bad) == 0 {
			verified++
		}
		for _, r := range t.filters() {
			for _, f := range r.Flags {
				wrong(fmt.Sprintf("%s, %s", f.Name, t.File), meaning(f))
			}
		}
	}
	if s.NoManifest != nil {
		wrong("no manifest", string(words.AppendPrintable(nil, []byte(s.NoManifest.Error))))
	} else if r := s.Opening.Refused; r != nil {
		wrong("opening is refused", string(words.AppendPrintable(nil, []byte(r.Error))))
	}
	for _, name := range s.Missing {
		wrong("missing", name+", which the manifest names")
	}
	for i := range s.Logs {
		if b := s.Logs[i].Break; b != nil && b.Opening == openingRefused {
			wrong("damaged log, "+s.Logs[i].File, b.String())
		}
	}
	if s.Torn {
		wrong("torn manifest", "its last edit is not whole: it was never acknowledged, and is not part of the store")
	}
	notes = append(notes, s.Keys.notes()...)
	if len(notes) == 0 {
		notes = append(notes, picture.Note{Title: "nothing is off"})
	}
	if verified > 0 {
		notes = append(notes, picture.Note{Title: "verified", Text: fmt.Sprintf("The filters of %s are bit for bit those of their keys.", words.Plural(verified, "table"))})
	}
	return notes
}

// rows are the figures of all of the tree.
func (s *Store) rows() *grid {
	f := &s.Tree
	g := &grid{head: []string{"", "value"}}
	for _, row := range [][2]string{
		{"runs", strconv.Itoa(f.Runs)},
		{"tables", strconv.Itoa(f.Tables)},
		{"bytes on disk", strconv.FormatUint(f.Bytes, 10)},
		{"entries", strconv.FormatUint(f.Entries, 10)},
		{"keys in filters", strconv.FormatUint(f.Keys, 10)},
		{"filters on disk", words.Plural(f.FilterDisk, "byte")},
		{"filters in memory", fmt.Sprintf("%s, %.2f bits per key", words.Plural(f.FilterBytes, "byte"), f.BitsPerKey)},
		{"wasted reads per absent key", fmt.Sprintf("promised %s, predicted %s; optimum %s and evenly %s with the same memory", rate(f.Promised), rate(f.Predicted), rate(f.Optimum), rate(f.Even))},
		{"live", liveFigure(f.Live)},
	} {
		g.add(row[0], row[1])
	}
	return g
}

// liveFigure is what the store has counted.
func liveFigure(l *Live) string {
	if l == nil {
		return "–"
	}
	return fmt.Sprintf("%s: %d false and %d true positive, %d negative, %d unfiltered", rate(l.Rate), l.FalsePositives, l.TruePositives, l.Negatives, l.Unfiltered)
}

func levelName(level int) string { return fmt.Sprintf("level %d", level) }

// tablesSection lists the tables, and has some of them in full.
func (s *Store) tablesSection() picture.Section {
	g := &grid{head: []string{"table", "level", "run", "bytes", "blocks", "entries", "deletes", "range deletes", "filter", "bits/key", "units, probes", "fill", "promised", "from the bits", "units in memory", "bytes in memory", "rate in memory", "wasted reads", "from", "to", "prefix filter, bytes, promised", "first key", "last key"}}
	section := picture.Section{ID: "tables", Heading: "Tables"}
	var links []string
	listed := s.listed()
	for i := range s.Tables {
		t := &s.Tables[i]
		id := ""
		if t.Filter != nil {
			id = fmt.Sprintf("table-%d", i)
			section.Folded = append(section.Folded, t.folded(id))
		}
		if !listed[t] && id == "" {
			continue
		}
		units, fill := t.describe()
		place := []string{"–", "–", "–", "–", "–", "–"}
		if p := t.Place; p != nil {
			place = []string{strconv.Itoa(p.Units), strconv.FormatUint(p.FilterBytes, 10), rate(p.FPR), rate(p.Wasted), percent(p.From), percent(p.To)}
		}
		row := []string{t.File, strconv.Itoa(*t.Level)}
		for _, n := range []uint64{*t.Run, t.Bytes, t.Blocks, t.Entries, t.Deletes, t.RangeDels, t.FilterBytes} {
			row = append(row, strconv.FormatUint(n, 10))
		}
		row = append(row, fmt.Sprintf("%.1f", t.BitsPerKey), cmp.Or(units, "–"), cmp.Or(fill, "–"), rate(t.FPRPromised), rate(t.FPRFromBits))
		prefix, first, last := "–", "–", "–"
		if t.Prefix != nil {
			prefix = t.Prefix.describe()
		}
		if t.Entries > 0 {
			first, last = t.Smallest, t.Largest
		}
		g.add(append(append(row, place...), prefix, first, last)...)
		links = append(links, id)
	}
	section.Text = fmt.Sprintf("%s; %d are below in full, those with something wrong and the largest of each level first.", words.Plural(len(s.Tables), "table"), len(section.Folded))
	if left := len(s.Tables) - len(g.rows); left > 0 {
		section.Text += fmt.Sprintf(" %d are not listed, --json has all.", left)
	}
	section.Text += " bloomkv inspect TABLE --html draws any one of them."
	section.Table = g.table("All tables, newest data first", "table")
	section.Table.Links = links
	return section
}

// folded is the table as a part of the store's page.
func (t *Table) folded(id string) picture.Section {
	name := words.Escaped([]byte(t.File), 64)
	return picture.Section{
		ID: id, Heading: fmt.Sprintf("%s, level %d: %s filter, rate %s", name, *t.Level, t.Filter.kind(), rate(t.FPRFromBits)),
		Text: capital(t.line()) + ".\n\n" + capital(t.Filter.line("filter")) + ".", Notes: t.notes(),
		Charts: t.Filter.charts(strings.TrimSuffix(t.File, ".sst")+"-", t.Live), Table: t.rows().table("What the table and its filter say", "what"),
	}
}

// looseSection lists the tables of a store that has no manifest.
func (s *Store) looseSection() picture.Section {
	g := &grid{head: []string{"table", "bytes", "entries", "deletes", "range deletes", "sequences", "filter", "keys", "promised", "first key", "last key", "damage"}}
	for i := range s.Loose[:min(len(s.Loose), mostListed)] {
		t := &s.Loose[i]
		row := []string{t.File}
		for _, n := range []uint64{t.Bytes, t.Entries, t.Deletes, t.RangeDels} {
			row = append(row, strconv.FormatUint(n, 10))
		}
		damage := "–"
		if t.Damage != nil {
			damage = string(words.AppendPrintable(nil, []byte(t.Damage.Error)))
		}
		g.add(append(row, fmt.Sprintf("%d to %d", t.MinSeq, t.MaxSeq), strconv.FormatUint(t.FilterBytes, 10), strconv.FormatUint(t.FilterKeys, 10), rate(t.FPRPromised), t.Smallest, t.Largest, damage)...)
	}
	section := picture.Section{
		ID: "loose", Heading: "Tables in no level", Table: g.table("What the tables say by themselves", "table"),
		Text: "In which level a table is, and whether it is part of the store at all, nobody knows without the manifest.",
	}
	if left := len(s.Loose) - len(g.rows); left > 0 {
		section.Text += fmt.Sprintf(" %d are not listed, --json has all.", left)
	}
	return section
}

// filesSection lists what is beside the tables.
func (s *Store) filesSection() picture.Section {
	g := &grid{head: []string{"file", "what it is", "bytes", "by the next opening"}}
	for i := range s.Logs[:min(len(s.Logs), pageLogs)] {
		l := &s.Logs[i]
		_, text, _ := strings.Cut(l.String(), ": ")
		if l.Break != nil {
			text += "; broken " + l.Break.String()
		}
		g.add(words.Escaped([]byte(l.File), 64), "log: "+text, strconv.FormatInt(l.Bytes, 10), "read")
	}
	for _, name := range s.Vanished {
		g.add(name, "another process removed it while this was read", "–", "–")
	}
	for _, f := range s.Others[:min(len(s.Others), pageLogs)] {
		g.add(f.File, strings.Join([]string{cmp.Or(f.Mode, f.Kind), f.Reason}, ", "), strconv.FormatInt(f.Bytes, 10), f.Fate)
	}
	section := picture.Section{ID: "files", Heading: "Other files", Table: g.table("Logs, and what else lies there", "file")}
	if left := max(0, len(s.Logs)-pageLogs) + max(0, len(s.Others)-pageLogs); left > 0 {
		section.Text = fmt.Sprintf("%d are not listed.", left)
	}
	return section
}
