package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// report is the result of a main run. The names of its fields in JSON are part of the output.
type report struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	Keys         int    `json:"keys"`
	ValueBytes   int    `json:"value_bytes"`
	Shape        string `json:"shape"`
	Choice       string `json:"choice"`
	Workers      int    `json:"workers"`
	Seed         uint64 `json:"seed"`
	MemoryBudget int64  `json:"memory_budget"`
	MemtableSize int64  `json:"memtable_size"`

	Stopped string `json:"stopped,omitempty"` // why the report is not complete

	Sides []side `json:"sides"` // with filters, without, or both

	shown []string // the phases in the first table
	all   bool     // print the figures of all phases
}

// side is the result for stores of one kind.
type side struct {
	Filters   string  `json:"filters"`    // on or off
	FilterFPR float64 `json:"filter_fpr"` // promised; 1 means no filters

	Phases []phase `json:"phases"`

	// The store that lookups used, at the end, flushed and settled.
	Tables           int     `json:"tables"`
	DiskBytes        int64   `json:"disk_bytes"`          // all its files, including the log
	FilterBytes      int64   `json:"filter_bytes"`        // in memory
	FilterBitsPerKey float64 `json:"filter_bits_per_key"` // in memory
	MemoryBytes      int64   `json:"memory_bytes"`        // memtables, filters, indexes and cache together
	// bytes written to logs and tables per byte of keys and values put
	WriteAmplification float64 `json:"write_amplification"`
	SpaceAmplification float64 `json:"space_amplification"` // bytes on disk per byte of keys and values stored
	Flushes            uint64  `json:"flushes"`
	Compactions        uint64  `json:"compactions"`
}

// phase is the result of one phase. Cost is nil for a phase without lookups.
type phase struct {
	workload.Figures

	Part       string  `json:"part"` // the part that it belongs to: main, or the name of another store
	Kind       string  `json:"kind"`
	Runs       int     `json:"runs"`        // in the tree at the end of the phase
	TableBytes uint64  `json:"table_bytes"` // at the end of the phase
	Cost       *costs  `json:"cost,omitempty"`
	System     *system `json:"system,omitempty"` // nil if the operating system has no such counters
}

// costs are means per lookup, by the store's counters.
type costs struct {
	Lookups        uint64  `json:"lookups"`
	Considered     float64 `json:"runs_considered"` // runs with a table whose bounds contain the key
	Probes         float64 `json:"filter_probes"`
	Negatives      float64 `json:"filter_negatives"`
	TruePositives  float64 `json:"true_positives"`
	FalsePositives float64 `json:"false_positives"`
	WastedReads    float64 `json:"wasted_reads"`  // tables searched without finding a version of the key
	Blocks         float64 `json:"blocks"`        // data blocks searched, cached or not
	BlocksRead     float64 `json:"blocks_read"`   // blocks that were not in the cache
	BlocksMapped   float64 `json:"blocks_mapped"` // blocks among these in mapped files, used without a read
	BytesRead      float64 `json:"bytes_read"`    // bytes read from files
	IndexParts     float64 `json:"index_parts"`   // parts of indexes that were not in memory
	FilterParts    float64 `json:"filter_parts"`  // pages of filters asked in files
	TailLoads      float64 `json:"tail_loads"`    // tables that were loaded, which background work does too
	CacheHitRate   float64 `json:"cache_hit_rate"`
}

// system are counters of the operating system, per lookup, or per operation in phases without lookups.
type system struct {
	Reads        float64 `json:"reads"`      // calls of read
	ReadBytes    float64 `json:"read_bytes"` // returned by these calls, from the page cache or the disk
	Writes       float64 `json:"writes"`
	PeakResident uint64  `json:"peak_resident"` // bytes, in total
	CPU          float64 `json:"cpu_ns"`        // time of all threads
}

// costsOf returns the mean costs of lookups, or nil if there were no lookups.
func costsOf(l bloomkv.LookupMetrics) *costs {
	if l.Gets == 0 {
		return nil
	}
	per := func(n uint64) float64 { return float64(n) / float64(l.Gets) }
	c := &costs{
		Lookups: l.Gets, Considered: per(l.RunsInRange), Probes: per(l.FilterProbes),
		Negatives:     per(l.FilterNegatives),
		TruePositives: per(l.TruePositives), FalsePositives: per(l.FalsePositives), WastedReads: per(l.WastedReads),
		Blocks: per(l.Blocks), BlocksRead: per(l.BlocksRead),
		BlocksMapped: per(l.BlocksMapped), BytesRead: per(l.BytesRead), IndexParts: per(l.IndexParts),
		FilterParts: per(l.FilterParts), TailLoads: per(l.TailLoads),
	}
	if l.Blocks > 0 {
		c.CacheHitRate = 1 - float64(l.BlocksRead)/float64(l.Blocks)
	}
	return c
}

