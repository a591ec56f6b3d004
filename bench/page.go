package main

import (
	"slices"

	"github.com/bloomkv/bloomkv/internal/picture"
)

// page returns the main run as a page.
func (r *report) page() *picture.Page {
	p := &picture.Page{
		Title: "bloomkv: the cost of lookups",
		Intro: r.intro() + ".\n\n" + origin(r.Machine, r.Command),
	}
	for _, s := range r.read() {
		p.Intro += "\n\n" + s.summary() + "."
	}
	work, times := r.costs(), r.times()
	p.Sections = []picture.Section{
		{
			ID: "costs", Heading: "Blocks and reads per lookup",
			Text: "By the counters of the store, and reads by the counter of the operating system too. " +
				"A wasted read is a search of a table that holds no version of the key.",
			Charts: charts(
				r.bars("blocks", "Data blocks searched per lookup", "blocks", "cached or not",
					func(p *phase) float64 { return p.cost().Blocks }),
				r.bars("file-reads", "Reads from files per lookup", "reads", "by the counter of the operating system",
					(*phase).systemReads),
			),
			Table: work.table("Per lookup, or per operation in phases without lookups"),
		},
		{
			ID: "times", Heading: "Times",
			Text: "Nanoseconds per operation: of writes the mean, stalls included; of reads the median over chunks " +
				"of operations. Percentiles are of calls that were timed one by one.",
			Charts: charts(r.bars("ns", "Time of a lookup", "ns",
				"median over chunks of operations", (*phase).nsPerOp)),
			Table: times.table("Times of each phase"),
		},
	}
	return p
}

// charts returns the charts that have lines.
func charts(all ...picture.Chart) []picture.Chart {
	return slices.DeleteFunc(all, func(c picture.Chart) bool { return len(c.Lines) == 0 })
}

// bars returns a chart of one figure of the phases with lookups, the sides next to each other.
func (r *report) bars(name, title, unit, caption string, figure func(p *phase) float64) picture.Chart {
	c := picture.Chart{Name: name, Title: title, X: "phase", Y: unit, Caption: caption}
	for i := range r.Sides[0].Phases {
		if p := &r.Sides[0].Phases[i]; p.drawn() {
			c.Categories = append(c.Categories, p.Phase)
		}
	}
	for _, s := range r.Sides {
		l := picture.Line{Name: "filters " + s.Filters, Kind: picture.Bars}
		for i := range s.Phases {
			if p := &s.Phases[i]; p.drawn() {
				l.X, l.Y = append(l.X, float64(len(l.X))), append(l.Y, figure(p))
			}
		}
		if len(l.X) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

// drawn reports whether a phase consists of lookups alone, and so is shown in charts.
func (p *phase) drawn() bool {
	return p.Cost != nil && p.Phase != "warm" && (p.Kind == "absent" || p.Kind == "present")
}
