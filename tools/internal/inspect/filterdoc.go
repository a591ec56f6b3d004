package inspect

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// WriteText writes what is known of the filter as text. The name distinguishes it from other filters. With color,
// problems are red, and the map of a unit has two rows in each line.
func (r *Filter) WriteText(w io.Writer, name string, color bool) {
	d := document{lines: []string{name}, notes: flagNotes("", r), summary: newTable("", "what", "value")}
	r.addSummary(d.summary, "filter", uint64(r.Bytes), r.Keys, nil) //nolint:gosec // a size
	d.sections = r.sections("", "")
	d.writeText(w, color)
}

// kindName returns the kind of the filter in words.
func (r *Filter) kindName() string {
	switch r.Kind {
	case "blocked bloom":
		return "blocked Bloom"
	case "ribbon":
		return "Ribbon"
	}
	return r.Kind
}

// flagNotes returns the flags of a filter as notes. The prefix begins their titles.
func flagNotes(prefix string, r *Filter) (notes []picture.Note) {
	if r == nil {
		return nil
	}
	for _, f := range r.Flags {
		notes = append(notes, flagNote(prefix, f))
	}
	return notes
}

func flagNote(prefix string, f filterexam.Flag) picture.Note {
	return problem(prefix+string(f.Name), f.Meaning)
}

// problem returns a note that something is wrong. Control characters in the text are escaped.
func problem(title, text string) picture.Note {
	return picture.Note{Wrong: true, Title: title, Text: capital(string(words.AppendPrintable(nil, []byte(text))))}
}

// serious returns a note that data may be lost or wrong.
func serious(title, text string) picture.Note {
	n := problem(title, text)
	n.Serious = true
	return n
}

// addSummary adds the facts of a filter to a table. The short units are those that the table has read.
func (r *Filter) addSummary(t *picture.Table, name string, bytes, keys uint64, units []Unit) {
	if r == nil {
		return
	}
	addFact(t, name, "%s, %s", r.kindName(), words.Plural(len(r.Units), "unit"))
	addFact(t, name+": size", "%s at offset %d", words.Plural(bytes, "byte"), r.Offset)
	addFact(t, name+": keys", "%d recorded", keys)
	for i := range r.Units {
		if s := r.Units[i].NumKeys; s != nil {
			addFact(t, fmt.Sprintf("%s: keys by %s", name, unitName(i)), "%s ± %s", figure(s.Got), errorFigure(s.Err))
		}
	}
	addFact(t, name+": bits per key", "%.1f in all, %.1f without the header", bitsPerKey(bytes, keys), r.BitsPerKey)
	addFact(t, name+": hash", "XXH64")
	addFact(t, name+": rate", "promised %s, by table %s, from bits %s", rate(r.Promised), rate(r.ByTable),
		rate(r.FromBits))
	if m := r.Measured; m != nil {
		addFact(t, name+": measured", "%s, %d of %s", rate(m.Rate), m.Maybe, words.Plural(m.Probes, "random hash"))
	}
	for i, u := range units {
		what := words.Plural(u.Probes, "probe")
		if u.Columns > 0 {
			what = words.Plural(u.Columns, "column")
		}
		addFact(t, fmt.Sprintf("%s: %s", name, unitName(i)), "%s, %s, %s of the bits set, rate from bits %s",
			what, words.Plural(u.Blocks, "block"), percent(u.Fill), rate(u.FPRFromBits))
	}
}

// sections returns the rates of a filter, its figures compared with theory, each unit, and the header. The heading
// begins the headings of the sections, and the prefix begins their addresses and the names of the charts.
func (r *Filter) sections(heading, prefix string) (all []section) {
	if r == nil {
		return nil
	}
	title := func(s string) string {
		if heading == "" {
			return s
		}
		return heading + strings.ToLower(s[:1]) + s[1:]
	}
	label := func(s string) string { return strings.ToLower(title(s)) }
	if r.Measured != nil {
		for i := range r.Units {
			all = append(all, r.unitSection(title, prefix, i))
		}
		all = append(all, section{
			id: prefix + "rates", heading: title("False positive rate"), label: label("False positive rate"),
			table: r.rateTable(),
			explain: "The share of absent keys that pass: as its header promises, by the number " +
				"of keys, blocks and probes, exactly by the bits that are set, and as measured with random hashes.",
		}, section{
			id: prefix + "theory", heading: title("Compared with theory"),
			charts: []picture.Chart{*r.theoryChart(prefix)}, pageOnly: true,
		})
	}
	return append(all, section{
		id: prefix + "header", heading: title("Header"), label: label("Header"), table: r.headerTable(),
		explain: "Each field of the filter's header with its offset in the file. A checksum covers every byte.",
	})
}

