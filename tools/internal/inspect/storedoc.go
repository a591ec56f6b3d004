package inspect

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

const (
	mostListed = 200 // tables
	mostFlags  = 20
	mostFiles  = 100 // logs, and as many other files
)

// Page returns the store as a page: the tree, what its filters take and waste, and its tables. If Options.Full was set,
// some tables are shown in full.
func (s *Store) Page() *picture.Page { return s.document().page() }

// WriteText writes what is known of the store.
func (s *Store) WriteText(w io.Writer, style Style) {
	d := s.document()
	for i := range d.sections {
		if sec := &d.sections[i]; style.Tables {
			sec.brief = nil
		} else if sec.brief != nil {
			sec.brief.Rows = cutKeys(sec.brief.Rows, cmp.Or(style.Width, words.Width))
		}
	}
	d.write(w, style)
}

func (s *Store) document() *document {
	d := &document{
		title: "bloomkv: " + words.Escaped([]byte(filepath.Base(s.dir)), 64), where: whereabouts(s.dir),
		notes: s.notes(), figures: s.figures(), data: s.searchData(), scripts: PageScripts(),
		remarks: []string{
			"read without the store's lock, so the result may be inconsistent while another process writes",
			fmt.Sprintf("%s: next file %d, sequences up to %d, logs from %d", s.Manifest, s.NextFile, s.LastSeq,
				s.MinLog),
		},
	}
	if s.Opening.Refused == nil {
		d.remarks = append(d.remarks, s.Opening.String())
	}
	if len(s.Tables) == 0 {
		d.lines = append(d.lines, "the store has no tables")
	}
	if m := s.Opening.Mark; m != "" {
		d.lines = append(d.lines, "mark of the store: "+m)
	}
	if len(s.Tables) > 0 {
		d.sections = append(d.sections, s.treeSection(), s.wasteSection(), s.memorySection(), s.planSection())
	}
	if len(s.WhatIf)+len(s.curves) > 0 {
		d.sections = append(d.sections, s.whatIfSection())
	}
	if s.Overlap != nil {
		d.sections = append(d.sections, s.Overlap.section())
	}
	if len(s.Tables) > 0 {
		d.sections = append(d.sections, s.tablesSection())
	}
	d.sections = append(d.sections, s.Keys.sections()...)
	if len(s.Logs)+len(s.Others) > 0 {
		d.sections = append(d.sections, s.filesSection())
	}
	return d
}

// figures returns the numbers of the first screen.
func (s *Store) figures() []picture.Figure {
	f := &s.Tree
	if f.Tables == 0 {
		return nil
	}
	promise := "no promise is known"
	most, _ := s.mostWasted()
	if p := s.Promise; p != nil {
		promise = rate(f.Promised) + " promised"
		if p.short() {
			most = p.Asked
			promise = fmt.Sprintf("%s asked; promised %s and %s pages of filters", rate(p.Asked), rate(f.Promised),
				rate(p.Writing.Pages))
		}
	}
	if f.Measured > 0 {
		promise += ", " + rate(f.Measured) + " measured"
	}
	return []picture.Figure{
		{
			Name: "Data", Value: words.Size(f.Bytes),
			Remark: words.Plural(f.Tables, "table") + " in " + words.Plural(f.Runs, "run"),
		},
		{
			Name: "Keys", Value: words.Count(f.Keys),
			Remark: words.Size(f.FilterBytes) + " of filters, " + fmt.Sprintf("%.1f bits a key", f.BitsPerKey),
		},
		{
			Name: "Wasted reads of an absent key", Value: rate(f.Predicted), Remark: promise, Taken: f.Predicted,
			Limit: most,
		},
	}
}

