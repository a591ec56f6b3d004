package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// planFacts is the result of plan in JSON.
type planFacts struct {
	Keys      uint64             `json:"keys"`
	FilterFPR float64            `json:"fpr_promised"`
	Predicted float64            `json:"fpr_predicted"` // the sum over Levels
	Kind      string             `json:"kind"`
	Levels    []forecast.Figures `json:"levels"`
	Bytes     uint64             `json:"bytes"`
	Even      float64            `json:"fpr_even"`      // with the same bytes, distributed evenly over all keys
	Budget    byUse[int64]       `json:"budget_needed"` // the Options.MemoryBudget in bytes that holds filters
	Table     []tableRow         `json:"table,omitempty"`
}

// byUse has a figure of a store while it is written to, and of an idle one.
type byUse[N int64 | uint64] struct {
	Writing N `json:"writing"`
	Idle    N `json:"idle"`
}

// A tableRow has the smallest filters for a rate.
type tableRow struct {
	FPR        float64           `json:"fpr"`
	BitsPerKey float64           `json:"bits_per_key"`
	Units      []bloomblock.Unit `json:"units"`
	Predicted  float64           `json:"predicted"`
	Ribbon     float64           `json:"ribbon_bits_per_key,omitempty"` // 0 if no Ribbon filter has this rate
	Classic    bloomblock.Unit   `json:"classic"`
}

// planner has the flags of plan.
type planner struct {
	*app

	keys   uint64
	fpr    float64
	levels int
	ratio  int
	memory float64 // MiB
	budget float64 // MiB
	ribbon bool
	table  bool

	rates []tableRow // with --table
}

func (a *app) planCommand() *cobra.Command {
	p := planner{app: a}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Print the memory and the rates of filters for a number of keys",
		Long: `plan prints how much memory the filters of a store with the given number of keys take for a promised
rate, level by level. With --memory it prints the best rate that fits. The rate is the expected number of wasted table
reads for a lookup of an absent key, over the whole tree. "Evenly" is what the same memory would waste with the same
number of bits per key in every level, as in most stores.

With --budget it prints what a store with this MemoryBudget promises, for each kind of filter: while it is written to,
when memtables take half of the budget, and while it is idle, when they lend nearly all of that to filters. If the
filters for the promised rate do not fit, they are kept in smaller forms that let more absent keys through: then more
tables are searched in vain, or the whole filter is asked in the file, one page for each unit that is read. plan also
prints the budget that holds all filters, and for how many keys the given budget does.

--table also prints the smallest filters for each rate: the blocked Bloom filters of this store, Ribbon filters, and for
comparison the classic unblocked Bloom filter.`,
		Example: `  bloomkv plan --keys 100000000 --fpr 0.01
  bloomkv plan --keys 100000000 --budget 64
  bloomkv plan --keys 100000000 --memory 64 --ribbon
  bloomkv plan --table`,
		RunE: func(c *cobra.Command, _ []string) error { return cli.Hint(c, p.run(c)) },
	}
	f := c.Flags()
	f.Uint64Var(&p.keys, "keys", 1_000_000, "number of keys in the store")
	f.Float64Var(&p.fpr, "fpr", 0.01, "promised `RATE`")
	f.IntVar(&p.levels, "levels", 0, "number of levels; 0 derives it from the keys")
	f.IntVar(&p.ratio, "ratio", 10, "size of each level relative to the level above")
	f.Float64Var(&p.memory, "memory", 0, "memory for filters in `MIB`, instead of --fpr")
	f.Float64Var(&p.budget, "budget", 0, "MemoryBudget of the store in `MIB`: print what it keeps of --fpr")
	f.BoolVar(&p.ribbon, "ribbon", false, "plan Ribbon filters")
	f.BoolVar(&p.table, "table", false, "also print the table of rates")
	a.addJSON(c, "print JSON")
	return c
}

