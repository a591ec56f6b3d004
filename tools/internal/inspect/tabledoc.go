package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// Page returns the table as a page.
func (t *Table) Page() *picture.Page { return t.document().page() }

// WriteText writes what is known of the table.
func (t *Table) WriteText(w io.Writer, s Style) {
	t.document().writeText(w, s.Color)
	if s.Hex && t.Filter != nil {
		fmt.Fprintln(w)
		annotate(w, t.Filter)
		if t.Prefix != nil {
			annotate(w, t.Prefix.Filter)
		}
	}
}

func (t *Table) document() *document {
	title := "table " + words.Escaped([]byte(t.File), 64)
	d := &document{
		title: "bloomkv: " + title, where: whereabouts(t.path),
		lines: append([]string{title}, t.bounds()...), notes: t.notes(),
		summary: t.summary(), figures: t.figures(),
	}
	if t.FilterBytes == 0 {
		d.lines = append(d.lines, "the table has no filter: every lookup of a key within its bounds searches it")
	}
	d.sections = t.Filter.sections("", "")
	if t.Prefix != nil {
		d.sections = append(d.sections, t.Prefix.Filter.sections("Prefix filter: ", "prefix-")...)
	}
	d.sections = append(d.sections, t.Keys.sections()...)
	return d
}

// figures returns the numbers of the first screen.
func (t *Table) figures() (all []picture.Figure) {
	if t.Filter != nil && t.Filter.Measured != nil {
		all = append(all, picture.Figure{
			Name: "Rate of the filter", Value: rate(t.FPRFromBits), Remark: rate(t.FPRPromised) + " promised",
			Taken: t.FPRFromBits, Limit: t.FPRPromised,
		}, picture.Figure{
			Name: "Keys", Value: count(t.FilterKeys),
			Remark: fmt.Sprintf("%s of the filter, %.1f bits a key", words.Size(t.FilterBytes), t.BitsPerKey),
		})
	}
	return append(all, picture.Figure{
		Name: "Data", Value: words.Size(t.Bytes), Remark: words.Plural(t.Entries, "entry"),
	})
}

// bounds describes where the keys and the range deletes of the table begin and end.
func (t *Table) bounds() (lines []string) {
	if t.Entries > 0 {
		lines = append(lines, fmt.Sprintf("keys from %s to %s", t.Smallest, t.Largest))
	}
	if t.RangeDels > 0 {
		lines = append(lines, fmt.Sprintf("%s from %s to %s", words.Plural(t.RangeDels, "range delete"),
			cmp.Or(t.RangesFrom, "the first key"), cmp.Or(t.RangesTo, "the end")))
	}
	return lines
}

// notes returns the problems of the table, or the note that it has no problems.
func (t *Table) notes() (notes []picture.Note) {
	damage := func(name string, d *Damage) {
		if d != nil {
			notes = append(notes, problem(name+" damaged", d.Error+"; every lookup within the bounds searches the "+
				"table"))
		}
	}
	if t.filterDamaged {
		damage("filter", t.Damage)
	} else if t.Damage != nil {
		notes = append(notes, serious("damaged", t.Damage.Error))
	}
	notes = append(notes, flagNotes("", t.Filter)...)
	if t.Prefix != nil {
		damage("prefix filter", t.Prefix.Damage)
		notes = append(notes, flagNotes("prefix filter: ", t.Prefix.Filter)...)
	}
	verified, bad := t.verifyNotes()
	denials, _ := t.Keys.denials()
	notes = slices.Concat(notes, bad, denials)
	if len(notes) == 0 && t.Filter != nil {
		notes = append(notes, picture.Note{
			Title: noProblems, Text: "Every checksum is right, and all figures agree with theory.",
		})
	}
	return append(notes, verified...)
}

const noProblems = "No problems found"

// verifyNotes describes what rebuilding the table's filters has shown: those that are right, and those that are not.
func (t *Table) verifyNotes() (good, bad []picture.Note) {
	if !t.verified {
		return nil, nil
	}
	add := func(name string, v *Verify) {
		text := name + v.verdict()
		if v == nil || v.OK || v.Cannot != "" {
			good = append(good, picture.Note{Title: "Verified", Text: capital(text) + "."})
		} else {
			bad = append(bad, serious("verify", text))
		}
	}
	add("", t.Verify)
	if t.Prefix != nil && t.Prefix.Verify != nil {
		add("prefix filter: ", t.Prefix.Verify)
	}
	return good, bad
}

// filters returns the filters of the table that are known in full.
func (t *Table) filters() (all []*Filter) {
	if t.Filter != nil {
		all = append(all, t.Filter)
	}
	if t.Prefix != nil && t.Prefix.Filter != nil {
		all = append(all, t.Prefix.Filter)
	}
	return all
}

