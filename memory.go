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
	mu       sync.Mutex   // one at a time sheds
}

func (b *budget) allowance() int64 { return b.total - b.total/4 }

// load reads what the table's lookups need: the index and as much of the filter as its level's rate asks for. A first
// lookup pays for it; the background does it before, where it can.
func (db *DB) load(t *table) error {
	t.loading.Lock()
	defer t.loading.Unlock()
	filter, index := t.reader.FilterBytes(), t.reader.IndexBytes()
	rate := db.plan[t.level.Load()].rate
	if t.shed.Load() {
		rate = 1
	}
	if err := t.reader.Load(rate); err != nil {
		return err
	}
	filter, index = t.reader.FilterBytes()-filter, t.reader.IndexBytes()-index
	if index > 0 {
		db.tails.loads.Add(1)
		db.tails.bytes.Add(t.meta.TailLen)
	}
	if filter > 0 {
		db.tails.bytes.Add(uint64(filter))
	}
	if damage := t.reader.FilterState().Damage; damage != nil && !t.damaged {
		t.damaged = true
		db.opts.Logger.Error("a filter is damaged and answers maybe", slog.Any("error", damage))
	}
	db.adjust(filter + index)
	return nil
}

// trim drops the units of a filter that a table does not need any more at a deeper level.
func (db *DB) trim(t *table) {
	t.loading.Lock()
	defer t.loading.Unlock()
	before := t.resident()
	if err := t.reader.Trim(db.plan[t.level.Load()].rate); err != nil {
		db.opts.Logger.Error("a filter could not be trimmed", slog.String("table", t.file.base), slog.Any("error", err))
	}
	db.adjust(t.resident() - before)
}

// adjust accounts for bytes of filters and indexes that came or, if negative, went.
func (db *DB) adjust(bytes int64) {
	if bytes == 0 {
		return
	}
	db.budget.resident.Add(bytes)
	db.rebalance()
}

// rebalance sheds what does not fit and gives the cache the rest.
func (db *DB) rebalance() {
	b := &db.budget
	if b.resident.Load() > b.allowance() {
		db.shed()
	}
	db.cache.SetCapacity(max(b.total/4, b.total-b.resident.Load()))
}

// shed drops filters, then indexes, from the last level upwards, until the rest fits.
func (db *DB) shed() {
	b := &db.budget
	if !b.mu.TryLock() {
		return // somebody is at it
	}
	defer b.mu.Unlock()
	s := db.state.Load()
	if s == nil {
		return
	}
	for _, drop := range []func(*table){
		func(t *table) { t.shed.Store(true); _ = t.reader.DropFilterUnits(0) }, // no unit has nothing that could be damaged
		func(t *table) { t.reader.DropIndex() },
	} {
		for _, r := range slices.Backward(s.runs) {
			for _, t := range r.tables {
				if b.resident.Load() <= b.allowance() {
					return
				}
				if !t.loading.TryLock() {
					continue
				}
				before := t.resident()
				drop(t)
				b.resident.Add(t.resident() - before)
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

// resident is the bytes of the table's filter and index in memory.
func (t *table) resident() int64 { return t.reader.FilterBytes() + t.reader.IndexBytes() }
