package manifest

import (
	"fmt"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// The largest numbers with which a write begins. One that would need a larger number is refused before anything of it
// is written. What lies above is left for what follows from earlier writes, which must not fail: the sequence numbers
// that Open skips, and the files of recovery, of flushes and of compactions.
const (
	MaxWrite = MaxSeq / 2   // sequence number of a version, a tombstone or a mark
	MaxFile  = maxGiven / 2 // number of a new log, or of the first table that is ingested
)

// MaxSeq and maxGiven are the largest sequence number and the largest next file that a manifest may record. A manifest
// with larger ones was not written by a store.
const (
	MaxSeq   = ikey.MaxSeq / 2
	maxGiven = MaxNumber / 2
)

// CheckWrite returns an error if seq is not the sequence number of a write: it exceeds MaxWrite.
func CheckWrite(seq ikey.Seq) error {
	if seq > MaxWrite {
		return fmt.Errorf("sequence %d, want at most %d: the sequence numbers are exhausted", seq, MaxWrite)
	}
	return nil
}

// CheckFile returns an error if a write may not begin with a file of that number: it exceeds MaxFile.
func CheckFile(number uint64) error {
	if number > MaxFile {
		return fmt.Errorf("file %d, want at most %d: the numbers of files are exhausted", number, MaxFile)
	}
	return nil
}

// checkCounters checks the counters of s. Note calls it, so that no manifest is written that Load refuses.
func (s *State) checkCounters() error {
	switch {
	case s.NextFile > maxGiven:
		return fmt.Errorf("next file %d, want at most %d: the numbers of files are exhausted", s.NextFile, maxGiven)
	case s.LastSeq > MaxSeq:
		return fmt.Errorf("last sequence %d, want at most %d: the sequence numbers are exhausted", s.LastSeq, MaxSeq)
	}
	return nil
}

// checkNumbers compares the numbers of s with its counters, and with each other (I15). Note and Apply have checked
// the counters, and the numbers of tables, logs and runs.
func (s *State) checkNumbers() error {
	if s.ManifestNumber >= s.NextFile {
		return fmt.Errorf("manifest %d, but next file %d", s.ManifestNumber, s.NextFile)
	}
	ids := make(map[uint64]uint64, s.Version.NumTables())
	for _, t := range s.Version.Tables() {
		other, twice := ids[t.ID]
		switch {
		case twice:
			return fmt.Errorf("tables %d and %d have the same id %016x", other, t.Number, t.ID)
		case t.Flags&SeqOverridden != 0 && (t.MinSeq != t.MaxSeq || t.MaxSeq == 0):
			return fmt.Errorf("table %d: sequences %d..%d, want one above 0 for an ingested table",
				t.Number, t.MinSeq, t.MaxSeq)
		case t.Entries == 0 && t.RangeDeletes == 0:
			return fmt.Errorf("table %d: neither entries nor range deletes", t.Number)
		}
		ids[t.ID] = t.Number
	}
	return s.Version.CheckRuns()
}

// CheckRuns compares the runs of v with each other: their numbers are distinct, a level below 0 has at most one, and in
// level 0 the sequence numbers of each are above those of the next older one.
func (v *Version) CheckRuns() error {
	levels := map[uint64]int{}
	for level, runs := range v.Levels {
		if level > 0 && len(runs) > 1 {
			return fmt.Errorf("level %d: runs %d and %d, want one run at most", level, runs[0].ID, runs[1].ID)
		}
		for i, r := range runs {
			if other, twice := levels[r.ID]; twice {
				return fmt.Errorf("run %d is at level %d and at level %d", r.ID, other, level)
			}
			levels[r.ID] = level
			if i == 0 {
				continue
			}
			newer := runs[i-1]
			low, _ := newer.seqs()
			if _, high := r.seqs(); low <= high {
				return fmt.Errorf("level %d: run %d from sequence %d, the older run %d goes up to %d",
					level, newer.ID, low, r.ID, high)
			}
		}
	}
	return nil
}

// seqs returns the smallest and the largest sequence number of a run.
func (r Run) seqs() (low, high ikey.Seq) {
	low = ikey.MaxSeq
	for _, t := range r.Tables {
		low, high = min(low, t.MinSeq), max(high, t.MaxSeq)
	}
	return low, high
}
