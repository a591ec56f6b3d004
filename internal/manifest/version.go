// Package manifest records what a store consists of: its tables, by level and run, and the numbers used so far.
//
// A Version is the set of tables at one moment, immutable. An Edit leads from one to the next. A Log makes edits
// durable; Load replays them. The package knows names, bounds, sizes and counts of tables, and opens none.
package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/words"
)

// NumLevels is the number of levels of a store. Level 0 is the newest.
const NumLevels = 7

const (
	// MaxNumber is the largest number of a file or a run, far enough from the end of uint64 that counting on is safe.
	MaxNumber uint64 = 1 << 62

	maxSize  = 1<<63 - 1 // of a file, in bytes
	maxBound = 1 << 17   // of Smallest and Largest, in bytes; twice the largest key
)

// Flags qualify some fields of a Table. The values are on disk.
type Flags uint8

const (
	LargestExclusive Flags = 1 << iota // no key is equal to Largest: a range tombstone ends there
	LargestInfinite                    // a range tombstone has no end; Largest is empty
	SeqOverridden                      // ingested: every version has the sequence MaxSeq, whatever the file has
	Superseded                         // some keys have older versions besides the newest, for snapshots
	IndexInParts                       // the table has version 2, which older programs refuse
	RangesOverlap                      // the table has version 2, since some of its range tombstones overlap
	knownFlags       = LargestExclusive | LargestInfinite | SeqOverridden | Superseded | IndexInParts | RangesOverlap
)

// A Table describes one table, without opening it. It is immutable once it is in a Version.
type Table struct {
	Number    uint64 // of its file, 1..MaxNumber-1
	ID        uint64 // random; also in the file
	Size      uint64 // of the file, in bytes
	TailLen   uint64 // from the index, or its top, to the end, in bytes
	FilterLen uint64 // in bytes; 0 without a filter

	// All keys of the table and its range tombstones are in [Smallest, Largest], qualified by Flags. Both are at most
	// 128 KiB long.
	Smallest, Largest []byte
	Flags             Flags

	MinSeq, MaxSeq ikey.Seq
	Entries        uint64  // versions of keys
	Deletes        uint64  // entries that are tombstones
	RangeDeletes   uint64  // range tombstones, not counted in Entries
	FilterRate     float64 // the promised rate of false positives, 0..1
}

// A Run is a list of tables with disjoint ranges, ascending. A newer run of the same level has a larger ID.
type Run struct {
	ID     uint64
	Tables []*Table // never empty
}

// A Version is the set of tables of a store at one moment: levels of runs, newest data first, so descending by ID
// within a level. It is immutable, including everything it refers to, and safe for concurrent use. The zero value is a
// store without tables.
type Version struct {
	Levels [NumLevels][]Run
}

// EndsBefore reports whether all of t is less than key.
func (t *Table) EndsBefore(key []byte) bool {
	if t.Flags&LargestInfinite != 0 {
		return false
	}
	c := bytes.Compare(t.Largest, key)
	return c < 0 || c == 0 && t.Flags&LargestExclusive != 0
}

// Bounds returns the range of keys of t.
func (t *Table) Bounds() Bounds {
	return Bounds{Lo: t.Smallest, Hi: t.Upper(), Exclusive: t.Flags&LargestExclusive != 0}
}

// Equal reports whether two tables are the same in every field.
func (t *Table) Equal(o *Table) bool {
	a, b := *t, *o
	a.Smallest, a.Largest, b.Smallest, b.Largest = nil, nil, nil, nil
	return reflect.DeepEqual(a, b) && bytes.Equal(t.Smallest, o.Smallest) && bytes.Equal(t.Largest, o.Largest)
}

// Upper returns Largest as the upper end of a range. It returns nil only if the range is infinite.
func (t *Table) Upper() []byte {
	switch {
	case t.Flags&LargestInfinite != 0:
		return nil
	case t.Largest == nil:
		return []byte{}
	default:
		return t.Largest
	}
}

// check checks the values of t alone.
func (t *Table) check() error {
	c := bytes.Compare(t.Smallest, t.Largest)
	switch {
	case t.Flags&^knownFlags != 0:
		return fmt.Errorf("%w: table %d has flags %#x", ErrUnsupportedVersion, t.Number, t.Flags)
	case t.Flags&LargestInfinite != 0 && (len(t.Largest) > 0 || t.Flags&LargestExclusive != 0):
		return fmt.Errorf("table %d: largest key is both infinite and %s", t.Number, words.Quoted(t.Largest))
	case len(t.Smallest) > maxBound || len(t.Largest) > maxBound:
		return fmt.Errorf("table %d: bounds of %d and %d bytes, want at most %d",
			t.Number, len(t.Smallest), len(t.Largest), maxBound)
	case t.Flags&LargestInfinite == 0 && (c > 0 || c == 0 && t.Flags&LargestExclusive != 0):
		return fmt.Errorf("table %d: range %s is empty", t.Number, t.Bounds())
	case t.Size > maxSize || t.TailLen > t.Size || t.FilterLen > t.Size-t.TailLen:
		return fmt.Errorf("table %d: size %d, tail %d, filter %d", t.Number, t.Size, t.TailLen, t.FilterLen)
	case t.MinSeq > t.MaxSeq || t.MaxSeq > ikey.MaxSeq:
		return fmt.Errorf("table %d: sequences %d..%d, want at most %d", t.Number, t.MinSeq, t.MaxSeq, ikey.MaxSeq)
	case t.Deletes > t.Entries:
		return fmt.Errorf("table %d: %d deletes among %d entries", t.Number, t.Deletes, t.Entries)
	case !(t.FilterRate >= 0 && t.FilterRate <= 1): // also NaN
		return fmt.Errorf("table %d: filter rate %v, want 0..1", t.Number, t.FilterRate)
	}
	return nil
}

