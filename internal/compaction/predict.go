package compaction

import (
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// A Prediction estimates what a compaction will write. It is made before anything is read except samples of the
// inputs' keys.
type Prediction struct {
	// Known is false if nothing could be predicted. A prediction needs a sample of every table that newer tables
	// overlap, and a useful filter in memory for each of these newer tables. The effect of range tombstones is not
	// predicted.
	Known bool
	// Keys is the number of distinct keys in the inputs, without those that a tombstone deletes for good.
	Keys float64
	// Err is the standard error of Keys. For a table half of whose keys are in newer tables it is about 1.6 % of
	// the table's keys; for many such tables it grows only with the square root of their number.
	Err float64
	// Bytes is the size of these keys' versions in the inputs, without filters and without the sequence numbers
	// that R5 of retain.go removes. It is too low if snapshots keep older versions, if tombstones are shorter than
	// the versions that stay, or if compression had shortened sequence numbers. It may be wrong either way if
	// outputs have another codec.
	Bytes float64
}

// predict predicts a merge of runs, newest first. A key of a table is written if no newer table has it. So the filters
// of all newer tables that overlap a table are asked for a sample of its keys. These tables are few, since newer runs
// are smaller.
//
// Tombstones are not written where no older table can hold their keys. This counts them as if they were as likely
// to be in newer tables as the other keys of their table.
func predict(runs [][]*manifest.Table, older olderRuns, samples Samples, snapshots []ikey.Seq) Prediction {
	var p Prediction
	variance := 0.0
	first := intervals(snapshots).first()
	for i, run := range runs {
		older := older.clone() // a cursor only moves forward
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

// Predict predicts a compaction of all of v into the last level, without snapshots. For each hash of a sample it
// takes the time of a lookup of an absent key in all runs.
func Predict(v *manifest.Version, samples Samples) Prediction {
	for _, t := range v.Tables() {
		if t.RangeDeletes > 0 {
			return Prediction{}
		}
	}
	return predict(runsOf(v.Levels[:]), olderRuns{}, samples, nil)
}

// Stale estimates the share of the keys of the oldest run of v that newer tables have too, which overwrite or delete
// them, 0 to 1. It asks the filters of these tables for samples of a few tables. It returns 0 if a sample is missing,
// or a filter of one of all these tables.
func Stale(v *manifest.Version, samples Samples) float64 {
	const tables = 16
	runs := runsOf(v.Levels[:])
	if len(runs) < 2 {
		return 0
	}
	newer, oldest := runs[:len(runs)-1], runs[len(runs)-1]
	var keys, stale float64
	step := (len(oldest) + tables - 1) / tables
	for i := step / 2; i < len(oldest); i += step {
		filters := newerFilters(newer, oldest[i], samples)
		if slices.Contains(append(filters, samples.Filter(oldest[i])), nil) {
			return 0
		}
		n, o := keysOf(oldest[i], filters, samples)
		if !o.Known {
			return 0
		}
		keys, stale = keys+n, stale+n*o.Share
	}
	return stale / keys
}

// newerFilters returns the filters of the tables in newer runs that overlap t.
func newerFilters(newer [][]*manifest.Table, t *manifest.Table, samples Samples) (filters []*bloomblock.Filter) {
	for _, run := range newer {
		for _, n := range (manifest.Run{Tables: run}).Touching(t.Bounds()) {
			filters = append(filters, samples.Filter(n))
		}
	}
	return filters
}

// keysOf returns the number of distinct keys of t, and the share of them that is in newer tables. It reads no
// sample if the result is known without one.
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

// tableSize returns the size at which outputs end so that they are about equally large, and as few as if each ended
// at most bytes, where the last one could be tiny. It leaves a margin for the usual error of the prediction, which
// must not cause one more table.
func (p *Prediction) tableSize(most uint64) uint64 {
	n := math.Ceil(p.Bytes / float64(most))
	if !p.Known || n < 2 {
		return most
	}
	margin := min(2*p.Err/p.Keys, 1/(2*n))
	return min(most, uint64(math.Ceil(p.Bytes/n*(1+margin))))
}

// of returns the prediction for a share of the inputs.
func (p Prediction) of(share float64) Prediction {
	p.Keys, p.Err, p.Bytes = p.Keys*share, p.Err*share, p.Bytes*share
	return p
}

// least returns a lower bound of the bytes to be written if outputs have the codec of the inputs: two standard
// errors below the prediction. It returns 0 if nothing was predicted.
func (p *Prediction) least() uint64 {
	if !p.Known || p.Keys == 0 {
		return 0
	}
	return uint64(p.Bytes * max(1-2*p.Err/p.Keys, 0))
}
