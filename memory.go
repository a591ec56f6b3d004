package bloomkv

import (
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// load reads what the table's lookups need: the index and as much of the filter as its level's rate asks for. A first
// lookup pays for it; the background does it before, where it can.
func (db *DB) load(t *table) error {
	_, _, err := db.loadTail(t)
	return err
}

// loadTail is load, and says how many indexes it read, and the bytes of them and of filters.
func (db *DB) loadTail(t *table) (loads, bytes uint64, err error) {
	t.loading.Lock()
	before, loaded := t.reader.FilterState(), t.reader.Loaded()
	rate := db.rateOf(t)
	if t.shed.Load() {
		rate = 1
	}
	err = t.reader.Load(rate)
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
	if damage := after.Damage; damage != nil && !t.damaged {
		t.damaged = true
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
func (db *DB) rateOf(t *table) float64 { return db.plans.Load().load.level[t.level.Load()].rate }

// trim drops the units of a filter that a table does not need any more at a deeper level.
func (db *DB) trim(t *table) {
	if t.reader.FilterBytes()+t.reader.PrefixBytes() == 0 {
		return
	}
	t.loading.Lock()
	defer t.loading.Unlock()
	if err := t.reader.Trim(db.rateOf(t)); err != nil {
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
		if db.opts.FilterMemory > 0 {
			db.share.offer()
		}
	}
	return t.file.close()
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
	if db.opts.FilterMemory > 0 { // now it is known what filters take
		db.editMu.Lock()
		if s := db.state.Load(); s != nil {
			_ = db.replan(s) // what fits no more since Open may be shed
		}
		db.editMu.Unlock()
	}
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

// restore loads filters that had been shed, and units that a new plan asks for, while there is room, newest data first.
func (db *DB) restore() {
	s, release := db.acquire()
	if s == nil {
		return
	}
	defer release()
	s.tables(func(_ int, t *table) {
		shed := t.shed.Load()
		if db.ctx.Err() != nil || !shed && !t.reader.Loaded() {
			return
		}
		need, _ := t.reader.FilterBytesFor(db.rateOf(t))
		if need -= t.reader.FilterBytes(); need <= 0 && !shed || db.res.resident()+need > db.res.allowance() {
			return
		}
		if most := db.opts.FilterMemory; most > 0 && db.share.held.filters.Load()+need > most {
			return
		}
		t.shed.Store(false)
		if err := db.load(t); err != nil {
			db.report.workFailed(FailureInfo{"load", 1, err})
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
