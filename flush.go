package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/memtable"
)

// Flush writes what is in memory into tables of level 0 and returns when that is durable. When ctx ends before, it returns
// the error of ctx; a flush that has begun goes on in the background. With Options.ReadOnly it is ErrReadOnly.
func (db *DB) Flush(ctx context.Context) error {
	// Room first, without the lock: a writer that waits for it with the lock does not heed ctx, and is gone soon after.
	err := db.wait(ctx, func() bool {
		s := db.state.Load()
		if s == nil || s.mem.Len() == 0 {
			return true
		}
		_, full := s.full(db.policy)
		return !full
	})
	if err != nil {
		return err
	}
	db.commitMu.Lock()
	err = db.writable()
	if err == nil && db.state.Load().mem.Len() > 0 {
		if err = db.waitForRoom(ctx); err == nil {
			db.rotate()
		}
	}
	last := db.lastSeq
	db.commitMu.Unlock()
	if err != nil {
		return err
	}
	if err := db.wait(ctx, func() bool { return len(db.flushing) == 0 || db.flushing[0].last > last }); err != nil {
		return err
	}
	db.editMu.Lock() // the tables were seen before their filters are as planned: see install
	defer db.editMu.Unlock()
	return nil
}

// wait returns when done, which is called under mu, is true, or with the reason why it will not be.
func (db *DB) wait(ctx context.Context, done func() bool) error {
	defer context.AfterFunc(ctx, db.wake)()
	db.mu.Lock()
	defer db.mu.Unlock()
	for !done() {
		if err := db.writableLocked(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		db.changed.Wait()
	}
	return nil
}

// wake has all who wait look again. mu is not held.
func (db *DB) wake() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.changed.Broadcast()
}

// rotate freezes the memtable and its log; the next write begins new ones. commitMu is held; there is room.
func (db *DB) rotate() {
	old := db.state.Load().mem
	old.Freeze()
	log := db.log
	db.log = nil
	if log != nil {
		db.base = log.retire(db)
	}
	db.swap(func(s *state) {
		s.mem = memtable.New(old.CommonPrefix(), old.Keys(), db.opts.MemtableSize)
		s.frozen = slices.Insert(slices.Clone(s.frozen), 0, old)
		db.flushing = append(db.flushing, frozen{old, log, db.lastSeq})
		db.active = nil
	})
}

// swap installs a changed copy of the state and retires the old one. change runs under mu.
func (db *DB) swap(change func(*state)) {
	db.mu.Lock()
	old := db.state.Load()
	s := &state{mem: old.mem, frozen: old.frozen, version: old.version, runs: old.runs}
	change(s)
	s.refs.Store(1)
	s.tables(func(_ int, t *table) { t.refs.Add(1) })
	db.state.Store(s)
	db.changed.Broadcast()
	db.mu.Unlock()
	db.domain.Retire(func() { db.release(old) })
	select {
	case db.retired <- struct{}{}:
	default: // the next turn of releaseLoop is for this one too
	}
}

// releaseLoop has a state released though readers were inside when it was replaced, and nothing else happens once they have
// left: they tell nobody that they leave, so that it costs them nothing. It ends with Close, which waits for them itself.
func (db *DB) releaseLoop() {
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-db.retired:
			db.domain.Wait()
		}
	}
}

// release gives a reference to a state back. With the last one its tables lose theirs; a table that no state names any
// more is removed by the background work.
func (db *DB) release(s *state) {
	if s.refs.Add(-1) > 0 {
		return
	}
	s.tables(func(_ int, t *table) {
		if t.refs.Add(-1) == 0 {
			db.mu.Lock()
			db.dead = append(db.dead, t)
			db.changed.Broadcast()
			db.mu.Unlock()
		}
	})
}

