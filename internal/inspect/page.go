package inspect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/picture"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Page is the table as a page. It has no number that the facts have not; what people would read as text they see there as a
// picture, with a sentence on what it means.
func (t *Table) Page() *picture.Page {
	name := words.Escaped([]byte(t.File), 64)
	p := &picture.Page{Title: "bloomkv: table " + name, Intro: capital(t.line()) + "."}
	for _, b := range t.bounds() {
		p.Intro += "\n\n" + capital(strings.Join([]string{b.from, b.a, b.to, b.b}, " "))
	}
	p.Sections = append(p.Sections, picture.Section{
		ID: "glance", Heading: "At a glance", Notes: t.notes(), Table: t.rows().table("What the table and its filter say", "what"),
	})
	if t.Filter == nil {
		p.Sections[0].Text = "The table has no filter: every lookup whose key lies within its bounds searches it."
	}
	p.Sections = append(p.Sections, t.Filter.sections("", "", t.Live)...)
	if t.Prefix != nil {
		p.Sections = append(p.Sections, t.Prefix.Filter.sections("Prefix filter: ", "prefix-", nil)...)
	}
	p.Sections = append(p.Sections, t.Keys.sections()...)
	return p
}

// notes say what is off, or that nothing is.
func (t *Table) notes() (notes []picture.Note) {
	wrong := func(title, text string) {
		notes = append(notes, picture.Note{Wrong: true, Title: title, Text: capital(text)})
	}
	damage := func(name string, d *Damage) {
		if d != nil {
			wrong(name+" damaged", string(words.AppendPrintable(nil, []byte(d.Error)))+"; "+damagedFilter)
		}
	}
	flags := func(name string, r *Filter) {
		if r == nil {
			return
		}
		for _, f := range r.Flags {
			wrong(name+string(f.Name), meaning(f))
		}
	}
	if t.filterDamaged {
		damage("filter", t.Damage)
	} else if t.Damage != nil {
		wrong("damaged", string(words.AppendPrintable(nil, []byte(t.Damage.Error))))
	}
	flags("", t.Filter)
	if t.Prefix != nil {
		damage("prefix filter", t.Prefix.Damage)
		flags("prefix filter: ", t.Prefix.Filter)
	}
	verified, bad := t.verifyNotes()
	notes = append(append(notes, bad...), t.Keys.notes()...)
	if len(notes) == 0 && t.Filter != nil {
		notes = append(notes, picture.Note{Title: "nothing is off", Text: "Every checksum is right, and every figure is as near to theory as chance leaves it."})
	}
	return append(notes, verified...)
}

// verifyNotes say what came of building the table's filters again: those that are as they should be, and those that are not.
func (t *Table) verifyNotes() (good, bad []picture.Note) {
	if !t.verified {
		return nil, nil
	}
	all := []*Verify{t.Verify}
	if t.Prefix != nil {
		all = append(all, t.Prefix.Verify)
	}
	for i, line := range t.verdicts() {
		n := picture.Note{Title: "verified", Text: capital(strings.Replace(line, "verify: ", "", 1)) + "."}
		if v := all[i]; v == nil || v.OK || v.Cannot != "" {
			good = append(good, n)
			continue
		}
		n.Wrong, n.Title = true, "verify"
		bad = append(bad, n)
	}
	return good, bad
}

// filters are those of the table that are known in full.
func (t *Table) filters() (all []*Filter) {
	if t.Filter != nil {
		all = append(all, t.Filter)
	}
	if t.Prefix != nil && t.Prefix.Filter != nil {
		all = append(all, t.Prefix.Filter)
	}
	return all
}

// rows are the table's facts, one each.
func (t *Table) rows() *grid {
	g := &grid{head: []string{"", "value"}}
	add := func(name, format string, args ...any) { g.add(name, fmt.Sprintf(format, args...)) }
	if t.Level != nil {
		add("level, run", "%d, %d", *t.Level, *t.Run)
	}
	add("file", "%s", words.Plural(t.Bytes, "byte"))
	add("data blocks", "%d", t.Blocks)
	add("entries", "%d, of which %s", t.Entries, words.Plural(t.Deletes, "delete"))
	add("range deletes", "%d", t.RangeDels)
	add("sequences", "%d to %d", t.MinSeq, t.MaxSeq)
	if t.Filter == nil {
		add("filter", "none")
	} else {
		filterRows(add, "filter", t.Filter, t.FilterBytes, t.FilterKeys, t.Units)
	}
	if p := t.Prefix; p != nil {
		add("prefix filter by", "%s", p.Rule)
		filterRows(add, "prefix filter", p.Filter, p.FilterBytes, p.FilterKeys, p.Units)
	}
	for _, line := range []string{t.sampleLine(), t.liveLine()} {
		if name, text, ok := strings.Cut(line, ": "); ok {
			add(name, "%s", text)
		}
	}
	return g
}

