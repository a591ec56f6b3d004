package budget

import (
	"context"
	"math/bits"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Load loads what lookups in a table need: the tail, and as much of the filter as the plan has memory for. Background
// work loads tables early; otherwise the first lookup does.
func (b *Share) Load(t *tree.Table) error {
	_, _, err := b.LoadTail(t)
	return err
}

// LoadFresh loads a table that is in no state yet, so that all of its filter is verified, and keeps the filter if
// memory has space for it until the plan of the new tree is made: see Follow.
func (b *Share) LoadFresh(t *tree.Table) error {
	err := b.Load(t)
	if b.pool.Held.filterBytes() > b.pool.filterSpace(b.pool.Free()) {
		t.Loading.Lock()
		t.Keys.Most.Store(0)
		b.reduce(t)
		t.Loading.Unlock()
	}
	return err
}

// LoadTail loads the same as Load. It returns the number of tails read, 0 or 1, and the number of bytes read of the
// tail and the filter.
func (b *Share) LoadTail(t *tree.Table) (loads, bytes uint64, err error) {
	b.ensurePlan()
	t.Loading.Lock()
	defer b.settle(t)
	loads, bytes, err = b.knowLocked(t)
	b.knowRanges(t, loads)
	if err != nil {
		return loads, bytes, err
	}
	var read uint64
	for _, f := range t.Filters() {
		if err == nil && f.Forms(b.RateOf(t)) != nil {
			var more uint64
			more, err = b.set(t, f)
			read += more
		}
	}
	b.tailBytes.Add(read)
	b.Damaged(t)
	if err == nil {
		b.ready(t)
	}
	return loads, bytes + read, err
}

// know loads the tail of a table and the header of its filter. It returns the number of tails read.
func (b *Share) know(t *tree.Table) (loads uint64, err error) {
	t.Loading.Lock()
	defer b.settle(t)
	loads, _, err = b.knowLocked(t)
	return loads, err
}

// knowRanges wakes compactions if tails were read that have range tombstones: these, known only now, may justify one.
func (b *Share) knowRanges(t *tree.Table, loads uint64) {
	if loads > 0 && t.Meta.RangeDeletes > 0 {
		b.Tree.Wake()
	}
}

// knowLocked implements know. It returns what LoadTail returns. t.Loading is held.
func (b *Share) knowLocked(t *tree.Table) (loads, bytes uint64, err error) {
	r := t.Reader
	loaded := r.Loaded()
	_, known := r.Keys.Header()
	err = r.LoadTail()
	if !loaded && r.Loaded() {
		loads, bytes = 1, t.Meta.TailLen
	}
	if !known && err == nil {
		t.Keys.Forms(b.RateOf(t))
		b.pool.unplanned.Store(true)
		if r.Keys.State().AllUnits > 0 {
			bytes += bloomblock.HeaderSize
		}
	}
	b.tailLoads.Add(loads)
	b.tailBytes.Add(bytes)
	b.Damaged(t)
	return loads, bytes, err
}

// set brings a filter of a table, whose header is known, into the form of its plan, and returns the bytes that it read.
// If a unit is damaged, the filter has the form of the units that are left. t.Loading is held.
func (b *Share) set(t *tree.Table, f *tree.Filter) (read uint64, err error) {
	for range 1 + bloomblock.MaxUnits {
		forms := f.Forms(b.RateOf(t))
		allowed := f.Allowed(forms)
		n, err := f.Set(allowed[len(allowed)-1])
		read += n
		if err != nil || f.State().Damage == nil {
			return read, err
		}
		f.Forget()
		if now := f.Forms(b.RateOf(t)); now[len(now)-1].Bytes == forms[len(forms)-1].Bytes {
			return read, nil
		}
	}
	return read, nil
}

// LoadParts reads and checks all parts of a table's index, and keeps those in memory that fit there.
func (b *Share) LoadParts(t *tree.Table) error {
	t.Loading.Lock()
	err := t.Reader.LoadParts()
	b.settle(t)
	return err
}

// CopyFilter returns the filter of a table as sstable.Reader.CopyFilter does, counts what that reads, and reports
// damage that is new. It loads the table's tail first if that was never loaded.
func (b *Share) CopyFilter(t *tree.Table, maxRate float64) (sstable.FilterCopy, error) {
	if _, known := t.Reader.PrefixRule(); !known {
		if err := b.Load(t); err != nil {
			return sstable.FilterCopy{}, err
		}
	}
	c, err := t.Reader.CopyFilter(maxRate)
	b.tailBytes.Add(c.Read)
	if c.Damage != nil && t.Damaged.CompareAndSwap(false, true) {
		b.Observer.Damaged(c.Damage)
	}
	return c, err
}

// LoadPrefixes loads the prefix filter of a table when it is asked for first, if it was built by the store's rule, as
// far as memory has space for it next to everything else: filters of keys save more reads.
func (b *Share) LoadPrefixes(t *tree.Table) error {
	rate := b.RateOf(t)
	if rate >= 1 {
		return nil
	}
	b.ensurePlan()
	t.Loading.Lock()
	defer b.settle(t)
	loads, _, err := b.knowLocked(t)
	b.knowRanges(t, loads)
	if err != nil {
		return err
	}
	if err := t.Reader.KnowPrefixes(b.Prefix); err != nil {
		return err
	}
	if !t.Prefixes.Known() {
		t.Prefixes.Most.Store(max(b.pool.filterSpace(b.pool.Free())-b.pool.Held.filterBytes(), 0))
		b.pool.unplanned.Store(true)
	}
	read, err := b.set(t, &t.Prefixes)
	b.tailBytes.Add(read + bloomblock.HeaderSize)
	b.Damaged(t)
	return err
}

// Damaged reports damage of a table's filters, once.
func (b *Share) Damaged(t *tree.Table) {
	for _, f := range t.Filters() {
		if s := f.State(); s.Damage != nil && t.Damaged.CompareAndSwap(false, true) {
			b.Observer.Damaged(s.Damage)
		}
	}
}

// settle counts a table after parts of it were loaded or dropped, and unlocks t.Loading.
func (b *Share) settle(t *tree.Table) {
	changed := b.count(t)
	t.Loading.Unlock()
	step.At("table: loaded")
	if b.exceeds(t) && t.Loading.TryLock() { // the plan has changed meanwhile
		b.reduce(t)
		t.Loading.Unlock()
	}
	if changed {
		b.pool.fit()
	}
}

// ReleaseTable drops everything that a table has in memory, and its descriptor. No reader can see the table any more.
// Released divides what that has made free.
func (b *Share) ReleaseTable(t *tree.Table) error {
	t.Loading.Lock()
	t.Reader.Close()
	t.Released = true
	b.settle(t)
	return t.File.Close()
}

// Loads that have failed are tried again after a pause, which doubles each time.
const leastPause, mostPause = time.Second, time.Minute

// Restore loads what the plan has for filters, newest data first, and reports whether the store keeps what was asked.
// It stops when ctx is done. The receiver from Room calls it. It returns whether it has loaded filters.
func (b *Share) Restore(ctx context.Context) (loads bool) {
	if b.pool.unplanned.Load() {
		b.Rebalance()
	}
	owed := b.owed.Load() // before the state, which may not have the tables of later ones
	s := b.Tree.Hold()
	if s == nil {
		return false
	}
	defer b.Tree.Release(s)
	defer b.report()
	if owed == b.loaded.Load() {
		return false
	}
	failed := false
	s.EachTable(func(_ int, t *tree.Table) {
		switch {
		case ctx.Err() != nil:
		case b.lacks(t):
			if err := b.Load(t); err != nil {
				b.Observer.WorkFailed("load", 1, err)
				failed = true
			}
		case t.Keys.Known():
			b.ready(t)
		}
	})
	if ctx.Err() != nil {
		return true
	}
	b.failed.Store(failed)
	b.loaded.Store(owed)
	if !failed {
		b.pause = 0
		return true
	}
	b.pause = min(max(2*b.pause, leastPause), mostPause)
	if b.again != nil {
		b.again.Stop()
	}
	b.again = step.AfterFunc(b.pause, func() {
		b.owed.Add(1)
		b.offer()
	})
	return true
}

// WarmUp loads tails and the headers of filters after Open, newest data first, and then the filters, so that few
// lookups have to. It stops when ctx is done.
func (b *Share) WarmUp(ctx context.Context) {
	s := b.Tree.Hold()
	if s == nil {
		return
	}
	defer b.Tree.Release(s)
	ranges := uint64(0) // tables with range tombstones
	s.EachTable(func(_ int, t *tree.Table) {
		if ctx.Err() != nil {
			return
		}
		loads, err := b.know(t)
		if err != nil {
			b.Observer.WorkFailed("load", 1, err)
		}
		if loads > 0 && t.Meta.RangeDeletes > 0 {
			if ranges++; bits.OnesCount64(ranges) == 1 { // compactions look at all tables whenever they are woken
				b.Tree.Wake()
			}
		}
	})
	if ranges > 0 {
		b.Tree.Wake()
	}
	b.owed.Add(1)
	b.Rebalance()
}
