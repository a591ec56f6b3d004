package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
)

// A deadRun is the run of dead keys that one move of a cursor stepped over. No key lies between edge, where the run
// begins, and the first of them.
type deadRun struct {
	edge  []byte // where the run begins: buf, or deadkeys.Beyond
	known bool   // edge is set: by a seek, or by the first dead key
	n     int    // dead keys found one by one, without a range of DeadKeys
	buf   []byte
}

// reset begins a run at the target of a seek, or without an edge if edge is nil.
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

// from makes edge the beginning of the run, unless it has one.
func (r *deadRun) from(edge []byte) {
	switch {
	case r.known:
		return
	case bytes.Compare(edge, deadkeys.Beyond) >= 0:
		r.edge = deadkeys.Beyond
	default:
		r.buf = append(r.buf[:0], edge[:min(len(edge), batch.MaxBound)]...)
		r.edge = r.buf
	}
	r.known = true
}

// bury ends the run over [lo, hi), and reports it to DeadKeys if it was long, so that later moves skip it.
func (c *Cursor) bury(lo, hi []byte) {
	if c.dead.n >= deadkeys.Worth {
		c.reader.DeadKeys.Report(lo, hi, c.seq)
	}
	c.dead.n, c.dead.known = 0, false
}

// afterKey returns the smallest key greater than c.key, or nil if the run is too short for bury to need it.
func (c *Cursor) afterKey() []byte {
	if c.dead.n < deadkeys.Worth {
		return nil
	}
	return append(bytes.Clone(c.key), 0)
}