// filterRows are the facts of a filter block; hash and sample are those of all filters.
func filterRows(add func(name, format string, args ...any), name string, r *Filter, bytes, keys uint64, units []Unit) {
	if r == nil {
		return
	}
	add(name, "%s, %s", r.kind(), words.Plural(len(r.Units), "unit"))
	add(name+": size", "%s at offset %d", words.Plural(bytes, "byte"), r.Offset)
	add(name+": keys", "%d recorded", keys)
	for i := range r.Units {
		if s := r.Units[i].NumKeys; s != nil {
			add(fmt.Sprintf("%s: keys by %s", name, unitName(i)), "%s ± %s", figure(s.Got), errorFigure(s.Err))
		}
	}
	add(name+": bits per key", "%.1f in all, %.1f without the header", bitsPerKey(bytes, keys), r.BitsPerKey)
	add(name+": hash", "XXH64")
	add(name+": rate", "promised %s, by table %s, from bits %s", rate(r.Promised), rate(r.ByTable), rate(r.FromBits))
	if m := r.Measured; m != nil {
		add(name+": measured", "%s, %d of %s", rate(m.Rate), m.Maybe, words.Plural(m.Probes, "random hash"))
	}
	for i, u := range units {
		what := words.Plural(u.Probes, "probe")
		if u.Columns > 0 {
			what = words.Plural(u.Columns, "column")
		}
		add(fmt.Sprintf("%s: %s", name, unitName(i)), "%s, %s of 64 bytes, %s of the bits set, rate from bits %s", what, words.Plural(u.Blocks, "block"), percent(u.Fill), rate(u.FPRFromBits))
	}
}

// sections show a filter: rates, figures beside theory, each unit, and the header. prefix begins addresses and file names.
func (r *Filter) sections(heading, prefix string, live *Live) (all []picture.Section) {
	if r == nil {
		return nil
	}
	title := func(s string) string {
		if heading == "" {
			return s
		}
		return heading + strings.ToLower(s[:1]) + s[1:]
	}
	if r.Measured != nil {
		rates := picture.Section{
			ID: prefix + "rates", Heading: title("False positive rate"), Table: r.rateRows().table("Rates of each unit, and of all together", "unit"),
			Text: "How many of absent keys the filter does not deny: as its header promises, by the number of keys, blocks and probes, exactly by the bits that are set, and as measured by asking for random hashes.",
		}
		if c := r.ratesChart(prefix, live); c != nil {
			rates.Charts = []picture.Chart{*c}
		}
		all = append(all, rates, picture.Section{ID: prefix + "theory", Heading: title("Beside theory"), Charts: []picture.Chart{*r.theoryChart(prefix)}})
		for i := range r.Units {
			all = append(all, r.unitSection(title, prefix, i))
		}
	}
	return append(all, picture.Section{
		ID: prefix + "header", Heading: title("Header"), Table: r.headerRows().table("The fields as they are in the file", "offset"),
		Text: "Where each field of the filter's header lies in the file, and what it says. A checksum covers every byte.",
	})
}

func (r *Filter) unitSection(title func(string) string, prefix string, i int) picture.Section {
	u := &r.Units[i]
	id := prefix + "unit-" + strconv.Itoa(i)
	s := picture.Section{
		ID: id, Heading: title(capital(unitName(i))), Text: capital(r.unitLine(i)) + ".\n\n" + capital(extremes(u)) + ".",
		Charts: r.unitCharts(prefix, i), Table: statRows(u).table("Figures of the unit, beside what they should be", "figure"),
	}
	if worst := r.worstLine(u); worst != "" {
		s.Text += "\n\n" + capital(worst) + "."
	}
	for _, f := range u.Flags {
		s.Notes = append(s.Notes, flagNote(f))
	}
	if len(u.Histogram) > 0 {
		s.Folded = []picture.Section{{ID: id + "-bins", Heading: "The histogram in numbers", Table: binRows(u.Histogram).table("", "set bits")}}
	}
	return s
}

