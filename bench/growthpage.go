package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/bloomkv/bloomkv/internal/picture"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// intro says under which terms the stores were measured.
func (r *growthReport) intro() string {
	return fmt.Sprintf("%s keys, values of %d bytes, promised %g wasted reads per absent lookup, %d MiB of memory, no compression; %d rounds",
		r.Shape, r.ValueBytes, r.FilterFPR, r.MemoryBudget>>20, r.Rounds)
}

// aboutFloors explains the columns of the floors.
const aboutFloors = `Nanoseconds for a lookup of an absent key, and for its floor: one hash, one search of flat fences, one filter of a single unit for each run.
Chained, one lookup ends before the next begins; free, the processor may have several under way. What asking costs is taken off both.`

// floors is the table of absent lookups.
func (r *growthReport) floors() *grid {
	g := &grid{head: []string{"keys, tree", "runs", "tables", "phase", "chained", "floor", "ratio", "least", "most", "must", "free", "floor", "ratio"}}
	for _, store := range r.Stores {
		for _, state := range []string{asLoaded, compacted} {
			a := store.absences()[state]
			must := ""
			if state == compacted && store.Met != nil {
				must = fmt.Sprintf("≤ %g: %s", r.MostRatio, met(*store.Met))
			}
			g.add(countName(store.Keys)+" "+state, strconv.Itoa(a.Runs), strconv.Itoa(a.Tables), ns(a.Lookup.MedianNs),
				ns(a.Chained.StoreNs), ns(a.Chained.FloorNs), ratio(a.Chained.Ratio), ratio(a.Chained.Least), ratio(a.Chained.Most), must,
				ns(a.Free.StoreNs), ns(a.Free.FloorNs), ratio(a.Free.Ratio))
		}
	}
	return g
}

// others is the table of everything else.
func (r *growthReport) others() *grid {
	g := &grid{head: []string{"keys", "tables", "load", "present", "compaction", "open", "warm"}}
	for _, s := range r.Stores {
		g.add(countName(s.Keys), strconv.Itoa(s.Compacted.Tables), ns(s.Load.MeanNs), ns(s.Present.MedianNs), s.Compact.Elapsed.Round(time.Millisecond).String(),
			s.Reopen.Open.Round(10*time.Microsecond).String(), s.Reopen.Warm.Round(10*time.Microsecond).String())
	}
	return g
}

// memory is the table of bytes per key.
func (r *growthReport) memory() *grid {
	g := &grid{head: []string{"keys", "tables", "filters", "indexes", "cache", "memtables", "other", "resident", "on disk"}}
	for _, s := range r.Stores {
		perKey := func(bytes uint64) string { return fmt.Sprintf("%.1f", float64(bytes)/float64(s.Keys)) }
		m := &s.Memory
		row := []string{countName(s.Keys), strconv.Itoa(s.Compacted.Tables)}
		for _, part := range []float64{m.Filters, m.Indexes, m.Cache, m.Memtables, m.Other} {
			row = append(row, fmt.Sprintf("%.2f", part))
		}
		g.add(append(row, perKey(s.Resident), perKey(s.TableBytes))...)
	}
	return g
}

func ns(x float64) string    { return fmt.Sprintf("%.1f", x) }
func ratio(x float64) string { return fmt.Sprintf("%.2f", x) }

// met says of a target whether it is.
func met(yes bool) string {
	if yes {
		return "met"
	}
	return "not met"
}

// print writes a page for people that benchstat reads too: it skips the lines it does not know.
func (r *growthReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s\n\n%s\n\n", r.intro(), aboutFloors)
	if err := r.floors().print(w); err != nil {
		return err
	}
	fmt.Fprint(w, "\nNanoseconds of a put and of a lookup of a key that is there; times of a whole compaction, of Open, and until all filters and indexes are in memory:\n\n")
	if err := r.others().print(w); err != nil {
		return err
	}
	fmt.Fprint(w, "\nBytes per key, in memory by part and on disk:\n\n")
	if err := r.memory().print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, s := range r.Stores {
		for _, f := range []workload.Figures{s.Load, s.Compacted.Lookup, s.Present} {
			if _, err := fmt.Fprintln(w, f.Benchmark(fmt.Sprintf("%s/keys=%d/tables=%d", f.Phase, s.Keys, s.Compacted.Tables))); err != nil {
				return err
			}
		}
	}
	return nil
}

