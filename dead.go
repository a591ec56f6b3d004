package bloomkv

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Who takes keys from one end of a range, as a queue does, leaves tombstones behind, and would step over all of them again
// at each turn: over more and more, until compaction comes. So a cursor that has stepped over many dead keys in a row
// leaves word of the stretch, and the next one jumps. A write into a stretch forgets it before the write can be seen.
//
// Nothing here changes an answer. A stretch [lo, hi) with sequence s says: no key in it lives for a reader at s or later.
// It is believed only if, between s and now, no key was put into it:
//
//   - A cursor at sequence q looks for stretches after it knew q. Whatever put a key into one with a sequence up to q had
//     noted that, and removed the stretch, before q was published.
//   - A cursor at s that brings a stretch has a state with all puts up to s, see holdNow, and is heard only if the notes of
//     all puts after s are there, and none is in it.
//
// Notes are taken only while somebody brings stretches or uses them.
type deadRanges struct {
	ranges atomic.Pointer[[]deadRange] // ascending and disjoint; nil: none
	on     atomic.Bool                 // puts are noted
	used   atomic.Bool                 // since the last look

	mu    sync.Mutex
	from  ikey.Seq // guarded by mu: every put from here on was noted; 0: not known yet
	lost  ikey.Seq // guarded by mu: the newest put whose note is gone
	notes [deadNotes]deadNote
	next  int // guarded by mu: the place of the next note
	idle  int // guarded by mu: groups of writes since the last use
}

const (
	deadNotes  = 64   // puts remembered
	deadMax    = 16   // stretches remembered
	deadLong   = 256  // bytes of a key that is remembered
	deadIdle   = 4096 // groups of writes without any use, after which everything is forgotten
	deadWorth  = 32   // dead keys in a row that are worth a word
	deadBounds = 1024 // bytes of a bound that is kept
)

type deadRange struct {
	lo, hi []byte
	since  ikey.Seq
	used   bool // as the victim of a full set, another one is taken first
}

type deadNote struct {
	seq ikey.Seq
	key []byte
}

// at is the stretch that holds key, for a reader at seq.
func (d *deadRanges) at(key []byte, seq ikey.Seq) (deadRange, bool) {
	all := d.ranges.Load()
	if all == nil {
		return deadRange{}, false
	}
	for _, r := range *all {
		if bytes.Compare(key, r.hi) < 0 {
			return r, d.believe(bytes.Compare(r.lo, key) <= 0 && r.since <= seq)
		}
	}
	return deadRange{}, false
}

// below is the stretch that holds all just below key, for a reader at seq.
func (d *deadRanges) below(key []byte, seq ikey.Seq) (deadRange, bool) {
	all := d.ranges.Load()
	if all == nil {
		return deadRange{}, false
	}
	for _, r := range *all {
		if bytes.Compare(key, r.hi) <= 0 {
			return r, d.believe(bytes.Compare(r.lo, key) < 0 && r.since <= seq)
		}
	}
	return deadRange{}, false
}

func (d *deadRanges) believe(yes bool) bool {
	if yes && !d.used.Load() {
		d.used.Store(true)
	}
	return yes
}

