package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// report is one run. The names are what --json prints.
type report struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	Keys         int     `json:"keys"`
	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	FilterFPR    float64 `json:"filter_fpr"`
	MemoryBudget int64   `json:"memory_budget"`
	MemtableSize int64   `json:"memtable_size"`

	Phases []phase `json:"phases"`

	Tables             int     `json:"tables"`
	TableBytes         uint64  `json:"table_bytes"`
	FilterBytes        int64   `json:"filter_bytes"` // in memory
	WriteAmplification float64 `json:"write_amplification"`
	Flushes            uint64  `json:"flushes"`
	Compactions        uint64  `json:"compactions"`
}

// phase is the figures of a phase, and per lookup what it cost. Phases without lookups have no costs.
type phase struct {
	workload.Figures

	Kind string `json:"kind"`
	Cost *costs `json:"cost,omitempty"`
}

// costs are per lookup.
type costs struct {
	Blocks      float64 `json:"blocks_per_op"`       // data blocks searched, cached or not
	WastedReads float64 `json:"wasted_reads_per_op"` // tables searched that hold no version of the key
	FileReads   float64 `json:"file_reads_per_op"`   // of data blocks, and of filters and indexes
	Probes      float64 `json:"filter_probes_per_op"`
}

// charge is the difference of two readings per lookup between them.
func (p *phase) charge(before, after bloomkv.LookupMetrics) {
	gets := float64(after.Gets - before.Gets)
	if gets == 0 {
		return
	}
	p.Cost = &costs{
		Blocks:      float64(after.Blocks-before.Blocks) / gets,
		WastedReads: float64(after.WastedReads-before.WastedReads) / gets,
		FileReads:   float64(after.BlocksRead-before.BlocksRead+after.TailLoads-before.TailLoads) / gets,
		Probes:      float64(after.FilterProbes-before.FilterProbes) / gets,
	}
}

// fill takes what the store says at the end.
func (r *report) fill(m bloomkv.Metrics) {
	for _, l := range m.Levels {
		r.Tables += l.Tables
		r.TableBytes += l.Bytes
	}
	r.FilterBytes = m.Memory.Filters
	r.WriteAmplification = m.Writes.WriteAmplification()
	r.Flushes, r.Compactions = m.Writes.Flushes, m.Writes.Compactions
}

// wrong is how many answers were wrong, and the first of them.
func (r *report) wrong() (n int, first string) {
	for _, p := range r.Phases {
		if n == 0 {
			first = p.FirstWrong
		}
		n += p.Wrong
	}
	return n, first
}

// once reports whether a phase is one call, whose whole time is of interest.
func (p *phase) once() bool {
	return p.Kind == workload.Flush.String() || p.Kind == workload.Settle.String() || p.Kind == workload.Compact.String()
}

// nsPerOp is the mean for loads, which counts stalls, and the median of chunks for reads, which leaves out disturbances.
func (p *phase) nsPerOp() float64 {
	if p.Kind == workload.Load.String() {
		return p.MeanNs
	}
	return p.MedianNs
}

// print writes a page for people that benchstat reads too: it skips the lines it does not know.
func (r *report) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%d %s keys, values of %d bytes, promised %g wasted reads per absent lookup, %d MiB of memory, memtable %d MiB, no compression\n\n",
		r.Keys, r.Shape, r.ValueBytes, r.FilterFPR, r.MemoryBudget>>20, r.MemtableSize>>20)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phase\tops\tns/op\tp50\tp99\tblocks/op\twasted/op\tfile reads/op\twrong\t")
	for _, p := range r.Phases {
		switch {
		case p.once():
			fmt.Fprintf(t, "%s\t\t%s\t\t\t\t\t\t\t\n", p.Phase, p.Elapsed.Round(100*time.Microsecond))
		case p.Cost != nil:
			fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.4f\t%.5f\t%.5f\t%d\t\n", p.Phase, p.Ops, p.nsPerOp(), p.P50Ns, p.P99Ns, p.Cost.Blocks, p.Cost.WastedReads, p.Cost.FileReads, p.Wrong)
		case p.P99Ns > 0:
			fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%.0f\t\t\t\t%d\t\n", p.Phase, p.Ops, p.nsPerOp(), p.P50Ns, p.P99Ns, p.Wrong)
		default: // a scan is one call
			fmt.Fprintf(t, "%s\t%d\t%.1f\t\t\t\t\t\t%d\t\n", p.Phase, p.Ops, p.nsPerOp(), p.Wrong)
		}
	}
	t.Flush()
	fmt.Fprintf(w, "\n%d tables, %.1f MB, filters %.2f MB in memory (%.2f bits per key); %d flushes, %d compactions, write amplification %.2f\n\n",
		r.Tables, float64(r.TableBytes)/1e6, float64(r.FilterBytes)/1e6, float64(r.FilterBytes)*8/float64(max(r.Keys, 1)), r.Flushes, r.Compactions, r.WriteAmplification)
	var err error
	for _, p := range r.Phases {
		if !p.once() {
			_, err = fmt.Fprintln(w, p.Benchmark(p.Phase+"/shape="+r.Shape))
		}
	}
	return err
}
