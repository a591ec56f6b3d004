package inspect

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// Page returns the table as a page.
func (f *Foreign) Page() *picture.Page { return f.document().page() }

// WriteText writes what is known of the table.
func (f *Foreign) WriteText(w io.Writer, s Style) { f.document().writeText(w, s.Color) }

func (f *Foreign) document() *document {
	title := fmt.Sprintf("table %s of %s", words.Escaped([]byte(f.File), 64), f.Store)
	all := f.alone()
	d := &document{
		title: "bloomkv: " + title, where: whereabouts(f.path), lines: []string{title}, lede: all.lede(),
		notes: all.notes(), figures: all.figures(), summary: f.summary(),
	}
	if f.Smallest != "" || f.Largest != "" {
		d.lines = append(d.lines, fmt.Sprintf("keys from %s to %s", f.Smallest, f.Largest))
	}
	if f.Filter != nil && f.Filter.Unread == "" {
		bits := section{
			id: "bits", heading: "The bits of the filter", explain: f.aboutBits(), charts: f.charts(""), pageOnly: true,
		}
		bits.lead = len(bits.charts) > 0
		d.sections = append(d.sections, bits)
	}
	if len(f.Properties) > 0 {
		s := section{
			id: "properties", heading: "Properties", label: "properties", table: newTable("", "property", "value"),
			explain: "The properties that the table records.",
		}
		for _, p := range f.Properties {
			addRow(s.table, p.Name, cmp.Or(p.Value, noCell))
		}
		d.sections = append(d.sections, s)
	}
	for i := range f.Answers {
		d.sections = append(d.sections, f.Answers[i].section(fmt.Sprintf("key%d", i+1), f.Filter == nil))
	}
	return d
}

// problems returns the problems of the table.
func (f *Foreign) problems() (notes []picture.Note) {
	if f.Damage != nil {
		notes = append(notes, serious("damaged", f.Damage.Error))
	}
	for _, a := range f.Answers {
		if a.Verdict == falseNegative {
			text := fmt.Sprintf("The filter denies key %s, which the table holds.", a.Key)
			notes = append(notes, serious(falseNegative, text))
		}
	}
	if f.Filter != nil && f.Filter.Unread != "" && f.Wrong() != nil {
		notes = append(notes, problem("The filter cannot be read", f.Filter.Unread))
	}
	return notes
}

// aboutBits says what the charts of the filter show, or why there are none.
func (f *Foreign) aboutBits() string {
	u := f.bits
	switch {
	case u == nil || u.Blocks == 0 && f.Filter.Probe != "probe":
		return capital(fmt.Sprintf("%s: how many bits of such a filter are set says nothing of its rate, so there are "+
			"no pictures of them.", f.Filter.Kind))
	case u.Blocks < 2:
		return "The filter is too small for pictures of its bits."
	case f.line > 0:
		return fmt.Sprintf("All bits of a key are in one cache line of %d bytes. There are %s of 64 bytes; %s.", f.line,
			words.Plural(u.Blocks, "block"), extremes(u))
	}
	return fmt.Sprintf("The bits of a key may be anywhere in its filter. They are drawn as %s of 64 bytes; %s.",
		words.Plural(u.Blocks, "block"), extremes(u))
}

// charts returns the charts of the bits of the filter.
func (f *Foreign) charts(prefix string) []picture.Chart {
	if f.bits == nil || f.bits.Blocks < 2 {
		return nil
	}
	all := unitCharts(f.bits, prefix, 0)
	if f.line <= 0 {
		all[0].Caption = "The bars have the shape of a bell if hashes are random. One far to the right is a part of " +
			"the filter that is fuller than others."
	}
	return all
}

// row returns the cells of the table among others.
func (f *Foreign) row() []string {
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
	return append(row, fromBits, between)
}

// box returns the table as a box of the overview, with a link to a section.
func (f *Foreign) box(link string) picture.Span {
	name, filter := words.Escaped([]byte(f.File), 64), "no filter"
	if f.Filter != nil {
		filter = cmp.Or(f.Filter.Unread, fmt.Sprintf("%s: %s let through", f.Filter.Kind, share(f.passes())))
	}
	return picture.Span{
		To: float64(f.Entries), Value: f.passes(), Name: strings.TrimSuffix(strings.TrimSuffix(name, ".sst"), ".ldb"),
		Link: link, Title: fmt.Sprintf("%s: %s, %s\nfrom %s\nto %s\n%s", name, words.Size(f.Bytes),
			words.Plural(f.Entries, "entry"), f.Smallest, f.Largest, filter),
	}
}

