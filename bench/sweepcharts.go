package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/tools/picture"
)

// states returns the states of the trees, in the order of the points.
func (r *sweepReport) states() (names []string) {
	for _, p := range r.Points {
		if !slices.Contains(names, p.State) {
			names = append(names, p.State)
		}
	}
	return names
}

// readFiles reports whether lookups read from files at least once in ten thousand. The Go runtime itself makes fewer
// reads.
func (r *sweepReport) readFiles() bool {
	return slices.ContainsFunc(r.Points, func(p point) bool { return max(absentReads(&p), presentReads(&p)) >= 1e-4 })
}

// allValues is below every figure: with it as the limit, no point is left out of a line.
const allValues = -1

// line returns a line through the points with the given state and filters whose figure is above a limit, or no line if
// there is no such point. A logarithmic axis needs a limit of 0.
func (r *sweepReport) line(name, state string, filters []string, limit float64, x, y func(p *point) float64,
) []picture.Line {
	l := picture.Line{Name: name}
	for _, f := range filters {
		for i := range r.Points {
			if p := &r.Points[i]; p.State == state && p.Filters == f && y(p) > limit {
				l.X, l.Y = append(l.X, x(p)), append(l.Y, y(p))
			}
		}
	}
	if len(l.X) == 0 {
		return nil
	}
	return []picture.Line{l}
}

// charts returns charts of blocks, reads and times per lookup with a line for each state, with filters and without.
func (r *sweepReport) charts(x func(p *point) float64) (all []picture.Chart) {
	const times = "median over chunks of operations, one goroutine"
	system := fmt.Sprintf("by the counter of the operating system, with %d MiB of memory", r.MemoryBudget>>20)
	for _, c := range []struct {
		name, title, unit, caption string
		logY, reads                bool
		y                          func(p *point) float64
	}{
		{
			"-absent", "Data blocks searched for an absent key", "blocks per lookup",
			"cached or not; a point at 0 is not drawn", true, false, absentBlocks,
		},
		{
			"-present", "Data blocks searched for a present key", "blocks per lookup",
			"cached or not; the minimum is 1", false, false, presentBlocks,
		},
		{
			"-reads-absent", "Reads from files for an absent key", "reads per lookup",
			system, false, true, absentReads,
		},
		{
			"-reads-present", "Reads from files for a present key", "reads per lookup",
			system, false, true, presentReads,
		},
		{"-ns-absent", "Time of a lookup of an absent key", "ns", times, true, false, absentNs},
		{"-ns-present", "Time of a lookup of a present key", "ns", times, true, false, presentNs},
	} {
		if c.reads && !r.readFiles() {
			continue
		}
		chart := picture.Chart{
			Name: r.Sweep + c.name, Title: c.title, Caption: c.caption, X: r.Sweep, Y: c.unit,
			LogX: r.Sweep == sweepSize, LogY: c.logY,
		}
		limit := float64(allValues)
		if c.logY {
			limit = 0
		}
		for _, state := range r.states() {
			if r.Sweep == sweepFPR { // a line begins at the store without filters, at 0 bits
				chart.X = "filter bits per key, in memory"
				chart.Lines = append(chart.Lines, r.line(state, state, []string{"off", "on"}, limit, x, c.y)...)
				continue
			}
			for _, filters := range []string{"on", "off"} {
				chart.Lines = append(chart.Lines,
					r.line(state+", filters "+filters, state, []string{filters}, limit, x, c.y)...)
			}
		}
		all = append(all, chart)
	}
	return all
}

// wastedChart returns a chart of wasted reads over bits per key, with what is promised and what is possible.
func (r *sweepReport) wastedChart() picture.Chart {
	chart := picture.Chart{
		Name: "fpr-wasted", Title: "Wasted reads for an absent key", Caption: "a point at 0 is not drawn",
		X: "filter bits per key, in memory", Y: "wasted reads per lookup", LogY: true,
	}
	most := 0.0
	for _, state := range r.states() {
		chart.Lines = append(chart.Lines, r.line("measured, "+state, state, []string{"off", "on"}, 0, bits, wasted)...)
		for _, l := range r.line("promised, "+state, state, []string{"on"},
			0, bits, func(p *point) float64 { return p.FilterFPR }) {
			l.Dashed = true
			chart.Lines = append(chart.Lines, l)
			most = max(most, slices.Max(l.X))
		}
	}
	ideal := picture.Line{Name: "an ideal Bloom filter, one run", Kind: picture.Curve, Dashed: true}
	for b := 0.0; b <= most; b += 0.5 {
		ideal.X, ideal.Y = append(ideal.X, b), append(ideal.Y, math.Pow(0.5, b*math.Ln2))
	}
	chart.Lines = append(chart.Lines, ideal)
	return chart
}
