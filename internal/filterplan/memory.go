package filterplan

import (
	"fmt"
	"math"
	"sort"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// With a bound on memory, a planner looks for the best rate whose filters fit. It tries rates in steps of a fourth root
// of two.
const (
	Steps    = 4          // rates tried for each factor of two
	BestFPR  = 1.0 / 8192 // the lowest of them: what a store that is still small gets, however much memory there is
	allSteps = 13 * Steps
)

// At returns the plan of one of the rates that Within tries, from the highest on.
func (f Planner) At(step int) *Plan {
	p, err := f.Plan(math.Exp2(-float64(step+1) / Steps))
	if err != nil {
		panic(err) // broken logic: rates that are out of reach are far below
	}
	return p
}

// Within returns the step of the plan with the lowest rate whose filters take at most f.Memory, where bytes returns
// what the filters of a plan take. If none fits, it returns the step with the highest rate, and fits is false.
func (f Planner) Within(bytes func(*Plan) int64) (step int, fits bool) {
	tooLarge := sort.Search(allSteps, func(i int) bool { return bytes(f.At(i)) > f.Memory })
	return max(tooLarge-1, 0), tooLarge > 0
}

// Plans are the plan by which filters are built and loaded now, and the plans whose filters may stay as they are.
type Plans struct {
	Now  *Plan
	Good []*Plan // a Compact leaves their filters as they are
	Fine []*Plan // compactions in the background leave these too
}

// One returns the plans of a store that promises a rate: the filters of p alone are good.
func One(p *Plan) *Plans { return &Plans{p, []*Plan{p}, []*Plan{p}} }

// Near returns the plan of a step, and those whose filters are near enough to stay: filters of up to twice its rate,
// and of all lower rates, which take more memory. For a Compact, those of lower rates are good only while all filters
// fit, that is, while cut is false. The plan changes by less than a factor of two while a Compact brings levels
// together, so a Compact does not write its own tables anew.
func (f Planner) Near(step int, cut bool) *Plans {
	plans := &Plans{Now: f.At(step)}
	for i := max(step-Steps, 0); i < allSteps; i++ {
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

// Bytes returns the most memory that filters built for the level take, for the given numbers of keys and tables. The
// last block of each unit is not full, and a Ribbon unit extends beyond the slot of its last key.
func (l *Level) Bytes(keys uint64, tables int) int64 {
	each := len(l.Params.Units()) * blockBytes
	if l.Params.Ribbon() {
		each += bandBytes * int(math.Ceil(l.Params.Leading(1).BitsPerKey()))
	}
	return int64(float64(keys)*l.Params.BitsPerKey()/8) + int64(tables*each)
}

// BuildLevel returns the level as which a level counts when memory is shared out for building: the keys of level 0 soon
// lie in the last level.
func BuildLevel(level int) int {
	if level == 0 {
		return bottom
	}
	return level
}
