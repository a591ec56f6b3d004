// Package history records what clients of a replicated store did and saw, and checks with porcupine that it is
// linearizable. Only tests import it.
package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// An Outcome says what a client knows about its operation.
type Outcome int

// A failed operation did not happen. An unknown one may happen at any later time, or never.
const (
	Done Outcome = iota
	Unknown
	Failed
)

// History is a list of operations on keys. It is safe for concurrent use.
type History struct {
	begin time.Time

	mu    sync.Mutex
	all   []porcupine.Operation // guarded by mu
	count [3]int                // guarded by mu: operations by outcome
}

// New returns an empty history.
func New() *History { return &History{begin: time.Now()} }

type input struct {
	key   string
	write bool
	value string // of a write; empty for a deletion
}

// Write records a write of a value, which f does. An empty value means that the key is deleted.
func (h *History) Write(key, value string, f func() Outcome) Outcome {
	call := time.Since(h.begin)
	outcome := f()
	h.add(input{key, true, value}, "", call, outcome)
	return outcome
}

// Read records a read, which f does. Of an absent key it returns the empty value.
func (h *History) Read(key string, f func() (string, Outcome)) Outcome {
	call := time.Since(h.begin)
	value, outcome := f()
	if outcome == Unknown { // it changed nothing
		outcome = Failed
	}
	h.add(input{key, false, ""}, value, call, outcome)
	return outcome
}

func (h *History) add(in input, out string, call time.Duration, outcome Outcome) {
	o := porcupine.Operation{Input: in, Output: out, Call: int64(call), Return: int64(time.Since(h.begin))}
	if outcome == Unknown {
		o.Return = math.MaxInt64 // after all reads: then it need not have happened
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[outcome]++
	if outcome != Failed {
		h.all = append(h.all, o)
	}
}

// String returns how many operations there are.
func (h *History) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%d operations done, %d unknown, %d failed", h.count[Done], h.count[Unknown], h.count[Failed])
}

// Done returns the number of operations that were done.
func (h *History) Done() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count[Done]
}

// Check returns an error if the history is not linearizable, or if that was not found out within a time. All operations
// must have ended.
func (h *History) Check(within time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	byKey := map[string][]porcupine.Operation{}
	for _, o := range h.all {
		key := o.Input.(input).key //nolint:errcheck // add makes no others
		byKey[key] = append(byKey[key], o)
	}
	model := porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, in, out any) (bool, any) {
			if i := in.(input); i.write { //nolint:errcheck // add makes no others
				return true, i.value
			}
			return state == out, state
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %q", in, out) },
	}
	for key, operations := range byKey {
		if got := porcupine.CheckOperationsTimeout(model, operations, within); got != porcupine.Ok {
			return fmt.Errorf("the %d operations on %s are not linearizable: %s%s",
				len(operations), key, got, listed(operations))
		}
	}
	return nil
}

// listed returns operations in the order of their calls, a line each, with their times in microseconds.
func listed(operations []porcupine.Operation) string {
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var all strings.Builder
	for _, o := range operations {
		end := "unknown"
		if o.Return != math.MaxInt64 {
			end = strconv.FormatInt(o.Return/1000, 10)
		}
		in := o.Input.(input) //nolint:errcheck // add makes no others
		if in.write {
			fmt.Fprintf(&all, "\n%d to %s: write %q", o.Call/1000, end, in.value)
		} else {
			fmt.Fprintf(&all, "\n%d to %s: read %q", o.Call/1000, end, o.Output)
		}
	}
	return all.String()
}