// fileReads returns the parts of files that lookups used, in mapped files too: data blocks, parts of indexes and pages
// of filters that were not in memory.
func (c *costs) fileReads() float64 { return c.BlocksRead + c.IndexParts + c.FilterParts }

func (p *phase) chargeSystem(now, spent machine.Counters) {
	ops := float64(max(p.Ops, 1))
	if p.Cost != nil {
		ops = float64(p.Cost.Lookups)
	}
	p.System = &system{
		Reads: float64(spent.Reads) / ops, ReadBytes: float64(spent.ReadChars) / ops,
		Writes:       float64(spent.Writes) / ops,
		PeakResident: now.PeakResident, CPU: float64(spent.User+spent.System) / ops,
	}
}

// fill sets the figures of the store that lookups used, except those of the disk. All of its operations were puts of
// pairs of the given size.
func (s *side) fill(m bloomkv.Metrics, w bloomkv.WriteMetrics, pairBytes int) {
	var entries uint64
	for _, l := range m.Levels {
		s.Tables += l.Tables
		entries += l.Entries
	}
	s.FilterBytes, s.MemoryBytes = m.Memory.Filters, m.Memory.Sum()
	if entries > 0 {
		s.FilterBitsPerKey = 8 * float64(s.FilterBytes) / float64(entries)
	}
	addWrites(&w, m.Writes)
	written := float64(w.LogBytes + w.FlushBytes + w.CompactedBytes)
	s.WriteAmplification = written / (float64(w.Operations) * float64(pairBytes)) // the log has more than is put
	s.Flushes, s.Compactions = w.Flushes, w.Compactions
}

// rows returns the number of phases of the side with the most: a side that was not completed has fewer.
func (r *report) rows() (n int) {
	for i := range r.Sides {
		n = max(n, len(r.Sides[i].Phases))
	}
	return n
}

// at returns the phase in a row, or nil if the side was not completed.
func (s *side) at(row int) *phase {
	if row < len(s.Phases) {
		return &s.Phases[row]
	}
	return nil
}

func (r *report) phases() (all []*phase) {
	for i := range r.Sides {
		for k := range r.Sides[i].Phases {
			all = append(all, &r.Sides[i].Phases[k])
		}
	}
	return all
}

// once reports whether a phase is a single call.
func (p *phase) once() bool {
	switch p.Kind {
	case workload.Flush.String(), workload.Settle.String(), workload.Compact.String(), workload.Reopen.String():
		return true
	}
	return false
}

// nsPerOp returns the time of an operation: of writes the mean, which includes stalls; of reads the median over chunks
// of operations, which other work on the machine does not distort.
func (p *phase) nsPerOp() float64 {
	if p.average() == "mean" {
		return p.MeanNs
	}
	return p.MedianNs
}

// average says in a word what nsPerOp and took return.
func (p *phase) average() string {
	if p.once() {
		return "in all"
	}
	switch p.Kind {
	case workload.Load.String(), workload.Insert.String(), workload.Pop.String(), workload.PutSeek.String():
		return "mean"
	}
	return "median"
}

// took returns the time of an operation in nanoseconds, or of the whole phase if it is a single call.
func (p *phase) took() string {
	switch {
	case p.once():
		return p.Elapsed.Round(10 * time.Microsecond).String()
	case p.nsPerOp() < 100:
		return fmt.Sprintf("%.1f", p.nsPerOp())
	default:
		return fmt.Sprintf("%.0f", p.nsPerOp())
	}
}

func (p *phase) runs() string { return strconv.Itoa(p.Runs) }

// blocks returns the blocks that a lookup searches.
func (p *phase) blocks() string {
	if p.Cost == nil {
		return ""
	}
	return perLookup(p.Cost.Blocks)
}

// reads returns the parts of files that a lookup uses, or the read calls of another operation.
func (p *phase) reads() string {
	switch {
	case p.Cost != nil:
		return perLookup(p.Cost.fileReads())
	case p.System != nil:
		return perLookup(p.System.Reads)
	}
	return ""
}

// cost returns the costs of lookups, or zeros without lookups.
func (p *phase) cost() *costs {
	if p.Cost == nil {
		return &costs{}
	}
	return p.Cost
}

// systemReads returns the number of reads that the operating system counted per lookup.
func (p *phase) systemReads() float64 {
	if p.System == nil {
		return 0
	}
	return p.System.Reads
}
