package budget

import (
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// An Observer is called when something happens to a table.
type Observer interface {
	Damaged(err error)                 // a filter is damaged; reads go on without it
	LoadFailed(work string, err error) // work is "load" or "trim"; it will be tried again
}

// Load loads what lookups in a table need: the index, and as much of the filter as the plan asks for and memory
// allows. Background work loads tables early; otherwise the first lookup does.
func (b *Share) Load(t *tree.Table) error {
	_, _, err := b.LoadTail(t)
	return err
}

// LoadTail loads the same as Load. It returns the number of indexes read, 0 or 1, and the number of bytes read of the
// index and the filter.
func (b *Share) LoadTail(t *tree.Table) (loads, bytes uint64, err error) {
	t.Loading.Lock()
	before, loaded := t.Reader.FilterState(), t.Reader.Loaded()
	err = t.Reader.LoadUnits(b.RateOf(t), t.Units())
	if !loaded && t.Reader.Loaded() {
		loads, bytes = 1, t.Meta.TailLen
	}
	after := t.Reader.FilterState()
	if before.AllUnits == 0 && after.AllUnits > 0 {
		bytes += bloomblock.HeaderSize
	}
	if more := after.Bytes - before.Bytes; more > 0 {
		bytes += uint64(more)
	}
	b.tailLoads.Add(loads)
	b.tailBytes.Add(bytes)
	b.loaded(t, before, after)
	if loads > 0 && t.Meta.RangeDeletes > 0 {
		b.tree.Wake() // the range tombstones, known only now, may justify a compaction
	}
	return loads, bytes, err
}

// CopyFilter returns the filter of a table as sstable.Reader.CopyFilter does, counts what that reads, and reports
// damage that is new. It loads the table first if its tail was never loaded.
func (b *Share) CopyFilter(t *tree.Table, maxRate float64) (sstable.FilterCopy, error) {
	if _, known := t.Reader.PrefixRule(); !known {
		if err := b.Load(t); err != nil {
			return sstable.FilterCopy{}, err
		}
	}
	c, err := t.Reader.CopyFilter(maxRate)
	b.tailBytes.Add(c.Read)
	if c.Damage != nil && t.Damaged.CompareAndSwap(false, true) {
		b.observer.Damaged(c.Damage)
	}
	return c, err
}

// LoadPrefixes loads the prefix filter of a table, if it was built by the store's rule and memory has space for it
// next to everything else: filters of keys save more reads, and are not dropped for it.
func (b *Share) LoadPrefixes(t *tree.Table) error {
	rate := b.RateOf(t)
	if rate >= 1 || b.Short(t) {
		return nil
	}
	if !t.Reader.Loaded() {
		if err := b.Load(t); err != nil {
			return err
		}
	}
	p, err := t.Reader.Properties()
	if err != nil {
		return err
	}
	//nolint:gosec // below the size of a file
	if b.pool.Resident()+int64(p.Prefixes.Bytes) > b.pool.Allowance() {
		return nil
	}
	t.Loading.Lock()
	before := t.Reader.PrefixState()
	err = t.Reader.LoadPrefixes(b.prefix, rate)
	after := t.Reader.PrefixState()
	if more := after.Bytes - before.Bytes; more > 0 {
		b.tailBytes.Add(uint64(more) + bloomblock.HeaderSize)
	}
	b.loaded(t, before, after)
	return err
}

// loaded ends a load of a filter: it reports damage that the load found, and calls settle.
func (b *Share) loaded(t *tree.Table, before, after sstable.FilterState) {
	if after.Damage != nil && before.Damage == nil {
		t.Damaged.Store(true)
		b.observer.Damaged(after.Damage)
	}
	b.settle(t)
}

// settle counts a table after parts of it were loaded or dropped, and unlocks t.Loading.
func (b *Share) settle(t *tree.Table) {
	changed := b.count(t)
	t.Loading.Unlock()
	if changed {
		b.pool.Rebalance()
	}
}

// RateOf returns the rate that the plan asks of a table's filter.
func (b *Share) RateOf(t *tree.Table) float64 { return b.plans.Load().Now.Levels[t.Level.Load()].Rate }

// Short reports whether memory has no space for a unit that the plan asks of the table's filter, or for a unit of a
// filter that was not read yet.
func (b *Share) Short(t *tree.Table) bool {
	fit := t.Units()
	if fit == bloomblock.MaxUnits || t.Meta.FilterLen == 0 {
		return false
	}
	h, known := t.Reader.FilterHeader()
	return !known || h.UnitsFor(b.RateOf(t)) > fit
}
