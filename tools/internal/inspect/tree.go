package inspect

import "github.com/bloomkv/bloomkv/internal/filterplan"

// Figures are the costs and the effects of the filters of one level or of the whole tree. Sizes of filters do not
// include prefix filters, which are in Memory.
//
// A wasted read is a search of a table that has no version of the key, by a lookup of an absent key. The number of
// wasted reads per lookup is an average over all absent keys. They are assumed to be distributed like the present
// keys: equally many between any two neighbors. A run costs the rate of the table whose bounds contain the key, if
// there is such a table. The lookups that a range delete ends early are not subtracted. Optimum and Even use the
// rates of filters with many keys. Filters with few keys are rounded up to whole blocks and may be better; the present
// ones then are the optimum. Promised and Measured are for a key within the bounds of every run. The filters in memory
// are those of a store with the memory of Promise whose memtables are full.
type Figures struct {
	Runs        int     `json:"runs"`                   // a lookup asks at most one table of each
	Tables      int     `json:"tables"`                 // in all runs
	Bytes       uint64  `json:"bytes"`                  // on disk
	Entries     uint64  `json:"entries"`                // versions, tombstones included
	Keys        uint64  `json:"keys"`                   // in filters, counted once per table; without a filter, entries
	FilterDisk  uint64  `json:"filter_bytes"`           // on disk
	FilterBytes uint64  `json:"filter_bytes_in_memory"` // the units that the levels need in memory
	BitsPerKey  float64 `json:"bits_per_key"`           // of the filters in memory
	// wasted reads by the plan: of a level what was asked of its runs, and of the tree Promise.Writing, which is
	// Metrics.FPRPromised while the store is written to; 0 if not known
	Promised float64 `json:"wasted_promised"`
	// wasted reads with the filters in memory, with all units if the plan is not known
	Predicted float64 `json:"wasted_predicted"`
	// pages of filters read from files, since what is in memory of them lets more than a tenth of all keys through
	Pages float64 `json:"filter_pages_predicted,omitempty"`
	// the least that filters of the same total size would waste in these runs: over all levels at most Predicted
	Optimum float64 `json:"wasted_optimum"`
	Even    float64 `json:"wasted_even"` // the same with equally many bits for every key
	// wasted reads by the answers that tables have counted: for each run LevelMetrics.FPRMeasured; 0 without answers
	Measured float64 `json:"wasted_measured"`
	Live     *Live   `json:"live,omitempty"` // the answers that tables have counted
}

// A Level is one level of the tree that has tables.
type Level struct {
	Level int `json:"level"` // 0 is the newest
	Figures
}

// A Plan is the plan by Options.FilterFPR or FilterMemory, FilterKind and LevelRatio that the store was last written
// with.
type Plan struct {
	FPR    float64 `json:"fpr_promised"`            // FilterFPR, or the best rate that fits in FilterMemory
	Limit  uint64  `json:"filter_memory,omitempty"` // FilterMemory in bytes; 0 if FilterFPR is set
	Kind   string  `json:"kind"`                    // "auto", "bloom", "ribbon" or "none"
	Ratio  int     `json:"level_ratio"`
	Tables int     `json:"tables"`                // tables whose filters follow the plan
	Prefix string  `json:"prefix_rule,omitempty"` // the rule of prefix filters

	TablesOffPlan int    `json:"tables_off_plan"` // other tables, which Compact rewrites
	BytesOffPlan  uint64 `json:"bytes_off_plan"`  // the size of these tables

	Levels []PlanLevel `json:"levels"` // all levels, from 0 on
}

// A PlanLevel is the plan for one level.
type PlanLevel struct {
	Level      int     `json:"level"`
	FPR        float64 `json:"promised"`     // the share of the promise of each run
	Predicted  float64 `json:"predicted"`    // the rate of filters built for it
	BitsPerKey float64 `json:"bits_per_key"` // of these filters
}

// A Promise is what the store promises with a MemoryBudget, in wasted reads for a lookup of an absent key: see
// bloomkv.Metrics.FPRPromised. Memtables have their default size.
type Promise struct {
	MemoryBudget int64   `json:"memory_budget"` // in bytes: of Options.Budget
	Asked        float64 `json:"fpr_asked"`     // FilterFPR, or the best rate that fits in FilterMemory
	// with enough memory: more than Asked if tables have other filters, or units are damaged
	Whole   float64            `json:"fpr_whole"`
	Writing filterplan.Promise `json:"writing"` // while the store is written to, with full memtables
	Idle    filterplan.Promise `json:"idle"`    // if it was not written to lately
}

// A Place describes where a table lies in the tree and what its filter does there. From and To are shares of the keys
// of the store: From is the share before the first key of the table, To the share up to its last key, so To-From is
// the share of absent keys for which the table is asked. Each key counts once, in the oldest run that has it, as
// estimated by samples and filters. Without them it counts in each run.
type Place struct {
	From        float64 `json:"from"` // 0..1
	To          float64 `json:"to"`
	Units       int     `json:"units_in_memory"` // units in memory, reduced ones included
	FilterBytes uint64  `json:"filter_bytes_in_memory"`
	FPR         float64 `json:"fpr_in_memory"` // the rate of what is in memory; 1 without any
	// lookups ask the whole filter in the file after what is in memory, which lets more than a tenth of all keys pass
	InFile bool    `json:"asked_in_file,omitempty"`
	Wasted float64 `json:"wasted_predicted"` // the table's part of Figures.Predicted

	searched float64 // with InFile, the rate of the whole filter
}

