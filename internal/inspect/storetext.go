package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
)

const (
	mostListed = 200 // tables in a text
	mostFlags  = 20
)

// WriteText writes what is known of the store.
func (s *Store) WriteText(w io.Writer, style Style) {
	words.Wrapped(w, "read without the store's lock: what another process changes meanwhile may look torn")
	if s.NoManifest != nil {
		s.writeLoose(w)
		s.Keys.writeText(w)
		s.writeFiles(w)
		return
	}
	fmt.Fprintln(w, s.line())
	if s.Torn {
		fmt.Fprintln(w, "its last edit is not whole: it was never acknowledged, and is not part of the store")
	}
	if len(s.Tables) > 0 {
		words.Wrapped(w, s.Plan.String())
		s.writeFlags(w)
		s.drawTree(w, style.Color)
		s.writeLevels(w)
		s.writeMemory(w)
	}
	for i := range s.WhatIf {
		s.WhatIf[i].writeText(w, &s.Tree)
	}
	if s.Overlap != nil {
		s.Overlap.writeText(w)
	}
	s.writeTables(w)
	s.Keys.writeText(w)
	s.writeFiles(w)
}

// String is the plan in words.
func (p *Plan) String() string {
	switch {
	case p == nil:
		return "the plan of the filters is not known, as with memory given in place of a rate: all of their units are taken to be in memory"
	case p.FPR >= 1:
		return "the store was last written with no filters, as " + words.Plural(p.Tables, "table") + p.off()
	}
	s := fmt.Sprintf("the store was last written with filters for %g wasted reads over the whole tree, %s, level ratio %d", p.FPR, p.Kind, p.Ratio)
	if p.Prefix != "" {
		s += ", and of prefixes by the rule " + p.Prefix
	}
	return s + ", as those of " + words.Plural(p.Tables, "table") + p.off()
}

// off says in words how much is off the plan.
func (p *Plan) off() string {
	if p.TablesOffPlan == 0 {
		return ""
	}
	return fmt.Sprintf("; %s of %s off the plan, and compact writes them anew",
		words.Plural(p.BytesOffPlan, "byte"), words.Plural(p.TablesOffPlan, "other table"))
}

func (s *Store) writeFlags(w io.Writer) {
	for _, f := range s.Flags[:min(len(s.Flags), mostFlags)] {
		file := ""
		if f.File != "" && !strings.HasPrefix(f.Meaning, f.File) {
			file = f.File + ": "
		}
		words.Wrapped(w, fmt.Sprintf("! %s: %s%s", f.Name, file, f.Meaning))
	}
	if n := len(s.Flags) - mostFlags; n > 0 {
		fmt.Fprintf(w, "! and %s more\n", words.Plural(n, "flag"))
	}
}

// listed is which tables a text lists: all, or of very many those that are flagged, and then the largest.
func (s *Store) listed() (shown map[*Table]bool) {
	flagged := map[string]bool{}
	for _, f := range s.Flags {
		flagged[f.File] = true
	}
	all := make([]*Table, len(s.Tables))
	for i := range s.Tables {
		all[i] = &s.Tables[i]
	}
	slices.SortStableFunc(all, func(a, b *Table) int {
		return cmp.Or(cmp.Compare(btoi(!flagged[a.File]), btoi(!flagged[b.File])), cmp.Compare(b.Bytes, a.Bytes))
	})
	shown = map[*Table]bool{}
	for _, t := range all[:min(len(all), mostListed)] {
		shown[t] = true
	}
	return shown
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// writeTables writes a paragraph about each table.
func (s *Store) writeTables(w io.Writer) {
	shown := s.listed()
	if n := len(s.Tables); n > len(shown) {
		fmt.Fprintln(w)
		words.Wrapped(w, fmt.Sprintf("%s, of which these %d are flagged or the largest; %d are left out, --json has all", words.Plural(n, "table"), len(shown), n-len(shown)))
	}
	verified, ok := 0, 0
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.verified {
			verified++
			ok += btoi(t.Verify != nil && t.Verify.OK)
		}
		if shown[t] {
			t.writeShort(w)
		}
	}
	if verified > 0 {
		fmt.Fprintf(w, "\nverify: of %s %d have a filter that is bit for bit that of their keys\n", words.Plural(verified, "table"), ok)
	}
}

// writeShort writes what there is to say of a table among many.
func (t *Table) writeShort(w io.Writer) {
	fmt.Fprintln(w)
	if t.unread {
		words.Wrapped(w, fmt.Sprintf("%s: level %d, run %d: not read: %s", t.File, *t.Level, *t.Run, t.Damage.Error))
		return
	}
	words.Wrapped(w, fmt.Sprintf("%s: level %d, run %d: %s, %s, %s, %s", t.File, *t.Level, *t.Run, words.Plural(t.Bytes, "byte"),
		words.Plural(t.Entries, "entry"), words.Plural(t.Deletes, "delete"), words.Plural(t.RangeDels, "range delete")))
	switch {
	case t.filterDamaged:
		fmt.Fprintln(w, "  filter: damaged")
	case t.FilterBytes == 0:
		fmt.Fprintln(w, "  filter: none")
	default:
		units, fill := t.describe()
		words.Wrapped(w, fmt.Sprintf("filter: %s, %.1f bits/key, units %s, full to %s; promised %.3g, from the bits %.3g; %s in memory, which give %.3g",
			words.Plural(t.FilterBytes, "byte"), t.BitsPerKey, units, fill, t.FPRPromised, t.FPRFromBits, words.Plural(t.Place.Units, "unit"), t.Place.FPR))
	}
	if p := t.Prefix; p != nil {
		words.Wrapped(w, "prefix filter by "+p.describe())
	}
	if l := t.Live; l != nil {
		words.Wrapped(w, fmt.Sprintf("live: rate %.3g, of %s and about %s; %s, and %d without a filter",
			l.Rate, words.Plural(l.FalsePositives, "false positive"), words.Plural(l.Negatives, "negative"), words.Plural(l.TruePositives, "true positive"), l.Unfiltered))
	}
	fmt.Fprintf(w, "keys %s\n", t.keys())
	if t.verified {
		for _, line := range t.verdicts() {
			words.Wrapped(w, fmt.Sprintf("%s: %s", t.File, line))
		}
	}
}

// line is the manifest in a line.
func (s *Store) line() string {
	return fmt.Sprintf("%s: next file %d, sequences up to %d, logs from %d", s.Manifest, s.NextFile, s.LastSeq, s.MinLog)
}
