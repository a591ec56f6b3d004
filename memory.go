package bloomkv

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// A budget keeps filters, indexes and the block cache inside what the memtables leave of Options.MemoryBudget. The cache
// gets what the others do not take, and never less than a quarter. Where filters and indexes need more than the rest, the
// filters of the last level go first, since each of their bytes saves the fewest reads; then indexes, which come back when
// they are touched.
type budget struct {
	total    int64        // for filters, indexes and cache; constant after Open
	resident atomic.Int64 // filters and indexes
	mu       sync.Mutex   // one at a time sheds and sets the cache's share; t.loading may be taken under it
}

func (b *budget) allowance() int64 { return b.total - b.total/4 }

// load reads what the table's lookups need: the index and as much of the filter as its level's rate asks for. A first
// lookup pays for it; the background does it before, where it can.
func (db *DB) load(t *table) error {
	t.loading.Lock()
	filter, index := t.reader.FilterBytes(), t.reader.IndexBytes()
	rate := db.plan[t.level.Load()].rate
	if t.shed.Load() {
		rate = 1
	}
	err := t.reader.Load(rate)
	if t.reader.IndexBytes() > index {
		db.tails.loads.Add(1)
		db.tails.bytes.Add(t.meta.TailLen)
	}
	if more := t.reader.FilterBytes() - filter; more > 0 {
		db.tails.bytes.Add(uint64(more))
	}
	if damage := t.reader.FilterState().Damage; damage != nil && !t.damaged {
		t.damaged = true
		db.opts.Logger.Error("a filter is damaged and answers maybe", slog.Any("error", damage))
	}
	changed := db.count(t)
	t.loading.Unlock()
	if changed {
		db.rebalance()
	}
	return err
}

// trim drops the units of a filter that a table does not need any more at a deeper level.
func (db *DB) trim(t *table) {
	t.loading.Lock()
	defer t.loading.Unlock()
	if err := t.reader.Trim(db.plan[t.level.Load()].rate); err != nil {
		db.opts.Logger.Error("a filter could not be trimmed", slog.String("table", t.file.base), slog.Any("error", err))
	}
	db.count(t)
}

// releaseTable drops what the table holds in memory and its descriptor. No reader can see it any more.
func (db *DB) releaseTable(t *table) error {
	t.loading.Lock()
	_ = t.reader.DropFilterUnits(0) // no unit has nothing that could be damaged
	t.reader.Close()
	changed := db.count(t)
	t.loading.Unlock()
	if changed {
		db.rebalance()
	}
	return t.file.close()
}

// recount is for a lookup that had to load an index which the memory budget had dropped.
func (db *DB) recount(t *table) {
	t.loading.Lock()
	db.count(t)
	t.loading.Unlock()
	db.rebalance()
}

// count brings the budget up to date with what the table has in memory. t.loading is held.
func (db *DB) count(t *table) (changed bool) {
	now := t.reader.FilterBytes() + t.reader.IndexBytes()
	db.budget.resident.Add(now - t.counted)
	changed = now != t.counted
	t.counted = now
	return changed
}

// rebalance sheds what does not fit and gives the cache the rest. No t.loading is held.
func (db *DB) rebalance() {
	b := &db.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resident.Load() > b.allowance() {
		db.shed()
	}
	db.cache.SetCapacity(max(b.total/4, b.total-b.resident.Load()))
}

// shed drops filters, then indexes, from the last level upwards, until the rest fits. b.mu is held.
func (db *DB) shed() {
	b := &db.budget
	s, release := db.acquire()
	if s == nil {
		return
	}
	defer release()
	for _, drop := range []func(*table){
		func(t *table) { t.shed.Store(true); _ = t.reader.DropFilterUnits(0) },
		func(t *table) { t.reader.DropIndex() },
	} {
		for _, r := range slices.Backward(s.runs) {
			for _, t := range r.tables {
				if b.resident.Load() <= b.allowance() {
					return
				}
				t.loading.Lock()
				drop(t)
				db.count(t)
				t.loading.Unlock()
			}
		}
	}
}

// restore loads filters that had been shed while there is room again, newest data first.
func (db *DB) restore(s *state) {
	s.tables(func(_ int, t *table) {
		if !t.shed.Load() || db.budget.resident.Load()+int64(t.meta.FilterLen) > db.budget.allowance() { //nolint:gosec // below the file's size
			return
		}
		t.shed.Store(false)
		if err := db.load(t); err != nil {
			db.opts.Logger.Warn("a filter was not loaded again", slog.String("table", t.file.base), slog.Any("error", err))
		}
	})
}

// warmUp loads indexes and filters after Open, newest data first, so that few lookups have to.
func (db *DB) warmUp() {
	defer db.warm.Store(true)
	s, release := db.acquire()
	if s == nil {
		return
	}
	defer release()
	s.tables(func(_ int, t *table) {
		if db.ctx.Err() != nil || t.reader.Loaded() || db.budget.resident.Load() > db.budget.allowance()*7/8 {
			return
		}
		if err := db.load(t); err != nil {
			db.opts.Logger.Error("a table was not loaded", slog.String("table", t.file.base), slog.Any("error", err))
		}
	})
}

// acquire takes a reference to the current state, for readers that last. s is nil after Close.
func (db *DB) acquire() (s *state, release func()) {
	g := db.domain.Enter()
	defer g.Leave()
	if s = db.state.Load(); s == nil {
		return nil, nil
	}
	s.refs.Add(1)
	return s, func() { db.release(s) }
}
