package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/memtable"
	"github.com/bloomkv/bloomkv/vfs"
)

// recover checks that what the manifest names is there and brings the logs' writes into tables; where the store is opened to
// be read only, into memtables, which it returns, newest first. It may be cut short at any point and begun again: logs are
// removed only after the manifest no longer needs them.
func (db *DB) recover(found listing) ([]*memtable.Table, error) {
	s := &db.recorded
	if err := checkListing(db.opts.FS, db.dir, s, found); err != nil {
		return nil, err
	}
	db.next, db.reserved, db.lastSeq = s.NextFile, s.NextFile, s.LastSeq
	logs := found.logsFrom(s.MinLog)
	if len(logs) == 0 {
		return nil, nil
	}
	r := replay{db: db, mem: memtable.New(nil, 0, db.opts.MemtableSize), last: s.LastSeq}
	counted, err := r.dryRun(logs)
	if err != nil { // before anything is written
		return nil, err
	}
	if db.opts.ReadOnly {
		err := r.run(counted)
		db.lastSeq = r.last
		return r.frozen, err
	}
	return nil, db.writeOut(&r, logs, counted)
}

// writeOut brings what a replay reads of the logs that count into tables, and removes all logs.
func (db *DB) writeOut(r *replay, logs, counted []uint64) error {
	s := &db.recorded
	// From here on files are written, under numbers that a second recovery must know of.
	if err := db.appendEdit(&manifest.Edit{}, s.Version); err != nil {
		return err
	}
	if err := r.run(counted); err != nil {
		return err
	}
	e := &manifest.Edit{MinLog: logs[len(logs)-1] + 1, LastSeq: r.last + seqGap, NoLog: true, Added: r.added}
	v, err := s.Version.Apply(e)
	if err != nil {
		return err
	}
	if len(r.added) > 0 {
		if err := db.opts.FS.SyncDir(db.dir); err != nil {
			return err
		}
	}
	if err := db.appendEdit(e, v); err != nil {
		return err
	}
	for _, a := range r.added {
		db.report.created(db.files.infosOf(a.Level, []*manifest.Table{a.Table}))
	}
	db.lastSeq = db.recorded.LastSeq
	for _, n := range logs {
		_ = db.opts.FS.Remove(filename.Make(db.dir, filename.Log, n)) // else the next Open does
	}
	return nil
}

// seqGap is left free after an unclean stop, so that no sequence number that anybody may have seen is given out again: the
// end of a log may be lost without a trace.
const seqGap = 1 << 24

// A replay reads logs in order into memtables, and these into tables unless the store is only read.
type replay struct {
	db      *DB
	mem     *memtable.Table
	last    ikey.Seq
	added   []manifest.Added
	frozen  []*memtable.Table // where the store is only read: what would have become tables, newest first
	records int               // whole records that were read
}

// dryRun reads all logs without keeping anything, so that damage is found before the first change, and returns those that
// count: all, or those before the first gap. What follows a gap is newer than what was lost in it and is discarded.
func (r *replay) dryRun(logs []uint64) (counted []uint64, err error) {
	last := r.last
	defer func() { r.last = last }()
	for i, n := range logs {
		res, err := r.log(n, func(ikey.Seq, ikey.Kind, []byte, []byte) {})
		name := filename.Base(filename.Log, n)
		counted := i + 1 // of logs
		var gap error
		switch mark := r.db.recorded.Log; {
		case errors.Is(err, errGap): // the end of an older log is lost, or its name
			counted, gap = i, err
		case err != nil:
			return nil, err
		case mark != nil && mark.Number == n && res.End < mark.Synced:
			return nil, corrupt.Newf(name, res.End, "ends here, want at least %d bytes: %w", mark.Synced, errShortLog)
		case !res.Torn:
			continue
		default:
			gap = corrupt.At(name, res.TornAt, fmt.Errorf("%w: %w", errShortLog, res.Reason))
		}
		if r.db.opts.StrictWAL {
			return nil, fmt.Errorf("%w (StrictWAL)", gap)
		}
		return logs[:counted], r.checkGap(gap, logs[counted:])
	}
	return logs, nil
}

