package manifest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Counts is the number of times that a table's filter has given each answer, in lookups since the table was written. A
// store does not need it: a program that does not know the field skips it.
type Counts struct {
	Negatives      uint64 // estimated from a sample
	TruePositives  uint64 // searches that the filter allowed and that found a version of the key
	FalsePositives uint64 // searches that the filter allowed and that found nothing
	Unfiltered     uint64 // searches without a filter
}

// TableCounts are the counts of one table.
type TableCounts struct {
	Number uint64
	Counts
}

// Counts of a table:
//
//	0            8               16                   24                    32               40
//	+------------+---------------+--------------------+---------------------+----------------+
//	| number u64 | negatives u64 | true positives u64 | false positives u64 | unfiltered u64 |
//	+------------+---------------+--------------------+---------------------+----------------+
const countsSize = 40

func appendCounts(dst []byte, c TableCounts) []byte {
	for _, n := range [...]uint64{c.Number, c.Negatives, c.TruePositives, c.FalsePositives, c.Unfiltered} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

func parseCounts(b []byte) (TableCounts, error) {
	if len(b) != countsSize {
		return TableCounts{}, fmt.Errorf("edit: counts of %d bytes, want %d", len(b), countsSize)
	}
	var n [countsSize / 8]uint64
	for i := range n {
		n[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return TableCounts{n[0], Counts{n[1], n[2], n[3], n[4]}}, nil
}

// checkCounts checks the order and values of an edit's counts.
func checkCounts(counts []TableCounts) error {
	last := uint64(0)
	for _, c := range counts {
		switch {
		case c.Number <= last || c.Number >= MaxNumber:
			return fmt.Errorf("edit: counts of table %d after those of %d, want them ascending below %d",
				c.Number, last, MaxNumber)
		case c.Counts == Counts{}:
			return fmt.Errorf("edit: counts of table %d are 0", c.Number)
		}
		last = c.Number
	}
	return nil
}

// counts returns the counts of s that an edit can carry: those that are not 0, of existing tables.
func (s State) counts() (counts []TableCounts) {
	for _, t := range s.Version.Tables() {
		if c := s.Counts[t.Number]; c != (Counts{}) {
			counts = append(counts, TableCounts{t.Number, c})
		}
	}
	slices.SortFunc(counts, func(a, b TableCounts) int { return cmp.Compare(a.Number, b.Number) })
	return counts
}
