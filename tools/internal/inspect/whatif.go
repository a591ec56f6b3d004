package inspect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// A Question is one argument of --what-if: filters with another promise or kind, or within a given memory. What it
// does not name stays as it is.
type Question struct {
	text   string
	fpr    float64 // 0 means unchanged
	kind   string  // empty means unchanged
	memory int64   // bytes; 0 means no limit
}

const (
	leastMemory = 1.0 / 16 // MiB for filters: the minimum of Options.FilterMemory
	mostMemory  = 1 << 20
)

// ParseWhatIf parses items separated by commas: fpr=RATE, kind=auto, bloom or ribbon, memory=MIB. Only one of fpr and
// memory is allowed.
func ParseWhatIf(text string) (q Question, err error) {
	q.text = text
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		if seen[name] {
			return q, fmt.Errorf("%s is given twice", words.Quoted(name))
		}
		seen[name] = true
		number, err := strconv.ParseFloat(value, 64)
		switch name {
		case "fpr":
			if q.fpr = number; err != nil || !(number > 0 && number <= 1) {
				return q, fmt.Errorf("fpr=%s, want more than 0, at most 1", words.Quoted(value))
			}
		case "memory":
			if err != nil || !(number >= leastMemory && number <= mostMemory) {
				return q, fmt.Errorf("memory=%s, want %g to %d MiB", words.Quoted(value), leastMemory, mostMemory)
			}
			q.memory = int64(number * (1 << 20))
		case "kind":
			q.kind = value
			if _, ok := filterplan.ParseKind(value); !ok {
				return q, fmt.Errorf("kind=%s, want auto, bloom or ribbon", words.Quoted(value))
			}
		default:
			return q, fmt.Errorf("%s, want fpr=RATE, kind=auto, bloom or ribbon, memory=MIB, separated by commas",
				words.Quoted(item))
		}
	}
	if q.fpr > 0 && q.memory > 0 {
		return q, errors.New("fpr and memory are given, want one of them: each determines the other")
	}
	return q, nil
}

// curves returns memory against wasted reads for filters of both kinds in the runs of the tree, from a third of a read
// to very few.
func (t *tree) curves(s *Store) (lines []picture.Line) {
	for _, k := range [][2]string{{"bloom", "Bloom filters"}, {"ribbon", "Ribbon filters"}} {
		l := picture.Line{Name: k[1], Kind: picture.Curve}
		for fpr := 0.3; fpr > 1e-4; fpr /= 1.5 {
			w, err := t.ask(s, Question{fpr: fpr, kind: k[0]}, math.MaxInt64)
			if err != nil || w.Bytes == 0 || w.Wasted <= 0 {
				continue // no such filters for so many keys
			}
			if n := len(l.X); n == 0 || float64(w.Bytes) > l.X[n-1] {
				l.X, l.Y = append(l.X, float64(w.Bytes)), append(l.Y, w.Wasted)
			}
		}
		if len(l.X) > 1 {
			lines = append(lines, l)
		}
	}
	return lines
}

// ask answers a question about the tree, with at most the given bytes of memory for filters.
func (t *tree) ask(s *Store, q Question, space int64) (w WhatIf, err error) {
	w = WhatIf{Asked: q.text, Kind: q.kind, Memory: uint64(q.memory), Levels: []WhatIfLevel{}} //nolint:gosec // above 0
	o := filterplan.Options{FPR: q.fpr, Memory: q.memory}
	if t.plan != nil {
		p := t.plan.facts
		o.Ratio = p.Ratio
		if w.Kind == "" && p.Kind != "none" {
			w.Kind = p.Kind
		}
		if q.fpr == 0 && q.memory == 0 {
			if o.Memory = int64(p.Limit); o.Memory == 0 { //nolint:gosec // checked when the plan was made
				o.FPR = p.FPR
			}
			w.Memory = p.Limit
		}
	} else if q.fpr == 0 && q.memory == 0 {
		return w, errors.New("the promise of the store is not known, want fpr or memory with kind")
	}
	switch {
	case w.Kind == "" && slices.ContainsFunc(t.members, (*member).ribbon):
		w.Kind = filterplan.Ribbon.String()
	case w.Kind == "":
		w.Kind = filterplan.Auto.String()
	}
	o.Kind, _ = filterplan.ParseKind(w.Kind)
	var runs []filterplan.Run
	var shares [manifest.NumLevels]float64
	whole := uint64(0)
	for _, r := range t.runs {
		run := filterplan.Run{Level: r.level, Tables: len(r.members)}
		for _, m := range r.members {
			run.Keys += m.keys()
			shares[r.level] += m.place.To - m.place.From
		}
		whole += run.Keys
		runs = append(runs, run)
	}
	promise, levels, err := forecast.Tree(o, runs, space)
	if err != nil {
		return w, err
	}
	for _, l := range s.Levels {
		p := levels[l.Level]
		wasted := shares[l.Level] * p.Predicted
		w.Levels = append(w.Levels, WhatIfLevel{l.Level, p.Keys, p.BitsPerKey, p.Bytes, wasted})
		w.Bytes += p.Bytes
		w.Wasted += wasted
	}
	w.FPR, w.Pages = promise.FPR, promise.Pages
	if rest, _, err := forecast.AtRest(o, whole, 0); err == nil && whole > 0 {
		w.AtRest = rest
	}
	w.More = int64(w.Bytes) - int64(s.Tree.FilterBytes) //nolint:gosec // far below 2⁶³
	return w, nil
}
