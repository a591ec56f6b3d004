package compaction

import (
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// A Prediction is what a compaction will write, told before it reads anything but samples of its inputs' keys. The zero value
// is none.
type Prediction struct {
	// Known is whether there is one: every table that shares a stretch of keys with newer ones has a sample, all of these a filter
	// in memory that tells something, and there are no range tombstones, whose effect is not predicted.
	Known bool
	// Keys is the number of distinct keys: all keys of the inputs once, without those that a tombstone deletes for good.
	Keys float64
	// Err is the standard error of Keys: about 1.6 hundredths of a table of which half the keys are in newer ones, and of many
	// such tables together less, by the root of their number.
	Err float64
	// Bytes is what the versions of these keys take in the inputs, without filters and without the sequence numbers that R5 takes from
	// them. It is low where snapshots keep older versions, where tombstones are shorter than what stays, and where compression had
	// made sequence numbers short; and it may be off where the outputs' codec is not that of the inputs.
	Bytes float64
}

// predict is the prediction for tables that are merged, by run, newest first. A table's keys that no newer table has are written,
// and no others: so a sample of the table is asked in the filters of all newer tables that overlap it, and those are few, since
// newer runs are the smaller ones.
//
// That a key which is a tombstone is not written where nothing older can hold it is taken into account as if the tombstones
// of a table were as often in newer tables as its other keys.
func predict(runs [][]*manifest.Table, older olderRuns, samples Samples, snapshots []ikey.Seq) Prediction {
	var p Prediction
	variance := 0.0
	first := stripes(snapshots).first()
	for i, run := range runs {
		older := older.clone() // its cursors want ascending keys
		for _, t := range run {
			keys, o := keysOf(t, newerFilters(runs[:i], t, samples), samples)
			if !o.Known {
				return Prediction{}
			}
			size := float64(t.Size - t.FilterLen)
			if t.MaxSeq > 0 && t.MaxSeq <= first && !older.mayHold(t.Bounds()) { // R4 and R5
				alive := 1 - float64(t.Deletes)/float64(t.Entries)
				keys *= alive
				size = max(size-8*float64(t.Entries), 0) * alive
			}
			p.Keys += keys * (1 - o.Share)
			p.Bytes += size * (1 - o.Share)
			variance += keys * o.Err * keys * o.Err
		}
	}
	p.Known, p.Err = true, math.Sqrt(variance)
	return p
}

// Samples gives access to what a prediction is made from.
type Samples interface {
	// Sample returns a sample of the keys of a table, or nil.
	Sample(t *manifest.Table) *bloomblock.Sample
	// Filter returns the part of a table's filter that is in memory, or nil.
	Filter(t *manifest.Table) *bloomblock.Filter
}

// Predict predicts a compaction of all of v into the last level, without snapshots. For each hash of a sample it takes the
// time of a lookup of an absent key in all runs.
func Predict(v *manifest.Version, samples Samples) Prediction {
	var runs [][]*manifest.Table
	for _, level := range v.Levels {
		for _, r := range level {
			for _, t := range r.Tables {
				if t.RangeDeletes > 0 {
					return Prediction{}
				}
			}
			runs = append(runs, r.Tables)
		}
	}
	return predict(runs, olderRuns{}, samples, nil)
}

// newerFilters are the filters of the tables of newer runs that overlap t.
func newerFilters(newer [][]*manifest.Table, t *manifest.Table, samples Samples) (filters []*bloomblock.Filter) {
	for _, run := range newer {
		for _, n := range (manifest.Run{Tables: run}).Touching(t.Bounds()) {
			filters = append(filters, samples.Filter(n))
		}
	}
	return filters
}

// keysOf is the number of distinct keys of t, and how many of them are in newer tables. Nothing is read where that is known without.
func keysOf(t *manifest.Table, newer []*bloomblock.Filter, samples Samples) (keys float64, o bloomblock.Overlap) {
	if len(newer) == 0 && t.Flags&manifest.Superseded == 0 {
		return float64(t.Entries), bloomblock.Overlap{Known: true}
	}
	s := samples.Sample(t)
	switch {
	case s == nil:
		return float64(t.Entries), o
	case len(newer) == 0:
		o.Known = true
	default:
		o = s.Overlap(newer...)
	}
	return float64(s.Keys()), o
}

// tableSize is the size at which outputs end so that they are equally large and as few as ever: where they ended at most, the last one
// would be any rest. An error of the prediction that is as large as it usually is must not make one more.
func (p *Prediction) tableSize(most uint64) uint64 {
	n := math.Ceil(p.Bytes / float64(most))
	if !p.Known || n < 2 {
		return most
	}
	margin := min(2*p.Err/p.Keys, 1/(2*n))
	return min(most, uint64(math.Ceil(p.Bytes/n*(1+margin))))
}

// least returns the number of bytes that will be written at least, two standard errors below the prediction, if the outputs
// have the codec of the inputs. It returns 0 if nothing was predicted.
func (p *Prediction) least() uint64 {
	if !p.Known || p.Keys == 0 {
		return 0
	}
	return uint64(p.Bytes * max(1-2*p.Err/p.Keys, 0))
}
