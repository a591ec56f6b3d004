package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/outfile"
	"github.com/bloomkv/bloomkv/internal/picture"
)

// figures is what a command has measured.
type figures interface {
	page() *picture.Page
	print(w io.Writer) error
	wrong() (n int, first string) // answers of the store
}

// give prints figures and writes their page and pictures, as far as they are asked for: what cannot be written does not keep
// them from being printed. If answers were wrong that is an error too.
func (s *shown) give(ctx context.Context, to streams, f figures) error {
	err := s.write(ctx, f.page())
	if s.json {
		err = errors.Join(err, printJSON(to.out, f))
	} else {
		err = errors.Join(err, f.print(to.out))
	}
	return errors.Join(err, wrongError(f.wrong()))
}

// wrongError is the error of wrong answers, or nil without any.
func wrongError(n int, first string) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d %w; the first: %s", n, errWrong, first)
}

// checkFiles refuses a page that cannot be written, before anything is measured.
func (s *shown) checkFiles() error {
	if s.html == "" {
		return nil
	}
	if err := outfile.Check(s.html); err != nil {
		return fmt.Errorf("--html %w", err)
	}
	return nil
}

// write writes the page and the pictures that are asked for.
func (s *shown) write(ctx context.Context, p *picture.Page) error {
	if s.html != "" {
		var b bytes.Buffer
		if err := p.WriteHTML(&b); err != nil {
			return err
		}
		if err := outfile.Write(ctx, s.html, b.Bytes()); err != nil {
			return err
		}
	}
	if s.plot == "" {
		return nil
	}
	var charts []picture.Chart
	for _, section := range p.Sections {
		charts = append(charts, section.Charts...)
	}
	return picture.Save(ctx, s.plot, charts)
}

// origin says how the figures of a page came to be.
func origin(m machine.Machine, command string) string {
	return fmt.Sprintf("%s, %d processors, %s/%s, %s. Command: %s", m.CPU, m.CPUs, m.OS, m.Arch, m.Go, command)
}

func (g grid) table(caption string) *picture.Table {
	return &picture.Table{Caption: caption, Head: g.head, Rows: g.rows}
}

// page is the main run as a page.
func (r *report) page() *picture.Page {
	p := &picture.Page{
		Title: "bloomkv: what lookups cost",
		Intro: r.intro() + ".\n\n" + origin(r.Machine, r.Command),
	}
	for _, s := range r.read() {
		p.Intro += "\n\n" + s.summary() + "."
	}
	p.Sections = append(p.Sections, picture.Section{
		ID: "touched", Heading: "What a lookup touches",
		Text:   "Counted by the store per lookup, beside the reads that the operating system counted. A wasted read is a search of a table that holds no version of the key.",
		Charts: charts(r.bars("blocks", "Data blocks searched for one lookup", "blocks", "in the cache or not", func(p *phase) float64 { return p.cost().Blocks }), r.bars("file-reads", "Reads from files for one lookup", "reads", "by the operating system's counter", (*phase).systemReads)),
		Table:  r.costs().table("Per lookup, or per operation where there are none"),
	}, picture.Section{
		ID: "times", Heading: "Times",
		Text:   "Nanoseconds per operation: of writes the mean, stalls included; of reads the median over chunks of operations. Quantiles are of calls that were timed one by one.",
		Charts: charts(r.bars("ns", "Time of one lookup", "ns", "median over chunks of operations", (*phase).nsPerOp)),
		Table:  r.times().table("Times of each phase"),
	})
	if latencies := r.latencies(); len(latencies) > 0 {
		p.Sections = append(p.Sections, picture.Section{
			ID: "latencies", Heading: "How long single calls took",
			Text:   "The share of calls that took longer than a time: 0.01 is the 99th percentile, 0.001 the one in a thousand.",
			Charts: latencies,
		})
	}
	return p
}

// charts are those that have lines.
func charts(all ...picture.Chart) []picture.Chart {
	return slices.DeleteFunc(all, func(c picture.Chart) bool { return len(c.Lines) == 0 })
}