// notes returns the problems of the store, the worst first, or the note that it has no problems.
func (s *Store) notes() (notes []picture.Note) {
	seen := map[[2]string]bool{}
	add := func(n picture.Note) {
		if at := [2]string{n.Title, n.Text}; !seen[at] {
			seen[at] = true
			notes = append(notes, n)
		}
	}
	if r := s.Opening.Refused; r != nil {
		add(serious("opening the store is refused", r.Error))
	}
	for _, name := range s.Missing {
		add(serious("missing", name+", which the manifest names"))
	}
	for i := range s.Logs {
		if b := s.Logs[i].Break; b != nil && b.Opening == openingRefused {
			add(serious("damaged log, "+s.Logs[i].File, b.String()))
		}
	}
	verified := 0
	for i := range s.Tables {
		t := &s.Tables[i]
		_, bad := t.verifyNotes()
		for _, n := range bad {
			add(serious(n.Title+", "+t.File, n.Text))
		}
		if t.verified && len(bad) == 0 {
			verified++
		}
	}
	for i, f := range s.sortedFlags() {
		if f.Name == TableDamaged && slices.Contains(s.Missing, f.File) {
			continue // said already
		}
		if i >= mostFlags { // the flag at mostFlags may be one that was said already
			add(problem("and "+words.Plural(len(s.Flags)-i, "flag")+" more", ""))
			break
		}
		title := string(f.Name)
		if f.File != "" {
			title += ", " + words.Escaped([]byte(f.File), 64)
		}
		if f.Name == TableDamaged {
			add(serious(title, f.Meaning))
		} else {
			add(problem(title, f.Meaning))
		}
	}
	for i := range s.Tables {
		t := &s.Tables[i]
		for _, r := range t.filters() {
			for _, f := range r.Flags {
				add(problem(fmt.Sprintf("%s, %s", f.Name, t.File), f.Meaning))
			}
		}
	}
	if s.Torn {
		add(problem("torn manifest",
			"its last edit is incomplete: it was never acknowledged, and is not part of the store"))
	}
	denials, _ := s.Keys.denials()
	notes = append(notes, denials...)
	if len(notes) == 0 {
		notes = append(notes, picture.Note{Title: noProblems})
	} else if advice := s.advice(); advice != "" {
		notes = append(notes, picture.Note{Advice: true, Title: "What to do", Text: advice})
	}
	if verified > 0 {
		text := fmt.Sprintf("The filters of %s are bit for bit those of their keys.", words.Plural(verified, "table"))
		notes = append(notes, picture.Note{Title: "Verified", Text: text})
	}
	return notes
}

// sortedFlags returns the flags, the worst first: damage, too little memory, filters that are missing, and those that
// are worse.
func (s *Store) sortedFlags() []Flag {
	order := []FlagName{TableDamaged, FilterDamaged, MemoryShort, NoFilter, FilterWorse, WastesMore}
	sorted := slices.Clone(s.Flags)
	slices.SortStableFunc(sorted, func(a, b Flag) int {
		return cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name))
	})
	return sorted
}

// advice says what to do about the problems of the store, or nothing.
func (s *Store) advice() string {
	damaged := func(f Flag) bool { return f.Name == TableDamaged }
	short := func(f Flag) bool { return f.Name == MemoryShort }
	built := func(f Flag) bool { return f.Name != TableDamaged && f.Name != MemoryShort }
	if s.Opening.Refused != nil || len(s.Missing) > 0 || slices.ContainsFunc(s.Flags, damaged) {
		return "Restore the files that are named from a checkpoint, or save what can be read into a new store with " +
			"bloomkv salvage DIR NEW."
	}
	hides := s.hides()
	if len(s.Flags) == 0 && !hides {
		return ""
	}
	advice := "No data is lost: filters only save reads."
	if hides {
		advice = "Lookups may miss keys that are there: a filter does not match them."
	}
	if slices.ContainsFunc(s.Flags, short) {
		advice += fmt.Sprintf(" Open the store with Options.MemoryBudget of %s or more, or ask for a higher "+
			"FilterFPR; bloomkv plan --budget shows what memory keeps.", words.MiB(s.Promise.Writing.Budget))
	}
	if hides || s.sampleDamaged() { // compact does not see either
		advice += " bloomkv compact --compression s2 DIR writes all tables and filters anew."
	} else if slices.ContainsFunc(s.Flags, built) {
		advice += " bloomkv compact DIR builds all of them anew."
	} else if s.Plan.TablesOffPlan > 0 {
		advice += " bloomkv compact DIR builds smaller filters."
	}
	return advice
}

