package read

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
)

// A deadRun is the run of dead keys that one move of a cursor is in. No live key lies between edge, where the run
// begins, and where the cursor is.
type deadRun struct {
	view    deadkeys.Reader // as of when the state is read, and its ingests
	current bool            // that was the newest number in the state: all newer ones are in its memtable or later ones

	known   bool   // edge is set: by a seek, or by the first dead key
	edge    []byte // in buf, of a known range, or deadkeys.Beyond
	adjoins bool   // a known range ends at edge
	n       int    // dead keys stepped over since edge
	all     int    // by the whole move
	buf     []byte

	asked bool   // next is set
	next  []byte // no range is known between the key that was asked for last and next

	behind []byte          // memory of near
	later  memtable.Cursor // of written
}

// end forgets the run of a move: the next one begins at the first dead key.
func (r *deadRun) end() { r.known, r.asked, r.all = false, false, 0 }

// from begins a run at a key.
func (r *deadRun) from(key []byte) {
	r.buf = append(r.buf[:0], key[:min(len(key), batch.MaxBound)]...)
	r.edge, r.known, r.n, r.adjoins = r.buf, true, 0, false
}

// after begins a run at the end of a known range.
func (r *deadRun) after(end []byte) {
	r.edge, r.known, r.n, r.adjoins, r.asked = end, true, 0, true, false
}

// near returns the end of c.key at which a move arrives: itself, or on the way back the smallest key greater than it.
// It is valid until the next move.
func (c *Cursor) near() []byte {
	if !c.back {
		return c.key
	}
	r := &c.dead
	r.behind = append(append(r.behind[:0], c.key...), 0)
	return r.behind
}

// knownDead returns the ends of the known range that holds key, or on the way back the keys just below it, if there is
// one: first the end at which a move arrives.
func (c *Cursor) knownDead(key []byte) (near, far []byte, ok bool) {
	r := &c.dead
	ranges, ahead := &c.reader.DeadKeys, bytes.Compare(key, r.next)
	if r.asked && (ahead < 0 && !c.back || ahead > 0 && c.back) {
		return nil, nil, false
	}
	r.asked = true
	var at *deadkeys.Range
	if c.back {
		if at, r.next = ranges.Below(key, r.view); at != nil {
			return at.Hi, at.Lo, true
		}
	} else if at, r.next = ranges.At(key, r.view); at != nil {
		return at.Lo, at.Hi, true
	}
	return nil, nil, false
}

// bury counts c.key, which is dead. If the key is in a known range, it returns the range's far end.
func (c *Cursor) bury() (far []byte, known bool) {
	r, near := &c.dead, c.near()
	if !r.known {
		r.from(near)
	}
	if end, far, ok := c.knownDead(near); ok {
		c.endRun(end, true)
		r.after(far)
		return far, true
	}
	if r.n == deadkeys.Chunk {
		c.report(near)
		r.from(near)
		r.adjoins = true
	}
	r.n++
	r.all++
	return nil, false
}

// endRun ends a run at a key, and reports it if it was long, or if it is all that is between two known ranges. adjoins
// reports whether a known range begins where it ends.
func (c *Cursor) endRun(end []byte, adjoins bool) {
	if r := &c.dead; r.n >= deadkeys.Worth || r.n > 0 && r.adjoins && adjoins {
		c.report(end)
	}
	c.dead.n = 0
}

// endDead ends the run of a move.
func (c *Cursor) endDead(end []byte) {
	r := &c.dead
	if r.all > 0 {
		c.endRun(end, false)
		c.reader.DeadKeys.Step(r.all)
	}
	r.end()
}

// report reports that no key from the edge of the run to its end is alive, so that later moves skip them.
func (c *Cursor) report(end []byte) {
	lo, hi := c.dead.edge, end
	if c.back {
		lo, hi = hi, lo
	}
	if c.dead.current {
		c.reader.DeadKeys.Report(lo, hi, c.dead.view, func() bool { return c.written(lo, hi) })
		if n := c.reader.DeadKeys.Grown(); n != 0 {
			c.reader.Tables.Count(n)
		}
	}
}

// written reports whether a key in [lo, hi) may have been written after the moment of the cursor.
func (c *Cursor) written(lo, hi []byte) bool {
	s := c.reader.Tree.Hold()
	if s == nil {
		return true
	}
	defer c.reader.Tree.Release(s)
	newer := slices.Concat([]*memtable.Table{s.Mem}, s.Frozen) // newest first
	i := slices.Index(newer, c.state.Mem)
	if i < 0 { // a later memtable may have been flushed too
		return true
	}
	m := &c.dead.later
	defer func() { _ = m.Close() }() // it never fails
	for _, mem := range newer[:i+1] {
		m.Reset(mem, ikey.MaxSeq)
		for ok := m.SeekGE(ikey.Search(lo, ikey.MaxSeq)); ok; ok = m.Next() {
			k := m.Key()
			if bytes.Compare(k.User, hi) >= 0 {
				break
			}
			if k.Trailer.Seq() > c.dead.view.Seq {
				return true
			}
		}
	}
	return false
}
