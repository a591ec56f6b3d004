package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/words"
)

// budgetFacts is the result of plan --budget in JSON.
type budgetFacts struct {
	Keys   uint64      `json:"keys"`
	Asked  float64     `json:"fpr_asked"`
	Budget int64       `json:"memory_budget"` // in bytes
	Kinds  []kindFacts `json:"kinds"`
	Table  []tableRow  `json:"table,omitempty"`
}

// kindFacts are those of one kind of filters.
type kindFacts struct {
	Kind       string             `json:"kind"`         // "auto", "bloom" or "ribbon"
	Bytes      int64              `json:"filter_bytes"` // of all filters, if they are whole
	BitsPerKey float64            `json:"bits_per_key"`
	Writing    filterplan.Promise `json:"writing"` // while the store is written to
	Idle       filterplan.Promise `json:"idle"`
	Holds      byUse[uint64]      `json:"keys_held"` // the numbers of keys for which the budget keeps what was asked
}

// runBudget prints what a MemoryBudget keeps.
func (p *planner) runBudget() error {
	facts := budgetFacts{Keys: p.keys, Asked: p.fpr, Budget: int64(p.budget * (1 << 20)), Table: p.rates}
	for _, kind := range []filterplan.Kind{filterplan.Auto, filterplan.Bloom, filterplan.Ribbon} {
		k, err := p.planKind(filterplan.Options{FPR: p.fpr, Kind: kind, Ratio: p.ratio}, facts.Budget)
		if err != nil {
			return err
		}
		facts.Kinds = append(facts.Kinds, k)
	}
	return p.printResult(facts, func() { p.printBudget(&facts) })
}

// planKind returns what a budget keeps with filters by o.
func (p *planner) planKind(o filterplan.Options, budget int64) (k kindFacts, err error) {
	f, err := forecast.Of(o, p.keys, p.levels, budget)
	if err != nil {
		return k, err
	}
	k = kindFacts{
		Kind: o.Kind.String(), Bytes: f.Bytes, BitsPerKey: 8 * float64(f.Bytes) / float64(p.keys),
		Writing: f.Writing, Idle: f.Idle,
	}
	if k.Holds.Writing, err = forecast.Holds(o, budget, forecast.Writing); err == nil {
		k.Holds.Idle, err = forecast.Holds(o, budget, forecast.Idle)
	}
	return k, err
}

func (p *planner) printBudget(facts *budgetFacts) {
	words.Wrapped(p.Out, fmt.Sprintf("%s with a MemoryBudget of %s; %.3g wasted reads by a lookup of an absent key "+
		"are asked", words.Plural(facts.Keys, "key"), words.MiB(facts.Budget), facts.Asked))
	fmt.Fprintln(p.Out)
	w := tabwriter.NewWriter(p.Out, 0, 0, 1, ' ', tabwriter.AlignRight) // fits words.Width
	fmt.Fprintln(w, "\tfilters\t\twriting\t\tidle\t\t\tbudget for all\t")
	fmt.Fprintln(w, "kind\tsize\tbits/key\tsearched\tpages\tsearched\tpages\twriting\tidle\t")
	for _, k := range facts.Kinds {
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%.3g\t%.3g\t%.3g\t%.3g\t%s\t%s\t\n", k.Kind, words.Size(k.Bytes),
			k.BitsPerKey, k.Writing.FPR, k.Writing.Pages, k.Idle.FPR, k.Idle.Pages, words.MiB(k.Writing.Budget),
			words.MiB(k.Idle.Budget))
	}
	w.Flush()
	fmt.Fprintf(p.Out, "\n%s hold all filters of\n\n", words.MiB(facts.Budget))
	w = tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kind\tkeys, writing\tkeys, idle\t")
	for _, k := range facts.Kinds {
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", k.Kind, words.Count(k.Holds.Writing), words.Count(k.Holds.Idle))
	}
	w.Flush()
	fmt.Fprintln(p.Out)
	words.Wrapped(p.Out, "searched: tables searched in vain by a lookup of an absent key; pages: of filters, asked in "+
		"their files where memory has little of them; writing: memtables are full; idle: nothing was written for a "+
		"minute, and filters have most of their memory")
	p.printTable()
}
