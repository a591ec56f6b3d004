package inspect

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// fewHits is the number of absent keys below which a measured rate says less than the rate by the bits.
const fewHits = 16

// sum sums up the tables that were read. The means are weighted by keys.
func (s *ForeignStore) sum() {
	s.Tables = len(s.All)
	for i := range s.All {
		f := &s.All[i]
		s.Bytes += f.Bytes
		s.Entries += f.Entries
		if f.Entries == 0 && (f.Exam == nil || !f.Exam.Complete) {
			s.uncounted++
		}
		switch {
		case f.Filter == nil:
			s.without++
		case f.Filter.Unread != "" || f.Exam == nil || f.Exam.BitsPerKey == 0:
			s.blind++
		default:
			keys := 8 * float64(f.Filter.Bytes) / f.Exam.BitsPerKey
			s.with++
			s.Filters += f.Filter.Bytes
			s.Keys += keys
			s.Rate += keys * f.Exam.FromBits
			if m := f.Exam.Between; m != nil {
				s.asked += keys
				s.Between += keys * m.Rate
				s.Asked += m.Probes
				s.hits += m.Maybe
			}
		}
	}
	if s.Keys > 0 {
		s.PerKey = 8 * float64(s.Filters) / s.Keys
		s.Rate /= s.Keys
		s.Best = forecast.LadderOf(true).Rate(s.PerKey)
	}
	if s.asked > 0 {
		s.Between /= s.asked
	}
}

// measured reports whether all filters were asked for absent keys, and enough of these passed.
func (s *ForeignStore) measured() bool { return s.asked == s.Keys && s.hits >= fewHits }

// passes returns the share of absent keys that pass a filter.
func (s *ForeignStore) passes() float64 {
	if s.measured() {
		return s.Between
	}
	return s.Rate
}

// lede says in a few sentences what the filters let through, and what the same memory could.
func (s *ForeignStore) lede() []string {
	if s.with+s.without+s.blind == 0 {
		return nil
	}
	first, how := s.withoutFilter(), ""
	if s.with > 0 {
		how = "computed from the bits of the filters"
		if s.measured() {
			how = fmt.Sprintf("measured with %s, each between two keys of a table", words.Plural(s.Asked, "absent key"))
		}
		could := fmt.Sprintf("The same memory could let %s through.", share(s.Best))
		if s.Best >= s.passes() {
			could = "The same memory could hardly do better."
		}
		which := fmt.Sprintf("These %s of filters let", words.Size(s.Filters))
		if s.with == 1 {
			which = fmt.Sprintf("This filter of %s lets", words.Size(s.Filters))
		}
		first = fmt.Sprintf("%s %s of absent keys through. %s %s", which, share(s.passes()), could, first)
		first = strings.TrimSpace(first)
		how = fmt.Sprintf("The first figure is %s. The second one is computed, for the best filters that "+
			"bloomkv, the store of this program, builds for many keys with the same %.1f bits for each: Bloom or "+
			"Ribbon filters, of which the latter are slower.", how, s.PerKey)
	}
	switch {
	case s.blind > 0 && s.with == 0:
		first = strings.TrimSpace(fmt.Sprintf("What %s of %s may let through is not known: the keys or the "+
			"bits are not. %s",
			words.Plural(s.blind, "filter"), words.Plural(s.Tables, "table"), first))
	case s.blind == 1:
		how += " 1 table is not included: the keys or the bits of their filters are not known."
	case s.blind > 1:
		how += fmt.Sprintf(" %d tables are not included: the keys or the bits of their filters are not known.", s.blind)
	}
	if s.Tables > 1 && s.with > 0 {
		how += " Both are for one table. A lookup may ask several, at least one on each level; the levels are " +
			"in the manifest, which is not read."
	}
	return slices.DeleteFunc([]string{first, how}, func(text string) bool { return text == "" })
}

// withoutFilter tells what the tables without a filter cost, or returns "".
func (s *ForeignStore) withoutFilter() string {
	which, its := "1 table has", "its"
	switch {
	case s.without == 0:
		return ""
	case s.without > 1:
		which, its = fmt.Sprintf("%d tables have", s.without), "their"
	case s.Tables == 1:
		which = "This table has"
	}
	return which + " no filter: every lookup of an absent key in " + its + " range reads a block."
}

// share returns a rate in percent, with two digits.
func share(v float64) string {
	digits := 0
	for size := 10.0; 100*v < size && digits < 9; size /= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f %%", digits, 100*v)
}

// figures returns the numbers of the first screen.
func (s *ForeignStore) figures() (all []picture.Figure) {
	if s.with > 0 {
		all = append(all, picture.Figure{
			Name: "Absent keys let through", Value: share(s.passes()), Remark: share(s.Best) + " with the same memory",
		}, picture.Figure{
			Name: "Filters", Value: words.Size(s.Filters),
			Remark: fmt.Sprintf("%s keys, %.1f bits a key", count(uint64(math.Round(s.Keys))), s.PerKey),
		})
	}
	remark := words.Plural(s.Tables, "table")
	if s.dir == "" && s.uncounted == 0 {
		remark = words.Plural(s.Entries, "entry")
	}
	return append(all, picture.Figure{Name: "Data", Value: words.Size(s.Bytes), Remark: remark})
}

// alone returns the sums of one table.
func (f *Foreign) alone() *ForeignStore {
	s := &ForeignStore{All: []Foreign{*f}}
	s.sum()
	return s
}

// passes returns the rate at which absent keys pass the filter of the table: 1 without a filter, and picture.NoValue if
// it is not known.
func (f *Foreign) passes() float64 {
	switch {
	case f.Filter == nil:
		return 1
	case f.Filter.Unread != "" || f.Exam == nil:
		return picture.NoValue
	case f.Exam.Between != nil && f.Exam.Between.Maybe >= fewHits:
		return f.Exam.Between.Rate
	}
	return f.Exam.FromBits
}

// cautions returns a note that some of all things were not read or are not known, if there are reasons.
func cautions(title string, reasons []string) (notes []picture.Note) {
	const most = 3
	if len(reasons) == 0 {
		return nil
	}
	shown := slices.Clone(reasons[:min(most, len(reasons))])
	for i, r := range shown {
		shown[i] = strings.TrimSuffix(r, ": "+foreign.ErrUnknown.Error()) + "."
	}
	if left := len(reasons) - most; left > 0 {
		shown = append(shown, fmt.Sprintf("And %d more.", left))
	}
	return []picture.Note{{Caution: true, Title: title, Text: strings.Join(shown, " ")}}
}