// Find returns the only table of r whose bounds contain key, or nil.
func (r Run) Find(key []byte) *Table {
	if tables := r.Touching(Bounds{Lo: key, Hi: key}); len(tables) > 0 {
		return tables[0]
	}
	return nil
}

// Touching returns the tables of r that have a part in b, as a slice of r.Tables.
func (r Run) Touching(b Bounds) []*Table {
	from := r.Search(b.Lo)
	to := len(r.Tables)
	if b.Hi != nil {
		n, found := slices.BinarySearchFunc(r.Tables[from:], b.Hi, compareSmallest)
		if to = from + n; found && !b.Exclusive {
			to++
		}
	}
	return r.Tables[from:to:to]
}

// Search returns the index of the first table that does not end before key, or the number of tables.
func (r Run) Search(key []byte) int {
	return sort.Search(len(r.Tables), func(i int) bool { return !r.Tables[i].EndsBefore(key) })
}

func compareSmallest(t *Table, key []byte) int { return bytes.Compare(t.Smallest, key) }

// Runs returns the number of runs.
func (v *Version) Runs() (n int) {
	for _, runs := range v.Levels {
		n += len(runs)
	}
	return n
}

// Bytes returns the size of the tables of r, in bytes.
func (r Run) Bytes() (n uint64) {
	for _, t := range r.Tables {
		n += t.Size
	}
	return n
}

// DescriptionBytes returns about how many bytes an open store needs for what it knows of a table: this record, a
// reader, the file, and where things are in it. The table's filters, index and range tombstones are not included.
func (t *Table) DescriptionBytes() int64 {
	const described = 1920 // measured: see TestTablesTakeTheMemoryThatIsCounted
	return described + int64(2*(len(t.Smallest)+len(t.Largest)))
}

// NumTables returns the number of tables.
func (v *Version) NumTables() (n int) {
	for range v.Tables() {
		n++
	}
	return n
}

// Bytes returns the size of the tables of a level, in bytes.
func (v *Version) Bytes(level int) (n uint64) {
	for _, r := range v.Levels[level] {
		n += r.Bytes()
	}
	return n
}

// Tables returns every table with its level, newest runs first, ascending within each.
func (v *Version) Tables() iter.Seq2[int, *Table] {
	return func(yield func(int, *Table) bool) {
		for level, runs := range v.Levels {
			for _, r := range runs {
				for _, t := range r.Tables {
					if !yield(level, t) {
						return
					}
				}
			}
		}
	}
}

// Check reports why v is not a legal version: a value out of range, a number used twice, a run that is empty or whose
// tables overlap, runs of a level that are not newest first.
func (v *Version) Check() error {
	seen := make(map[uint64]bool)
	for level, t := range v.Tables() {
		if err := errors.Join(checkLevel(level, t.Number), t.check()); err != nil {
			return err
		}
		if seen[t.Number] {
			return fmt.Errorf("table %d is there twice", t.Number)
		}
		seen[t.Number] = true
	}
	for level, runs := range v.Levels {
		for i, r := range runs {
			if len(r.Tables) == 0 {
				return fmt.Errorf("level %d: run %d is empty", level, r.ID)
			}
			if i > 0 && runs[i-1].ID <= r.ID {
				return fmt.Errorf("level %d: run %d after run %d, want newest first", level, r.ID, runs[i-1].ID)
			}
			for j := 1; j < len(r.Tables); j++ {
				if err := checkDisjoint(r.Tables[j-1], r.Tables[j]); err != nil {
					return fmt.Errorf("level %d: run %d: %w", level, r.ID, err)
				}
			}
		}
	}
	return nil
}

// checkLevel checks the ranges of a level and of a table's number.
func checkLevel(level int, number uint64) error {
	if level < 0 || level >= NumLevels {
		return fmt.Errorf("level %d, want 0..%d", level, NumLevels-1)
	}
	if number == 0 || number >= MaxNumber {
		return fmt.Errorf("number %d, want 1..%d", number, MaxNumber-1)
	}
	return nil
}

func checkDisjoint(a, b *Table) error {
	if !a.EndsBefore(b.Smallest) {
		return fmt.Errorf("tables %d %s and %d %s overlap", a.Number, a.Bounds(), b.Number, b.Bounds())
	}
	return nil
}

// String returns a text for people and tests: a line for each run and for each table.
func (v *Version) String() string {
	var b strings.Builder
	for level, runs := range v.Levels {
		for _, r := range runs {
			fmt.Fprintf(&b, "level %d run %d: %d tables, %d bytes\n", level, r.ID, len(r.Tables), r.Bytes())
			for _, t := range r.Tables {
				fmt.Fprintf(&b, "  %s\n", t)
			}
		}
	}
	return cmp.Or(b.String(), "no tables\n")
}

// String returns t in one line.
func (t *Table) String() string {
	s := fmt.Sprintf("%06d %s seq %d..%d: %d bytes, %d entries, %d deletes",
		t.Number, t.Bounds(), t.MinSeq, t.MaxSeq, t.Size, t.Entries, t.Deletes)
	if t.RangeDeletes > 0 {
		s += fmt.Sprintf(", %d range deletes", t.RangeDeletes)
	}
	if t.FilterLen > 0 {
		s += fmt.Sprintf(", filter %d bytes, rate %.4g", t.FilterLen, t.FilterRate)
	}
	if t.Flags&SeqOverridden != 0 {
		s += ", ingested"
	}
	if t.Flags&Superseded != 0 {
		s += ", superseded versions"
	}
	if t.Flags&IndexInParts != 0 {
		s += ", index in parts"
	}
	if t.Flags&RangesOverlap != 0 {
		s += ", range deletes overlap"
	}
	return s
}