func (p *planner) run(c *cobra.Command) error {
	switch {
	case c.Flags().Changed("fpr") && c.Flags().Changed("memory"):
		return errors.New("--fpr and --memory are given, want only one of them")
	case !(p.fpr > 0 && p.fpr <= 1): // 0 in Options would mean the default
		return fmt.Errorf("--fpr %v, want more than 0, at most 1", p.fpr)
	case p.keys == 0 || p.keys > 1<<48:
		return fmt.Errorf("--keys %d, want 1 to %d", p.keys, uint64(1)<<48)
	case c.Flags().Changed("memory") && !(p.memory >= leastMemory && p.memory <= 1<<30): // also NaN
		return fmt.Errorf("--memory %v, want %v to %d", p.memory, leastMemory, 1<<30)
	case c.Flags().Changed("budget") && !(p.budget >= leastBudget && p.budget <= mostMemory): // also NaN
		return fmt.Errorf("--budget %v, want %d to %d", p.budget, leastBudget, mostMemory)
	case p.budget > 0 && (p.memory > 0 || p.ribbon):
		return errors.New("--budget is given, want neither --memory nor --ribbon: it shows all kinds of filters")
	case p.levels < 0:
		return fmt.Errorf("--levels %d, want 1 to 6, or 0", p.levels)
	case p.ratio < 2:
		return fmt.Errorf("--ratio %d, want 2 to 100", p.ratio)
	}
	if p.table {
		var err error
		if p.rates, err = rateTable(); err != nil {
			return err
		}
	}
	if p.budget > 0 {
		return p.runBudget()
	}
	facts, err := p.plan()
	if err != nil {
		return err
	}
	return p.printResult(facts, func() { p.print(facts) })
}

func (p *planner) plan() (planFacts, error) {
	facts := planFacts{Keys: p.keys, Kind: "Bloom", Table: p.rates}
	o := filterplan.Options{FPR: p.fpr, Kind: filterplan.Bloom, Ratio: p.ratio}
	if p.memory > 0 {
		o.FPR, o.Memory = 0, int64(p.memory*(1<<20))
	}
	if p.ribbon {
		facts.Kind, o.Kind = "Ribbon", filterplan.Ribbon
	}
	var err error
	if facts.FilterFPR, facts.Levels, err = forecast.AtRest(o, p.keys, p.levels); err != nil {
		return facts, err
	}
	for _, l := range facts.Levels {
		facts.Predicted += l.Predicted
		facts.Bytes += l.Bytes
	}
	facts.Even = forecast.LadderOf(p.ribbon).Rate(8*float64(facts.Bytes)/float64(p.keys)) * float64(len(facts.Levels))
	bytes := int64(facts.Bytes) //nolint:gosec // far below 2⁶³
	fixed := forecast.FixedBytes(p.keys)
	facts.Budget = byUse[int64]{forecast.Writing.Budget(bytes, fixed), forecast.Idle.Budget(bytes, fixed)}
	return facts, nil
}

func (p *planner) print(facts planFacts) {
	words.Wrapped(p.Out, fmt.Sprintf("%s in %s, each %d times as large as the level above; %s filters",
		words.Plural(facts.Keys, "key"), words.Plural(len(facts.Levels), "level"), p.ratio, facts.Kind))
	fmt.Fprintln(p.Out)
	w := tabwriter.NewWriter(p.Out, 0, 0, 1, ' ', tabwriter.AlignRight) // fits words.Width
	fmt.Fprintln(w, "level\tkeys\tpromised\tpredicted\tbits/key\tsize\tunits\t")
	for _, l := range facts.Levels {
		fmt.Fprintf(w, "%d\t%s\t%.3g\t%.3g\t%.2f\t%s\t%s\t\n", l.Level, words.Count(l.Keys), l.FPR, l.Predicted,
			l.BitsPerKey, words.Size(l.Bytes), unitsInWords(l.Units, l.Ribbon))
	}
	w.Flush()
	fmt.Fprintln(p.Out)
	words.Wrapped(p.Out, fmt.Sprintf("filters take %s, %.2f bits per key; an absent key wastes %.3g table reads, "+
		"promised %.3g; evenly distributed, the same memory would waste %.3g; a MemoryBudget of %s holds them, or of "+
		"%s while nothing is written",
		words.Plural(facts.Bytes, "byte"), 8*float64(facts.Bytes)/float64(facts.Keys), facts.Predicted,
		facts.FilterFPR, facts.Even, words.MiB(facts.Budget.Writing), words.MiB(facts.Budget.Idle)))
	p.printTable()
}

