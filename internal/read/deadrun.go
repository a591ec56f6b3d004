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
	edge    []byte // in buf, of a known range, or deadkeys.Beyond
	known   bool   // edge is set: by a seek, or by the first dead key
	adjoins bool   // a known range ends at edge
	n       int    // dead keys stepped over since edge
	all     int    // by the whole move
	buf     []byte

	asked bool   // next is set
	next  []byte // no range is known between the key that was asked for last and next
}

// begin begins a move at the target of a seek, or without an edge if edge is nil.
func (r *deadRun) begin(edge []byte) {
	r.n, r.all, r.known, r.adjoins, r.asked = 0, 0, false, false, false
	if edge != nil {
		r.from(edge)
	}
}

// from begins a run at a key.
func (r *deadRun) from(key []byte) {
	r.buf = append(r.buf[:0], key[:min(len(key), batch.MaxBound)]...)
	r.edge, r.known, r.n, r.adjoins = r.buf, true, 0, false
}

// after begins a run at the end of a known range, or of what was reported.
func (r *deadRun) after(end []byte) {
	r.edge, r.known, r.n, r.adjoins, r.asked = end, true, 0, true, false
}

// rangeAt returns the range that holds key, for a forward move, or nil.
func (c *Cursor) rangeAt(key []byte) (at *deadkeys.Range) {
	r := &c.dead
	if !r.asked || bytes.Compare(key, r.next) >= 0 {
		at, r.next = c.reader.DeadKeys.At(key, c.view)
		r.asked = true
	}
	return at
}

// rangeBelow returns the range that holds the keys just below key, for a backward move, or nil.
func (c *Cursor) rangeBelow(key []byte) (at *deadkeys.Range) {
	r := &c.dead
	if !r.asked || bytes.Compare(key, r.next) <= 0 {
		at, r.next = c.reader.DeadKeys.Below(key, c.view)
		r.asked = true
	}
	return at
}

// bury counts c.key, which is dead, on a forward move. It returns the end of the known range that the key is in, or
// nil.
func (c *Cursor) bury() (end []byte) {
	r := &c.dead
	if !r.known {
		r.from(c.key)
	}
	if at := c.rangeAt(c.key); at != nil {
		c.endRun(r.edge, at.Lo, true)
		r.after(at.Hi)
		return at.Hi
	}
	if r.n == deadkeys.Chunk {
		c.report(r.edge, c.key)
		r.from(c.key)
		r.adjoins = true
	}
	r.n++
	r.all++
	return nil
}

// buryBack counts c.key, which is dead, on a backward move. It returns the start of the known range that the key is in,
// or nil.
func (c *Cursor) buryBack() (start []byte) {
	r := &c.dead
	behind := c.afterKey()
	if !r.known {
		r.from(behind)
	}
	if at := c.rangeBelow(behind); at != nil {
		c.endRun(at.Hi, r.edge, true)
		r.after(at.Lo)
		return at.Lo
	}
	if r.n == deadkeys.Chunk {
		c.report(behind, r.edge)
		r.from(behind)
		r.adjoins = true
	}
	r.n++
	r.all++
	return nil
}

// afterKey returns the smallest key greater than c.key, valid until the next move.
func (c *Cursor) afterKey() []byte {
	c.behind = append(append(c.behind[:0], c.key...), 0)
	return c.behind
}

// endRun ends a run over [lo, hi), and reports it if it was long, or if it is all that is between two known ranges.
// adjoins reports whether a known range begins where it ends.
func (c *Cursor) endRun(lo, hi []byte, adjoins bool) {
	if r := &c.dead; r.n >= deadkeys.Worth || r.n > 0 && r.adjoins && adjoins {
		c.report(lo, hi)
	}
	c.dead.n = 0
}

// endMove ends the run of a move, over [lo, hi).
func (c *Cursor) endMove(lo, hi []byte) {
	r := &c.dead
	if r.all > 0 {
		c.endRun(lo, hi, false)
		c.reader.DeadKeys.Step(r.all)
		r.all = 0
	}
	r.known, r.asked = false, false
}

// report reports that no key in [lo, hi) is alive, so that later moves skip them.
func (c *Cursor) report(lo, hi []byte) {
	if !c.current {
		return
	}
	d := &c.reader.DeadKeys
	if p := d.Open(lo, hi, c.view); p != nil {
		d.Close(p, !c.written(lo, hi))
		c.reader.tables.Count(d.Grown())
	}
}

// written reports whether a key in [lo, hi) may have been written after the moment of the cursor.
func (c *Cursor) written(lo, hi []byte) bool {
	s, ok := c.reader.tree.Hold()
	if !ok {
		return true
	}
	defer c.reader.tree.Release(s)
	newer := slices.Concat([]*memtable.Table{s.Mem}, s.Frozen) // newest first
	i := slices.Index(newer, c.state.Mem)
	if i < 0 { // a later memtable may have been flushed too
		return true
	}
	m := &c.later
	defer func() { _ = m.Close() }() // it never fails
	for _, mem := range newer[:i+1] {
		m.Reset(mem, ikey.MaxSeq, true)
		for ok := m.SeekGE(ikey.Search(lo, ikey.MaxSeq)); ok; ok = m.Next() {
			k := m.Key()
			if bytes.Compare(k.User, hi) >= 0 {
				break
			}
			if k.Trailer.Seq() > c.view.Seq {
				return true
			}
		}
	}
	return false
}
