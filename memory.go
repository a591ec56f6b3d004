package bloomkv

import (
	"errors"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// load reads what the table's lookups need: the index, and as much of the filter as its level's rate asks for and has room. A first
// lookup pays for it; the background does it before, where it can.
func (db *DB) load(t *table) error {
	_, _, err := db.loadTail(t)
	return err
}

// loadTail is load, and says how many indexes it read, and the bytes of them and of filters.
func (db *DB) loadTail(t *table) (loads, bytes uint64, err error) {
	t.loading.Lock()
	before, loaded := t.reader.FilterState(), t.reader.Loaded()
	err = t.reader.LoadUnits(db.rateOf(t), t.room())
	if !loaded && t.reader.Loaded() {
		loads, bytes = 1, t.meta.TailLen
	}
	after := t.reader.FilterState()
	if before.AllUnits == 0 && after.AllUnits > 0 {
		bytes += bloomblock.HeaderSize
	}
	if more := after.Bytes - before.Bytes; more > 0 {
		bytes += uint64(more)
	}
	db.tails.loads.Add(loads)
	db.tails.bytes.Add(bytes)
	if damage := after.Damage; damage != nil && before.Damage == nil {
		t.damaged.Store(true)
		db.report.damaged(damage)
	}
	changed := db.res.count(db, t)
	t.loading.Unlock()
	if changed {
		db.res.rebalance()
	}
	if loads > 0 && t.meta.RangeDeletes > 0 {
		db.wake() // what they delete may be worth a compaction, which is known only now
	}
	return loads, bytes, err
}

// rateOf is what the plan asks of a table's filter.
func (db *DB) rateOf(t *table) float64 { return db.plans.Load().Now.Levels[t.level.Load()].Rate }

// room returns the number of units of the table's filter that fit.
func (t *table) room() int { return int(min(t.kept.Load(), t.planned.Load())) }

// short reports whether there is no room for a unit that the plan asks of the table's filter, or of one that was not read yet.
func (db *DB) short(t *table) bool {
	room := t.room()
	if room == bloomblock.MaxUnits || t.meta.FilterLen == 0 {
		return false
	}
	h, known := t.reader.FilterHeader()
	return !known || h.UnitsFor(db.rateOf(t)) > room
}

// trim drops the units of a filter that a table does not need any more at a deeper level, or that there is no room for.
func (db *DB) trim(t *table) {
	if t.reader.FilterBytes()+t.reader.PrefixBytes() == 0 {
		return
	}
	t.loading.Lock()
	defer t.loading.Unlock()
	if err := errors.Join(t.reader.Trim(db.rateOf(t)), t.reader.DropFilterUnits(t.room())); err != nil {
		db.report.workFailed(FailureInfo{"trim", 1, err})
	}
	db.res.count(db, t)
}

// releaseTable drops what the table holds in memory and its descriptor. No reader can see it any more.
func (db *DB) releaseTable(t *table) error {
	t.loading.Lock()
	_ = t.reader.DropFilterUnits(0) // no unit has nothing that could be damaged
	t.reader.Close()
	changed := db.res.count(db, t)
	t.loading.Unlock()
	if changed {
		db.res.rebalance()
	}
	return t.file.Close()
}

// recount is for a lookup that had to load an index which the memory budget had dropped.
func (db *DB) recount(t *table) {
	t.loading.Lock()
	db.res.count(db, t)
	t.loading.Unlock()
	db.res.rebalance()
}

// keepWarm loads indexes and filters after Open, and later those that were shed, where there is room again.
func (db *DB) keepWarm() {
	db.warmUp()
	db.editMu.Lock()
	if s := db.state.Load(); s != nil {
		_ = db.replan(s) // now it is known what filters take; what fits no more since Open is cut
	}
	db.editMu.Unlock()
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
	s, release := db.acquire()
	if s == nil {
		return
	}
	defer release()
	for n := 1; n <= bloomblock.MaxUnits; n++ {
		s.tables(func(_ int, t *table) {
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
func (db *DB) lacks(t *table, n int) bool {
	units, shed := t.reader.FilterUnits(), int(t.kept.Load()) < n
	if !shed && (db.opts.FilterMemory == 0 || !t.reader.Loaded()) || units >= n || int(t.planned.Load()) < n {
		return false
	}
	need, known := int64(t.meta.FilterLen), false //nolint:gosec // below the size of a file, as below
	if h, ok := t.reader.FilterHeader(); ok {
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
	t.kept.Store(max(t.kept.Load(), int32(n)))
	return true
}

// warmUp loads indexes and filters after Open, newest data first, so that few lookups have to.
func (db *DB) warmUp() {
	s, release := db.acquire()
	if s == nil {
		return
	}
	defer release()
	s.tables(func(_ int, t *table) {
		if db.ctx.Err() != nil || t.reader.Loaded() || db.res.resident() > db.res.allowance()*7/8 {
			return
		}
		if err := db.load(t); err != nil {
			db.report.workFailed(FailureInfo{"load", 1, err})
		}
	})
}

// hold takes a reference to the current state, for readers that last; release gives it back. It is false after Close.
func (db *DB) hold() (*state, bool) {
	g := db.domain.Enter()
	defer g.Leave()
	s := db.state.Load()
	if f := db.holdGate.Load(); f != nil {
		(*f)()
	}
	if s != nil {
		s.refs.Add(1)
	}
	return s, s != nil
}

// holdNow is hold, and the newest sequence number that readers of that state see: it has all writes up to it, and of
// what came later nothing that they would see. One that lasts must not take the two apart, as a lookup may: between them a
// rotation can have sent writes into a memtable that the state does not know, and an ingest have passed it by.
func (db *DB) holdNow() (*state, ikey.Seq, bool) {
	for {
		s, ok := db.hold()
		if !ok {
			return nil, 0, false
		}
		seq := db.newestSeq() // after the state: see lookup
		if db.state.Load() == s {
			return s, seq, true
		}
		db.release(s)
	}
}

// acquire is hold with the release at hand. s is nil after Close.
func (db *DB) acquire() (s *state, release func()) {
	s, ok := db.hold()
	if !ok {
		return nil, nil
	}
	return s, func() { db.release(s) }
}
