package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Flush writes what is in memory into tables of level 0 and returns when they are durable. If ctx ends first, Flush
// returns its error; a flush that has begun continues in the background. With Options.ReadOnly, Flush returns
// ErrReadOnly.
func (db *DB) Flush(ctx context.Context) error {
	last, err := db.writer.Freeze(ctx)
	if err != nil {
		return err
	}
	err = db.tree.Wait(ctx, func(v tree.View) bool { return len(v.Flushing) == 0 || v.Flushing[0].Last > last })
	if err != nil {
		return err
	}
	db.installMu.Lock() // new tables are visible before their filters follow the plan: see install
	defer db.installMu.Unlock()
	return nil
}

// flushLoop writes out frozen memtables, oldest first, until Close has frozen the last one and all are written.
func (db *DB) flushLoop() {
	defer db.workers.Done()
	for {
		var oldest tree.Frozen
		end := false
		db.tree.Await(func(v tree.View) bool {
			if len(v.Flushing) > 0 {
				oldest = v.Flushing[0]
			}
			end = v.Failed != nil || v.Drained && len(v.Flushing) == 0
			return end || len(v.Flushing) > 0 || v.Dead > 0
		})
		if end {
			return
		}
		if oldest.Mem != nil {
			// The tree keeps the error.
			_ = db.retry(context.Background(), "flush", func() error { return db.flush(oldest) })
		}
		_ = db.removeDead() // the next Open removes what could not be removed
	}
}

// keepWarm loads indexes and filters after Open, and later reloads dropped ones when there is memory for them again.
func (db *DB) keepWarm() {
	db.share.WarmUp(db.tree.Life())
	db.installMu.Lock()
	if s := db.tree.Load(); s != nil {
		_ = db.share.Replan(s) // the sizes of filters are known now; drops those that do not fit
	}
	db.installMu.Unlock()
	db.share.Restore(db.tree.Life())
	db.warm.Store(true)
	for {
		select {
		case <-db.tree.Life().Done():
			return
		case <-db.share.Room():
			db.share.Restore(db.tree.Life())
		}
	}
}

// retry runs a background job until it succeeds, up to five times with growing pauses, since a full disk may get
// space again. Each attempt writes new files. After the last failure the store becomes read-only; after damage, which
// no pause repairs, at once. A job that did not begin for lack of disk space is left to the caller.
func (db *DB) retry(ctx context.Context, what string, job func() error) error {
	const attempts = 5
	pause := 10 * time.Millisecond
	for i := 1; ; i++ {
		err := job()
		if err == nil || ctx.Err() != nil || errors.Is(err, errDiskSpace) {
			return err
		}
		if failed := db.tree.View().Failed; failed != nil {
			return failed
		}
		if i == attempts || errors.Is(err, corrupt.Err) {
			return db.tree.Fail(fmt.Errorf("%s: %w", what, err))
		}
		db.report.workFailed(FailureInfo{Work: what, Attempt: i, Err: err})
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause *= 3
	}
}

// flush writes one frozen memtable as a run of level 0.
func (db *DB) flush(f tree.Frozen) error {
	began := time.Now()
	env := db.env(0)
	res, err := compaction.Flush(context.Background(), f.Mem.Iter(ikey.MaxSeq), rangeDels(f.Mem, env.Snapshots), env)
	if err != nil {
		return err
	}
	e := &manifest.Edit{LastSeq: f.Last, Added: newRunOf(res.Tables)}
	if f.Log != nil {
		e.MinLog = f.Log.Number() + 1
		if active := db.tree.View().Log; active != nil {
			e.Log = active.Mark()
		}
	}
	var bytes uint64
	for _, t := range res.Tables {
		bytes += t.Size
	}
	if err := db.install(e, tree.Change{Flushed: true}, func() {
		db.writes.flushes.Add(1)
		db.writes.flushBytes.Add(bytes)
	}); err != nil {
		return err
	}
	db.report.flushed(FlushInfo{len(res.Tables), bytes, res.Read, time.Since(began)}, db.report.infosOf(0, res.Tables))
	if f.Log != nil {
		f.Log.Remove()
	}
	return nil
}

// rangeDels returns the range tombstones of a memtable that a reader of one of the snapshots, or of the newest data,
// can distinguish.
func rangeDels(m *memtable.Table, snapshots []ikey.Seq) rangedel.List {
	if d := m.RangeDels(); d != nil {
		return d.List(snapshots)
	}
	return nil
}

// env returns what is needed to write tables for a level. Its snapshots are those open now, so the inputs must be
// fixed before the call. Readers see a new state before its filter plan is made, so env waits for installMu, which
// the caller must not hold.
func (db *DB) env(level int) compaction.Env {
	db.installMu.Lock()
	plan := db.share.Plans().Now
	db.installMu.Unlock()
	return compaction.Env{
		FS: db.opts.FS, Dir: db.dir, Numbers: db.tree,
		TableSize: uint64(db.opts.TableSize), //nolint:gosec // checked: positive
		BlockSize: db.opts.BlockSize, Codec: db.opts.codec(level),
		Filter: plan.Levels[level].Params, Prefix: db.opts.FilterPrefix.rule, Seed: db.seed,
		Recodes: db.opts.codec(level) != db.opts.codec(0), Snapshots: db.tree.Pinned(),
	}
}
