package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// print prints the report as text with lines for benchstat, which skips all others. The lines may have been printed
// before, as the phases ended.
func (r *report) print(w io.Writer) error {
	var err error
	if !r.headed {
		for i := range r.Sides {
			for k := range r.Sides[i].Phases {
				err = errors.Join(err, r.printPhase(w, &r.Sides[i], &r.Sides[i].Phases[k]))
			}
		}
	}
	for _, line := range []string{r.Stopped, r.result()} {
		if line != "" {
			fmt.Fprintf(w, "\n%s\n", line)
		}
	}
	fmt.Fprintln(w)
	times, work := r.times(), r.costs()
	if err := times.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nMeans per lookup, or per operation in phases without lookups:")
	fmt.Fprintln(w)
	if err := work.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, s := range r.read() {
		fmt.Fprintln(w, s.summary())
	}
	return err
}

// printPhase prints a line for a phase that ended, unless it is a single call. Before the first one it prints the head.
func (r *report) printPhase(w io.Writer, s *side, p *phase) error {
	if !r.headed {
		r.Machine.Header(w, r.Command, "bench")
		fmt.Fprintf(w, "\n%s\n\n", r.intro())
		r.headed = true
	}
	if p.once() {
		return nil
	}
	_, err := fmt.Fprintln(w, p.Benchmark(p.Phase+"/filters="+s.Filters+"/shape="+r.Shape))
	return err
}

func (r *report) intro() string {
	return fmt.Sprintf("%d %s keys, values of %d bytes, choice %s, workers %d, %d MiB of memory, "+
		"memtable %d MiB, no compression",
		r.Keys, r.Shape, r.ValueBytes, r.Choice, r.Workers, r.MemoryBudget>>20, r.MemtableSize>>20)
}

func (s *side) summary() string {
	promise := "no filters"
	if s.FilterFPR < 1 {
		promise = fmt.Sprintf("promised %g wasted reads per absent lookup, "+
			"filters %.2f MB in memory (%.2f bits per key)",
			s.FilterFPR, float64(s.FilterBytes)/1e6, s.FilterBitsPerKey)
	}
	return fmt.Sprintf("filters %s: %s; %d tables, %.1f MB on disk, %.1f MB in memory, "+
		"write amplification %.2f, space amplification %.2f, %d flushes, %d compactions",
		s.Filters, promise, s.Tables, float64(s.DiskBytes)/1e6, float64(s.MemoryBytes)/1e6,
		s.WriteAmplification, s.SpaceAmplification, s.Flushes, s.Compactions)
}

// times returns a table with a row for each phase and the sides next to each other.
func (r *report) times() grid {
	g := grid{head: []string{"phase", "ops", "time is"}}
	each := func(name string) {
		for _, s := range r.Sides {
			g.head = append(g.head, name+" "+s.Filters)
		}
	}
	each("ns/op")
	both := len(r.Sides) == 2
	if both {
		g.head = append(g.head, "off÷on")
	}
	for _, name := range []string{"p50", "p99", "p999", "allocs", "peak MB"} {
		each(name)
	}
	g.head = append(g.head, "wrong")
	for i := range r.rows() {
		row := []*phase{}
		wrong := 0
		for k := range r.Sides {
			p := r.Sides[k].at(i)
			if row = append(row, p); p != nil {
				wrong += p.Wrong
			}
		}
		first := row[0] // the last side is the one that is not complete
		cells := []string{first.Phase, "", first.average()}
		if !first.once() {
			cells[1] = strconv.Itoa(first.Ops)
		}
		add := func(cell func(p *phase) string) {
			for _, p := range row {
				if p == nil {
					cells = append(cells, "")
				} else {
					cells = append(cells, cell(p))
				}
			}
		}
		add((*phase).took)
		if both {
			ratio := ""
			if on := row[0].nsPerOp(); on > 0 && !first.once() && row[1] != nil {
				ratio = fmt.Sprintf("%.2f", row[1].nsPerOp()/on)
			}
			cells = append(cells, ratio)
		}
		for _, quantile := range []func(p *phase) float64{
			func(p *phase) float64 { return p.P50Ns },
			func(p *phase) float64 { return p.P99Ns },
			func(p *phase) float64 { return p.P999Ns },
		} {
			add(func(p *phase) string {
				if p.once() || quantile(p) == 0 {
					return ""
				}
				return fmt.Sprintf("%.0f", quantile(p))
			})
		}
		add(func(p *phase) string {
			if p.once() {
				return ""
			}
			return fmt.Sprintf("%.2f", p.AllocsPerOp)
		})
		add(func(p *phase) string {
			if p.System == nil {
				return ""
			}
			return fmt.Sprintf("%.0f", float64(p.System.PeakResident)/1e6)
		})
		g.add(append(cells, strconv.Itoa(wrong))...)
		if first.PutNs > 0 {
			alone := append(make([]string, 0, len(g.head)), first.Phase+", the put alone", "", "mean")
			for _, p := range row {
				cell := ""
				if p != nil {
					cell = fmt.Sprintf("%.0f", p.PutNs)
				}
				alone = append(alone, cell)
			}
			g.add(append(alone, make([]string, len(g.head)-len(alone))...)...)
		}
	}
	return g
}

// costs returns a table with a row for each phase and side.
func (r *report) costs() grid {
	g := grid{head: []string{
		"phase", "filters", "runs", "considered", "probed", "negative", "true pos", "false pos", "wasted",
		"blocks", "bytes", "cache hits", "file reads", "system reads", "system bytes",
	}}
	for i := range r.rows() {
		for k := range r.Sides {
			s := &r.Sides[k]
			p := s.at(i)
			if p == nil || p.Kind == workload.Load.String() || p.once() || p.Cost == nil && p.System == nil {
				continue
			}
			cells := []string{p.Phase, s.Filters, strconv.Itoa(p.Runs)}
			if c := p.Cost; c != nil {
				hits := ""
				if c.Blocks > 0 {
					hits = fmt.Sprintf("%.1f%%", 100*c.CacheHitRate)
				}
				cells = append(
					cells, perLookup(c.Considered), perLookup(c.Probes), perLookup(c.Negatives),
					perLookup(c.TruePositives), perLookup(c.FalsePositives), perLookup(c.WastedReads),
					perLookup(c.Blocks), fmt.Sprintf("%.1f", c.BytesRead), hits, perLookup(c.fileReads()),
				)
			} else {
				cells = append(cells, make([]string, 10)...)
			}
			if p.System != nil {
				cells = append(cells, perLookup(p.System.Reads), fmt.Sprintf("%.1f", p.System.ReadBytes))
			} else {
				cells = append(cells, "", "")
			}
			g.add(cells...)
		}
	}
	return g
}
