package filterplan

import (
	"cmp"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

const mib = 1 << 20

// A Demand is a filter that competes with others for memory.
type Demand struct {
	// Weight is how often the filter is asked, for each lookup of an absent key within the bounds of its run: its
	// table's share of the entries of the run.
	Weight float64
	Table  uint64            // the number of its table, for the order of filters that gain equally
	Forms  []bloomblock.Form // ascending and convex, from none on: see [bloomblock.Header.Forms]
	Whole  bloomblock.Form   // all of the filter: the last of Forms, until Limit takes it away
}

// NewDemand returns the demand for the filter of a table, with a number of the entries of its run.
func NewDemand(table, entries, ofRun uint64, forms []bloomblock.Form) Demand {
	return Demand{float64(entries) / float64(ofRun), table, forms, forms[len(forms)-1]}
}

// Demands are those of all filters that share memory, or of some of them.
type Demands []Demand

// Fill divides memory, in bytes, among filters. It returns the index of each filter's form, so that the sum of the
// weighted rates, which is what lookups of absent keys waste, is as low as so much memory allows: each byte goes where
// it lowers the sum most. The last filter that gains may not fit, so up to one step of a filter stays unused.
//
// This is the division of memory of Dayan, Athanassoulis, Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD
// 2017, with forms that tables have, instead of filters that they could be given.
func (demands Demands) Fill(memory int64) (chosen []int) { return demands.FillEach(memory)[0] }

// FillEach does what Fill does, for each of several memories in bytes, with one sort.
func (demands Demands) FillEach(memories ...int64) (chosen [][]int) {
	var steps []step
	for most := demands.Most(); len(chosen) < len(memories); {
		memory := memories[len(chosen)]
		if most <= memory {
			chosen = append(chosen, demands.All())
			continue
		}
		if steps == nil {
			steps = demands.steps()
		}
		chosen = append(chosen, demands.take(steps, memory))
	}
	return chosen
}

// A step enlarges a filter to a form from the one before.
type step struct {
	of, to int     // indexes of the demand and of the form
	gain   float64 // of each byte
}

// steps returns the steps of all filters, those that gain most first.
func (demands Demands) steps() []step {
	n := -len(demands)
	for _, d := range demands {
		n += len(d.Forms)
	}
	steps := make([]step, 0, n)
	for i, d := range demands {
		for k := 1; k < len(d.Forms); k++ {
			a, b := d.Forms[k-1], d.Forms[k]
			steps = append(steps, step{i, k, d.Weight * (a.Rate - b.Rate) / float64(b.Bytes-a.Bytes)})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		if c := cmp.Compare(b.gain, a.gain); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(mixed(demands[a.of].Table), mixed(demands[b.of].Table)), cmp.Compare(a.of, b.of),
			cmp.Compare(a.to, b.to))
	})
	return steps
}

// take returns the forms that steps, as sorted by gain, reach in a memory.
func (demands Demands) take(steps []step, memory int64) (chosen []int) {
	chosen = make([]int, len(demands))
	for _, s := range steps {
		forms := demands[s.of].Forms
		need := forms[s.to].Bytes - forms[s.to-1].Bytes
		if chosen[s.of] == s.to-1 && need <= memory { // else an earlier step of the filter did not fit
			chosen[s.of] = s.to
			memory -= need
		}
	}
	return chosen
}

// mixed returns a hash of a table's number: filters that gain equally are reduced all over the keys, and the same ones
// in one state as in the next.
func mixed(number uint64) uint64 {
	number *= 0x9e3779b97f4a7c15
	return number ^ number>>32
}

// Space returns the bytes that filters may take, of the given bytes that memtables, range tombstones and the like
// leave: fifteen sixteenths, so that some blocks can be cached.
func Space(free int64) int64 { return max(free, 0) / 16 * 15 }

// Left returns what fixed bytes and a share of a budget leave of it.
func Left(budget, fixed int64, share float64) int64 {
	return budget - int64(share*float64(budget)) - fixed
}

// BudgetFor returns the smallest memory, in bytes that are whole MiB, whose filters may take the given bytes: the
// inverse of Space. fixed bytes are for range tombstones and memtables, and the given share, below 1, is for memtables
// that grow with the memory. The result is at least MinBudget.
func BudgetFor(filters, fixed int64, share float64) int64 {
	if filters == 0 {
		return MinBudget
	}
	need := (float64(filters)*16/15 + float64(fixed)) / (1 - share)
	budget := max(int64(need/mib)*mib, MinBudget)
	for Space(Left(budget, fixed, share)) < filters {
		budget += mib
	}
	return budget
}

// PartsSpace returns the bytes that parts of indexes may take of the rest that filters leave, of the given free bytes
// that memtables leave: all but a sixteenth of these, which is for blocks, or at least three quarters.
func PartsSpace(rest, free int64) int64 { return max(rest/4*3, rest-free/16) }

// All returns the indexes of the largest forms.
func (demands Demands) All() []int {
	chosen := make([]int, len(demands))
	for i, d := range demands {
		chosen[i] = len(d.Forms) - 1
	}
	return chosen
}

// Most returns the bytes of the largest forms.
func (demands Demands) Most() int64 { return demands.Bytes(demands.All()) }

// Limit removes the forms that the filters cannot have in a bounded memory, in bytes.
func (demands Demands) Limit(memory int64) {
	for i, n := range demands.Fill(memory) {
		demands[i].Forms = demands[i].Forms[:n+1]
	}
}

// Bytes returns the bytes of the chosen forms.
func (demands Demands) Bytes(chosen []int) (sum int64) {
	for i, d := range demands {
		sum += d.Forms[chosen[i]].Bytes
	}
	return sum
}

// Wasted returns the sum of the weighted rates of the chosen forms: the wasted reads of a lookup of an absent key
// within the bounds of every run.
func (demands Demands) Wasted(chosen []int) (sum float64) {
	for i, d := range demands {
		sum += d.Weight * d.Forms[chosen[i]].Rate
	}
	return sum
}
