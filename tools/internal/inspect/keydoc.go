package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
)

// sections returns a section for each key.
func (k *Keys) sections() (all []section) {
	for i, key := range k.all() {
		id := "key"
		if i > 0 {
			id = fmt.Sprintf("key%d", i+1)
		}
		all = append(all, key.section(id))
	}
	return all
}

// section returns the results for a key. The id is the address of the section on the page.
func (k *Key) section(id string) section {
	notes, _ := k.denials()
	s := section{
		id: id, heading: "One key", notes: notes, lines: []string{"key " + k.Key, "hash " + k.Hash},
		explain: "In each run the one table that covers the key is asked: what its filter says, what reading the " +
			"table finds, and whether the filter was right.",
		table: newTable("The tables that may hold the key, newest first",
			"table", "level", "run", "fences from", "to", "the key is", "the filter says", "the table has", "so",
			"prefix by", "prefix", "its hash", "the prefix filter says", "the table has", "so"),
	}
	for i := range k.Tables {
		t := &k.Tables[i]
		row := []string{words.Escaped([]byte(t.File), nameLimit), noCell, noCell}
		if t.Level != nil {
			row[1], row[2] = count(*t.Level), count(*t.Run)
		}
		if t.File == "" {
			row[0] = "no table covers the key"
			addRow(s.table, append(row, slices.Repeat([]string{noCell}, len(s.table.Head)-len(row))...)...)
			continue
		}
		within := "within the fences"
		if !t.Within {
			within = "outside the fences, so a lookup skips the table"
		}
		row = append(row, t.Smallest, t.end(), within, t.Answer, t.found(), t.Verdict)
		addRow(s.table, append(row, t.Prefix.cells()...)...)
		for n := range t.Units {
			s.parts = append(s.parts, traceSection(fmt.Sprintf("%s-%d-%d", id, i, n), row[0], n, &t.Units[n]))
		}
		if p := t.Prefix; p != nil {
			for n := range p.Units {
				s.parts = append(s.parts,
					traceSection(fmt.Sprintf("%s-%d-prefix-%d", id, i, n), row[0]+", prefix filter", n, &p.Units[n]))
			}
		}
	}
	return s
}

// cells returns the cells of a row for the prefix filter.
func (p *KeyPrefix) cells() []string {
	if p == nil {
		return slices.Repeat([]string{noCell}, 6)
	}
	if p.Prefix == "" {
		return []string{p.Rule, "none, or the rule is not known", noCell, p.Answer, noCell, p.Verdict}
	}
	has := "no key with that prefix"
	if p.Found {
		has = "a key with that prefix"
	}
	return []string{p.Rule, p.Prefix, p.Hash, p.Answer, has, p.Verdict}
}

// end returns the upper fence.
func (t *KeyTable) end() string {
	if t.NoEnd {
		return "the end"
	}
	return t.Largest
}

// found describes what the table has of the key.
func (t *KeyTable) found() string {
	if t.RangeDeleted {
		return t.Found + ", and a range delete over the key"
	}
	return t.Found
}

// traceSection shows what a key, or its prefix, probes in unit n of a filter.
func traceSection(id, name string, n int, u *filterexam.UnitTrace) section {
	s := section{id: id, heading: fmt.Sprintf("%s, %s: what is probed", name, unitName(n))}
	if u.Kind == "ribbon" {
		sums := make([]string, len(u.Columns))
		for c, even := range u.Columns {
			if sums[c] = "odd"; even {
				sums[c] = "even"
			}
		}
		s.lines = []string{
			fmt.Sprintf("%s, %s, Ribbon: hash %s, slot %d, segment at offset %d", name, unitName(n), u.Hash, u.Start,
				u.Offset),
			"the sums of the columns, all even for a key that was added: " + strings.Join(sums, " "),
		}
		return s
	}
	s.lines = []string{fmt.Sprintf("%s, %s: hash %s, block %d at offset %d", name, unitName(n), u.Hash, u.Block,
		u.Offset)}
	s.explain = "A clear bit denies the key."
	s.table = newTable("", "probe", "bit", "word", "of the word")
	for n, p := range u.Probes {
		addRow(s.table, count(n), count(p.Bit), count(p.Word), fmt.Sprintf("bit %d is %s", p.Bit%64, bitState(p.Set)))
	}
	return s
}

func bitState(set bool) string {
	if set {
		return "set"
	}
	return "clear"
}
