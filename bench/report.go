package main

import (
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bench/machine"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// report is one main run. The names are what --json prints.
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

	Sides []side `json:"sides"` // with the filters, without them, or both
}

// side is the work in stores of one kind.
type side struct {
	Filters   string  `json:"filters"`    // on or off
	FilterFPR float64 `json:"filter_fpr"` // promised; 1 is without filters

	Phases []phase `json:"phases"`

	// Of the store that was read, when all was done, flushed and settled.
	Tables             int     `json:"tables"`
	DiskBytes          int64   `json:"disk_bytes"`          // all its files, the log that is written included
	FilterBytes        int64   `json:"filter_bytes"`        // in memory
	FilterBitsPerKey   float64 `json:"filter_bits_per_key"` // the same
	MemoryBytes        int64   `json:"memory_bytes"`        // all parts: memtables, filters, indexes, cache
	WriteAmplification float64 `json:"write_amplification"` // bytes written to logs and tables, for each that came in
	SpaceAmplification float64 `json:"space_amplification"` // bytes on disk, for each of the pairs that are in the store
	Flushes            uint64  `json:"flushes"`
	Compactions        uint64  `json:"compactions"`
}

// phase is the figures of a phase, and what it cost. Phases without lookups have no costs of lookups.
type phase struct {
	workload.Figures

	Part       string  `json:"part"` // which store: main, or one of its own
	Kind       string  `json:"kind"`
	Runs       int     `json:"runs"`        // in the tree when it ended
	TableBytes uint64  `json:"table_bytes"` // the same
	Cost       *costs  `json:"cost,omitempty"`
	System     *system `json:"system,omitempty"` // where the operating system says
}

// costs are per lookup, by the store's counters.
type costs struct {
	Lookups        uint64  `json:"lookups"`
	Considered     float64 `json:"runs_considered"` // runs that have a table whose bounds hold the key
	Probes         float64 `json:"filter_probes"`
	Negatives      float64 `json:"filter_negatives"`
	TruePositives  float64 `json:"true_positives"`
	FalsePositives float64 `json:"false_positives"`
	WastedReads    float64 `json:"wasted_reads"` // tables searched that hold no version of the key
	Blocks         float64 `json:"blocks"`       // data blocks searched, cached or not
	BlocksRead     float64 `json:"blocks_read"`  // of these, from files
	BytesRead      float64 `json:"bytes_read"`   // by these reads
	TailLoads      float64 `json:"tail_loads"`   // reads of indexes and filters
	CacheHitRate   float64 `json:"cache_hit_rate"`
}

// system is what the operating system counted in a phase. Reads are per lookup, and per operation where there are none.
type system struct {
	Reads        float64 `json:"reads"`      // calls
	ReadBytes    float64 `json:"read_bytes"` // that these returned, from the page cache or the disk
	Writes       float64 `json:"writes"`
	PeakResident uint64  `json:"peak_resident"` // bytes
	CPU          float64 `json:"cpu_ns"`        // of all threads
}

func (c *config) report(command string) *report {
	name, _ := c.choice.MarshalText() // it was parsed from its name
	return &report{
		Machine: machine.Here(), Command: command,
		Keys: c.keys, ValueBytes: c.value, Shape: c.shape.String(), Choice: string(name), Workers: c.workers, Seed: c.seed,
		MemoryBudget: c.memory << 20, MemtableSize: c.memtable(),
	}
}

// costsOf is what lookups cost on average, or nil if there were none.
func costsOf(l bloomkv.LookupMetrics) *costs {
	if l.Gets == 0 {
		return nil
	}
	per := func(n uint64) float64 { return float64(n) / float64(l.Gets) }
	c := &costs{
		Lookups: l.Gets, Considered: per(l.TablesInRange), Probes: per(l.FilterProbes), Negatives: per(l.FilterNegatives),
		TruePositives: per(l.TruePositives), FalsePositives: per(l.FalsePositives), WastedReads: per(l.WastedReads),
		Blocks: per(l.Blocks), BlocksRead: per(l.BlocksRead), BytesRead: per(l.BytesRead), TailLoads: per(l.TailLoads),
	}
	if l.Blocks > 0 {
		c.CacheHitRate = 1 - float64(l.BlocksRead)/float64(l.Blocks)
	}
	return c
}

// fileReads are those that the store counts: of data blocks, and of indexes and filters.
func (c *costs) fileReads() float64 { return c.BlocksRead + c.TailLoads }

func (p *phase) charge(l bloomkv.LookupMetrics) { p.Cost = costsOf(l) }

func (p *phase) chargeSystem(now, spent machine.Counters) {
	ops := float64(max(p.Ops, 1))
	if p.Cost != nil {
		ops = float64(p.Cost.Lookups)
	}
	p.System = &system{
		Reads: float64(spent.Reads) / ops, ReadBytes: float64(spent.ReadChars) / ops, Writes: float64(spent.Writes) / ops,
		PeakResident: now.PeakResident, CPU: float64(spent.User+spent.System) / ops,
	}
}

// fill takes what the store that was read says at the end.
func (s *side) fill(m bloomkv.Metrics, w writeSums, disk, pairs int64) {
	var entries uint64
	for _, l := range m.Levels {
		s.Tables += l.Tables
		entries += l.Entries
	}
	s.DiskBytes, s.FilterBytes, s.MemoryBytes = disk, m.Memory.Filters, m.Memory.Sum()
	if entries > 0 {
		s.FilterBitsPerKey = 8 * float64(s.FilterBytes) / float64(entries)
	}
	s.WriteAmplification = w.before.WriteAmplification()
	if pairs > 0 {
		s.SpaceAmplification = float64(disk) / float64(pairs)
	}
	s.Flushes, s.Compactions = w.before.Flushes, w.before.Compactions
}

// read are the sides with a store that was read: a queue alone has none.
func (r *report) read() []side {
	return slices.DeleteFunc(slices.Clone(r.Sides), func(s side) bool { return s.DiskBytes == 0 })
}

// wrong is how many answers were wrong, and the first of them.
func (r *report) wrong() (n int, first string) {
	for _, s := range r.Sides {
		for _, p := range s.Phases {
			if n == 0 {
				first = p.FirstWrong
			}
			n += p.Wrong
		}
	}
	return n, first
}

// once reports whether a phase is one call, whose whole time is of interest.
func (p *phase) once() bool {
	switch p.Kind {
	case workload.Flush.String(), workload.Settle.String(), workload.Compact.String(), workload.Reopen.String():
		return true
	}
	return false
}

// nsPerOp is the mean where writes may stall, which counts, and the median of chunks elsewhere, which leaves out disturbances.
func (p *phase) nsPerOp() float64 {
	switch p.Kind {
	case workload.Load.String(), workload.Insert.String(), workload.Pop.String(), workload.PutSeek.String():
		return p.MeanNs
	}
	return p.MedianNs
}
