package budget

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/tree"
)

// Residents are the bytes that tables have in memory, by part. Changes are made under Pool.mu.
type Residents struct{ filters, prefixes, indexes, rangeDeletes atomic.Int64 }

// Add adds bytes, which may be negative.
func (r *Residents) Add(b tree.TableBytes) {
	r.filters.Add(b.Filter)
	r.prefixes.Add(b.Prefix)
	r.indexes.Add(b.Index)
	r.rangeDeletes.Add(b.RangeDeletes)
}

// Bytes returns the current bytes.
func (r *Residents) Bytes() tree.TableBytes {
	return tree.TableBytes{
		Filter: r.filters.Load(), Prefix: r.prefixes.Load(),
		Index: r.indexes.Load(), RangeDeletes: r.rangeDeletes.Load(),
	}
}

// Sum returns the bytes of all parts.
func (r *Residents) Sum() int64 {
	return r.filters.Load() + r.prefixes.Load() + r.indexes.Load() + r.rangeDeletes.Load()
}

// An account is what one store has of a pool.
type account struct {
	// constant
	tree     *tree.Tree
	pool     *Pool
	reserved int64 // bytes for memtables

	held Residents
	left bool          // guarded by pool.mu: the store left; later loads are not counted
	room chan struct{} // capacity 1; holds an element if dropped filters may fit again
}

// count updates the accounts to what the table has in memory, and reports whether they changed. t.Loading is held.
func (a *account) count(t *tree.Table) (changed bool) {
	r, was := t.Reader, t.Counted
	t.Counted = tree.TableBytes{
		Filter: r.FilterBytes(), Prefix: r.PrefixBytes(), Index: r.IndexBytes(), RangeDeletes: r.RangeDelBytes(),
	}
	if t.Counted == was {
		return false
	}
	more := tree.TableBytes{
		Filter: t.Counted.Filter - was.Filter, Prefix: t.Counted.Prefix - was.Prefix,
		Index: t.Counted.Index - was.Index, RangeDeletes: t.Counted.RangeDeletes - was.RangeDeletes,
	}
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	if a.left {
		return false
	}
	a.pool.Held.Add(more)
	a.held.Add(more)
	return true
}

// Drop drops the prefix filter of a table and all but the first keep units of its filter, and its index if index is
// true. It does nothing if parts of the table are being loaded or dropped.
func (a *account) Drop(t *tree.Table, keep int, index bool) {
	if !index && keep > 0 && t.Reader.FilterUnits() <= keep && t.Reader.PrefixBytes() == 0 || !t.Loading.TryLock() {
		return
	}
	defer t.Loading.Unlock()
	if keep == 0 || t.Reader.FilterUnits() > keep {
		t.Kept.Store(int32(keep)) //nolint:gosec // at most MaxUnits
	}
	t.Reader.Shed(keep, index)
	a.count(t)
}
