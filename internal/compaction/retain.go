package compaction

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// Which versions and range tombstones stay. Snapshots divide the sequence numbers into stripes: the numbers of one stripe
// are seen by the same snapshots. What is newer than every snapshot is the last stripe, seen by readers of now alone.
//
//	R1  Of the versions of a key in one stripe, the newest stays.
//	R2  A version goes that a range tombstone of its own stripe deletes: no reader sees the one without the other.
//	R3  Of the range tombstones over a key in one stripe, the newest stays.
//	R4  A tombstone of the first stripe, of either kind, goes where no older run may hold what it hides: what of it is among
//	    the inputs goes by R1 and R2.
//	R5  What stays of the first stripe gets sequence 0, which costs no byte, where no older run may hold the key, and no range
//	    tombstone that stays lies over it: nothing is left that it would have to be told from.
//
// Readers that are no snapshot hold a state of their own, with the inputs in it.

// Stripes are the snapshots, ascending. A stripe is known by its top, the oldest snapshot that sees it, or MaxSeq.
type stripes []ikey.Seq

func (s stripes) top(seq ikey.Seq) ikey.Seq {
	if n := len(s); n == 0 || s[n-1] < seq {
		return ikey.MaxSeq
	}
	i, _ := slices.BinarySearch(s, seq)
	return s[i]
}

// first is the top of the first stripe.
func (s stripes) first() ikey.Seq { return s.top(0) }

// olderRuns are the tables of all runs older than what is written, each run with a cursor that only moves forward: it is
// asked for ascending keys.
type olderRuns struct {
	runs     [][]*manifest.Table
	anywhere bool // there are runs that are not known here
}

// below returns what is older than the outputs of a plan. The level To belongs to it if the plan makes a new run there;
// else the inputs include all that overlaps them in To.
func below(v *manifest.Version, p *Plan) olderRuns {
	var o olderRuns
	from := p.To + 1
	if p.NewRun {
		from = p.To
	}
	for l := from; l < manifest.NumLevels; l++ {
		for _, run := range v.Levels[l] {
			o.runs = append(o.runs, run.Tables)
		}
	}
	return o
}

// clone is o with cursors of its own.
func (o olderRuns) clone() olderRuns { return olderRuns{slices.Clone(o.runs), o.anywhere} }

// mayHold says whether a key in b is within the bounds of an older table.
func (o *olderRuns) mayHold(b manifest.Bounds) bool {
	if o.anywhere {
		return true
	}
	for i, tables := range o.runs {
		for len(tables) > 0 && tables[0].EndsBefore(b.Lo) {
			tables = tables[1:]
		}
		o.runs[i] = tables
		if len(tables) > 0 && !b.EndsBefore(tables[0].Smallest) {
			return true
		}
	}
	return false
}

// A cursor finds the fragments over ascending keys.
type cursor struct{ rest rangedel.List }

// at is the fragment over key, or nil.
func (c *cursor) at(key []byte) *rangedel.Fragment {
	for len(c.rest) > 0 && c.rest[0].End != nil && bytes.Compare(c.rest[0].End, key) <= 0 {
		c.rest = c.rest[1:]
	}
	if len(c.rest) == 0 || bytes.Compare(key, c.rest[0].Start) < 0 {
		return nil
	}
	return &c.rest[0]
}

// retain decides, version by version in order, which ones stay.
type retain struct {
	snapshots stripes
	first     ikey.Seq // the top of the first stripe
	older     olderRuns
	kept      rangedel.List // the range tombstones that stay

	// of the last key seen
	started bool
	current []byte             // never nil, which as an upper bound would be infinite
	top     ikey.Seq           // the stripe of its last version seen
	over    *rangedel.Fragment // all range tombstones of the inputs over it, or nil
	hidden  bool               // a range tombstone that stays lies over it
	all     cursor             // where over comes from
	staying cursor             // where hidden comes from
}

// newRetain begins with the range tombstones of all inputs.
func newRetain(snapshots []ikey.Seq, older olderRuns, dels rangedel.List) *retain {
	r := &retain{snapshots: snapshots, older: older, current: []byte{}}
	r.first = r.snapshots.first()
	r.kept = r.rangeDels(dels)
	r.all.rest, r.staying.rest = dels, r.kept
	return r
}

// rangeDels is what stays of a list by R3 and R4. Neighbours that have become equal are one.
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

// keep says whether the version stays, and the trailer it gets. Versions come in order.
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
		r.over = r.all.at(k.User)
		r.hidden = r.staying.at(k.User) != nil
	}
	r.top = top
	if r.over != nil && r.over.Newest(top) > seq {
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
