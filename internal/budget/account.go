package budget

import (
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/tree"
)

// Residents are the bytes that tables have in memory, by part. Changes are made under Pool.mu.
type Residents struct{ filters, prefixes, tops, rangeDeletes, descriptions atomic.Int64 }

// Add adds bytes, which may be negative.
func (r *Residents) Add(b tree.TableBytes) {
	r.filters.Add(b.Filter)
	r.prefixes.Add(b.Prefix)
	r.tops.Add(b.Top)
	r.rangeDeletes.Add(b.RangeDeletes)
	r.descriptions.Add(b.Description)
}

// Bytes returns the current bytes.
func (r *Residents) Bytes() tree.TableBytes {
	return tree.TableBytes{
		Filter: r.filters.Load(), Prefix: r.prefixes.Load(),
		Top: r.tops.Load(), RangeDeletes: r.rangeDeletes.Load(), Description: r.descriptions.Load(),
	}
}

// fixed returns the bytes of what stays as long as its table.
func (r *Residents) fixed() int64 { return r.Bytes().Fixed() }

// filterBytes returns the bytes of filters of keys and prefixes.
func (r *Residents) filterBytes() int64 { return r.filters.Load() + r.prefixes.Load() }

// Sum returns the bytes of all parts.
func (r *Residents) Sum() int64 { return r.filterBytes() + r.fixed() }

// count updates the accounts to what the table has in memory, and reports whether they changed. t.Loading is held.
func (b *Share) count(t *tree.Table) (changed bool) {
	r, was := t.Reader, t.Counted
	t.Counted = tree.TableBytes{
		Filter: t.Keys.Bytes(), Prefix: t.Prefixes.Bytes(), Top: r.TopBytes(), RangeDeletes: r.RangeDelBytes(),
	}
	if t.Keys.Known() && !t.Released {
		t.Counted.Description = t.Meta.DescriptionBytes()
	}
	if t.Counted == was {
		return false
	}
	more := t.Counted.Minus(was)
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.left {
		return false
	}
	b.pool.Held.Add(more)
	b.held.Add(more)
	return true
}

// lendAfter is the time after which memory that memtables have used is lent to the rest of the store.
const lendAfter = time.Minute

// A highWater is the most memory that memtables have needed in the last one or two minutes.
type highWater struct {
	now, before int64
	since       time.Time // of now
}

// raise takes bytes that are needed at a moment into account, and returns the mark.
func (h *highWater) raise(bytes int64, at time.Time) int64 {
	if age := at.Sub(h.since); age >= lendAfter {
		h.before = h.now
		if age >= 2*lendAfter {
			h.before = 0
		}
		h.now, h.since = 0, at
	}
	h.now = max(h.now, bytes)
	return max(h.now, h.before)
}

// A pace is how fast memtables grow.
type pace struct {
	bytes int64 // at the last step, or when they were fewer
	since time.Time
}

// fastStep is the time in which memtables that grow fast take a step.
const fastStep = time.Second

// fast reports whether memtables, which have the given bytes at a moment, have taken a step in less than fastStep.
func (p *pace) fast(bytes, step int64, at time.Time) (fast bool) {
	if grown := bytes - p.bytes; grown < 0 || grown >= step || p.since.IsZero() {
		fast = grown >= step && at.Sub(p.since) < fastStep
		p.bytes, p.since = bytes, at
	}
	return fast
}
