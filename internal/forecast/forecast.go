// Package forecast says what the filters of a store that may never exist will take and promise. No store imports it: it
// is for programs that plan one, or look at one.
package forecast

import (
	"math"

	"github.com/bloomkv/bloomkv/internal/filterplan"
)

// FixedBytes returns the bytes that always stay in memory for a number of keys in entries of about 110 bytes: tops of
// indexes, and what a store knows of each table.
func FixedBytes(keys uint64) int64 { return int64(keys / 16) } //nolint:gosec // far below 2⁶³

// A Use says what the memtables of a store need of a MemoryBudget with default options.
type Use uint8

const (
	// Writing is the use of a store that is written to: two memtables take half of the budget.
	Writing Use = iota
	// Idle is the use of a store that was not written to lately: memtables keep one of the eight steps in which they
	// grow, and lend the rest.
	Idle
)

// mostShared is the budget from which on memtables take no more of it: by default the two have at most 1 GiB each.
const mostShared = 4 << 30

// share returns the share of the budget, up to mostShared, that filters cannot have.
func (u Use) share() float64 {
	if u == Idle {
		return 1. / 16
	}
	return 1. / 2
}

// Free returns the bytes of a budget that memtables leave.
func (u Use) Free(budget int64) int64 {
	return filterplan.Left(min(budget, mostShared), 0, u.share()) + max(budget-mostShared, 0)
}

// Space returns the bytes that filters may take of a budget, of which other parts than memtables take fixed bytes.
func (u Use) Space(budget, fixed int64) int64 {
	return filterplan.Space(u.Free(budget) - fixed)
}

// Budget returns the smallest budget that holds filters of the given bytes, beside fixed ones: see
// filterplan.BudgetFor.
func (u Use) Budget(filters, fixed int64) int64 {
	if budget := filterplan.BudgetFor(filters, fixed, u.share()); budget <= mostShared {
		return budget
	}
	return filterplan.BudgetFor(filters, fixed+int64(u.share()*mostShared), 0)
}

// A Forecast is what a store at rest promises with a MemoryBudget and default options for memory. All its filters were
// built for its present size.
type Forecast struct {
	Bytes         int64              // of its filters, if they are whole
	Idle, Writing filterplan.Promise // by what memtables need
}

// Of returns the forecast for a store with the given options and a number of keys in a tree at rest of the given number
// of levels: see AtRest. The rate that is asked is o.FPR. The error is that of AtRest.
func Of(o filterplan.Options, keys uint64, levels int, budget int64) (Forecast, error) {
	o, err := o.Checked()
	if err != nil {
		return Forecast{}, err
	}
	f := o.Planner()
	runs, err := atRest(f, keys, levels)
	if err != nil {
		return Forecast{}, err
	}
	fixed := FixedBytes(keys)
	now, err := f.For(o.FPR, runs, Writing.Space(budget, fixed))
	if err != nil {
		return Forecast{}, err
	}
	built := filtersOf(now, runs)
	f.Short = true // as in the smallest budget that is enough
	short, err := f.Plan(o.FPR)
	if err != nil {
		return Forecast{}, err
	}
	least := filtersOf(short, runs).demands.Most()
	promise := func(u Use) filterplan.Promise {
		p := built.demands.Promise(o.FPR, built.demands.Fill(u.Space(budget, fixed)))
		p.Budget = u.Budget(least, fixed)
		return p
	}
	return Forecast{built.demands.Most(), promise(Idle), promise(Writing)}, nil
}

// atRest returns the runs of a tree at rest, cut into tables: see AtRest.
func atRest(f filterplan.Planner, keys uint64, levels int) ([]filterplan.Run, error) {
	shape, err := shapeOf(f, keys, levels)
	if err != nil {
		return nil, err
	}
	runs := make([]filterplan.Run, len(shape))
	for i, keys := range shape {
		runs[i] = filterplan.Run{Level: bottom + 1 - len(shape) + i, Keys: uint64(keys + 0.5)}
	}
	return cut(runs), nil
}

// Holds returns the number of keys, rounded down to three digits, up to which a MemoryBudget holds all filters of a
// store at rest, so that it keeps what it is asked, o.FPR, in the given use. The error is that of AtRest.
func Holds(o filterplan.Options, budget int64, u Use) (keys uint64, err error) {
	o, err = o.Checked()
	if err != nil {
		return 0, err
	}
	f := o.Planner()
	f.Short = true // as it is where filters barely fit
	p, err := f.Plan(o.FPR)
	if err != nil {
		return 0, err
	}
	low, high := 1.0, float64(1<<48)
	for high > low*1.0005 {
		n := math.Sqrt(low * high)
		runs, err := atRest(f, uint64(n), 0)
		if err != nil {
			return 0, err
		}
		if filtersOf(p, runs).demands.Most() <= u.Space(budget, FixedBytes(uint64(n))) {
			low = n
		} else {
			high = n
		}
	}
	unit := math.Pow(10, max(math.Floor(math.Log10(low))-2, 0))
	return uint64(math.Floor(low/unit) * unit), nil
}
