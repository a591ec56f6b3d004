package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	All     []Foreign       `json:"all_tables"`       // by name
	Unread  []ForeignUnread `json:"unread_tables"`

	dir       string
	uncounted int     // tables whose entries are neither recorded nor counted
	asked     float64 // keys of the tables whose rate between keys is measured
}

// A ForeignUnread is a table that cannot be read.
type ForeignUnread struct {
	File  string `json:"file"` // escaped
	Error string `json:"error"`

	err error
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
		if ext := filepath.Ext(name); ext != ".ldb" && ext != ".sst" {
			continue
		}
		f, err := readForeign(ctx, filepath.Join(dir, name), o, foreignMany)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			text := string(words.AppendPrintable(nil, []byte(err.Error())))
			s.Unread = append(s.Unread, ForeignUnread{words.Escaped([]byte(name), 64), text, err})
		default:
			s.add(f)
		}
		if err == nil || errors.Is(err, foreign.ErrUnknown) || errors.Is(err, corrupt.Err) {
			recognized++
		}
	}
	if 2*recognized <= len(s.All)+len(s.Unread) { // also without any
		return nil, ErrNotForeign
	}
	s.finish()
	return s, nil
}

// add adds a table to the sums. Properties are only for a table by itself.
func (s *ForeignStore) add(f *Foreign) {
	f.Properties, f.Facts.Properties = []ForeignProperty{}, nil
	s.All = append(s.All, *f)
	s.Tables++
	s.Bytes += f.Bytes
	s.Entries += f.Entries
	if f.Entries == 0 && (f.Exam == nil || !f.Exam.Complete) {
		s.uncounted++
	}
	if f.Filter == nil || f.Exam == nil || f.Exam.BitsPerKey == 0 {
		return
	}
	keys := 8 * float64(f.Filter.Bytes) / f.Exam.BitsPerKey
	s.Filters += f.Filter.Bytes
	s.Keys += keys
	s.Rate += keys * f.Exam.FromBits
	if f.Exam.Between != nil {
		s.asked += keys
		s.Between += keys * f.Exam.Between.Rate
	}
}

func (s *ForeignStore) finish() {
	if s.Keys > 0 {
		s.PerKey = 8 * float64(s.Filters) / s.Keys
		s.Rate /= s.Keys
	}
	if s.asked > 0 {
		s.Between /= s.asked
	}
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
	d := &document{title: "bloomkv: tables of another store", where: whereabouts(s.dir), lines: []string{
		fmt.Sprintf("%s of %s; the manifest is not read, so some may no longer belong to the store",
			words.Plural(s.Tables, "table"), s.stores()),
	}}
	for i := range s.All {
		for _, n := range s.All[i].notes() {
			n.Title += ", " + words.Escaped([]byte(s.All[i].File), 64)
			d.notes = append(d.notes, n)
		}
		if len(d.notes) >= mostFlags {
			break
		}
	}
	for _, u := range s.Unread[:min(mostFiles, len(s.Unread))] {
		d.notes = append(d.notes, picture.Note{Title: "Not read: " + u.File, Text: u.Error})
	}
	d.summary = newTable("All tables", "what", "value")
	add := func(name, format string, args ...any) {
		d.summary.Rows = append(d.summary.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add("files", "%s", words.Plural(s.Bytes, "byte"))
	if s.uncounted > 0 {
		add("entries", "%d, without those of %s", s.Entries, words.Plural(s.uncounted, "table"))
	} else {
		add("entries", "%d", s.Entries)
	}
	if s.Keys > 0 {
		add("filters", "%s for %.0f keys, %.1f bits per key", words.Plural(s.Filters, "byte"), s.Keys, s.PerKey)
		between := noCell
		if s.asked > 0 {
			between = rate(s.Between)
		}
		add("rate", "from bits %s, measured between keys %s; means, weighted by keys", rate(s.Rate), between)
	}
	d.sections = append(d.sections, s.tableSection())
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
	return cmp.Or(strings.Join(all, " and "), "another store")
}

// tableSection shows a row for each table.
func (s *ForeignStore) tableSection() section {
	t := newTable("", "table", "format", "bytes", "entries", "filter", "bits per key", "fill", "from bits",
		"between keys")
	for i := range s.All[:min(mostListed, len(s.All))] {
		f := &s.All[i]
		row := []string{
			words.Escaped([]byte(f.File), 64), f.Format, count(f.Bytes), count(f.Entries), "none", noCell, noCell,
		}
		if f.Filter != nil {
			row[4] = f.Filter.Kind
			if f.Filter.Unread != "" {
				row[4] = "not read"
			} else if f.Exam != nil {
				row[5], row[6] = fmt.Sprintf("%.1f", f.Exam.BitsPerKey), percent(f.Exam.Fill)
			}
		}
		_, fromBits, between := f.rates()
		t.Rows = append(t.Rows, append(row, fromBits, between))
	}
	all := section{id: "tables", heading: "Tables", label: "tables", table: t, explain: "Each table and its filter. " +
		"In large tables some data blocks are read, evenly spread."}
	if left := len(s.All) - len(t.Rows); left > 0 {
		all.lines = []string{fmt.Sprintf("%d more are not listed; --json has all", left)}
	}
	return all
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
				row := []string{words.Escaped([]byte(s.All[k].File), 64), answer, a.Found, a.Verdict}
				t.Rows = append(t.Rows, row)
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
