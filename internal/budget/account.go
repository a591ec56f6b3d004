package budget

import (
	"time"

	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Residents are the bytes that tables have in memory, by part.
type Residents struct {
	mu  step.Mutex
	now tree.TableBytes // guarded by mu
}

// Add adds bytes, which may be negative.
func (r *Residents) Add(b tree.TableBytes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Plus(b)
}

// Bytes returns the current bytes.
func (r *Residents) Bytes() tree.TableBytes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// filterBytes returns the bytes of filters of keys and prefixes.
func (r *Residents) filterBytes() int64 {
	b := r.Bytes()
	return b.Filter + b.Prefix
}

// Sum returns the bytes of all parts.
func (r *Residents) Sum() int64 {
	b := r.Bytes()
	return b.Filter + b.Prefix + b.Fixed()
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