// rate returns the rate at which lookups search the table, of those of absent keys within its bounds.
func (p *Place) rate() float64 {
	if p.InFile {
		return p.searched
	}
	return p.FPR
}

// A Memory lists the bytes in memory of a store that has read as much of its tables as memory holds beside full
// memtables, by part. Right after Open it has less: the tail of a table and its filter are read in the background, or
// by the first lookup that needs them.
type Memory struct {
	Filters       uint64 `json:"filters"`        // of keys, as far as levels need them and memory suffices
	PrefixFilters uint64 `json:"prefix_filters"` // likewise; read by the first scan that asks them
	Indexes       uint64 `json:"indexes"`        // of data blocks, as far as memory suffices
	RangeDeletes  uint64 `json:"range_deletes"`
	Tables        uint64 `json:"tables"`         // about what the store knows of each: bounds, where its parts are
	Sum           uint64 `json:"sum"`            // the sum of all these
	FiltersOnDisk uint64 `json:"filters_unused"` // of filters on disk, beyond those in memory
	IndexesOnDisk uint64 `json:"indexes_unused"` // of parts of indexes, likewise
	SamplesOnDisk uint64 `json:"samples_unused"` // hashes of samples, which only compactions read
}

// An Overlap describes how many keys parts of the tree have in common: its tables, or its runs if there are more than
// 64 tables.
type Overlap struct {
	Of      string          `json:"of"` // "tables" or "runs"
	Members []OverlapMember `json:"members"`
	// members in different runs whose ranges overlap, each pair in both directions
	Pairs []OverlapPair `json:"pairs"`
	// Written is the number of keys that compacting everything into one run would write: each once, without deleted
	// ones. Written, Err and Garbage are 0 if Known is false: a filter or a sample is missing, or there are range
	// deletes.
	Written float64 `json:"keys_written"`
	Err     float64 `json:"keys_written_error"` // the standard error of Written
	Garbage float64 `json:"keys_garbage"`       // entries minus Written
	Known   bool    `json:"known"`
}

// An OverlapMember is a table or a run, newest data first.
type OverlapMember struct {
	Level int    `json:"level"`
	Run   uint64 `json:"run"`
	File  string `json:"file,omitempty"` // the file of a table
	Keys  uint64 `json:"keys"`
}

// An OverlapPair is an estimate from a sample of the keys of one member and the filter of the other.
type OverlapPair struct {
	A     int     `json:"a"`     // index of a member
	B     int     `json:"b"`     // index of another member
	Share float64 `json:"share"` // of the keys of A that are in B, 0..1
	Err   float64 `json:"share_error"`
}

// A WhatIf describes the filters as they would be if all tables were rewritten with other options and stayed where
// they are. It does not include prefix filters.
type WhatIf struct {
	Asked  string        `json:"asked"`                  // the text of --what-if
	FPR    float64       `json:"fpr_promised"`           // with the memory of Promise, and full memtables
	Pages  float64       `json:"filter_pages,omitempty"` // of filters read from files, for each lookup of an absent key
	Kind   string        `json:"kind"`                   // "auto", "bloom" or "ribbon"
	Memory uint64        `json:"memory"`                 // for filters, in bytes; 0 if a rate was asked for
	Levels []WhatIfLevel `json:"levels"`                 // levels that have tables
	Bytes  uint64        `json:"filter_bytes_in_memory"`
	More   int64         `json:"filter_bytes_more"` // relative to now; may be negative
	Wasted float64       `json:"wasted_predicted"`  // reads per lookup of an absent key
	// the promise for as many keys in a tree at rest, as bloomkv plan computes it; 0 if the memory is too little for it
	AtRest float64 `json:"fpr_promised_at_rest,omitempty"`
}

// A WhatIfLevel is one level of a WhatIf.
type WhatIfLevel struct {
	Level      int     `json:"level"`
	Keys       uint64  `json:"keys"`
	BitsPerKey float64 `json:"bits_per_key"`
	Bytes      uint64  `json:"filter_bytes_in_memory"`
	Wasted     float64 `json:"wasted_predicted"`
}

// A FlagName is the name of a kind of problem. The names do not change.
type FlagName string

// What is flagged.
const (
	MemoryShort   FlagName = "memory-short"   // the memory is too little for what was asked
	WastesMore    FlagName = "wastes-more"    // wasted reads exceed 1.15 times what was asked, or can be promised
	NoFilter      FlagName = "no-filter"      // a table has no filter although others have
	FilterDamaged FlagName = "filter-damaged" // a filter or its sample is damaged
	FilterWorse   FlagName = "filter-worse"   // the promise of a filter is worse than its level allows
	TableDamaged  FlagName = "table-damaged"  // the table could not be read
)

// A Flag describes a problem.
type Flag struct {
	Name    FlagName `json:"name"`
	File    string   `json:"file,omitempty"` // the file of a table
	Meaning string   `json:"meaning"`        // one or two sentences with the numbers
}
