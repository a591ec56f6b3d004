// Package deadkeys remembers ranges that contain no live key, so that cursors jump over them.
//
// A workload that takes keys from one end of a range, as a queue does, leaves tombstones there. Each cursor would step
// over all of them again, and over more and more until compaction removes them. So a cursor that has stepped over many
// dead keys in a row reports their range, and the next one jumps. A write into a range removes the range before the
// write can be seen.
//
// Nothing here changes an answer. A range [lo, hi) with sequence s means: no key in it is alive for a reader at s or
// later. It is believed only if no key was put into it between s and now:
//
//   - A cursor at sequence q looks for ranges after it knew q. Every put into a range with a sequence up to q was
//     noted, and the range removed, before q was published.
//   - A cursor at s that reports a range has a state with all puts up to s (tree.HoldNow). Its report counts only if
//     the notes of all puts after s are there, and none of them lies in the range.
//
// Puts are noted only while cursors report ranges or use them.
package deadkeys

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Worth is the number of dead keys in a row from which on a range is worth a report.
const Worth = 32

const (
	maxRanges = 16   // ranges remembered
	maxBound  = 1024 // bytes of a bound that is kept
	maxNotes  = 64   // puts remembered
	maxKey    = 256  // bytes of a put's key that is remembered
	maxIdle   = 4096 // groups of writes without any use, after which everything is forgotten
)

// Beyond is greater than every key. It must not be changed.
var Beyond = bytes.Repeat([]byte{0xff}, batch.MaxBound)

// Ranges are the ranges of one store. The zero value is ready. It is safe for concurrent use.
type Ranges struct {
	ranges atomic.Pointer[[]Range] // ascending and disjoint; nil if empty
	on     atomic.Bool             // puts are noted
	used   atomic.Bool             // since the last look

	mu    sync.Mutex     // guards what follows
	from  ikey.Seq       // every put from here on was noted; 0 if not known yet
	lost  ikey.Seq       // the newest put whose note is gone
	notes [maxNotes]note // the last puts, as a ring
	next  int            // index of the next note
	idle  int            // groups of writes since the last use
}

// A Range is the keys from Lo on and before Hi.
type Range struct {
	Lo, Hi []byte
	since  ikey.Seq
	used   bool // another one makes room in a full set first
}

type note struct {
	seq ikey.Seq
	key []byte
}

// At returns the range that holds key, for a reader at seq.
func (d *Ranges) At(key []byte, seq ikey.Seq) (Range, bool) {
	all := d.ranges.Load()
	if all == nil {
		return Range{}, false
	}
	for _, r := range *all {
		if bytes.Compare(key, r.Hi) < 0 {
			return r, d.use(bytes.Compare(r.Lo, key) <= 0 && r.since <= seq)
		}
	}
	return Range{}, false
}

// Below returns the range that holds the keys just below key, for a reader at seq.
func (d *Ranges) Below(key []byte, seq ikey.Seq) (Range, bool) {
	all := d.ranges.Load()
	if all == nil {
		return Range{}, false
	}
	for _, r := range *all {
		if bytes.Compare(key, r.Hi) <= 0 {
			return r, d.use(bytes.Compare(r.Lo, key) < 0 && r.since <= seq)
		}
	}
	return Range{}, false
}

func (d *Ranges) use(yes bool) bool {
	if yes && !d.used.Load() {
		d.used.Store(true)
	}
	return yes
}

// Len returns the number of ranges.
func (d *Ranges) Len() int {
	if all := d.ranges.Load(); all != nil {
		return len(*all)
	}
	return 0
}

// Report takes the report of a cursor at seq that no key of [lo, hi) is alive. The bounds are copied.
func (d *Ranges) Report(lo, hi []byte, seq ikey.Seq) {
	endless := bytes.Compare(hi, Beyond) >= 0 // a bound of a caller may be as long, and end before
	if len(lo) > maxBound || len(hi) > maxBound && !endless || bytes.Compare(lo, hi) >= 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used.Store(true)
	if !d.on.Load() {
		d.on.Store(true)
		d.from, d.idle = 0, 0 // lost stays: see Ingested
	}
	if d.from == 0 || d.from > seq+1 || d.lost > seq {
		return
	}
	for _, n := range d.notes {
		if n.seq > seq && bytes.Compare(lo, n.key) <= 0 && bytes.Compare(n.key, hi) < 0 {
			return
		}
	}
	r := Range{append([]byte{}, lo...), Beyond, seq, true}
	if !endless {
		r.Hi = bytes.Clone(hi)
	}
	d.add(r)
}

// add adds a range, merged with those that it touches. mu is held.
func (d *Ranges) add(r Range) {
	var all []Range
	if old := d.ranges.Load(); old != nil {
		for _, o := range *old {
			if bytes.Compare(o.Hi, r.Lo) < 0 || bytes.Compare(r.Hi, o.Lo) < 0 {
				all = append(all, o)
				continue
			}
			if bytes.Compare(o.Lo, r.Lo) < 0 { // they touch: together they hold from the later sequence on
				r.Lo = o.Lo
			}
			if bytes.Compare(o.Hi, r.Hi) > 0 {
				r.Hi = o.Hi
			}
			r.since = max(r.since, o.since)
		}
	}
	if len(all) == maxRanges {
		victim := slices.IndexFunc(all, func(o Range) bool { return !o.used })
		if victim < 0 {
			victim = 0
			for i := range all {
				all[i].used = false
			}
		}
		all = slices.Delete(all, victim, victim+1)
	}
	i, _ := slices.BinarySearchFunc(all, r.Lo, func(o Range, lo []byte) int { return bytes.Compare(o.Lo, lo) })
	all = slices.Insert(all, i, r)
	d.ranges.Store(&all)
}

// Wrote notes the puts of a log record, before they can be seen. Records come one at a time, in order.
func (d *Ranges) Wrote(record []byte) {
	if !d.on.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used.Load() {
		d.used.Store(false)
		d.idle = 0
	} else if d.idle++; d.idle > maxIdle {
		d.forget()
		d.on.Store(false)
		return
	}
	first, _, _ := batch.ReadRecord(record, func(seq ikey.Seq, kind ikey.Kind, key, _ []byte) {
		if kind == ikey.Set {
			d.note(seq, key)
		}
	})
	if d.from == 0 {
		d.from = first
	}
}

// note notes a put, and removes the range that it lies in. mu is held.
func (d *Ranges) note(seq ikey.Seq, key []byte) {
	if len(key) > maxKey {
		d.lost = seq
	} else {
		n := &d.notes[d.next]
		d.next = (d.next + 1) % maxNotes
		d.lost = max(d.lost, n.seq)
		n.seq, n.key = seq, append(n.key[:0], key...)
	}
	all := d.ranges.Load()
	if all == nil {
		return
	}
	in := func(r Range) bool { return bytes.Compare(r.Lo, key) <= 0 && bytes.Compare(key, r.Hi) < 0 }
	if slices.ContainsFunc(*all, in) {
		left := slices.DeleteFunc(slices.Clone(*all), in)
		d.ranges.Store(&left)
	}
}

// Ingested forgets everything, before what was ingested at seq can be seen. A cursor at seq itself may have the state
// of before, as the sequence is published a moment earlier than the state: its report does not count.
func (d *Ranges) Ingested(seq ikey.Seq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	d.lost = seq + 1
}

func (d *Ranges) forget() {
	d.ranges.Store(nil)
	for i := range d.notes {
		d.lost = max(d.lost, d.notes[i].seq)
		d.notes[i] = note{}
	}
}
