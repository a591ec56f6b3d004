package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/vfs"
)

// A ForeignStore contains the facts of all tables in a directory of another store, with their names in JSON. It reads
// no manifest, so it may have tables that are not part of the store anymore.
type ForeignStore struct {
	Tables  int             `json:"tables"`
	Bytes   uint64          `json:"bytes"`
	Entries uint64          `json:"entries"` // of the tables that record or count them
	Filters uint64          `json:"filter_bytes"`
	Keys    float64         `json:"filter_keys"`      // recorded, counted or estimated
	PerKey  float64         `json:"bits_per_key"`     // over the tables with filters
	Rate    float64         `json:"fpr_from_bits"`    // mean, weighted by keys
	Between float64         `json:"fpr_between_keys"` // the same, measured
	Asked   uint64          `json:"absent_keys_asked"`
	Best    float64         `json:"fpr_same_memory"` // of the best filters of bloomkv with as many bits per key
	All     []Foreign       `json:"all_tables"`      // by name
	Unread  []ForeignUnread `json:"unread_tables"`

	dir       string
	uncounted int     // tables whose entries are neither recorded nor counted
	asked     float64 // keys of the tables whose rate between keys is measured
	hits      uint64  // absent keys of Asked that passed

	with, without, blind int // tables with a filter, without one, and with one that cannot be read or has unknown keys
}

// A ForeignUnread is a table that cannot be read.
type ForeignUnread struct {
	File  string `json:"file"` // escaped
	Error string `json:"error"`

	bytes uint64
	err   error
}

// ReadForeignStore reads the tables in a directory of another store. It returns ErrNotForeign for a directory with the
// manifest of a bloomkv store, and for one that has no other tables.
func ReadForeignStore(ctx context.Context, dir string, o Options) (*ForeignStore, error) {
	if _, err := manifest.Load(vfs.OS, dir); err == nil {
		return nil, ErrNotForeign
	}
	names, err := vfs.OS.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	recognized := 0 // tables of other stores, also those that cannot be read
	s := &ForeignStore{dir: cmp.Or(o.Path, dir), All: []Foreign{}, Unread: []ForeignUnread{}}
	for _, name := range names {
		if !isForeignName(name) {
			continue
		}
		f, err := readForeign(ctx, filepath.Join(dir, name), o, foreignMany)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			text := string(words.AppendPrintable(nil, []byte(err.Error())))
			s.Unread = append(s.Unread, ForeignUnread{
				words.Escaped([]byte(name), 64), text, sizeOf(filepath.Join(dir, name)), err,
			})
		default:
			f.Properties = []foreign.Property{} // they are only for a table by itself
			s.All = append(s.All, *f)
		}
		if err == nil || errors.Is(err, foreign.ErrUnknown) || errors.Is(err, corrupt.Err) {
			recognized++
		}
	}
	if 2*recognized <= len(s.All)+len(s.Unread) { // also without any
		return nil, ErrNotForeign
	}
	s.sum()
	return s, nil
}

// IsForeignStore reports whether a directory has a table of another store that can be read, and no manifest of a
// bloomkv store.
func IsForeignStore(dir string) bool {
	if _, err := manifest.Load(vfs.OS, dir); err == nil {
		return false
	}
	names, _ := vfs.OS.List(dir)
	return slices.ContainsFunc(names, func(name string) bool { return IsForeignTable(filepath.Join(dir, name)) })
}

// IsForeignTable reports whether a file is a table of another store.
func IsForeignTable(name string) bool {
	return isForeignName(name) && withForeign(name, func(*foreign.Table) error { return nil }) == nil
}

// isForeignName reports whether a file has a name that other stores give to tables.
func isForeignName(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".ldb" || ext == ".sst"
}

// sizeOf returns the size of a file in bytes, or 0.
func sizeOf(name string) uint64 {
	info, err := vfs.OS.Stat(name)
	if err != nil {
		return 0
	}
	return uint64(max(info.Size(), 0))
}

// Wrong returns the errors of damage, or nil.
func (s *ForeignStore) Wrong() error {
	var errs []error
	for i := range s.All {
		errs = append(errs, s.All[i].Wrong())
	}
	for _, u := range s.Unread {
		if !errors.Is(u.err, foreign.ErrUnknown) && !errors.Is(u.err, ErrNotForeign) {
			errs = append(errs, u.err)
		}
	}
	return errors.Join(errs...)
}

// Page returns the tables as a page.
func (s *ForeignStore) Page() *picture.Page { return s.document().page() }

// WriteText writes what is known of the tables.
func (s *ForeignStore) WriteText(w io.Writer, style Style) { s.document().writeText(w, style.Color) }