// page is the run as a page.
func (r *growthReport) page() *picture.Page {
	return &picture.Page{
		Title: "bloomkv: how costs grow",
		Intro: r.intro() + ".\n\n" + r.Machine.CPU + ", " + strconv.Itoa(r.Machine.CPUs) + " processors, " + r.Machine.OS + ", " + r.Machine.Go + ". Command: " + r.Command,
		Sections: []picture.Section{
			{ID: "absent", Heading: "Lookups of absent keys", Text: aboutFloors, Charts: r.floorCharts(), Table: r.floors().table("A store and its floor")},
			{
				ID: "others", Heading: "Loads, present keys, reopening",
				Text:   "Nanoseconds of a put and of a lookup of a key that is there; times of a whole compaction, of Open, and until all filters and indexes are in memory.",
				Charts: r.timeCharts(), Table: r.others().table("Everything else"),
			},
			{
				ID: "memory", Heading: "Memory and disk", Text: "Bytes per key, in memory by part after many keys were looked up, and on disk.",
				Charts: r.memoryCharts(), Table: r.memory().table("Bytes per key"),
			},
		},
	}
}

// A growthSeries is the stores of a report that differ in one thing, and what their charts are called.
type growthSeries struct {
	name, axis string
	stores     []*grown
	x          func(*grown) float64
}

func (r *growthReport) series() (all []growthSeries) {
	for _, s := range []growthSeries{
		{"keys", "keys", r.byKeys(0), func(g *grown) float64 { return float64(g.Keys) }},
		{"tables", "tables of 16 KiB", r.byKeys(smallTable), func(g *grown) float64 { return float64(g.Compacted.Tables) }},
	} {
		if len(s.stores) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// line is one figure of the stores.
func (s growthSeries) line(name string, dashed bool, y func(*grown) float64) picture.Line {
	l := picture.Line{Name: name, Dashed: dashed}
	for _, g := range s.stores {
		l.X, l.Y = append(l.X, s.x(g)), append(l.Y, y(g))
	}
	return l
}

func (s growthSeries) chart(name, title, caption, unit string, lines ...picture.Line) picture.Chart {
	return picture.Chart{Name: "growth-" + s.name + "-" + name, Title: title + ", by number of " + s.name, Caption: caption, X: s.axis, Y: unit, LogX: true, Lines: lines}
}

func (r *growthReport) floorCharts() (charts []picture.Chart) {
	for _, s := range r.series() {
		charts = append(charts, s.chart("absent", "A lookup of an absent key beside its floor", "chained: one ends before the next begins; the compacted tree", "ns",
			s.line("store", false, func(g *grown) float64 { return g.Compacted.Chained.StoreNs }),
			s.line("floor", false, func(g *grown) float64 { return g.Compacted.Chained.FloorNs }),
			s.line(fmt.Sprintf("%g floors", r.MostRatio), true, func(g *grown) float64 { return r.MostRatio * g.Compacted.Chained.FloorNs })))
	}
	return charts
}

func (r *growthReport) timeCharts() (charts []picture.Chart) {
	for _, s := range r.series() {
		charts = append(charts,
			s.chart("times", "Load and lookups", "a put the mean, stalls included; lookups the median over chunks, in the compacted tree", "ns",
				s.line("put", false, func(g *grown) float64 { return g.Load.MeanNs }),
				s.line("present", false, func(g *grown) float64 { return g.Present.MedianNs }),
				s.line("absent", false, func(g *grown) float64 { return g.Compacted.Lookup.MedianNs })),
			s.chart("open", "Open after a clean Close", "Open alone, and until filters and indexes are in memory", "ms",
				s.line("open", false, func(g *grown) float64 { return float64(g.Reopen.Open) / 1e6 }),
				s.line("warm", false, func(g *grown) float64 { return float64(g.Reopen.Warm) / 1e6 })))
	}
	return charts
}

func (r *growthReport) memoryCharts() (charts []picture.Chart) {
	for _, s := range r.series() {
		charts = append(charts, s.chart("memory", "Filters and indexes in memory for a key", "filters and indexes are in memory as far as the budget allows", "bytes",
			s.line("filters", false, func(g *grown) float64 { return g.Memory.Filters }),
			s.line("indexes", false, func(g *grown) float64 { return g.Memory.Indexes })))
	}
	return charts
}
