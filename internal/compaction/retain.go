package compaction

import (
	"bytes"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// Which versions and range tombstones are retained. Snapshots divide the sequence numbers into intervals: each
// snapshot sees either all numbers of an interval or none. Numbers newer than every snapshot form the last
// interval, which only readers of the present see.
//
//	R1  Of a key's versions in one interval, the newest stays.
//	R2  A version that a range tombstone of its own interval deletes is dropped: every reader sees both or neither.
//	R3  Of the range tombstones over a key in one interval, the newest stays.
//	R4  A tombstone of the first interval, of either kind, is dropped if no older run may hold what it hides. R1 and
//	    R2 drop what it hides among the inputs.
//	R5  What stays of the first interval gets sequence 0, which costs no byte, if no older run may hold the key and
//	    no range tombstone that stays lies over it: then there is nothing it has to be distinguished from.
//
// Other readers hold a state of their own, which includes the inputs.

// intervals are the snapshots, ascending. An interval is identified by its top: the oldest snapshot that sees it,
// or MaxSeq.
type intervals []ikey.Seq

// top returns the top of the interval of seq.
func (s intervals) top(seq ikey.Seq) ikey.Seq {
	if n := len(s); n == 0 || s[n-1] < seq {
		return ikey.MaxSeq
	}
	i, _ := slices.BinarySearch(s, seq)
	return s[i]
}

// first returns the top of the first interval.
func (s intervals) first() ikey.Seq { return s.top(0) }

// olderRuns are all runs older than the outputs. mayHold drops tables from the front, so it must be asked for
// ascending keys.
type olderRuns struct {
	runs     [][]*manifest.Table
	anywhere bool // there are other runs, which are not known here
}

// below returns the runs older than the outputs of a plan: those of the levels below To, since all tables of To that
// overlap the outputs are inputs. In level 0 nothing is dropped or zeroed for lack of older runs, as by a flush: its
// runs are ordered by sequence numbers (I15).
func below(v *manifest.Version, p *Plan) olderRuns {
	if p.To == 0 {
		return olderRuns{anywhere: true}
	}
	return olderRuns{runs: runsOf(v.Levels[p.To+1:])}
}

// runsOf returns the tables of each run of some levels, newest data first.
func runsOf(levels [][]manifest.Run) (runs [][]*manifest.Table) {
	for _, r := range slices.Concat(levels...) {
		runs = append(runs, r.Tables)
	}
	return runs
}

// clone returns a copy that advances independently of o.
func (o olderRuns) clone() olderRuns { return olderRuns{slices.Clone(o.runs), o.anywhere} }

// mayHold reports whether a key in b is within the bounds of an older table.
func (o *olderRuns) mayHold(b manifest.Bounds) bool {
	if o.anywhere {
		return true
	}
	for i, tables := range o.runs {
		tables = tables[leading(len(tables), func(j int) bool { return tables[j].EndsBefore(b.Lo) }):]
		o.runs[i] = tables
		if len(tables) > 0 && !b.EndsBefore(tables[0].Smallest) {
			return true
		}
	}
	return false
}

// leading returns how many of n elements are before the first for which is returns false. It returns false for all
// after that. Few mostly are, but a slice of a compaction begins anywhere among the tables of a level: so it looks at
// elements ever further away, and then between the last two.
func leading(n int, is func(i int) bool) int {
	from, to := 0, 1
	for to <= n && is(to-1) {
		from, to = to, 2*to
	}
	return from + sort.Search(min(to-1, n)-from, func(i int) bool { return !is(from + i) })
}

// A cursor finds the range tombstones over ascending keys.
type cursor struct {
	dels   *rangedel.Index
	known  bool     // hi and newest are valid
	hi     []byte   // nil is infinite
	newest ikey.Seq // of the tombstones over the last key, and over the following ones before hi; or 0
}

// at returns the newest of the tombstones over key, or 0.
func (c *cursor) at(key []byte) ikey.Seq {
	if !c.known || c.hi != nil && bytes.Compare(c.hi, key) <= 0 {
		_, c.hi, c.newest = c.dels.Stretch(key, ikey.MaxSeq)
		c.known = true
	}
	return c.newest
}

// deletes reports whether a tombstone that a reader at top sees deletes the version with seq of key.
func (c *cursor) deletes(key []byte, seq, top ikey.Seq) bool {
	newest := c.at(key)
	return newest > seq && (newest <= top || c.dels.Covering(key, top) > seq)
}

// retain decides for each version in order whether it stays.
type retain struct {
	snapshots intervals
	first     ikey.Seq // the top of the first interval
	older     olderRuns
	kept      rangedel.List // the range tombstones that stay

	// The last key seen.
	started bool
	current []byte   // never nil, which would be infinite as an upper bound
	top     ikey.Seq // the interval of its last version seen
	hidden  bool     // a range tombstone that stays lies over it
	all     cursor   // over the range tombstones of the inputs
	staying cursor   // over those that stay
}

// newRetain returns a retain for inputs with the given range tombstones.
func newRetain(snapshots []ikey.Seq, older olderRuns, dels rangedel.List) *retain {
	r := &retain{snapshots: snapshots, older: older, current: []byte{}}
	r.first = r.snapshots.first()
	r.kept = r.rangeDels(dels)
	r.all.dels, r.staying.dels = rangedel.NewIndex(dels), rangedel.NewIndex(r.kept)
	return r
}

// rangeDels returns the range tombstones that stay by R3 and R4. It joins neighbors that have become equal.
func (r *retain) rangeDels(l rangedel.List) rangedel.List {
	older := r.older.clone()
	var kept rangedel.List
	for _, f := range l {
		hides := older.mayHold(manifest.Bounds{Lo: f.Start, Hi: f.End, Exclusive: true})
		var seqs []ikey.Seq
		for i, seq := range f.Seqs {
			top := r.snapshots.top(seq)
			if i+1 < len(f.Seqs) && f.Seqs[i+1] <= top || top == r.first && !hides {
				continue
			}
			seqs = append(seqs, seq)
		}
		if len(seqs) == 0 {
			continue
		}
		if n := len(kept); n > 0 && bytes.Equal(kept[n-1].End, f.Start) && slices.Equal(kept[n-1].Seqs, seqs) {
			kept[n-1].End = f.End
			continue
		}
		kept = append(kept, rangedel.Fragment{Start: f.Start, End: f.End, Seqs: seqs})
	}
	return kept
}

// keep reports whether the version stays, and returns the trailer it gets. Versions must come in order.
func (r *retain) keep(k ikey.Key) (ikey.Trailer, bool) {
	seq := k.Trailer.Seq()
	top := r.snapshots.top(seq)
	if r.started && bytes.Equal(k.User, r.current) {
		if top == r.top {
			return 0, false // R1
		}
	} else {
		r.started = true
		r.current = append(r.current[:0], k.User...)
		r.hidden = r.staying.at(k.User) > 0
	}
	r.top = top
	if r.all.deletes(k.User, seq, top) {
		return 0, false // R2
	}
	if top != r.first || r.older.mayHold(manifest.Bounds{Lo: r.current, Hi: r.current}) {
		return k.Trailer, true
	}
	switch {
	case k.Trailer.Kind() == ikey.Delete:
		return 0, false // R4
	case r.hidden:
		return k.Trailer, true
	default:
		return ikey.MakeTrailer(0, k.Trailer.Kind()), true // R5
	}
}
