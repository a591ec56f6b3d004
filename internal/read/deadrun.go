package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
)

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
	case bytes.Compare(edge, deadkeys.Beyond) >= 0:
		r.edge = deadkeys.Beyond
	default:
		r.buf = append(r.buf[:0], edge[:min(len(edge), batch.MaxBound)]...)
		r.edge = r.buf
	}
	r.known = true
}

// bury ends the run, which was over [lo, hi), and leaves word of it if it was long.
func (c *Cursor) bury(lo, hi []byte) {
	if c.dead.n >= deadkeys.Worth {
		c.reader.DeadKeys.Report(lo, hi, c.seq)
	}
	c.dead.n, c.dead.known = 0, false
}

// afterKey is the smallest key greater than the one that the cursor stands at; it is only made where bury needs it.
func (c *Cursor) afterKey() []byte {
	if c.dead.n < deadkeys.Worth {
		return nil
	}
	return append(bytes.Clone(c.key), 0)
}