func (s *ForeignStore) document() *document {
	d := &document{
		title: "bloomkv: filters of " + s.stores(), where: whereabouts(s.dir), lede: s.lede(), notes: s.notes(),
		figures: s.figures(), lines: []string{
			fmt.Sprintf("%s of %s; the manifest is not read, so some may no longer belong to the store",
				words.Plural(s.Tables, "table"), s.stores()),
		},
	}
	d.summary = newTable("All tables", "what", "value")
	addFact(d.summary, "files", "%s", words.Plural(s.Bytes, "byte"))
	if s.uncounted > 0 {
		addFact(d.summary, "entries", "%s, without those of %s", count(s.Entries), words.Plural(s.uncounted, "table"))
	} else {
		addFact(d.summary, "entries", "%s", count(s.Entries))
	}
	if s.Keys > 0 {
		addFact(d.summary, "filters", "%s for %s keys, %.1f bits per key", words.Plural(s.Filters, "byte"),
			count(uint64(math.Round(s.Keys))), s.PerKey)
		between := noCell
		if s.asked > 0 {
			between = rate(s.Between)
		}
		addFact(d.summary, "rate", "from bits %s, measured between keys %s; means, weighted by keys", rate(s.Rate),
			between)
	}
	d.sections = append(d.sections, s.tableSections()...)
	d.sections = append(d.sections, s.keySections()...)
	return d
}