func (r *Filter) unitSection(title func(string) string, prefix string, i int) section {
	u := &r.Units[i]
	id := prefix + "unit-" + strconv.Itoa(i)
	s := section{
		id: id, heading: title(capital(unitName(i))), lines: []string{r.unitLine(i), extremes(u)},
		charts: unitCharts(u, prefix, i), table: statTable(u),
	}
	s.lead = id == "unit-0" && len(s.charts) > 0
	if worst := r.worstLine(u); worst != "" {
		s.lines = append(s.lines, worst)
	}
	for _, f := range u.Flags {
		s.notes = append(s.notes, flagNote("", f))
	}
	if len(u.Histogram) > 0 {
		s.parts = []section{{
			id: id + "-bins", heading: "The histogram in numbers", table: binTable(u.Histogram), pageOnly: true,
		}}
	}
	if u.Blocks >= drawnBlocks {
		s.draw = func(w io.Writer, color bool) {
			drawHistogram(w, u.Histogram)
			drawMap(w, u, color)
		}
	}
	return s
}

// headerTable returns the fields of the header as they are in the file.
func (r *Filter) headerTable() *picture.Table {
	t := newTable("The fields as they are in the file", "offset", "bytes", "field", "value")
	for _, f := range r.Header {
		offset := r.Offset + uint64(f.Offset) //nolint:gosec // an index
		at := strconv.FormatUint(offset, 10)  // without commas, to be copied
		addRow(t, at, count(f.Bytes), f.Name, cut(f.Value, 40))
	}
	return t
}

// rateTable returns the rates of each unit and of all together.
func (r *Filter) rateTable() *picture.Table {
	t := newTable("Rates of each unit, and of all together",
		"unit", "promised", "by table", "from bits", "measured", "± error", "z", "maybe", "of probes")
	add := func(name string, promised, table, bits float64, m *filterexam.Measured) {
		addRow(t, name, rate(promised), rate(table), rate(bits), rate(m.Rate), errorFigure(m.Err), deviations(m.Z),
			count(m.Maybe), count(m.Probes))
	}
	for i, u := range r.Units {
		add(unitName(i), u.Promised, u.ByTable, u.FromBits, u.Measured)
	}
	if len(r.Units) > 1 {
		add("all", r.Promised, r.ByTable, r.FromBits, r.Measured)
	}
	return t
}

// statTable returns the figures of a unit and those of theory.
func statTable(u *filterexam.UnitExam) *picture.Table {
	t := newTable("Figures of the unit, and what they should be", "figure", "is", "should be", "± error", "z")
	for _, s := range statsOf(u) {
		addRow(t, s.name, figure(s.Got), figure(s.Want), errorFigure(s.Err), deviations(s.Z))
	}
	return t
}

// binTable returns the number of blocks for each range of set bits.
func binTable(bins []filterexam.Bin) *picture.Table {
	t := newTable("", "set bits", "blocks", "want")
	for _, b := range bins {
		addRow(t, fmt.Sprintf("%d–%d", b.From, b.To), count(b.Blocks), fmt.Sprintf("%.1f", b.Want))
	}
	return t
}

const (
	barWidth    = 40
	drawnBlocks = 8 // a unit with fewer blocks has no drawing
)

// drawHistogram draws a bar for each bin, with a mark where it should end.
func drawHistogram(w io.Writer, bins []filterexam.Bin) {
	most := 0.0
	for _, b := range bins {
		most = max(most, float64(b.Blocks), b.Want)
	}
	if most == 0 {
		return
	}
	fmt.Fprintf(w, "\n  %9s %9s %9s   │ is where theory ends the bar\n", "set bits", "blocks", "want")
	for i, row := range binTable(bins).Rows {
		b := bins[i]
		bar := []rune(strings.Repeat(" ", barWidth+1))
		for i := range int(math.Round(float64(b.Blocks) / most * barWidth)) {
			bar[i] = '█'
		}
		bar[int(math.Round(b.Want/most*barWidth))] = '│'
		fmt.Fprintln(w, trimRight(fmt.Sprintf("  %9s %9s %9s   %s", row[0], row[1], row[2], string(bar))))
	}
}