// bring is how a cursor at seq leaves word that [lo, hi) is dead. The bounds are copied.
func (d *deadRanges) bring(lo, hi []byte, seq ikey.Seq) {
	endless := bytes.Compare(hi, beyond) >= 0 // a bound of a caller may be as long, and end before
	if len(lo) > deadBounds || len(hi) > deadBounds && !endless || bytes.Compare(lo, hi) >= 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used.Store(true)
	if !d.on.Load() {
		d.on.Store(true)
		d.from, d.lost, d.idle = 0, 0, 0
	}
	if d.from == 0 || d.from > seq+1 || d.lost > seq {
		return
	}
	for _, n := range d.notes {
		if n.seq > seq && bytes.Compare(lo, n.key) <= 0 && bytes.Compare(n.key, hi) < 0 {
			return
		}
	}
	r := deadRange{append([]byte{}, lo...), beyond, seq, true}
	if !endless {
		r.hi = bytes.Clone(hi)
	}
	var all []deadRange
	if old := d.ranges.Load(); old != nil {
		for _, o := range *old {
			if bytes.Compare(o.hi, r.lo) < 0 || bytes.Compare(r.hi, o.lo) < 0 {
				all = append(all, o)
				continue
			}
			if bytes.Compare(o.lo, r.lo) < 0 { // they touch: what both say holds from the later one on
				r.lo = o.lo
			}
			if bytes.Compare(o.hi, r.hi) > 0 {
				r.hi = o.hi
			}
			r.since = max(r.since, o.since)
		}
	}
	if len(all) == deadMax {
		victim := slices.IndexFunc(all, func(o deadRange) bool { return !o.used })
		if victim < 0 {
			victim = 0
			for i := range all {
				all[i].used = false
			}
		}
		all = slices.Delete(all, victim, victim+1)
	}
	i, _ := slices.BinarySearchFunc(all, r.lo, func(o deadRange, lo []byte) int { return bytes.Compare(o.lo, lo) })
	all = slices.Insert(all, i, r)
	d.ranges.Store(&all)
}

// wrote notes the puts of a record, before they can be seen. It is for the one who holds commitMu.
func (d *deadRanges) wrote(record []byte) {
	if !d.on.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used.Load() {
		d.used.Store(false)
		d.idle = 0
	} else if d.idle++; d.idle > deadIdle {
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

// note keeps the place of a put, and forgets the stretch that it is in. mu is held.
func (d *deadRanges) note(seq ikey.Seq, key []byte) {
	if len(key) > deadLong {
		d.lost = seq
	} else {
		n := &d.notes[d.next]
		d.next = (d.next + 1) % deadNotes
		d.lost = max(d.lost, n.seq)
		n.seq, n.key = seq, append(n.key[:0], key...)
	}
	all := d.ranges.Load()
	if all == nil {
		return
	}
	in := func(r deadRange) bool { return bytes.Compare(r.lo, key) <= 0 && bytes.Compare(key, r.hi) < 0 }
	if slices.ContainsFunc(*all, in) {
		left := slices.DeleteFunc(slices.Clone(*all), in)
		d.ranges.Store(&left)
	}
}

// ingested forgets everything, before what was ingested at seq can be seen. A cursor at seq itself may have the state of before,
// as the sequence is published a moment earlier than the state: it is not heard.
func (d *deadRanges) ingested(seq ikey.Seq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	d.lost = seq + 1
}

func (d *deadRanges) forget() {
	d.ranges.Store(nil)
	for i := range d.notes {
		d.lost = max(d.lost, d.notes[i].seq)
		d.notes[i] = deadNote{}
	}
}

// A deadRun is what one move of a cursor stepped over: dead keys in a row, from where it began. What lies between that place
// and the first of them is empty.
type deadRun struct {
	edge  []byte // where the run begins: in buf, or beyond
	known bool   // edge is set: by a seek, or by the first dead key
	n     int    // dead keys that no stretch knew
	buf   []byte
}

// reset begins a run at a place that was sought, nil for none.
func (r *deadRun) reset(edge []byte) {
	r.n, r.known = 0, false
	if edge != nil {
		r.from(edge)
	}
}

// note counts a dead key.
func (r *deadRun) note(key []byte) {
	r.from(key)
	r.n++
}

// from says that the run goes over a stretch which begins there.
func (r *deadRun) from(edge []byte) {
	switch {
	case r.known:
		return
	case bytes.Compare(edge, beyond) >= 0:
		r.edge = beyond
	default:
		r.buf = append(r.buf[:0], cutBound(edge)...)
		r.edge = r.buf
	}
	r.known = true
}

// bury ends the run, which was over [lo, hi), and leaves word of it if it was long.
func (c *cursor) bury(lo, hi []byte) {
	if c.dead.n >= deadWorth {
		c.db.deadKeys.bring(lo, hi, c.seq)
	}
	c.dead.n, c.dead.known = 0, false
}

// afterKey is the smallest key greater than the one that the cursor stands at; it is only made where bury needs it.
func (c *cursor) afterKey() []byte {
	if c.dead.n < deadWorth {
		return nil
	}
	return append(bytes.Clone(c.key), 0)
}
