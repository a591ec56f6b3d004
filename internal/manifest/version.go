// Package manifest holds what a store consists of: which tables, in which runs of which levels, and how far its numbers
// have been counted.
//
// A Version is that at one moment, immutable. An Edit leads from one to the next. A Log makes edits durable; Load replays
// them. The package knows names, bounds, sizes and counts, and opens no table.
package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// NumLevels is how many levels a store has. Level 0 is the newest.
const NumLevels = 7

// Flags say how some fields of a Table are meant. The values are on disk.
type Flags uint8

const (
	LargestExclusive Flags = 1 << iota // no key is equal to Largest: a range tombstone ends there
	LargestInfinite                    // a range tombstone has no end; Largest is empty
	SeqOverridden                      // every version has the sequence MaxSeq, whatever the file says: it was ingested
	Superseded                         // of some key there is more than the newest version, for snapshots
	knownFlags       = LargestExclusive | LargestInfinite | SeqOverridden | Superseded
)

// A Table is what is known of one table without opening it. It is immutable once it is in a Version.
type Table struct {
	Number    uint64 // of its file, 1..MaxNumber-1
	ID        uint64 // random; the file holds it too
	Size      uint64 // of the file, in bytes
	TailLen   uint64 // index to footer, in bytes
	FilterLen uint64 // in bytes; 0 is no filter

	// Every key in the table and in its range tombstones is in [Smallest, Largest], as Flags say. Both are at most
	// 128 KiB long.
	Smallest, Largest []byte
	Flags             Flags

	MinSeq, MaxSeq ikey.Seq
	Entries        uint64  // versions of keys
	Deletes        uint64  // those of them that are tombstones
	RangeDeletes   uint64  // range tombstones, which are not among Entries
	FilterRate     float64 // the promised rate of false positives, 0..1
}

// A Run is tables with disjoint ranges, ascending. A later one of the same level is numbered higher.
type Run struct {
	ID     uint64
	Tables []*Table // never empty
}

// A Version is the tables of a store at one moment: levels of runs, newest data first, so descending by ID within a
// level. It is immutable, with all that it leads to, and is used concurrently. The zero value is a store without tables.
type Version struct {
	Levels [NumLevels][]Run
}

// EndsBefore reports whether all of t is in front of key.
func (t *Table) EndsBefore(key []byte) bool {
	if t.Flags&LargestInfinite != 0 {
		return false
	}
	c := bytes.Compare(t.Largest, key)
	return c < 0 || c == 0 && t.Flags&LargestExclusive != 0
}

// Bounds is the stretch of keys that t lies in.
func (t *Table) Bounds() Bounds {
	return Bounds{Lo: t.Smallest, Hi: t.Upper(), Exclusive: t.Flags&LargestExclusive != 0}
}

// Contains reports whether key is within the bounds of t.
func (t *Table) Contains(key []byte) bool {
	return bytes.Compare(t.Smallest, key) <= 0 && !t.EndsBefore(key)
}

// Equal reports whether two tables are the same in every field.
func (t *Table) Equal(o *Table) bool {
	a, b := *t, *o
	a.Smallest, a.Largest, b.Smallest, b.Largest = nil, nil, nil, nil
	return reflect.DeepEqual(a, b) && bytes.Equal(t.Smallest, o.Smallest) && bytes.Equal(t.Largest, o.Largest)
}

// Overlaps reports whether t has a part in [lo, hi]. A nil hi is infinite.
func (t *Table) Overlaps(lo, hi []byte) bool {
	return !t.EndsBefore(lo) && (hi == nil || bytes.Compare(t.Smallest, hi) <= 0)
}

// Upper is Largest as the upper end of a range: nil, and only then, if it is infinite.
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

// check tells what is out of range in t by itself.
func (t *Table) check() error {
	c := bytes.Compare(t.Smallest, t.Largest)
	switch {
	case t.Flags&^knownFlags != 0:
		return fmt.Errorf("%w: table %d has flags %#x", ErrUnsupportedVersion, t.Number, t.Flags)
	case t.Flags&LargestInfinite != 0 && (len(t.Largest) > 0 || t.Flags&LargestExclusive != 0):
		return fmt.Errorf("table %d: largest key is both infinite and %q", t.Number, t.Largest)
	case len(t.Smallest) > maxBound || len(t.Largest) > maxBound:
		return fmt.Errorf("table %d: bounds of %d and %d bytes, want at most %d", t.Number, len(t.Smallest), len(t.Largest), maxBound)
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
	if i := r.search(key); i < len(r.Tables) && bytes.Compare(r.Tables[i].Smallest, key) <= 0 {
		return r.Tables[i]
	}
	return nil
}

// Overlapping returns the tables of r that have a part in [lo, hi], a part of r.Tables. A nil hi is infinite.
func (r Run) Overlapping(lo, hi []byte) []*Table { return r.Touching(Bounds{Lo: lo, Hi: hi}) }

// Touching returns the tables of r that have a part in b, a part of r.Tables.
func (r Run) Touching(b Bounds) []*Table {
	from := r.search(b.Lo)
	to := len(r.Tables)
	if b.Hi != nil {
		n, found := slices.BinarySearchFunc(r.Tables[from:], b.Hi, compareSmallest)
		if to = from + n; found && !b.Exclusive {
			to++
		}
	}
	return r.Tables[from:to:to]
}

// search is the index of the first table that does not end before key.
func (r Run) search(key []byte) int {
	i, _ := slices.BinarySearchFunc(r.Tables, key, func(t *Table, key []byte) int {
		if t.EndsBefore(key) {
			return -1
		}
		return 1
	})
	return i
}

func compareSmallest(t *Table, key []byte) int { return bytes.Compare(t.Smallest, key) }

// Bytes is the size of the tables of r, in bytes.
func (r Run) Bytes() (n uint64) {
	for _, t := range r.Tables {
		n += t.Size
	}
	return n
}

// Bytes is the size of the tables of a level, in bytes.
func (v *Version) Bytes(level int) (n uint64) {
	for _, r := range v.Levels[level] {
		n += r.Bytes()
	}
	return n
}

// Tables is every table with its level, newest runs first, ascending in each.
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

// Covering is the tables whose bounds contain key, newest first: at most one of each run.
func (v *Version) Covering(key []byte) iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, runs := range v.Levels {
			for _, r := range runs {
				if t := r.Find(key); t != nil && !yield(t) {
					return
				}
			}
		}
	}
}

// Check tells what makes v no legal version: a table out of range, a number twice, a run that is empty or whose tables
// overlap, runs of a level that are not newest first.
func (v *Version) Check() error {
	seen := make(map[uint64]bool)
	for level, t := range v.Tables() {
		if err := errors.Join(checkPlace(level, t.Number), t.check()); err != nil {
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

func checkDisjoint(a, b *Table) error {
	if !a.EndsBefore(b.Smallest) {
		return fmt.Errorf("tables %d %s and %d %s overlap", a.Number, a.Bounds(), b.Number, b.Bounds())
	}
	return nil
}

// String prints v for people and tests: a line for each run and for each table.
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

// String prints t in one line.
func (t *Table) String() string {
	s := fmt.Sprintf("%06d %s seq %d..%d: %d bytes, %d entries, %d deletes", t.Number, t.Bounds(), t.MinSeq, t.MaxSeq, t.Size, t.Entries, t.Deletes)
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
	return s
}