// hides reports whether a filter does not match the keys of its table, as far as these were compared.
func (s *Store) hides() bool {
	denies := func(t Table) bool {
		_, bad := t.verifyNotes()
		return len(bad) > 0
	}
	_, denied := s.Keys.denials()
	return denied != nil || slices.ContainsFunc(s.Tables, denies)
}

// sampleDamaged reports whether a table with intact filters has a damaged sample.
func (s *Store) sampleDamaged() bool {
	return slices.ContainsFunc(s.Tables,
		func(t Table) bool { return t.Damage != nil && !t.unread && !t.filterDamaged })
}

// listed returns the tables that are shown: all, or in a large store those that are flagged and then the largest.
func (s *Store) listed() (shown map[*Table]bool) {
	first := map[string]int{} // -1: flagged
	for _, f := range s.Flags {
		first[f.File] = -1
	}
	all := make([]*Table, len(s.Tables))
	for i := range s.Tables {
		all[i] = &s.Tables[i]
	}
	slices.SortStableFunc(all, func(a, b *Table) int {
		return cmp.Or(cmp.Compare(first[a.File], first[b.File]), cmp.Compare(b.Bytes, a.Bytes))
	})
	shown = map[*Table]bool{}
	for _, t := range all[:min(len(all), mostListed)] {
		shown[t] = true
	}
	return shown
}

// tablesSection lists the tables, and shows some of them in full.
func (s *Store) tablesSection() section {
	t := newTable("All tables, newest data first",
		"table", "level", "run", "bytes", "entries", "bits/key", "promised", "rate in memory", "wasted reads",
		"first key", "last key",
		"from", "to", "blocks", "deletes", "range deletes", "filter", "units, probes", "fill", "from the bits",
		"units in memory", "bytes in memory", "prefix filter", "live", "verify")
	t.Main = 11
	tables := section{id: "tables", heading: "Tables", table: t}
	tables.brief = newTable(t.Caption, "table", "level", "run", "keys", "size", "bits", "rate", "first key", "last key")
	listed := s.listed()
	for i := range s.Tables {
		id := ""
		if s.Tables[i].Filter != nil {
			id = tableID(s.Tables[i].File)
			tables.parts = append(tables.parts, s.Tables[i].part(id))
		}
		if listed[&s.Tables[i]] || id != "" {
			addRow(t, s.Tables[i].row()...)
			addRow(tables.brief, s.Tables[i].briefRow()...)
			t.Links = append(t.Links, id)
			t.Groups = append(t.Groups, levelName(*s.Tables[i].Level))
		}
	}
	tables.lines = []string{words.Plural(len(s.Tables), "table")}
	if left := len(s.Tables) - len(t.Rows); left > 0 {
		tables.lines[0] += fmt.Sprintf("; %d are not listed, only the flagged and the largest ones; --json has all",
			left)
	}
	tables.explain = fmt.Sprintf("%d are shown in full below: those with a problem and the largest of each level. "+
		"bloomkv inspect TABLE --html draws any one of them.", len(tables.parts))
	return tables
}

// tableID returns the address of a table of a store on its page.
func tableID(file string) string { return "table-" + strings.TrimSuffix(file, ".sst") }

// Shown returns the files of the tables that have a section of their own on the page.
func (s *Store) Shown() map[string]bool {
	shown := map[string]bool{}
	for i := range s.Tables {
		shown[s.Tables[i].File] = s.Tables[i].Filter != nil
	}
	return shown
}

