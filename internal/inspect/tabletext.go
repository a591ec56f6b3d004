package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// WriteText writes what is known of the table.
func (t *Table) WriteText(w io.Writer, s Style) {
	words.Wrapped(w, t.line())
	for _, b := range t.bounds() {
		fmt.Fprintln(w, words.Pair(b.from, b.a, b.to, b.b))
	}
	t.writeFilters(w, s)
}

// line is the table in a line.
func (t *Table) line() string {
	return fmt.Sprintf("table %s: %s, %s, %s (%s), sequences %d to %d",
		words.Escaped([]byte(t.File), 64), words.Plural(t.Bytes, "byte"), words.Plural(t.Blocks, "block"), words.Plural(t.Entries, "entry"),
		words.Plural(t.Deletes, "delete"), t.MinSeq, t.MaxSeq)
}

// A bound is where keys or range deletes begin and end: from a to b.
type bound struct{ from, a, to, b string }

func (t *Table) bounds() (all []bound) {
	if t.Entries > 0 {
		all = append(all, bound{"keys from", t.Smallest, "to", t.Largest})
	}
	if t.RangeDels > 0 {
		all = append(all, bound{words.Plural(t.RangeDels, "range delete") + " from", cmp.Or(t.RangesFrom, "the first key"), "to", cmp.Or(t.RangesTo, "the end")})
	}
	return all
}

const damagedFilter = "the table is searched as if it said maybe"

// prefixName is the name of the prefix filter.
func (p *Prefix) name() string { return "prefix filter by " + p.Rule }

// sampleLine and liveLine say in a line what there is of each, "" for nothing.
func (t *Table) sampleLine() string {
	if t.Sample == 0 {
		return ""
	}
	return fmt.Sprintf("sample: %s; keys estimated from it %.0f", words.Plural(t.Sample, "hash"), t.SampleKeys)
}

func (t *Table) liveLine() string {
	l := t.Live
	if l == nil {
		return ""
	}
	return fmt.Sprintf("live: rate %s, of %s and about %s; %s, and %d without a filter; counted by the store, with as many units as it had in memory",
		rate(l.Rate), words.Plural(l.FalsePositives, "false positive"), words.Plural(l.Negatives, "negative"), words.Plural(l.TruePositives, "true positive"), l.Unfiltered)
}

// writeFilters writes the table's filters, and what was asked about them.
func (t *Table) writeFilters(w io.Writer, s Style) {
	fmt.Fprintln(w)
	if t.filterDamaged {
		fmt.Fprintln(w, "filter: damaged; "+damagedFilter)
	}
	if t.Filter == nil {
		fmt.Fprintln(w, "filter: none")
	} else {
		t.Filter.WriteText(w, "filter", s.Color)
	}
	if p := t.Prefix; p != nil {
		fmt.Fprintln(w)
		if p.Damage != nil {
			fmt.Fprintf(w, "%s: damaged; %s\n", p.name(), damagedFilter)
		}
		p.Filter.WriteText(w, p.name(), s.Color)
	}
	for _, line := range []string{t.sampleLine(), t.liveLine()} {
		if line != "" {
			fmt.Fprintln(w)
			words.Wrapped(w, line)
		}
	}
	if t.verified {
		fmt.Fprintln(w)
		for _, line := range t.verdicts() {
			words.Wrapped(w, line)
		}
	}
	t.Keys.writeText(w)
	if s.Hex && t.Filter != nil {
		fmt.Fprintln(w)
		annotate(w, t.Filter)
		if t.Prefix != nil {
			annotate(w, t.Prefix.Filter)
		}
	}
}

// WriteEntries writes every block and entry of a table.
func WriteEntries(w io.Writer, name string) (err error) {
	f, err := vfs.OS.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	r, err := sstable.Open(f, size, name)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Dump(words.Printable{To: w}, true)
}
