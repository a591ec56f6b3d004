package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// result returns the result of a main run in a sentence, or nothing if no absent keys were looked up: the costs of
// these lookups in the tree with the most runs.
func (r *report) result() string {
	var best []*phase
	for i := range r.rows() {
		var row []*phase
		for k := range r.Sides {
			if p := r.Sides[k].at(i); p != nil && p.Kind == workload.Absent.String() && p.Phase != "absent-many" {
				row = append(row, p)
			}
		}
		if len(row) > 0 && len(row) == len(r.Sides) && (best == nil || row[0].Runs > best[0].Runs) {
			best = row
		}
	}
	if best == nil {
		return ""
	}
	text := fmt.Sprintf("In %s (phase %s), a lookup of an absent key searches ",
		runsInWords(best[0].Runs, best[len(best)-1].Runs), best[0].Phase)
	if len(best) == 1 {
		return text + fmt.Sprintf("%s blocks with filters %s and takes %s ns (median).",
			perLookup(best[0].cost().Blocks), r.Sides[0].Filters, best[0].took())
	}
	on, off := best[0], best[1]
	text += compared(on.cost().Blocks, off.cost().Blocks, "blocks") +
		fmt.Sprintf(", and takes %s ns instead of %s (median).", on.took(), off.took())
	if s := &r.Sides[0]; s.FilterBytes > 0 { // else the run was stopped before its end
		text += fmt.Sprintf(" Filters take %.1f MB of memory, %.1f bits per key.", float64(s.FilterBytes)/1e6,
			s.FilterBitsPerKey)
	}
	return text
}

// result returns the result of a sweep in a sentence, or nothing if it has no pair of points to compare.
func (r *sweepReport) result() string {
	on, off := r.compared()
	if on == nil || off == nil {
		return ""
	}
	if r.Sweep == sweepFPR {
		return fmt.Sprintf("With %.1f bits of filter per key, a lookup of an absent key in %s wastes %s.",
			on.FilterBitsPerKey, runsInWords(on.Runs, off.Runs), compared(wasted(on), wasted(off), "reads"))
	}
	return fmt.Sprintf("With %d keys in %s, a lookup of an absent key searches %s, and takes %.0f ns instead of %.0f "+
		"(median).", on.Keys, runsInWords(on.Runs, off.Runs),
		compared(absentBlocks(on), absentBlocks(off), "blocks"), absentNs(on), absentNs(off))
}

// compared returns the points that show the result best: with filters and without, the same keys in the most runs, and
// of several rates the one nearest to a hundredth.
func (r *sweepReport) compared() (on, off *point) {
	var points []*point // right after the load
	for i := range r.Points {
		if p := &r.Points[i]; p.State == r.Points[0].State {
			points = append(points, p)
		}
	}
	away := func(p *point) float64 { return math.Abs(math.Log(p.FilterFPR / 0.01)) }
	for i, p := range points {
		switch {
		case r.Sweep == sweepFPR && p.Filters == "off":
			off = p
		case r.Sweep == sweepFPR && (on == nil || away(p) < away(on)):
			on = p
		case r.Sweep != sweepFPR && i > 0 && p.Filters == "off" && points[i-1].Filters == "on":
			on, off = points[i-1], p
		}
	}
	return on, off
}

// compared describes figures with filters and without.
func compared(on, off float64, what string) string {
	text := fmt.Sprintf("%s %s with filters and %s without", perLookup(on), what, perLookup(off))
	if on > 0 && off > on {
		text += fmt.Sprintf(", %.3g times as many", off/on)
	}
	return text
}

// runsInWords returns numbers of runs, with filters and without. The trees may differ, since compaction works while a
// store is loaded.
func runsInWords(on, off int) string {
	switch {
	case on != off:
		return fmt.Sprintf("%d runs with filters and %d without", on, off)
	case on == 1:
		return "one run"
	}
	return fmt.Sprintf("%d runs", on)
}

// tooSmall names the lines that cannot be told from zero in a chart, with their largest value.
func tooSmall(c *picture.Chart) string {
	const visible = 1.0 / 100 // of the height
	if c.LogY {
		return ""
	}
	most := 0.0
	for _, l := range c.Lines {
		most = max(most, slices.Max(l.Y))
	}
	var small []string
	for _, l := range c.Lines {
		if top := slices.Max(l.Y); top < most*visible {
			small = append(small, fmt.Sprintf("%s (at most %s)", l.Name, perLookup(top)))
		}
	}
	if len(small) == 0 {
		return ""
	}
	return "; too small to see: " + strings.Join(small, ", ")
}