// stores returns the names of the stores.
func (s *ForeignStore) stores() string {
	var all []string
	for i := range s.All {
		if !slices.Contains(all, s.All[i].Store) {
			all = append(all, s.All[i].Store)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "another store")
}

// notes returns the problems, what was not read, and what is not known.
func (s *ForeignStore) notes() (notes []picture.Note) {
	alone := s.dir == ""
	var tables, filters, facts []string
	for i := range s.All {
		f := &s.All[i]
		name := ""
		if !alone {
			name = words.Escaped([]byte(f.File), 64)
		}
		for _, n := range f.problems() {
			n.Title = strings.TrimSuffix(n.Title+", "+name, ", ")
			notes = append(notes, n)
		}
		if f.Filter != nil && f.Filter.Unread != "" && f.Wrong() == nil {
			filters = append(filters, f.Filter.Unread)
		}
		for _, n := range f.Notes {
			facts = append(facts, strings.TrimPrefix(name+": "+n, ": "))
		}
	}
	for _, u := range s.Unread {
		if errors.Is(u.err, corrupt.Err) {
			notes = append(notes, serious("damaged, "+u.File, u.Error))
		} else {
			tables = append(tables, u.Error)
		}
	}
	if left := len(notes) - mostFlags; left > 0 {
		notes = append(notes[:mostFlags], problem("and "+words.Plural(left, "problem")+" more", ""))
	}
	title := func(what string, n, of int) string {
		were := "were"
		if n == 1 {
			were = "was"
		}
		return fmt.Sprintf("%s%d of %s %s not read", what, n, words.Plural(of, "table"), were)
	}
	of, unread, known := len(s.All)+len(s.Unread), "The filter was not read", "Not known"
	if !alone {
		unread, known = title("The filters of ", len(filters), of), fmt.Sprintf("Not known of %d of %s", len(facts),
			words.Plural(of, "table"))
	}
	notes = slices.Concat(notes, cautions(title("", len(tables), of), tables), cautions(unread, filters),
		cautions(known, facts))
	if len(notes) == 0 {
		notes = append(notes, picture.Note{Title: noProblems, Text: "All was read."})
	}
	return notes
}

// worst returns the tables, those that let most absent keys through first.
func (s *ForeignStore) worst() []*Foreign {
	all := make([]*Foreign, len(s.All))
	for i := range s.All {
		all[i] = &s.All[i]
	}
	slices.SortStableFunc(all, func(a, b *Foreign) int { return cmp.Compare(b.passes(), a.passes()) })
	return all
}

// mostDrawn is the number of tables whose filters are drawn on the page of a directory.
const mostDrawn = 8

// tableSections shows a box and a row for each table, the worst first, and draws the filters of the worst.
func (s *ForeignStore) tableSections() []section {
	t := newTable("", "table", "format", "bytes", "entries", "filter", "bits per key", "fill", "from bits",
		"between keys")
	list := section{id: "tables", heading: "Tables", label: "tables", table: t, explain: "Each table and its filter, " +
		"the worst first. In large tables some data blocks are read, evenly spread."}
	worst := s.worst()
	var boxes []picture.Span
	for i, f := range worst {
		id := ""
		if charts := f.charts(fmt.Sprintf("table-%d-", i)); len(charts) > 0 && len(list.parts) < mostDrawn {
			id = fmt.Sprintf("table-%d", i)
			list.parts = append(list.parts, section{
				id: id, heading: fmt.Sprintf("%s: %s, %s of absent keys let through",
					words.Escaped([]byte(f.File), 64), f.Filter.Kind, share(f.passes())),
				explain: f.aboutBits(), charts: charts, table: f.summary(), pageOnly: true,
			})
		}
		boxes = append(boxes, f.box(id))
		if b := &boxes[i]; b.To == 0 {
			b.To = s.likely(f.Bytes)
		}
		if len(t.Rows) < mostListed {
			t.Rows, t.Links = append(t.Rows, f.row()), append(t.Links, id)
		}
	}
	for _, u := range s.Unread {
		title := u.Error
		if errors.Is(u.err, corrupt.Err) {
			title = "damaged: " + title
		}
		boxes = append(boxes, picture.Span{Name: u.File, Value: picture.NoValue, Title: title, To: s.likely(u.bytes)})
		if len(t.Rows) < mostListed {
			row := slices.Repeat([]string{noCell}, len(t.Head))
			row[0], row[2], row[4] = u.File, count(u.bytes), "not read"
			t.Rows, t.Links = append(t.Rows, row), append(t.Links, "")
		}
	}
	if left := len(boxes) - len(t.Rows); left > 0 {
		list.lines = []string{fmt.Sprintf("%d more are not listed; --json has all", left)}
	}
	if len(boxes) == 0 {
		return []section{list}
	}
	return []section{{
		id: "overview", heading: "The filters", charts: []picture.Chart{overview(boxes)}, lead: true, pageOnly: true,
	}, list}
}

// likely returns the number of entries that a table of unknown contents would have if it was like the others.
func (s *ForeignStore) likely(bytes uint64) float64 {
	known, entries := s.Bytes, float64(s.Entries)
	for i := range s.All {
		if s.All[i].Entries == 0 {
			known -= s.All[i].Bytes
		}
	}
	if entries == 0 || known == 0 {
		return float64(bytes)
	}
	return float64(bytes) * entries / float64(known)
}

// overview draws a box for each table, as wide as its To.
func overview(boxes []picture.Span) picture.Chart {
	const inRow, mostRows = 16, 12
	shown := boxes[:min(len(boxes), pageBoxes)]
	rows := min((len(shown)+inRow-1)/inRow, mostRows)
	each := (len(shown) + rows - 1) / rows
	spans := &picture.Spans{Scale: picture.Scale{Low: 1e-4, High: 1, Log: true, Unknown: "not read"}}
	longest := 0.0
	for from := 0; from < len(shown); from += each {
		row := picture.SpanRow{Spans: shown[from:min(from+each, len(shown))]}
		at := 0.0
		for i := range row.Spans {
			b := &row.Spans[i]
			b.From, b.To = at, at+max(b.To, 1)
			at = b.To
		}
		longest = max(longest, at)
		spans.Rows = append(spans.Rows, row)
	}
	for i := range spans.Rows {
		for j := range spans.Rows[i].Spans {
			b := &spans.Rows[i].Spans[j]
			b.From, b.To = b.From/longest, min(b.To/longest, 1)
		}
	}
	c := picture.Chart{
		Name: "overview", Title: "The tables, the worst filter first", X: "share of the entries of all tables",
		Wide: true, Y: "absent keys let through", FormatY: share, Spans: spans,
		Caption: "A box is a table, as wide as its share of the entries. Dark boxes, or bright ones in the dark, let " +
			"more absent keys through; a table without a filter lets all of them through.",
	}
	if left := len(boxes) - len(shown); left > 0 {
		c.Caption += fmt.Sprintf(" %s with better filters are not drawn.", words.Plural(left, "table"))
	}
	return c
}

// keySections shows for each key the tables that cover it.
func (s *ForeignStore) keySections() (all []section) {
	if len(s.All) == 0 {
		return nil
	}
	for i, first := range s.All[0].Answers {
		t := newTable("", "table", "the filter says", "the table has", "so")
		negative, left := 0, 0
		for k := range s.All {
			a := &s.All[k].Answers[i]
			answer := "is not asked"
			if a.Asked {
				answer, _ = verdict(a.Maybe, false)
			}
			switch {
			case a.Verdict == "negative":
				negative++
			case len(t.Rows) == mostListed:
				left++
			default:
				addRow(t, words.Escaped([]byte(s.All[k].File), 64), answer, a.Found, a.Verdict)
			}
		}
		key := section{
			id: fmt.Sprintf("key%d", i+1), heading: "One key", label: "key " + first.Key,
			explain: "Every table is asked.",
			lines:   []string{"the filter says no, rightly, in " + words.Plural(negative, "table")},
		}
		if len(t.Rows) > 0 {
			key.table = t
		}
		if left > 0 {
			key.lines = append(key.lines, fmt.Sprintf("%d more are not listed; --json has all", left))
		}
		all = append(all, key)
	}
	return all
}