// flushLoop writes frozen memtables out, oldest first, until Close has frozen the last one and none is left.
func (db *DB) flushLoop() {
	defer db.workers.Done()
	for {
		db.mu.Lock()
		for len(db.flushing) == 0 && !db.drained && len(db.dead) == 0 && db.failed == nil {
			db.changed.Wait()
		}
		if db.failed != nil || db.drained && len(db.flushing) == 0 {
			db.mu.Unlock()
			return
		}
		var oldest frozen
		if len(db.flushing) > 0 {
			oldest = db.flushing[0]
		}
		db.mu.Unlock()
		if oldest.mem != nil {
			_ = db.retry(context.Background(), "flush", func() error { return db.flush(oldest) }) // a failure is kept in failed
		}
		_ = db.removeDead() // what could not be removed is an orphan that the next Open removes
	}
}

// flushAll writes out everything in memory, for Close. commitMu is held.
func (db *DB) flushAll() error {
	if db.state.Load().mem.Len() > 0 {
		db.rotate()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	for len(db.flushing) > 0 && db.failed == nil {
		db.changed.Wait()
	}
	return db.failed
}

// retry runs a background job until it succeeds, a few times with growing pauses: a full disk may have room again. Each
// attempt writes new files. After the last failure the store is read-only, and after damage at once, which no pause mends. What
// was not begun is left to the caller.
func (db *DB) retry(ctx context.Context, what string, job func() error) error {
	const attempts = 5
	pause := 10 * time.Millisecond
	for i := 1; ; i++ {
		err := job()
		if err == nil || ctx.Err() != nil || errors.Is(err, errDiskSpace) {
			return err
		}
		db.mu.Lock()
		failed := db.failed
		db.mu.Unlock()
		if failed != nil {
			return failed
		}
		if i == attempts || errors.Is(err, corrupt.Err) {
			return db.fail(fmt.Errorf("%s: %w", what, err))
		}
		db.report.workFailed(FailureInfo{Work: what, Attempt: i, Err: err})
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause *= 3
	}
}

// flush makes one frozen memtable a run of level 0.
func (db *DB) flush(f frozen) error {
	began := time.Now()
	env := db.env(0)
	res, err := compaction.Flush(context.Background(), f.mem.Iter(ikey.MaxSeq), rangeDels(f.mem, env.Snapshots), env)
	if err != nil {
		return err
	}
	e := &manifest.Edit{LastSeq: f.last, Added: newRunOf(res.Tables)}
	if f.log != nil {
		e.MinLog = f.log.number + 1
		e.Log = db.mark()
	}
	var bytes uint64
	for _, t := range res.Tables {
		bytes += t.Size
	}
	if err := db.install(e, func(s *state) {
		// Who waited for the flush finds it counted.
		db.writes.flushes.Add(1)
		db.writes.flushBytes.Add(bytes)
		// Without the oldest, and in new arrays: the old ones would keep its memory until another takes its place.
		s.frozen = append([]*memtable.Table(nil), s.frozen[:len(s.frozen)-1]...)
		db.flushing = append([]frozen(nil), db.flushing[1:]...)
	}); err != nil {
		return err
	}
	db.report.flushed(FlushInfo{len(res.Tables), bytes, res.Read, time.Since(began)}, db.report.infosOf(0, res.Tables))
	if f.log != nil {
		f.log.remove(db)
	}
	return nil
}

// rangeDels are the range tombstones of a memtable that a reader of a snapshot, or of now, can tell apart.
func rangeDels(m *memtable.Table, snapshots []ikey.Seq) rangedel.List {
	if d := m.RangeDels(); d != nil {
		return d.List(snapshots)
	}
	return nil
}

// env returns all that writing tables for a level needs. Its snapshots are those that are open now, so the inputs must be
// fixed before. Readers see a new state before the filter plan for it is made, so env waits for editMu, which the caller does
// not hold.
func (db *DB) env(level int) compaction.Env {
	db.editMu.Lock()
	plan := db.plans.Load().Now
	db.editMu.Unlock()
	return compaction.Env{
		FS: db.opts.FS, Dir: db.dir, Numbers: fileNumbers{db}, TableSize: uint64(db.opts.TableSize), //nolint:gosec // checked: positive
		BlockSize: db.opts.BlockSize, Codec: db.opts.codec(level), Filter: plan.Levels[level].Params, Prefix: db.opts.FilterPrefix, Seed: db.seed,
		Recodes: db.opts.codec(level) != db.opts.codec(0), Snapshots: db.snapshots.seqs(),
	}
}
