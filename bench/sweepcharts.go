package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/tools/picture"
)

// addPoint adds a point to the line with the given name, or begins it. A logarithmic axis has no place for 0.
func addPoint(c *picture.Chart, name string, x, y float64, dashed bool) {
	if c.LogY && y <= 0 {
		return
	}
	i := slices.IndexFunc(c.Lines, func(l picture.Line) bool { return l.Name == name })
	if i < 0 {
		i = len(c.Lines)
		c.Lines = append(c.Lines, picture.Line{Name: name, Dashed: dashed})
	}
	l := &c.Lines[i]
	l.X, l.Y = append(l.X, x), append(l.Y, y)
}

// readFiles reports whether lookups read from files at least once in ten thousand. The Go runtime itself makes fewer
// reads.
func (r *sweepReport) readFiles() bool {
	return slices.ContainsFunc(r.Points, func(p point) bool { return max(absentReads(&p), presentReads(&p)) >= 1e-4 })
}

// charts returns charts of blocks, reads and times per lookup with a line for each state, with filters and without.
func (r *sweepReport) charts(unit string, x func(p *point) float64) (all []picture.Chart) {
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
			Name: r.Sweep + c.name, Title: c.title, Caption: c.caption, X: unit, Y: c.unit,
			LogX: r.Sweep == sweepSize, LogY: c.logY,
		}
		for i := range r.Points {
			p := &r.Points[i]
			name := p.State
			if r.Sweep != sweepFPR { // there a line begins at the store without filters, at 0 bits
				name += ", filters " + p.Filters
			}
			addPoint(&chart, name, x(p), c.y(p), false)
		}
		all = append(all, chart)
	}
	return all
}

const bitsUnit = "filter bits per key, in memory"

// wastedChart returns a chart of wasted reads over bits per key, with what is promised and what is possible.
func (r *sweepReport) wastedChart() picture.Chart {
	chart := picture.Chart{
		Name: "fpr-wasted", Title: "Wasted reads for an absent key", Caption: "a point at 0 is not drawn",
		X: bitsUnit, Y: "wasted reads per lookup", LogY: true,
	}
	most := 0.0
	for i := range r.Points {
		p := &r.Points[i]
		addPoint(&chart, "measured, "+p.State, bits(p), wasted(p), false)
		if p.Filters == "on" {
			addPoint(&chart, "promised, "+p.State, bits(p), p.FilterFPR, true)
			most = max(most, bits(p))
		}
	}
	ideal := picture.Line{Name: "an ideal Bloom filter, one run", Kind: picture.Curve, Dashed: true}
	for b := 0.0; b <= most; b += 0.5 {
		ideal.X, ideal.Y = append(ideal.X, b), append(ideal.Y, math.Pow(0.5, b*math.Ln2))
	}
	chart.Lines = append(chart.Lines, ideal)
	return chart
}