// printTable prints the table of rates, if there is one.
func (p *planner) printTable() {
	if len(p.rates) == 0 {
		return
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(p.Out)
	fmt.Fprintln(w, "rate\tblocked, bits/key\tprobes\tpredicted\tRibbon\tclassic\tprobes\t")
	for _, r := range p.rates {
		ribbon := "-"
		if r.Ribbon > 0 {
			ribbon = fmt.Sprintf("%.2f", r.Ribbon)
		}
		fmt.Fprintf(w, "%g\t%.1f\t%s\t%.3g\t%s\t%.1f\t%d\t\n", r.FPR, r.BitsPerKey, probesInWords(r.Units), r.Predicted,
			ribbon, r.Classic.BitsPerKey, r.Classic.Probes)
	}
	w.Flush()
}

// unitsInWords returns the bits per key and the probes of each unit.
func unitsInWords(units []bloomblock.Unit, ribbon bool) string {
	words := make([]string, len(units))
	for i, u := range units {
		if words[i] = fmt.Sprintf("%.1f/%d", u.BitsPerKey, u.Probes); i == 0 && ribbon {
			words[i] = "Ribbon"
		}
	}
	return cmp.Or(strings.Join(words, " + "), "none")
}

func probesInWords(units []bloomblock.Unit) string {
	words := make([]string, len(units))
	for i, u := range units {
		words[i] = strconv.Itoa(u.Probes)
	}
	return strings.Join(words, "+")
}

// rateTable returns the smallest filters for a series of rates.
func rateTable() (rows []tableRow, err error) {
	for _, rate := range []float64{
		0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0005, 0.0001, 1e-5, 1e-6,
		1e-7, 1e-8, 1e-9,
	} {
		blocked, err := bloomblock.ParamsFor(rate)
		if err != nil {
			return nil, err
		}
		row := tableRow{
			FPR: rate, BitsPerKey: blocked.BitsPerKey(), Units: blocked.Units(), Predicted: blocked.Rate(),
			Classic: classicUnit(rate),
		}
		if ribbon, err := bloomblock.ParamsRibbon(rate); err == nil && ribbon.Ribbon() {
			row.Ribbon = ribbon.BitsPerKey()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// classicRate returns the rate of an unblocked Bloom filter, whose probes fall anywhere in it, with many keys:
// (1-e^(-probes/bits))^probes (Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 1970). It is
// for comparison: a filter of bloomblock, whose probes fall into one cache line, needs more bits for the same rate,
// and a table of classic rates promises too much for it.
func classicRate(bitsPerKey float64, probes int) float64 {
	return math.Pow(-math.Expm1(-float64(probes)/bitsPerKey), float64(probes))
}

// classicUnit returns the smallest unblocked filter whose rate is at most rate, in half bits per key, with the fewest
// probes. The rate must be above 0.
func classicUnit(rate float64) bloomblock.Unit {
	const step = 0.5
	for u := (bloomblock.Unit{BitsPerKey: step}); ; u.BitsPerKey += step {
		for u.Probes = 1; float64(u.Probes) <= u.BitsPerKey; u.Probes++ {
			if classicRate(u.BitsPerKey, u.Probes) <= rate {
				return u
			}
		}
	}
}

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
