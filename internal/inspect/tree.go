package inspect

// A Figures is what the filters of a part of the tree cost and give: of a level, or of all. Bytes of filters are those of key filters;
// prefix filters are in Memory.
//
// A wasted read is the search of a table that has no version of the key, by a lookup of an absent key. How many of them a lookup
// costs is counted over all absent keys, where these are taken to lie as the keys lie that there are: between two neighbours of them
// as often as between any other two. A run costs the rate of that of its tables whose bounds hold the key, and nothing where none does.
// That range deletes end some lookups early is not taken off. Optimum and Even are by the rates of filters of many keys; those of few
// keys, which are rounded up to whole blocks, may do better.
type Figures struct {
	Runs        int     `json:"runs"`                   // what a lookup may have to ask, one table of each
	Tables      int     `json:"tables"`                 // in all runs
	Bytes       uint64  `json:"bytes"`                  // on disk
	Entries     uint64  `json:"entries"`                // versions, tombstones included
	Keys        uint64  `json:"keys"`                   // those in filters, each once for each table; of a table without a filter its entries
	FilterDisk  uint64  `json:"filter_bytes"`           // on disk
	FilterBytes uint64  `json:"filter_bytes_in_memory"` // of these, the units that a store has in memory: what the tables' levels need
	BitsPerKey  float64 `json:"bits_per_key"`           // of the filters in memory
	Promised    float64 `json:"wasted_promised"`        // wasted reads by the plan: for each run the share of its level; 0 where the plan is not known
	Predicted   float64 `json:"wasted_predicted"`       // wasted reads by the filters in memory; where the plan is not known, by all of their units
	Optimum     float64 `json:"wasted_optimum"`         // the least that filters of no more memory would waste in the same runs, if each were sized for all
	Even        float64 `json:"wasted_even"`            // the same if every key had as many bits, of the same kind of filter
	Live        *Live   `json:"live,omitempty"`         // how the filters have answered, of all tables that have counted
}

// A Level is one level of the tree that has tables.
type Level struct {
	Level int `json:"level"` // 0 is the newest
	Figures
}

// A Plan is the plan of Options.FilterFPR, FilterKind and LevelRatio that the store was last written with.
type Plan struct {
	FPR    float64 `json:"fpr_promised"`
	Kind   string  `json:"kind"` // "bloom", "ribbon" or "none"
	Ratio  int     `json:"level_ratio"`
	Tables int     `json:"tables"`                // whose filters are of it
	Prefix string  `json:"prefix_rule,omitempty"` // of prefix filters

	TablesOffPlan int    `json:"tables_off_plan"` // whose filters are not: of another promise, kind or rule, or of memory; Compact writes them anew
	BytesOffPlan  uint64 `json:"bytes_off_plan"`  // of these tables

	Levels []PlanLevel `json:"levels"` // all levels, from 0 on
}

// A PlanLevel is what a plan has for a level.
type PlanLevel struct {
	Level      int     `json:"level"`
	FPR        float64 `json:"promised"`     // the share of the promise that each run has at most
	Predicted  float64 `json:"predicted"`    // rate of filters that are built for it
	BitsPerKey float64 `json:"bits_per_key"` // of these
}

// A Place is where a table is in the tree, and what its filter does there. From and To say it in shares of the keys of the
// store: From is how many of these are in front of the table's first key, To how many up to its last, so that To less From is the share
// of absent keys for which the table is asked. Each key counts once, in the oldest run that has it, as samples and filters tell; without
// them, in each.
type Place struct {
	From        float64 `json:"from"` // 0..1
	To          float64 `json:"to"`
	Units       int     `json:"units_in_memory"` // those that the table's level needs
	FilterBytes uint64  `json:"filter_bytes_in_memory"`
	FPR         float64 `json:"fpr_in_memory"`    // what these units give; 1 without any
	Wasted      float64 `json:"wasted_predicted"` // To less From, times FPR: the table's part of Figures.Predicted
}

