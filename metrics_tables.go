package bloomkv

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// FilterAnswers count what the filters of tables have answered to lookups since each table was written, on whatever
// level it was, and however many units of its filter were in memory. Searches are counted exactly, negatives
// estimated: one lookup in 64 is a sample, and each negative in it counts as 64. Therefore a count of N negatives has
// a standard error of √(63·N): 8 % of ten thousand, 0.8 % of a million. A measured rate with F false positives has a
// relative standard error of √(1/F + 63/N); the first part, chance, is the larger one for rates below 1/63.
//
// The counts outlast Close. They are kept in the manifest, which is rewritten when a store is closed that has written
// anything since Open. A store that was opened read-only forgets what it has counted, and a crash loses what was
// counted since the manifest was last begun. The tables written by a compaction or a Checkpoint start at zero.
type FilterAnswers struct {
	FilterNegatives uint64 `json:"filter_negatives"` // the table was skipped: an estimate
	TruePositives   uint64 `json:"true_positives"`   // searches that a filter let through, and that found the key
	FalsePositives  uint64 `json:"false_positives"`  // searches that a filter let through, and that did not
	// Unfiltered is the number of searches without a query of a filter: it was not built, not loaded, or damaged.
	Unfiltered uint64 `json:"unfiltered"`
}

// FPR returns the measured rate: the share of false positives among themselves and the negatives; 0 if there are
// neither.
func (a FilterAnswers) FPR() float64 {
	if a.FalsePositives == 0 {
		return 0
	}
	return float64(a.FalsePositives) / (float64(a.FalsePositives) + float64(a.FilterNegatives))
}

func (a *FilterAnswers) add(c manifest.Counts) {
	a.FilterNegatives += c.Negatives
	a.TruePositives += c.TruePositives
	a.FalsePositives += c.FalsePositives
	a.Unfiltered += c.Unfiltered
}

// TableMetrics are the figures of one table: what it holds, and the promised, predicted and measured rates of its
// filter. Their JSON names do not change.
type TableMetrics struct {
	File             string `json:"file"`              // base name of its file, in the directory of the store
	Level            int    `json:"level"`             //
	Run              uint64 `json:"run"`               // number of its run, in the level
	Smallest         []byte `json:"smallest"`          // lower bound of keys and range tombstones
	Largest          []byte `json:"largest"`           // upper bound of both; only nil is unbounded
	LargestExclusive bool   `json:"largest_exclusive"` // no key equals Largest
	Entries          uint64 `json:"entries"`           // versions, including tombstones
	Deletes          uint64 `json:"deletes"`           // tombstones among them
	RangeDeletes     uint64 `json:"range_deletes"`     // range tombstones, which do not count as entries
	Bytes            uint64 `json:"bytes"`             // on disk
	// FilterBytes is the number of bytes of filter blocks on disk, including a prefix filter; 0 means no filter.
	FilterBytes         uint64 `json:"filter_bytes"`
	FilterBytesInMemory int64  `json:"filter_bytes_in_memory"` // bytes of them in memory
	FilterUnits         int    `json:"filter_units"`           // units of the filter in memory
	FilterUnitsInFile   int    `json:"filter_units_in_file"`   // units in the file; 0 if it was not read yet
	// FilterShed is true if the filter, or units of it, do not fit the memory budget or Options.FilterMemory.
	FilterShed bool `json:"filter_shed"`
	// OffPlan is true if the filter differs from what the options ask for: Compact rewrites the table.
	OffPlan       bool `json:"off_plan"`
	FilterDamaged bool `json:"filter_damaged"` // a filter block is damaged; its intact units are used
	// FPRPromised is the share of the promised rate that each run of the level gets.
	FPRPromised float64 `json:"fpr_promised"`
	// FPRPredicted is the rate of the units in memory, computed from their bits; 1 if there are none.
	FPRPredicted float64 `json:"fpr_predicted"`
	// FPRMeasured is the share of false positives among themselves and the negatives; 0 if there are neither.
	FPRMeasured float64 `json:"fpr_measured"`
	FilterAnswers
}

// Tables returns the figures of each table of the tree, newest data first, and in ascending key order within each
// run; nil after Close. It takes time and memory in proportion to the number of tables. The caller owns the slices.
func (db *DB) Tables() []TableMetrics {
	s, release := db.tree.Acquire()
	if s == nil {
		return nil
	}
	defer release()
	plans, all := db.share.Plans(), []TableMetrics{}
	for _, r := range s.Runs {
		for _, t := range r.Tables {
			m := metricsOf(t)
			m.Level, m.Run, m.FPRPromised = r.Level, r.ID, plans.Now.Levels[r.Level].Rate
			m.FilterShed, m.OffPlan = db.share.Short(t), db.share.OffPlan(r.Level, t, plans.Good)
			all = append(all, m)
		}
	}
	return all
}

// metricsOf returns the figures of a table, except those of its position in the tree.
func metricsOf(t *tree.Table) TableMetrics {
	filter := t.Reader.FilterState()
	m := TableMetrics{
		File: t.File.Name, Smallest: bytes.Clone(t.Meta.Smallest), Largest: bytes.Clone(t.Meta.Upper()),
		LargestExclusive: t.Meta.Flags&manifest.LargestExclusive != 0,
		Entries:          t.Meta.Entries, Deletes: t.Meta.Deletes, RangeDeletes: t.Meta.RangeDeletes,
		Bytes:       t.Meta.Size,
		FilterBytes: t.Meta.FilterLen, FilterBytesInMemory: filter.Bytes + t.Reader.PrefixBytes(),
		FilterUnits: filter.Units, FilterUnitsInFile: filter.AllUnits,
		FPRPredicted:  predictedRateOf(t),
		FilterDamaged: filter.Damage != nil || t.Reader.PrefixState().Damage != nil,
	}
	m.FilterAnswers.add(t.LoadCounts())
	m.FPRMeasured = m.FPR()
	return m
}