// bars is a chart of a figure of the phases that look up, side by side.
func (r *report) bars(name, title, unit, caption string, figure func(p *phase) float64) picture.Chart {
	c := picture.Chart{Name: name, Title: title, X: "phase", Y: unit, Caption: caption}
	for i := range r.Sides[0].Phases {
		if p := &r.Sides[0].Phases[i]; p.lookups() {
			c.Categories = append(c.Categories, p.Phase)
		}
	}
	for _, s := range r.Sides {
		l := picture.Line{Name: "filters " + s.Filters, Kind: picture.Bars}
		for i := range s.Phases {
			if p := &s.Phases[i]; p.lookups() {
				l.X, l.Y = append(l.X, float64(len(l.X))), append(l.Y, figure(p))
			}
		}
		if len(l.X) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

// lookups reports whether a phase is lookups and nothing else, and is shown in pictures.
func (p *phase) lookups() bool {
	return p.Cost != nil && p.Phase != "warm" && (p.Kind == "absent" || p.Kind == "present")
}

func (p *phase) systemReads() float64 {
	if p.System == nil {
		return 0
	}
	return p.System.Reads
}

// latencies is a chart for each phase whose calls were timed one by one.
func (r *report) latencies() (all []picture.Chart) {
	for i := range r.Sides[0].Phases {
		first := &r.Sides[0].Phases[i]
		c := picture.Chart{
			Name: "latency-" + fileName(first.Phase), Title: "How long a call took: " + first.Phase, X: "a call takes longer than, in ns", Y: "share of the calls",
			LogX: true, LogY: true, Caption: fmt.Sprintf("%d operations; an eighth of the calls are timed one by one", first.Ops),
		}
		for _, s := range r.Sides {
			var values []float64
			var counts []uint64
			for _, b := range s.Phases[i].Latencies {
				values, counts = append(values, max(b.Ns, 1)), append(counts, b.Count)
			}
			if l := picture.Tail("filters "+s.Filters, values, counts); len(l.X) > 1 {
				c.Lines = append(c.Lines, l)
			}
		}
		if !first.once() && first.Phase != "warm" && len(c.Lines) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// fileName is the name of a phase as a part of a file's.
func fileName(phase string) string {
	name := []byte(phase)
	for i, b := range name {
		if b == ' ' {
			name[i] = '-'
		}
	}
	return string(name)
}

// page is a sweep as a page.
func (r *sweepReport) page() *picture.Page {
	heading, text := "Read amplification against bits per key", "Each point is a store of its own. Bits per key are those of the filters in memory; the store without filters is at 0. The dashed lines are what was promised, and what a Bloom filter without blocks gives at best, (1/2)^(bits·ln 2), if all keys are in one run."
	all := r.fprCharts()
	switch r.Sweep {
	case "runs":
		heading, text = "Read amplification against runs", "Each point is a store of its own, whose keys are in so many runs, equally large, each of which may hold any key."
		all = r.lines("runs", "runs", false, func(p *point) float64 { return float64(p.Runs) })
	case "keys":
		heading, text = "Costs against the number of keys", "Each point is a store of its own."
		all = r.keysCharts()
	}
	g := r.grid()
	return &picture.Page{
		Title: "bloomkv: " + heading,
		Intro: r.intro() + ".\n\n" + origin(r.Machine, r.Command),
		Sections: []picture.Section{{
			ID: "sweep", Heading: heading, Text: text, Charts: charts(all...), Table: g.table("Each store"),
		}},
	}
}

// line is a figure of the points with a state, with the filters on or off, where it is above floor.
func (r *sweepReport) line(name, state, filters string, floor float64, x, y func(p *point) float64) []picture.Line {
	l := picture.Line{Name: name}
	for i := range r.Points {
		if p := &r.Points[i]; p.State == state && p.Filters == filters && y(p) > floor {
			l.X, l.Y = append(l.X, x(p)), append(l.Y, y(p))
		}
	}
	if len(l.X) == 0 {
		return nil
	}
	return []picture.Line{l}
}

const any0 = -1 // a floor below all figures, where an axis is not logarithmic

func wasted(p *point) float64        { return p.Absent.cost().WastedReads }
func absentBlocks(p *point) float64  { return p.Absent.cost().Blocks }
func presentBlocks(p *point) float64 { return p.Present.cost().Blocks }
func absentNs(p *point) float64      { return p.Absent.nsPerOp() }
func presentNs(p *point) float64     { return p.Present.nsPerOp() }

// states are the trees that the points have, in the order in which they come.
func (r *sweepReport) states() (names []string) {
	for _, p := range r.Points {
		if !slices.Contains(names, p.State) {
			names = append(names, p.State)
		}
	}
	return names
}

// lines is charts of the blocks and times of lookups against x, a line for each state, with filters and without.
func (r *sweepReport) lines(name, axis string, logX bool, x func(p *point) float64) []picture.Chart {
	absent := picture.Chart{Name: name + "-absent", Title: "Data blocks searched for an absent key", X: axis, Y: "blocks per lookup", LogX: logX, LogY: true, Caption: "in the cache or not; a point at 0 is not drawn"}
	present := picture.Chart{Name: name + "-present", Title: "Data blocks searched for a key that is there", X: axis, Y: "blocks per lookup", LogX: logX, Caption: "in the cache or not; 1 is the least there can be"}
	all := []picture.Chart{absent, present}
	for _, state := range r.states() {
		for _, filters := range []string{"on", "off"} {
			what := r.lineName(state, filters)
			all[0].Lines = append(all[0].Lines, r.line(what, state, filters, 0, x, absentBlocks)...)
			all[1].Lines = append(all[1].Lines, r.line(what, state, filters, any0, x, presentBlocks)...)
		}
	}
	for _, look := range []struct {
		name, what string
		row        func(p *point) *phase
	}{
		{"absent", "an absent key", func(p *point) *phase { return &p.Absent }},
		{"present", "a key that is there", func(p *point) *phase { return &p.Present }},
	} {
		reads := picture.Chart{Name: name + "-reads-" + look.name, Title: "Reads from files for " + look.what, X: axis, Y: "reads per lookup", LogX: logX, Caption: r.readsCaption()}
		times := picture.Chart{Name: name + "-ns-" + look.name, Title: "Time of a lookup of " + look.what, X: axis, Y: "ns", LogX: logX, LogY: true, Caption: timesCaption}
		for _, state := range r.states() {
			for _, filters := range []string{"on", "off"} {
				what := r.lineName(state, filters)
				reads.Lines = append(reads.Lines, r.line(what, state, filters, any0, x, func(p *point) float64 { return look.row(p).systemReads() })...)
				times.Lines = append(times.Lines, r.line(what, state, filters, 0, x, func(p *point) float64 { return look.row(p).nsPerOp() })...)
			}
		}
		if r.readFiles() {
			all = append(all, reads)
		}
		all = append(all, times)
	}
	return all
}

const timesCaption = "median over chunks of operations, one goroutine"

func (r *sweepReport) readsCaption() string {
	return fmt.Sprintf("by the operating system's counter, with %d MiB of memory", r.MemoryBudget>>20)
}

// lineName says what tells a line from the others.
func (r *sweepReport) lineName(state, filters string) string {
	if len(r.states()) == 1 {
		return "filters " + filters
	}
	return state + ", filters " + filters
}

// readFiles reports whether lookups read files to speak of: one in ten thousand. What is less is the Go runtime's own.
func (r *sweepReport) readFiles() bool {
	return slices.ContainsFunc(r.Points, func(p point) bool { return max(p.Absent.systemReads(), p.Present.systemReads()) >= 1e-4 })
}

func (r *sweepReport) keysCharts() []picture.Chart {
	x := func(p *point) float64 { return float64(p.Keys) }
	bits := picture.Chart{Name: "keys-memory", Title: "Memory of filters and indexes", X: "keys", Y: "bits per key", LogX: true, Caption: "without the cache of data blocks"}
	for _, state := range r.states() {
		bits.Lines = append(bits.Lines, r.line("filters, "+state, state, "on", any0, x, func(p *point) float64 { return p.FilterBitsPerKey })...)
		bits.Lines = append(bits.Lines, r.line("indexes, "+state, state, "on", any0, x, func(p *point) float64 { return p.IndexBitsPerKey })...)
	}
	return append(r.lines("keys", "keys", true, x), bits)
}

// fprCharts have one line through the store without filters, at 0 bits, and those with.
func (r *sweepReport) fprCharts() []picture.Chart {
	bits := func(p *point) float64 { return p.FilterBitsPerKey }
	both := func(name, state string, floor float64, y func(p *point) float64) []picture.Line {
		var l picture.Line
		for _, filters := range []string{"off", "on"} {
			for _, part := range r.line(name, state, filters, floor, bits, y) {
				l.Name, l.X, l.Y = name, append(l.X, part.X...), append(l.Y, part.Y...)
			}
		}
		if len(l.X) == 0 {
			return nil
		}
		return []picture.Line{l}
	}
	amplification := picture.Chart{Name: "fpr-wasted", Title: "Wasted reads for a lookup of an absent key", X: "filter bits per key, in memory", Y: "wasted reads per lookup", LogY: true, Caption: "a point at 0 is not drawn"}
	blocks := picture.Chart{Name: "fpr-present", Title: "Data blocks searched for a key that is there", X: "filter bits per key, in memory", Y: "blocks per lookup", Caption: "in the cache or not; 1 is the least there can be"}
	reads := picture.Chart{Name: "fpr-reads", Title: "Reads from files", X: "filter bits per key, in memory", Y: "reads per lookup", Caption: r.readsCaption()}
	times := picture.Chart{Name: "fpr-ns", Title: "Time of a lookup", X: "filter bits per key, in memory", Y: "ns", LogY: true, Caption: timesCaption}
	most := 0.0
	for _, state := range r.states() {
		amplification.Lines = append(amplification.Lines, both("measured, "+state, state, 0, wasted)...)
		blocks.Lines = append(blocks.Lines, both(state, state, any0, presentBlocks)...)
		reads.Lines = append(reads.Lines, both("absent, "+state, state, any0, func(p *point) float64 { return p.Absent.systemReads() })...)
		reads.Lines = append(reads.Lines, both("present, "+state, state, any0, func(p *point) float64 { return p.Present.systemReads() })...)
		times.Lines = append(times.Lines, both("absent, "+state, state, 0, absentNs)...)
		times.Lines = append(times.Lines, both("present, "+state, state, 0, presentNs)...)
		for _, l := range r.line("promised, "+state, state, "on", 0, bits, func(p *point) float64 { return p.FilterFPR }) {
			l.Dashed = true
			amplification.Lines = append(amplification.Lines, l)
			most = max(most, slices.Max(l.X))
		}
	}
	best := picture.Line{Name: "a Bloom filter at best, one run", Kind: picture.Curve, Dashed: true}
	for b := 0.0; b <= most; b += 0.5 {
		best.X, best.Y = append(best.X, b), append(best.Y, math.Pow(0.5, b*math.Ln2))
	}
	amplification.Lines = append(amplification.Lines, best)
	if !r.readFiles() {
		return []picture.Chart{amplification, blocks, times}
	}
	return []picture.Chart{amplification, blocks, reads, times}
}