// summary returns the facts of the table, one in a row.
func (t *Table) summary() *picture.Table {
	facts := newTable("Facts of the table and its filter", "what", "value")
	if t.Level != nil {
		addFact(facts, "level, run", "%d, %d", *t.Level, *t.Run)
	}
	addFact(facts, "file", "%s", words.Plural(t.Bytes, "byte"))
	addFact(facts, "data blocks", "%s", count(t.Blocks))
	addFact(facts, "entries", "%s, including %s", count(t.Entries), words.Plural(t.Deletes, "delete"))
	addFact(facts, "range deletes", "%s", count(t.RangeDels))
	addFact(facts, "sequences", "%d to %d", t.MinSeq, t.MaxSeq)
	if t.Filter == nil {
		addFact(facts, "filter", "none")
	}
	t.Filter.addSummary(facts, "filter", t.FilterBytes, t.FilterKeys, t.Units)
	if p := t.Prefix; p != nil {
		addFact(facts, "prefix rule", "%s", p.Rule)
		p.Filter.addSummary(facts, "prefix filter", p.FilterBytes, p.FilterKeys, p.Units)
	}
	if t.Sample > 0 {
		addFact(facts, "sample", "%s; keys estimated from it: %.0f", words.Plural(t.Sample, "hash"), t.SampleKeys)
	}
	if t.Live != nil {
		addFact(facts, "live", "%s; counted by the store with the units it had in memory", t.Live)
	}
	return facts
}

// String describes how a filter has answered.
func (l *Live) String() string {
	if l == nil {
		return noCell
	}
	return fmt.Sprintf("rate %s: %s, %s, about %s, %d not asked", rate(l.Rate),
		words.Plural(l.FalsePositives, "false positive"),
		words.Plural(l.TruePositives, "true positive"), words.Plural(l.FilterNegatives, "negative"), l.Unfiltered)
}

// describeUnits describes the units of the table's filter: their blocks and probes, and their bits.
func (t *Table) describeUnits() (units, fill string) {
	var probes, fills []string
	for _, u := range t.Units {
		each := count(u.Probes)
		if u.Columns > 0 {
			each = fmt.Sprintf("Ribbon %d", u.Columns)
		}
		probes = append(probes, fmt.Sprintf("%d×64 B, %s", u.Blocks, each))
		fills = append(fills, percent(u.Fill))
	}
	return cmp.Or(strings.Join(probes, " + "), noCell), cmp.Or(strings.Join(fills, " "), noCell)
}

// WriteEntries writes every block and entry of a table.
func WriteEntries(w io.Writer, name string) error {
	return withTable(name, func(t *openTable) error { return t.reader.Dump(printable{w}, true) })
}

// A printable escapes characters that could control a terminal. Each Write must consist of whole lines.
type printable struct{ to io.Writer }

func (p printable) Write(b []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(b) {
		body := bytes.TrimSuffix(line, []byte{'\n'})
		out = append(words.AppendPrintable(out, body), line[len(body):]...)
	}
	if _, err := p.to.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// labelColumns is the width that an offset and 16 bytes leave in a line.
const labelColumns = words.Width - 10 - 2 - 47 - 2

// annotate writes the bytes of a filter block in hexadecimal digits with their meaning: the fields of the header,
// then the blocks of each unit, 16 bytes per line. Offsets are those in the file. It ends when w fails.
func annotate(w io.Writer, r *Filter) {
	fmt.Fprintf(w, "%10s  %-47s  %s\n", "offset", "bytes", "what they are")
	end := 0
	for _, f := range r.Header {
		label := f.Name
		if s := label + " " + f.Value; len(s) <= labelColumns {
			label = s
		}
		hexLines(w, r.Offset+uint64(f.Offset), r.block[f.Offset:][:f.Bytes], label) //nolint:gosec // an index
		end = f.Offset + f.Bytes
	}
	h, err := bloomblock.ParseHeader(r.block)
	for i := range r.Units {
		u := &r.Units[i]
		if err != nil {
			break
		}
		need := h.PrefixSize(i + 1)
		if h.Parts() > 0 {
			need = h.BlockSize()
		}
		if need > uint64(len(r.block)) {
			break // the block is cut off
		}
		for b := range u.Blocks {
			at := filterexam.BlockOffset(&h, i, b)
			line := r.block[at:][:lineBytes]
			set := 0
			for _, c := range line {
				set += bits.OnesCount8(c)
			}
			if _, err := fmt.Fprintf(w, "unit %d, block %d: %d of %d bits set\n", i, b, set, lineBits); err != nil {
				return
			}
			hexLines(w, r.Offset+at, line, "")
		}
		end = int(h.PrefixSize(i + 1)) //nolint:gosec // within the block
	}
	label := "not of a unit"
	if at, size := h.SumsSpan(); err == nil && size > 0 && at == uint64(end) {
		label = "page checksums"
	}
	hexLines(w, r.Offset+uint64(end), r.block[end:], label)
}

// hexLines writes bytes, 16 per line, with the label in the first line. It ends when w fails.
func hexLines(w io.Writer, offset uint64, b []byte, label string) {
	for len(b) > 0 {
		n := min(16, len(b))
		line := fmt.Sprintf("%10d  % -47x  %s", offset, b[:n], label)
		if _, err := fmt.Fprintln(w, trimRight(line)); err != nil {
			return
		}
		offset, b, label = offset+uint64(n), b[n:], ""
	}
}
