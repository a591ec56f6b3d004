package bloomkv

import (
	"context"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/recovery"
)

// recover checks that the files named by the manifest exist, and writes the contents of the logs to tables. For a
// store opened read-only, it instead returns them in memtables, newest first. It returns the newest sequence number.
// If a crash interrupts it, it can start again: logs are removed only after the manifest no longer needs them.
func (db *DB) recover(found recovery.Listing, s manifest.State) ([]*memtable.Table, ikey.Seq, error) {
	if err := found.Check(db.opts.FS, db.dir, &s); err != nil {
		return nil, 0, err
	}
	db.tree.Recover(s)
	logs := found.LogsFrom(s.MinLog)
	if len(logs) == 0 {
		return nil, s.LastSeq, nil
	}
	r := replay{db: db, logs: db.logReader(&s), mem: memtable.New(nil, 0, db.opts.MemtableSize)}
	counted, err := r.dryRun(logs)
	if err != nil { // nothing was written yet
		return nil, 0, err
	}
	if db.opts.ReadOnly {
		err := r.run(counted)
		return r.frozen, r.logs.Last, err
	}
	last, err := db.writeOut(&r, logs, counted)
	return nil, last, err
}

// writeOut writes what a replay reads from the counted logs to tables, and removes all logs. It returns the newest
// sequence number in use.
func (db *DB) writeOut(r *replay, logs, counted []uint64) (ikey.Seq, error) {
	// From here on files are written. The manifest must cover their numbers, so that a second recovery does not reuse
	// them.
	if err := db.tree.Record(&manifest.Edit{}); err != nil {
		return 0, err
	}
	if err := r.run(counted); err != nil {
		return 0, err
	}
	e := &manifest.Edit{MinLog: logs[len(logs)-1] + 1, LastSeq: r.logs.Last + seqGap, NoLog: true, Added: r.added}
	if len(r.added) > 0 {
		if err := db.opts.FS.SyncDir(db.dir); err != nil {
			return 0, err
		}
	}
	if err := db.tree.Record(e); err != nil {
		return 0, err
	}
	for _, a := range r.added {
		db.report.created(db.report.infosOf(a.Level, []*manifest.Table{a.Table}))
	}
	for _, n := range logs {
		_ = db.opts.FS.Remove(filename.Make(db.dir, filename.Log, n)) // if it fails, the next Open does it
	}
	return e.LastSeq, nil
}

// seqGap is the number of sequence numbers left unused after an unclean stop. The end of a log may be lost without a
// trace, and sequence numbers that a reader may have seen must not be used again.
const seqGap = 1 << 24

// A replay reads logs in order into memtables, and writes these to tables unless the store is opened read-only.
type replay struct {
	db     *DB
	logs   recovery.Logs
	mem    *memtable.Table
	added  []manifest.Added
	frozen []*memtable.Table // read-only: full memtables, newest first
}

func (db *DB) logReader(s *manifest.State) recovery.Logs {
	return recovery.Logs{FS: db.opts.FS, Dir: db.dir, Mark: s.Log, Last: s.LastSeq}
}

// dryRun reads all logs without keeping anything, so that damage is found before the first change. It returns the
// logs that count: all, or those up to the first gap. Writes after a gap are newer than those lost in it, and are
// discarded.
func (r *replay) dryRun(logs []uint64) ([]uint64, error) {
	counted, gap, err := r.logs.Judge(logs)
	if gap != nil && r.db.opts.StrictWAL {
		return nil, fmt.Errorf("%w (StrictWAL)", gap)
	}
	return logs[:counted], err
}

// run replays the logs into memtables, and flushes each full one.
func (r *replay) run(logs []uint64) error {
	for _, n := range logs {
		res, err := r.logs.Read(n, r.add, r.makeRoom)
		if err != nil {
			return err
		}
		r.db.report.replayed(n, res.Records, res.Torn)
	}
	return r.flush()
}

func (r *replay) add(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
	h := r.db.seed.Mix(bloomblock.HashKey(key))
	r.mem.AddOps([]memtable.Op{{Seq: seq, Kind: kind, Key: key, Value: value, Hash: h}})
}

func (r *replay) makeRoom() error {
	if r.mem.Bytes() < r.db.opts.MemtableSize {
		return nil
	}
	return r.flush()
}

// flush writes the memtable to tables, or keeps it if the store is opened read-only.
func (r *replay) flush() error {
	if r.mem.Len() == 0 {
		return nil
	}
	if r.db.opts.ReadOnly {
		r.keep()
		return nil
	}
	r.mem.Freeze()
	res, err := compaction.Flush(context.Background(), r.mem.Iter(ikey.MaxSeq), rangeDels(r.mem, nil), r.db.env(0))
	if err != nil {
		return err
	}
	r.added = append(r.added, newRunOf(res.Tables)...)
	r.mem = memtable.New(r.mem.CommonPrefix(), r.mem.Keys(), r.db.opts.MemtableSize)
	return nil
}

// newRunOf returns the tables of one flush as a new run of level 0. The run has the number of its last table, so that
// run numbers grow from flush to flush.
func newRunOf(tables []*manifest.Table) (added []manifest.Added) {
	for _, t := range tables {
		added = append(added, manifest.Added{Level: 0, Run: tables[len(tables)-1].Number, Table: t})
	}
	return added
}