// A Memory is bytes that a store with all its tables loaded has in memory for them, by part. Nothing of it is there right after
// Open: the tail of a table (index and range deletes) and its filter are read in the background, or by the first lookup that needs
// them, and a memory budget may leave some out.
type Memory struct {
	Filters       uint64 `json:"filters"`        // of keys, the units that levels need
	PrefixFilters uint64 `json:"prefix_filters"` // read by the first scan that asks them, and not before
	Indexes       uint64 `json:"indexes"`        // of data blocks
	RangeDeletes  uint64 `json:"range_deletes"`
	Fences        uint64 `json:"fences"`         // bounds of tables with their heads: from Open on, and in no budget
	Sum           uint64 `json:"sum"`            // of all these
	FiltersOnDisk uint64 `json:"filters_unused"` // bytes of units that are in the files and in no memory, since the levels do not need them
	SamplesOnDisk uint64 `json:"samples_unused"` // bytes of the hashes in samples, which are read for a compaction alone
}

// An Overlap is how many keys parts of the tree have in common: its tables, or where those are more than 64 its runs.
type Overlap struct {
	Of      string          `json:"of"` // "tables" or "runs"
	Members []OverlapMember `json:"members"`
	Pairs   []OverlapPair   `json:"pairs"` // of members in different runs whose ranges overlap, each pair both ways
	// Written is how many keys would be written if all were compacted into one run: each once, without the deleted ones. Written, Err and
	// Garbage are 0 where Known is false: a filter or a sample is missing, or there are range deletes, of which nothing is predicted.
	Written float64 `json:"keys_written"`
	Err     float64 `json:"keys_written_error"` // standard error of Written
	Garbage float64 `json:"keys_garbage"`       // entries less Written
	Known   bool    `json:"known"`
}

// An OverlapMember is a table or a run, newest data first.
type OverlapMember struct {
	Level int    `json:"level"`
	Run   uint64 `json:"run"`
	File  string `json:"file,omitempty"` // of a table
	Keys  uint64 `json:"keys"`
}

// An OverlapPair is an estimate, from a sample of the keys of one and the filter of the other.
type OverlapPair struct {
	A     int     `json:"a"`     // index of a member
	B     int     `json:"b"`     // of another
	Share float64 `json:"share"` // of the keys of a that are in b, 0..1
	Err   float64 `json:"share_error"`
}

// A WhatIf is what the filters would take and give if all tables of the tree were written anew with other options, and stayed where
// they are. Prefix filters are left out.
type WhatIf struct {
	Asked  string        `json:"asked"`        // as --what-if had it
	FPR    float64       `json:"fpr_promised"` // with memory given, the best that fits
	Kind   string        `json:"kind"`         // "bloom" or "ribbon"
	Memory uint64        `json:"memory"`       // for filters, in bytes; 0 where a rate was asked for
	Levels []WhatIfLevel `json:"levels"`       // those that have tables
	Bytes  uint64        `json:"filter_bytes_in_memory"`
	More   int64         `json:"filter_bytes_more"` // than now; below 0 it is less
	Wasted float64       `json:"wasted_predicted"`  // reads by a lookup of an absent key
}

// A WhatIfLevel is one level of it.
type WhatIfLevel struct {
	Level      int     `json:"level"`
	Keys       uint64  `json:"keys"`
	BitsPerKey float64 `json:"bits_per_key"`
	Bytes      uint64  `json:"filter_bytes_in_memory"`
	Wasted     float64 `json:"wasted_predicted"`
}

// A FlagName is what a store may have against it. The names do not change.
type FlagName string

// What is flagged.
const (
	WastesMore    FlagName = "wastes-more"    // wasted reads are above 1.15 times the promise
	NoFilter      FlagName = "no-filter"      // a table has none, and others have
	FilterDamaged FlagName = "filter-damaged" // a filter, or the sample beside it
	FilterWorse   FlagName = "filter-worse"   // a table's filter promises less than its level should
	TableDamaged  FlagName = "table-damaged"  // the table itself, as far as inspect reads it
)

// A Flag says what is not as it should be.
type Flag struct {
	Name    FlagName `json:"name"`
	File    string   `json:"file,omitempty"` // of a table
	Meaning string   `json:"meaning"`        // a sentence or two, with the figures
}