// briefRow returns the cells of a table in a line of text: row has all.
func (t *Table) briefRow() []string {
	first, last := t.ends()
	return []string{
		t.File, count(*t.Level), count(*t.Run), count(t.Entries), words.Size(t.Bytes),
		fmt.Sprintf("%.1f", t.BitsPerKey), t.filterCell(rate(t.FPRFromBits)), first, last,
	}
}

// filterCell returns a figure of the table's filter, or why it has none.
func (t *Table) filterCell(figure string) string {
	switch {
	case t.unread:
		return "not read"
	case t.filterDamaged:
		return "damaged"
	case t.FilterBytes == 0:
		return "none"
	}
	return figure
}

// ends returns the first and the last key.
func (t *Table) ends() (first, last string) {
	if t.Entries == 0 {
		return noCell, noCell
	}
	return t.Smallest, t.Largest
}

// cutKeys cuts the keys at the end of rows, so that the rows fit a width if these are of the usual length.
func cutKeys(rows [][]string, width int) [][]string {
	const others, shortest = 56, 8 // columns before the keys, and of a key
	for _, row := range rows {
		for i := len(row) - 2; i < len(row); i++ {
			row[i] = cut(row[i], max((width-others)/2, shortest))
		}
	}
	return rows
}

// row returns the cells of a table among others.
func (t *Table) row() []string {
	p, prefix, verdict := t.Place, noCell, noCell
	if t.Prefix != nil {
		prefix = t.Prefix.describe()
	}
	if t.verified {
		verdict = t.Verify.verdict()
		if t.Prefix != nil && t.Prefix.Verify != nil {
			verdict += "; prefix filter: " + t.Prefix.Verify.verdict()
		}
	}
	units, fill := t.describeUnits()
	first, last := t.ends()
	return []string{
		t.File, count(*t.Level), count(*t.Run), count(t.Bytes), count(t.Entries), fmt.Sprintf("%.1f", t.BitsPerKey),
		rate(t.FPRPromised), rate(p.FPR), rate(p.Wasted), first, last,
		percent(p.From), percent(p.To), count(t.Blocks), count(t.Deletes), count(t.RangeDels),
		t.filterCell(count(t.FilterBytes)), units, fill, rate(t.FPRFromBits),
		count(p.Units), count(p.FilterBytes), prefix, t.Live.String(), verdict,
	}
}

// levelName is the name of a level, in the tables and charts of a page.
func levelName(level int) string { return fmt.Sprintf("level %d", level) }

// part returns the table as a part of the store's page.
func (t *Table) part(id string) section {
	name := words.Escaped([]byte(t.File), 64)
	return section{
		id: id, notes: t.notes(), table: t.summary(), pageOnly: true,
		heading: fmt.Sprintf("%s, level %d: %s filter, rate %s",
			name, *t.Level, t.Filter.kindName(), rate(t.FPRFromBits)),
		charts: t.Filter.charts(strings.TrimSuffix(t.File, ".sst") + "-"),
	}
}

// filesSection lists the logs, and the files that are not part of the store.
func (s *Store) filesSection() section {
	t := newTable("Logs, and files that are not part of the store", "file", "kind", "bytes", "when opened", "details")
	for i := range s.Logs[:min(len(s.Logs), mostFiles)] {
		l := &s.Logs[i]
		_, text, _ := strings.Cut(l.String(), ": ")
		if l.Break != nil {
			text += "; broken " + l.Break.String()
		}
		addRow(t, words.Escaped([]byte(l.File), 64), "log", count(l.Bytes), "replayed", text)
	}
	for _, f := range s.Others[:min(len(s.Others), mostFiles)] {
		addRow(t, f.File, cmp.Or(f.Mode, f.Kind), count(f.Bytes), f.Fate, f.Reason)
	}
	files := section{id: "files", heading: "Other files", label: "other files", table: t}
	if left := max(0, len(s.Logs)-mostFiles) + max(0, len(s.Others)-mostFiles); left > 0 {
		files.lines = []string{fmt.Sprintf("%d are not listed", left)}
	}
	return files
}