// checkGap returns a gap between logs as damage if the manifest or one of the younger logs says that all before it was
// durable.
func (r *replay) checkGap(gap error, younger []uint64) error {
	mark := r.db.recorded.Log
	for _, n := range younger {
		res, err := r.log(n, nil)
		if err != nil {
			return err
		}
		if res.OlderDurable || mark != nil && mark.Number >= n {
			return fmt.Errorf("%w; yet all before %s was durable", gap, filename.Base(filename.Log, n))
		}
	}
	return nil
}

var (
	errShortLog = errors.New("log is cut short")
	errSequence = errors.New("sequence numbers are not continuous")
	errGap      = errors.New("what comes before this log is missing")
)

// run replays for good. The memtable is written out where it is full.
func (r *replay) run(logs []uint64) error {
	for _, n := range logs {
		res, err := r.log(n, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
			addTo(r.mem, []operation{{seq: seq, kind: kind, key: key, value: value}})
		})
		if err != nil {
			return err
		}
		r.db.report.replayed(n, res.Records, res.Torn)
	}
	return r.flush()
}

// flush writes the memtable into tables.
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

// newRunOf is the tables of one flush as a new run of level 0. Its number is that of its last table, so that it grows from
// flush to flush.
func newRunOf(tables []*manifest.Table) (added []manifest.Added) {
	for _, t := range tables {
		added = append(added, manifest.Added{Level: 0, Run: tables[len(tables)-1].Number, Table: t})
	}
	return added
}

// log replays one log; each is nil where only the facts about the log are wanted.
func (r *replay) log(number uint64, each func(ikey.Seq, ikey.Kind, []byte, []byte)) (wal.Result, error) {
	name := filename.Base(filename.Log, number)
	f, err := r.db.opts.FS.Open(filename.Make(r.db.dir, filename.Log, number))
	if err != nil {
		return wal.Result{}, err
	}
	if each == nil {
		res, err := wal.Replay(f, name, number, nil)
		return res, errors.Join(err, f.Close())
	}
	var flushErr error
	begun := false
	res, err := wal.Replay(f, name, number, func(payload []byte, end int64) error {
		first, count, err := batch.ReadRecord(payload, each)
		switch offset := end - int64(len(payload)); {
		case err != nil:
			return corrupt.At(name, offset, err)
		case first > r.last+1 && !begun:
			return corrupt.Newf(name, offset, "sequence %d, want %d: %w", first, r.last+1, errGap)
		case first != r.last+1:
			return corrupt.Newf(name, offset, "sequence %d, want %d: %w", first, r.last+1, errSequence)
		}
		begun = true
		r.last += ikey.Seq(count)
		r.records++
		if r.mem.Bytes() >= r.db.opts.MemtableSize {
			flushErr = r.flush()
		}
		return flushErr
	})
	return res, errors.Join(err, f.Close())
}

// checkListing holds the manifest against the directory. A file that the manifest names must be there, whole; one with a
// number that the manifest has not given out yet means that the manifest is older than the data.
func checkListing(fsys vfs.FS, dir string, s *manifest.State, found listing) error {
	for _, t := range s.Version.Tables() {
		name := func() string { return filename.Base(filename.Table, t.Number) }
		if _, ok := slices.BinarySearch(found[filename.Table], t.Number); !ok {
			return corrupt.Newf(name(), 0, "missing, the manifest names it")
		}
		info, err := fsys.Stat(filename.Make(dir, filename.Table, t.Number))
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return corrupt.Newf(name(), 0, "no regular file but of mode %v, the manifest names it", info.Mode())
		}
		if uint64(info.Size()) != t.Size { //nolint:gosec // a file's size is not negative
			return corrupt.Newf(name(), info.Size(), "%d bytes, the manifest wants %d", info.Size(), t.Size)
		}
	}
	for _, kind := range []filename.Kind{filename.Table, filename.Log} {
		if n := found[kind]; len(n) > 0 && n[len(n)-1] >= s.NextFile {
			return corrupt.Newf(filename.Base(filename.Manifest, s.ManifestNumber), 0, "knows no file from number %d on, but there is %s: the manifest is older than the data",
				s.NextFile, filename.Base(kind, n[len(n)-1]))
		}
	}
	if s.Log != nil {
		if _, ok := slices.BinarySearch(found[filename.Log], s.Log.Number); !ok {
			return corrupt.Newf(filename.Base(filename.Log, s.Log.Number), 0, "missing, the manifest names it")
		}
	}
	return nil
}
