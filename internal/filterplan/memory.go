package filterplan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// With a bound on memory, a planner looks for the best rate whose filters fit. It tries rates in steps of a fourth root
// of two.
const (
	perOctave = 4          // rates tried for each factor of two
	BestFPR   = 1.0 / 8192 // the lowest of them: what a store that is still small gets, however much memory there is
	allSteps  = 13 * perOctave
)

// At returns the plan of one of the rates that within tries, from the highest on.
func (f Planner) At(step int) *Plan {
	p, err := f.Plan(math.Exp2(-float64(step+1) / perOctave))
	if err != nil {
		panic(err) // broken logic: rates that are out of reach are far below
	}
	return p
}

// within returns the step of the plan with the lowest rate whose filters take at most f.Memory, where bytes returns
// what the filters of a plan take. If none fits, it returns the step with the highest rate, and fits is false.
func (f Planner) within(bytes func(*Plan) int64) (step int, fits bool) {
	tooLarge := sort.Search(allSteps, func(i int) bool { return bytes(f.At(i)) > f.Memory })
	return max(tooLarge-1, 0), tooLarge > 0
}

// Within returns the plan of the step of within, for the given number of keys, or an error if none fits.
func (f Planner) Within(keys uint64, bytes func(*Plan) int64) (*Plan, error) {
	step, fits := f.within(bytes)
	if !fits {
		return nil, f.TooLittle(keys)
	}
	return f.At(step), nil
}

// Plans are the plan by which filters are built and loaded now, and the plans whose filters may stay as they are.
type Plans struct {
	Now  *Plan
	Good []*Plan // a Compact leaves their filters as they are
	Fine []*Plan // compactions in the background leave these too
}

// First returns the plans of a store that is still empty. fpr is the promised rate, unused if f.Memory is set. The
// error is that of Plan.
func (f Planner) First(fpr float64) (*Plans, error) {
	if f.Memory > 0 {
		fpr = BestFPR
	}
	p, err := f.Plan(fpr)
	if err != nil {
		return nil, err
	}
	return &Plans{p, []*Plan{p}, []*Plan{p}}, nil
}

// ForSpace returns the plans of a store that promises a rate, for runs and a space for all filters in bytes. Memory is
// short, as Planner.Short says, if twice the filters would not fit; it is no longer short when three times the filters
// fit, so that a store at the border does not build filters of two kinds in turn. before are the last plans.
//
// Filters that are built for either case keep the promise. If memory is short, a Compact writes the others anew, and
// background work leaves them.
func (f Planner) ForSpace(before *Plans, runs []Run, space int64) *Plans {
	f.Short = false
	roomy, err := f.Plan(before.Now.FPR)
	f.Short = true
	short, shortErr := f.Plan(before.Now.FPR)
	if err != nil || shortErr != nil || *roomy == *short {
		return before
	}
	need := int64(0)
	for _, r := range runs {
		need += roomy.Levels[r.Level].bytes(r.Keys, r.Tables)
	}
	was := *before.Now == *short
	if 2*need > space || was && 3*need > space {
		return &Plans{short, []*Plan{short}, []*Plan{roomy, short}}
	}
	return &Plans{roomy, []*Plan{roomy, short}, []*Plan{roomy, short}}
}

// Near returns the plan of a step, and those whose filters are near enough to stay: filters of up to twice its rate,
// and of all lower rates, which take more memory. For a Compact, those of lower rates are good only while the filters,
// as far as they fit, keep the rate of the step, that is, while cut is false. The plan changes by less than a factor of
// two while a Compact brings levels together, so a Compact does not write its own tables anew.
func (f Planner) Near(step int, cut bool) *Plans {
	plans := &Plans{Now: f.At(step)}
	for i := max(step-perOctave, 0); i < allSteps; i++ {
		p := f.At(i)
		plans.Fine = append(plans.Fine, p)
		if i <= step || !cut {
			plans.Good = append(plans.Good, p)
		}
	}
	return plans
}

// TooLittle returns the error that the memory is too little for the given number of keys.
func (f Planner) TooLittle(keys uint64) error {
	p := f.At(0)
	least := float64(keys) * p.Levels[bottom].Params.BitsPerKey() / 8
	return fmt.Errorf("option FilterMemory: %d, and filters of %d keys take %.0f or more, for a rate of %.2g: %w",
		f.Memory, keys, math.Ceil(least), p.FPR, bloomblock.ErrRate)
}

const (
	blockBytes = 64    // a block of a filter
	bandBytes  = 3 * 8 // the words of a Ribbon column at which no key's band begins
)

// bytes returns the most memory that filters built for the level take, for the given numbers of keys and tables. The
// last block of each unit is not full, and a Ribbon unit extends beyond the slot of its last key. Units side by side
// are rounded to whole parts, which takes a hundredth more.
func (l *Level) bytes(keys uint64, tables int) int64 {
	each := len(l.Params.Units()) * blockBytes
	if l.Params.Ribbon() {
		each += bandBytes * int(math.Ceil(l.Params.Leading(1).BitsPerKey()))
	}
	return int64(float64(keys)*l.Params.BitsPerKey()/8) + int64(tables*each)
}

// A Run is the size of one run of a tree.
type Run struct {
	Level  int
	Keys   uint64 // entries of its tables
	Tables int
}

// ForRuns returns the step of the best plan whose filters of all runs take at most f.Memory, as within does.
func (f Planner) ForRuns(runs []Run) (step int, fits bool) {
	return f.within(func(p *Plan) int64 { return p.built(runs) })
}

// built returns the most memory that filters of runs take when they are built. Level 0 counts as the last level, in
// which its keys soon lie.
func (p *Plan) built(runs []Run) (sum int64) {
	for _, r := range runs {
		sum += p.Levels[cmp.Or(r.Level, bottom)].bytes(r.Keys, r.Tables)
	}
	return sum
}

// For returns the plan by which a store builds filters for runs, with a space for all filters in bytes: the best one
// that fits in f.Memory, if that is set, and else that of ForSpace for a promised rate.
func (f Planner) For(fpr float64, runs []Run, space int64) (*Plan, error) {
	if f.Memory > 0 {
		keys := uint64(0)
		for _, r := range runs {
			keys += r.Keys
		}
		return f.Within(keys, func(p *Plan) int64 { return p.built(runs) })
	}
	p, err := f.Plan(fpr)
	if err != nil {
		return nil, err
	}
	return f.ForSpace(&Plans{Now: p}, runs, space).Now, nil
}

// Off reports whether a table on a level, whose filter promises a rate, follows none of the plans.
func Off(good []*Plan, level int, rate float64) bool {
	return !slices.ContainsFunc(good, func(p *Plan) bool { return p.has(level, rate) })
}
