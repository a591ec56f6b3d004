package bloom

import (
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A Window is a set that forgets its oldest keys: the keys of a stream that were seen lately. It consists of
// generations. Keys are added to the newest; when that is full, the oldest is cleared and becomes the newest.
//
// With Options.Keys = n and g generations, each for n/(g-1) keys:
//
//   - A key is found at least until n other keys have been added after it. It is forgotten, except as a false positive,
//     when about n·g/(g-1) have been. Here a key counts once for each generation to which it is added.
//   - If Advance is called, a key is found after g-1 calls, provided that the generations did not fill up in between,
//     and forgotten after g calls.
//   - The false positive rate is at most Options.Rate.
//
// Adding a key again makes it as new as any.
//
// More generations forget more evenly, and each takes time in Add and MayContain. One goroutine may add; any number may
// ask while none adds.
type Window struct{ series[window] }

const maxGenerations = 64

// NewWindow returns an empty set of 2 to 64 generations. Its errors are those of New; the lowest rate is the number of
// generations times bloomblock.BestRate.
func NewWindow(o Options, generations int) (*Window, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if generations < 2 || generations > maxGenerations {
		return nil, fmt.Errorf("%w: %d generations, want 2..%d", bloomblock.ErrParams, generations, maxGenerations)
	}
	if least := float64(generations) * bloomblock.BestRate; o.Rate < least {
		return nil, fmt.Errorf("%w: %v, want at least %.2g for %d generations", bloomblock.ErrRate, o.Rate, least,
			generations)
	}
	w := &Window{series[window]{options: o}}
	for i := range generations {
		f, err := New(window{}.filter(o, i, generations))
		if err != nil {
			return nil, err
		}
		w.filters = append(w.filters, f)
	}
	return w, nil
}

// window is the kind of a Window.
type window struct{}

func (window) kind() (number uint8, name string) { return kindWindow, "Window" }

// filter returns the options of each of g generations.
func (window) filter(o Options, _, g int) Options {
	o.Keys = (max(o.Keys, 1)-1)/(g-1) + 1
	o.Rate /= float64(g)
	return o
}

// Add adds a key. It reports whether the key was certainly not in the window before.
func (w *Window) Add(key []byte) (added bool) { return w.AddHash(bloomblock.HashKey(key)) }

// AddHash adds a key by its hash: see Add.
func (w *Window) AddHash(h bloomblock.Hash) (added bool) {
	if len(w.filters) == 0 {
		return false
	}
	added = !w.MayContainHash(h)
	f := w.filters[len(w.filters)-1]
	if f.added >= uint64(f.options.Keys) && !f.MayContainHash(h) { //nolint:gosec // ≥ 0
		w.Advance()
		f = w.filters[len(w.filters)-1]
	}
	f.AddHash(h) // also a key of an older generation: it must be found for as long as a new one
	return added
}

// Advance forgets the oldest generation and begins a new one. Called by a clock, it makes a window of time: with a
// generation for each minute, keys are found for at least g-1 minutes. It takes the time of clearing the generation's
// memory.
func (w *Window) Advance() {
	if len(w.filters) == 0 {
		return
	}
	oldest := w.filters[0]
	oldest.Clear()
	w.filters = append(slices.Delete(w.filters, 0, 1), oldest)
}

// Generations returns the number of generations.
func (w *Window) Generations() int { return len(w.filters) }

// EstimatedCount estimates the number of distinct keys in the window.
func (w *Window) EstimatedCount() Estimate {
	if len(w.filters) == 0 {
		return unknown
	}
	all := w.filters[0].Clone()
	for _, f := range w.filters[1:] {
		all.or(f)
	}
	return all.EstimatedCount()
}