func flagNote(f bloomblock.Flag) picture.Note {
	return picture.Note{Wrong: true, Title: string(f.Name), Text: capital(meaning(f))}
}

// notes say of a key whether a filter hides it.
func (k *Key) notes() (notes []picture.Note) {
	for i := range k.Tables {
		if t := &k.Tables[i]; t.Verdict == "false negative" {
			notes = append(notes, picture.Note{Wrong: true, Title: "false negative", Text: fmt.Sprintf("The filter of %s denies key %s, which the table holds.", words.Escaped([]byte(t.File), 64), k.Key)})
		}
		if p := k.Tables[i].Prefix; p != nil && p.Verdict == "false negative" {
			notes = append(notes, picture.Note{Wrong: true, Title: "false negative", Text: fmt.Sprintf("The prefix filter of %s denies prefix %s, which a key of the table has.", words.Escaped([]byte(k.Tables[i].File), 64), p.Prefix)})
		}
	}
	return notes
}

// section shows what the tables have to say of a key. id is where it stands on the page.
func (k *Key) section(id string) picture.Section {
	s := picture.Section{
		ID: id, Heading: "One key", Notes: k.notes(),
		Text: "Key " + k.Key + ", hash " + k.Hash + ". Of each run the one table that reaches over the key is asked: what its filter says, what reading the table finds, and what the answer was worth.",
	}
	g := &grid{head: []string{"table", "level", "run", "filter says", "table has", "so", "prefix", "its filter says", "so", "key within", "fences from", "to"}}
	for i := range k.Tables {
		t := &k.Tables[i]
		level, run := "–", "–"
		if t.Level != nil {
			level, run = strconv.Itoa(*t.Level), strconv.FormatUint(*t.Run, 10)
		}
		if t.File == "" {
			g.add("none reaches over the key", level, run, "–", "–", "–", "–", "–", "–", "–", "–", "–")
			continue
		}
		within := "no"
		if t.Within {
			within = "yes"
		}
		name := words.Escaped([]byte(t.File), 64)
		prefix, answer, verdict := "–", "–", "–"
		if p := t.Prefix; p != nil {
			answer, verdict = p.Answer, p.Verdict
			if p.Prefix != "" {
				prefix = fmt.Sprintf("%s, hash %s", p.Prefix, p.Hash)
			}
		}
		g.add(name, level, run, t.Answer, t.found(), t.Verdict, prefix, answer, verdict, within, t.Smallest, t.end())
		for n := range t.Units {
			s.Folded = append(s.Folded, traceSection(fmt.Sprintf("%s-%d-%d", id, i, n), fmt.Sprintf("%s, %s", name, unitName(n)), &t.Units[n]))
		}
		if p := t.Prefix; p != nil {
			for n := range p.Units {
				s.Folded = append(s.Folded, traceSection(fmt.Sprintf("%s-%d-prefix-%d", id, i, n), fmt.Sprintf("%s, prefix filter by %s, %s", name, p.Rule, unitName(n)), &p.Units[n]))
			}
		}
	}
	s.Table = g.table("The tables that may hold the key, newest first", "table")
	return s
}

// traceSection shows what a key, or its prefix, probes in a unit.
func traceSection(id, heading string, u *bloomblock.UnitTrace) picture.Section {
	s := picture.Section{ID: id, Heading: heading + ": what is probed"}
	if u.Kind == "ribbon" {
		s.Text = fmt.Sprintf("Ribbon: hash %s, slot %d, segment at offset %d; the columns of a key that was added all add up to an even number.",
			u.Hash, u.Start, u.Offset)
		g := &grid{head: []string{"column", "adds up to"}}
		for c, even := range u.Columns {
			g.add(strconv.Itoa(c), parityName(even))
		}
		s.Table = g.table("", "column")
		return s
	}
	s.Text = fmt.Sprintf("Hash %s, block %d at offset %d; a bit that is clear denies the key.", u.Hash, u.Block, u.Offset)
	s.Table = probeRows(u).table("", "probe")
	return s
}
