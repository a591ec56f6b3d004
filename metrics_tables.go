package bloomkv

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// FilterAnswers is what the filters of tables have answered to lookups since each table was written, whatever level it was on and
// however many units of its filter were in memory. Searches are counted exactly, negatives estimated: one lookup in 64 is a
// sample, and stands for 64. So N of them have a standard error of √(63·N): 8 % of ten thousand, 0.8 % of a million. A measured
// rate has, with F false positives among them, a relative standard error of √(1/F + 63/N), of which the first part, chance, is the
// larger one below a rate of 1/63.
//
// They outlast Close, and are kept with the manifest: it is written anew when a store is closed that has written anything since it
// was opened. A store that was only read forgets what it has counted since, and a crash what was counted since the
// manifest was last begun. What a compaction writes begins with none, and so does a Checkpoint.
type FilterAnswers struct {
	Negatives      uint64 `json:"filter_negatives"` // said no, and the table was skipped: an estimate
	TruePositives  uint64 `json:"true_positives"`   // searches, let through by a filter, that found a version of the key
	FalsePositives uint64 `json:"false_positives"`  // searches, let through by a filter, that found none
	Unfiltered     uint64 `json:"unfiltered"`       // searches for which no filter was asked: none built, none loaded, or damaged
}

// FPR is the measured rate: false positives among these and the negatives; 0 without any.
func (a FilterAnswers) FPR() float64 {
	if a.FalsePositives == 0 {
		return 0
	}
	return float64(a.FalsePositives) / (float64(a.FalsePositives) + float64(a.Negatives))
}

func (a *FilterAnswers) add(c manifest.Counts) {
	a.Negatives += c.Negatives
	a.TruePositives += c.TruePositives
	a.FalsePositives += c.FalsePositives
	a.Unfiltered += c.Unfiltered
}

// TableMetrics is one table: what it holds, and what its filter promises, should do and has done. As JSON its names do not change.
type TableMetrics struct {
	File           string  `json:"file"`                   // base name of its file, in the store's directory
	Level          int     `json:"level"`                  //
	Run            uint64  `json:"run"`                    // number of its run, in the level
	Smallest       []byte  `json:"smallest"`               // no key is below; range tombstones count, too
	Largest        []byte  `json:"largest"`                // no key is above; nil, and only that, is without end
	Exclusive      bool    `json:"largest_exclusive"`      // no key is equal to Largest
	Entries        uint64  `json:"entries"`                // versions, tombstones included
	Deletes        uint64  `json:"deletes"`                // tombstones among them
	RangeDeletes   uint64  `json:"range_deletes"`          // range tombstones, which are not among the entries
	Bytes          uint64  `json:"bytes"`                  // on disk
	FilterDisk     uint64  `json:"filter_bytes"`           // bytes of filter blocks on disk, that of prefixes too; 0 is no filter
	FilterBytes    int64   `json:"filter_bytes_in_memory"` // bytes of them in memory
	FilterUnits    int     `json:"filter_units"`           // of its units, those in memory
	FilterAllUnits int     `json:"filter_units_in_file"`   // 0 where it was not looked at yet
	FilterShed     bool    `json:"filter_shed"`            // it, or units of it, do not fit the memory budget or Options.FilterMemory
	OffPlan        bool    `json:"off_plan"`               // it is not the one that the options ask for: Compact writes the table anew
	FilterDamaged  bool    `json:"filter_damaged"`         // a filter block is; what is whole of it is used
	FilterFPR      float64 `json:"fpr_promised"`           // the share of the promised rate that each run of the level has
	FPRPredicted   float64 `json:"fpr_predicted"`          // what the units in memory give, by their bits; 1 without
	FPRMeasured    float64 `json:"fpr_measured"`           // false positives among these and the negatives; 0 without any
	FilterAnswers
}

// Tables is a snapshot of each table of the tree, newest data first, and ascending in each run; nil after Close. It takes time and
// memory in proportion to the tables. The slices are the caller's.
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
			m.Level, m.Run, m.FilterFPR = r.Level, r.ID, plans.Now.Levels[r.Level].Rate
			m.FilterShed, m.OffPlan = db.share.Short(t), db.share.OffPlan(r.Level, t, plans.Good)
			all = append(all, m)
		}
	}
	return all
}

// metrics are the figures of a table but for those of its place in the tree.
func metricsOf(t *tree.Table) TableMetrics {
	filter := t.Reader.FilterState()
	m := TableMetrics{
		File: t.File.Name, Smallest: bytes.Clone(t.Meta.Smallest), Largest: bytes.Clone(t.Meta.Upper()),
		Exclusive: t.Meta.Flags&manifest.LargestExclusive != 0,
		Entries:   t.Meta.Entries, Deletes: t.Meta.Deletes, RangeDeletes: t.Meta.RangeDeletes, Bytes: t.Meta.Size,
		FilterDisk: t.Meta.FilterLen, FilterBytes: filter.Bytes + t.Reader.PrefixBytes(), FilterUnits: filter.Units, FilterAllUnits: filter.AllUnits,
		FPRPredicted:  predictedRateOf(t),
		FilterDamaged: filter.Damage != nil || t.Reader.PrefixState().Damage != nil,
	}
	m.FilterAnswers.add(t.LoadCounts())
	m.FPRMeasured = m.FPR()
	return m
}