// summary returns the facts of the table, one in a row.
func (f *Foreign) summary() *picture.Table {
	facts := newTable("Facts of the table and its filter", "what", "value")
	addFact(facts, "store", "%s", f.Store)
	addFact(facts, "format", "%s, checksums %s", f.Format, f.Checksum)
	addFact(facts, "file", "%s", words.Plural(f.Bytes, "byte"))
	addFact(facts, "data blocks", "%d", f.Blocks)
	if f.Exam != nil && (f.Exam.Complete || f.Entries > 0) {
		addFact(facts, "entries", "%d, including %s", f.Entries, words.Plural(f.Deletes, "delete"))
	}
	if f.RangeDels > 0 {
		addFact(facts, "range deletes", "%d", f.RangeDels)
	}
	if f.Comparator != "" {
		addFact(facts, "order of keys", "%s", f.Comparator)
	}
	if x := f.Exam; x != nil && !x.Complete {
		addFact(facts, "read", "%d of %s", x.BlocksRead, words.Plural(f.Blocks, "data block"))
	}
	f.addFilter(facts)
	return facts
}

// addFilter adds the facts of the filter.
func (f *Foreign) addFilter(facts *picture.Table) {
	if f.Filter == nil {
		addFact(facts, "filter", "none")
		return
	}
	addFact(facts, "filter", "%s: %s", f.Filter.Policy, f.Filter.Layout)
	addFact(facts, "filter: size", "%s at offset %d", words.Plural(f.Filter.Bytes, "byte"), f.Filter.Offset)
	if f.Filter.Unread != "" {
		addFact(facts, "filter: contents", "not read")
		return
	}
	addFact(facts, "filter: kind", "%s, %s, %s", f.Filter.Kind, words.Plural(f.Filter.Probes, f.Filter.Probe),
		words.Plural(f.Filter.Units, "unit"))
	addFact(facts, "filter: hash", "%s", f.Filter.Hash)
	if f.Filter.Recorded > 0 {
		addFact(facts, "filter: keys", "%d recorded", f.Filter.Recorded)
	} else if f.Exam != nil && f.Exam.Complete {
		addFact(facts, "filter: keys", "%d counted", f.Exam.Keys)
	}
	x := f.Exam
	if x == nil || x.Bits == 0 {
		return
	}
	if x.BitsPerKey > 0 {
		addFact(facts, "filter: bits per key", "%.1f", x.BitsPerKey)
	}
	addFact(facts, "filter: fill", "%s of the bits set", percent(x.Fill))
	formula, fromBits, _ := f.rates()
	if x.Drawn > 0 {
		addFact(facts, "filter: rate", "from bits %s, by %s drawn; if probes were independent %s", fromBits,
			words.Plural(x.Drawn, "hash"), formula)
	} else {
		addFact(facts, "filter: rate", "from bits %s", fromBits)
	}
	if m := x.Between; m != nil {
		addFact(facts, "filter: measured", "%s ± %s, %d of %s between those of the table", rate(m.Rate),
			errorFigure(m.Err), m.Maybe, words.Plural(m.Probes, "absent key"))
	} else {
		addFact(facts, "filter: measured", "no: %s", x.Why)
	}
}

// section shows the result for a key.
func (a *ForeignAnswer) section(id string, without bool) section {
	answer := "is not asked"
	if a.Why != "" {
		answer += ": " + a.Why
	}
	if a.Asked {
		answer, _ = verdict(a.Maybe, false)
		answer = "says " + answer
	}
	if without {
		answer = "does not exist"
	}
	s := section{
		id: id, heading: "One key", label: "key " + a.Key,
		lines: []string{fmt.Sprintf("the filter %s; the table has %s: %s", answer, a.thing(), a.Verdict)},
	}
	t := a.Trace
	if t == nil {
		return s
	}
	place := fmt.Sprintf("unit %d at offset %d, hash %s", t.Part, t.Offset, t.Hash)
	if t.Line != nil {
		place += fmt.Sprintf(", line %d", *t.Line)
	}
	s.lines = append(s.lines, place)
	if len(t.Columns) > 0 {
		sums := make([]string, len(t.Columns))
		for i, right := range t.Columns {
			if sums[i] = "wrong"; right {
				sums[i] = "right"
			}
		}
		const text = "the sums of the columns (a key that was added has only right ones): "
		s.lines = append(s.lines, text+strings.Join(sums, " "))
		return s
	}
	s.table = newTable("", "probe", "bit", "is")
	for i, p := range t.Probes {
		addRow(s.table, count(i), count(p.Bit), bitState(p.Set))
	}
	return s
}

// thing describes what the table has of the key.
func (a *ForeignAnswer) thing() string {
	switch a.Found {
	case "nothing":
		return "nothing of the key"
	case "unknown":
		return "a data block for the key that cannot be read"
	default:
		return "a " + a.Found + " for the key"
	}
}
