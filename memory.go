package bloomkv

import (
	"errors"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// load reads what the table's lookups need: the index, and as much of the filter as its level's rate asks for and has room. A first
// lookup pays for it; the background does it before, where it can.
func (db *DB) load(t *tree.Table) error {
	_, _, err := db.loadTail(t)
	return err
}

// loadTail is load, and says how many indexes it read, and the bytes of them and of filters.
func (db *DB) loadTail(t *tree.Table) (loads, bytes uint64, err error) {
	t.Loading.Lock()
	before, loaded := t.Reader.FilterState(), t.Reader.Loaded()
	err = t.Reader.LoadUnits(db.rateOf(t), roomOf(t))
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
	db.tails.loads.Add(loads)
	db.tails.bytes.Add(bytes)
	if damage := after.Damage; damage != nil && before.Damage == nil {
		t.Damaged.Store(true)
		db.report.damaged(damage)
	}
	changed := db.res.count(db, t)
	t.Loading.Unlock()
	if changed {
		db.res.rebalance()
	}
	if loads > 0 && t.Meta.RangeDeletes > 0 {
		db.tree.Wake() // what they delete may be worth a compaction, which is known only now
	}
	return loads, bytes, err
}

// rateOf is what the plan asks of a table's filter.
func (db *DB) rateOf(t *tree.Table) float64 { return db.plans.Load().Now.Levels[t.Level.Load()].Rate }

// room returns the number of units of the table's filter that fit.
func roomOf(t *tree.Table) int { return int(min(t.Kept.Load(), t.Planned.Load())) }

// short reports whether there is no room for a unit that the plan asks of the table's filter, or of one that was not read yet.
func (db *DB) short(t *tree.Table) bool {
	room := roomOf(t)
	if room == bloomblock.MaxUnits || t.Meta.FilterLen == 0 {
		return false
	}
	h, known := t.Reader.FilterHeader()
	return !known || h.UnitsFor(db.rateOf(t)) > room
}

// trim drops the units of a filter that a table does not need any more at a deeper level, or that there is no room for.
func (db *DB) trim(t *tree.Table) {
	if t.Reader.FilterBytes()+t.Reader.PrefixBytes() == 0 {
		return
	}
	t.Loading.Lock()
	defer t.Loading.Unlock()
	if err := errors.Join(t.Reader.Trim(db.rateOf(t)), t.Reader.DropFilterUnits(roomOf(t))); err != nil {
		db.report.workFailed(FailureInfo{"trim", 1, err})
	}
	db.res.count(db, t)
}

// releaseTable drops what the table holds in memory and its descriptor. No reader can see it any more.
func (db *DB) releaseTable(t *tree.Table) error {
	t.Loading.Lock()
	_ = t.Reader.DropFilterUnits(0) // no unit has nothing that could be damaged
	t.Reader.Close()
	changed := db.res.count(db, t)
	t.Loading.Unlock()
	if changed {
		db.res.rebalance()
	}
	return t.File.Close()
}

// recount is for a lookup that had to load an index which the memory budget had dropped.
func (db *DB) recount(t *tree.Table) {
	t.Loading.Lock()
	db.res.count(db, t)
	t.Loading.Unlock()
	db.res.rebalance()
}

// keepWarm loads indexes and filters after Open, and later those that were shed, where there is room again.
func (db *DB) keepWarm() {
	db.warmUp()
	db.installMu.Lock()
	if s := db.tree.Load(); s != nil {
		_ = db.replan(s) // now it is known what filters take; what fits no more since Open is cut
	}
	db.installMu.Unlock()
	db.restore()
	db.warm.Store(true)
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-db.share.room:
			db.restore()
		}
	}
}

// restore loads units of filters that had been shed, and those that a new plan asks for, while there is room: the first unit of all
// tables, newest data first, then the second ones, then the third.
func (db *DB) restore() {
	s, release := db.tree.Acquire()
	if s == nil {
		return
	}
	defer release()
	for n := 1; n <= bloomblock.MaxUnits; n++ {
		s.EachTable(func(_ int, t *tree.Table) {
			if db.ctx.Err() == nil && db.lacks(t, n) {
				if err := db.load(t); err != nil {
					db.report.workFailed(FailureInfo{"load", 1, err})
				}
			}
		})
	}
}

// lacks reports whether the table should have n units of its filter in memory, has not, and now has room for them. Of a filter that
// was not read yet all units count as the first.
func (db *DB) lacks(t *tree.Table, n int) bool {
	units, shed := t.Reader.FilterUnits(), int(t.Kept.Load()) < n
	if !shed && (db.opts.FilterMemory == 0 || !t.Reader.Loaded()) || units >= n || int(t.Planned.Load()) < n {
		return false
	}
	need, known := int64(t.Meta.FilterLen), false //nolint:gosec // below the size of a file, as below
	if h, ok := t.Reader.FilterHeader(); ok {
		if units < n-1 || h.UnitsFor(db.rateOf(t)) < n {
			return false
		}
		need, known = int64(h.Units[n-1].Bytes()), true //nolint:gosec // as above
	}
	if db.res.resident()+need > db.res.allowance() {
		return false
	}
	if !known {
		n = bloomblock.MaxUnits
	}
	t.Kept.Store(max(t.Kept.Load(), int32(n)))
	return true
}

// warmUp loads indexes and filters after Open, newest data first, so that few lookups have to.
func (db *DB) warmUp() {
	s, release := db.tree.Acquire()
	if s == nil {
		return
	}
	defer release()
	s.EachTable(func(_ int, t *tree.Table) {
		if db.ctx.Err() != nil || t.Reader.Loaded() || db.res.resident() > db.res.allowance()*7/8 {
			return
		}
		if err := db.load(t); err != nil {
			db.report.workFailed(FailureInfo{"load", 1, err})
		}
	})
}
