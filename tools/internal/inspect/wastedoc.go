package inspect

import (
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// wasteSection shows what lookups of absent keys cost, by level.
func (s *Store) wasteSection() section {
	c := picture.Chart{
		Name: "waste", Title: "Wasted reads of a lookup of an absent key, by level",
		Y: "wasted reads per lookup", FormatY: rate,
		Caption: "The promise is kept where the bar ends at or before its line. The closer the bar of all levels " +
			"ends to the optimum, the better the memory is placed.",
		Bullets: &picture.Bullets{
			Bar: "predicted", Tick: "promised", Marks: []string{"optimum", "measured"},
		},
	}
	drawn := false
	add := func(name string, f *Figures) {
		unknown := func(v float64) float64 {
			if v == 0 {
				return -1
			}
			drawn = true
			return v
		}
		c.Bullets.Rows = append(c.Bullets.Rows, picture.Bullet{
			Name: name, Bar: unknown(f.Predicted), Tick: unknown(f.Promised),
			Marks: []float64{unknown(f.Optimum), unknown(f.Measured)},
		})
	}
	for i := range s.Levels {
		add(levelName(s.Levels[i].Level), &s.Levels[i].Figures)
	}
	if len(s.Levels) > 1 {
		add("all", &s.Tree)
	}
	table := newTable("Wasted reads by a lookup of an absent key", "level", "promised", "predicted", "optimum",
		"evenly", "measured")
	counts := newTable("Answers that lookups have counted", "level", "rate of a filter", "false positives",
		"true positives", "negatives", "not asked")
	s.eachLevel(func(name string, f *Figures) {
		measured := noCell
		if l := f.Live; l != nil {
			if l.FalsePositives+l.FilterNegatives > 0 {
				measured = rate(f.Measured)
			}
			addRow(counts, name, rate(l.Rate), count(l.FalsePositives), count(l.TruePositives),
				count(l.FilterNegatives), count(l.Unfiltered))
		}
		row := []string{name, rate(f.Promised), rate(f.Predicted), rate(f.Optimum), rate(f.Even), measured}
		if s.Tree.Pages > 0 {
			row = append(row, rate(f.Pages))
		}
		addRow(table, row...)
	})
	waste := section{
		id: "waste", heading: "Wasted reads", label: "wasted reads by a lookup of an absent key, with the filters in " +
			"memory", table: table,
		explain: "A wasted read is a search of a table that has no version of the key, because its filter let the " +
			"key through or because it has no filter.",
		lines: []string{
			"absent keys are assumed to be distributed like the present ones; optimum is the least that the same " +
				"memory can waste in these runs, evenly what it wastes with the same number of bits for every key, " +
				"and measured what lookups found, for a key within the bounds of every run",
		},
	}
	if s.Promise != nil {
		waste.parts = append(waste.parts, s.Promise.section())
	}
	if s.Tree.Pages > 0 {
		table.Head = append(table.Head, "pages")
		waste.lines = append(waste.lines, "pages are those of filters that are asked in their files, since memory has "+
			"little of them")
	}
	if l := s.Levels; len(l) > 0 && l[0].Level == 0 && l[0].Runs > 1 {
		waste.lines = append(waste.lines, fmt.Sprintf("the filters are sized for the settled tree: %d of %d runs are "+
			"in level 0 until compaction merges them", l[0].Runs, s.Tree.Runs))
	}
	if drawn {
		waste.charts = []picture.Chart{c}
	}
	if len(counts.Rows) > 0 {
		waste.parts = append(waste.parts, section{
			id: "live", heading: "Answers of the filters", label: "answers of the filters",
			table: counts,
		})
	}
	return waste
}

// memorySection shows memory by part.
func (s *Store) memorySection() section {
	m := &s.Memory
	c := picture.Chart{
		Name: "memory", Title: "Memory for the tables, by part", Y: "bytes", FormatY: picture.Bytes,
		Caption: "The memory of a store that has read as much of its tables as memory holds beside full memtables, " +
			"without these and the cache of data blocks.",
	}
	bar := &picture.Stack{}
	t := newTable("Bytes in memory, and those that are only on disk", "part", "bytes", "details")
	for i, part := range []struct {
		name    string
		bytes   uint64
		details string
	}{
		{"filters of keys", m.Filters, "read in the background, or by the first lookup"},
		{"prefix filters", m.PrefixFilters, "read by the first scan that asks them"},
		{"indexes", m.Indexes, "the tops, and parts as far as they fit"},
		{"range deletes", m.RangeDeletes, "read with the indexes"},
		{"tables", m.Tables, "their bounds, and where their parts are"},
		{"all", m.Sum, "the sum of these"},
		{"only on disk", m.FiltersOnDisk, "of filters, beyond those in memory"},
		{"only on disk", m.IndexesOnDisk, "parts of indexes, read when needed"},
		{"only on disk", m.SamplesOnDisk, "samples, read for compactions"},
	} {
		addRow(t, part.name, count(part.bytes), part.details)
		if i < 5 && part.bytes > 0 { // what follows is the sum, or not in memory
			bar.Parts = append(bar.Parts, picture.Part{Name: part.name, Value: float64(part.bytes)})
		}
	}
	memory := section{id: "memory", heading: "Memory", label: "memory, with as much of tables as it holds", table: t}
	if c.Stack = bar; m.Sum > 0 {
		memory.charts = []picture.Chart{c}
	}
	return memory
}

// planSection shows the plan by which the filters were built, if it is known.
func (s *Store) planSection() section {
	plan := section{id: "plan", heading: "The plan", lines: []string{s.Plan.String()}}
	if p := s.Plan; p != nil {
		plan.table = newTable("The rate that each run of a level may have, and that of filters built for it",
			"level", "promised", "predicted", "bits/key")
		for _, l := range p.Levels {
			addRow(plan.table, count(l.Level), rate(l.FPR), rate(l.Predicted), fmt.Sprintf("%.2f", l.BitsPerKey))
		}
	}
	return plan
}

// section shows what the memory of a store keeps of what was asked.
func (p *Promise) section() section {
	promise := section{
		id: "promise", heading: "What memory keeps",
		label: "what a MemoryBudget of " + words.MiB(p.MemoryBudget) + " keeps for a lookup of an absent key",
		lines: []string{
			"passed are the filters in memory that let the key through, and searched the tables that are searched " +
				"in vain; between these are pages of filters, which are asked in their files if little of them is " +
				"in memory; reads are these pages, and two for each table",
			"whole is what passes with all filters in memory, and the last column is the MemoryBudget that holds " +
				"them; a store is idle if nothing was written to it for a minute",
		},
		table: newTable("What a lookup of an absent key costs at most with the memory of the store; memory in bytes",
			"the store is", "asked", "whole", "passed", "pages", "searched", "reads", "MemoryBudget", "for all"),
	}
	for _, use := range []struct {
		name string
		filterplan.Promise
	}{{"written to", p.Writing}, {"idle", p.Idle}} {
		addRow(promise.table, use.name, rate(p.Asked), rate(p.Whole), rate(use.Passed), rate(use.Pages), rate(use.FPR),
			rate(use.Reads), words.MiB(p.MemoryBudget), words.MiB(use.Budget))
	}
	return promise
}

// String describes the plan.
func (p *Plan) String() string {
	switch {
	case p == nil:
		return "the plan of the filters is not known: all of their units are assumed to be in memory"
	case p.FPR >= 1:
		return "the store was last written without filters, as " + words.Plural(p.Tables, "table") + p.off()
	}
	s := fmt.Sprintf("the store was last written with filters for %g wasted reads over the whole tree", p.FPR)
	if p.Limit > 0 {
		s = fmt.Sprintf("the store was last written with %s of memory for filters, for which the best rate is %.3g "+
			"wasted reads over the whole tree", words.Plural(p.Limit, "byte"), p.FPR)
	}
	s += fmt.Sprintf(", %s, level ratio %d", p.Kind, p.Ratio)
	if p.Prefix != "" {
		s += ", and prefix filters by the rule " + p.Prefix
	}
	return s + ", as in " + words.Plural(p.Tables, "table") + p.off()
}

// off describes the tables that were not built by the plan.
func (p *Plan) off() string {
	if p.TablesOffPlan == 0 {
		return ""
	}
	return fmt.Sprintf("; %s with %s have other filters, which compact rebuilds",
		words.Plural(p.TablesOffPlan, "table"), words.Plural(p.BytesOffPlan, "byte"))
}

// whatIfSection shows what filters by other options would take and waste, and the present ones.
func (s *Store) whatIfSection() section {
	c := picture.Chart{
		Name: "what-if", Title: "Memory of filters against wasted reads", X: "filters in memory",
		Y:    "wasted reads per absent key",
		LogX: true, LogY: true, FormatX: picture.Bytes, FormatY: rate,
		Caption: "Lower is fewer wasted reads, and further left is less memory. Each curve shows what filters of " +
			"that kind would waste in the same runs with a given memory, if all tables were rewritten.",
	}
	c.Lines = append(c.Lines, s.curves...)
	add := func(name string, bytes uint64, wasted float64) {
		asked := func(l picture.Line) bool { return l.Name == name } // twice
		if wasted > 0 && bytes > 0 && !slices.ContainsFunc(c.Lines, asked) {
			c.Lines = append(c.Lines, picture.Line{
				Name: name, Kind: picture.Points, X: []float64{float64(bytes)},
				Y: []float64{wasted},
			})
		}
	}
	add("you are here", s.Tree.FilterBytes, s.Tree.Predicted)
	whatIf := section{id: "what-if", heading: "What if", label: "what if all tables were rewritten with other filters"}
	if len(s.WhatIf) == 0 {
		whatIf.charts = []picture.Chart{c}
		whatIf.explain = "bloomkv inspect DIR --what-if ITEMS shows any of these filters, level by level."
		whatIf.pageOnly = true
		return whatIf
	}
	whatIf.table = newTable("If all tables were rewritten with other filters",
		"asked", "kind", "promised", "memory", "filters", "more", "wasted reads")
	for i := range s.WhatIf {
		f := &s.WhatIf[i]
		addRow(whatIf.table, f.Asked, f.Kind, rate(f.FPR), count(f.Memory), count(f.Bytes),
			fmt.Sprintf("%+d", f.More), rate(f.Wasted))
		if i < 20 {
			add(f.Asked, f.Bytes, f.Wasted)
		}
		levels := newTable("", "level", "keys", "bits/key", "filters in memory", "wasted reads")
		for _, l := range f.Levels {
			addRow(levels, count(l.Level), count(l.Keys), fmt.Sprintf("%.2f", l.BitsPerKey), count(l.Bytes),
				rate(l.Wasted))
		}
		whatIf.parts = append(whatIf.parts, section{
			id: fmt.Sprintf("what-if-%d", i), heading: "What if " + f.Asked + ", by level", label: "what if " + f.Asked,
			lines: []string{f.line(&s.Tree)}, table: levels,
		})
	}
	if len(c.Lines) > 0 {
		whatIf.charts = []picture.Chart{c}
	}
	return whatIf
}

// line describes what the filters would take and waste.
func (f *WhatIf) line(now *Figures) string {
	more, how := f.More, "more"
	if more < 0 {
		more, how = -more, "fewer"
	}
	line := fmt.Sprintf("filters would take %s in memory, %d %s than now, and a lookup of an absent key would waste "+
		"%.3g reads, now %.3g",
		words.Plural(f.Bytes, "byte"), more, how, f.Wasted, now.Predicted)
	if f.Pages > 0 {
		line += fmt.Sprintf(" and ask %.3g pages of filters in files", f.Pages)
	}
	if f.AtRest > 0 {
		line += fmt.Sprintf("; at rest, as many keys in one run a level, %.3g are promised", f.AtRest)
	}
	return line
}
