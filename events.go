package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/scheduler"
	"github.com/bloomkv/bloomkv/internal/step"
)

// Events are functions that a store calls when something happens to it: see Options.Events. Nil functions are
// skipped.
//
// The goroutine in which something happens calls the function and waits for it. Calls may be concurrent, and some are
// made while locks of the store are held. So the functions must return soon, and must call no method of the DB, or of
// a DB that shares its Resources, except Metrics. To do more, a function can send its argument to another goroutine.
// Some calls come before Open returns, none after Close has returned. The same events are logged to Options.Logger.
type Events struct {
	// Flushed is called after each memtable flush.
	Flushed func(FlushInfo)
	// Compacted is called after tables were merged, or moved to another level unchanged: several times for a large
	// compaction, which is carried out in slices of the keys.
	Compacted func(CompactionInfo)
	// Ingested is called after each Ingest that stored something.
	Ingested func(IngestInfo)

	// TableCreated is called for each table that has durably become part of the store: by a flush, a compaction or an
	// Ingest, just before the call for that event, by an Import, or by Open, from logs.
	TableCreated func(TableInfo)
	// TableRemoved is called for each table whose file was removed, after its contents were compacted and its last
	// reader released it.
	TableRemoved func(TableInfo)

	// Stalled is called when writes no longer wait for background work. That delays have ended shows at the next write;
	// without one, Stalled is not called for them.
	Stalled func(StallInfo)
	// WorkFailed is called when background work has failed and will be tried again. If the work is given up, ReadOnly
	// is called instead. WorkFailed is also called, once, when a compaction is put off because the disk has no space
	// for it.
	WorkFailed func(FailureInfo)
	// Damaged is called for damage found by reads, compactions and loads of filters, once for each file and offset.
	// After 1,024 of these, further damage is reported each time that it is met. The error has a CorruptionError. A
	// damaged filter is reported only here, since reads continue without it. So is a filter of an unknown kind, which
	// a later version might write; that error does not match ErrCorruption.
	Damaged func(error)
	// PromiseChanged is called when memory becomes too short to keep what Options.FilterFPR asks, or suffices again: at
	// Open and while the store changes. What counts is the memory that full memtables leave.
	PromiseChanged func(PromiseInfo)
	// ReadOnly is called with the cause when the store has become read-only: every later write returns ErrReadOnly.
	ReadOnly func(cause error)
}

// FlushInfo describes the flush of a memtable.
type FlushInfo struct {
	Tables   int    // new tables, in level 0
	Bytes    uint64 // of their files
	Versions uint64 // read from the memtable
	Duration time.Duration
}

// CompactionInfo describes a compaction, or a slice of one, which merged or moved tables.
type CompactionInfo struct {
	From, To     int    // the uppermost level of the inputs, and the level of the outputs
	Moved        bool   // the tables changed level only: nothing was read or written
	Rewritten    bool   // tables of one run were rewritten or joined: nothing else was merged, nothing dropped
	Inputs       int    // tables
	Outputs      int    // tables
	BytesRead    uint64 // of inputs, except tables that range tombstones dropped whole
	BytesWritten uint64 // of outputs
	Versions     uint64 // read
	Dropped      uint64 // versions that were no longer needed
	Keys         uint64 // distinct keys written
	Duration     time.Duration

	// PredictedKeys is an estimate of Keys made before the compaction: samples of the inputs' keys were looked up in
	// the filters of newer inputs. It is off by a few percent at most if tables have thousands of keys. It is 0 if no
	// estimate was possible: the tables were moved, or have range tombstones, or have no samples, or the filters did
	// not exist or were not in memory.
	PredictedKeys uint64
}

// IngestInfo describes an Ingest that stored something.
type IngestInfo struct {
	Tables   int    // new tables, in level 0
	Bytes    uint64 // of their files
	Versions uint64 // keys
	Sequence uint64 // the sequence number of all these versions
	Duration time.Duration
}

// TableInfo describes a table.
type TableInfo struct {
	Path         string // of its file
	Level        int    // the present level, or the last one
	Bytes        uint64 // of the file
	Entries      uint64 // versions, tombstones included
	Deletes      uint64 // tombstones among them
	RangeDeletes uint64 // range tombstones, which are not among Entries
}

// FailureInfo describes a failure of background work.
type FailureInfo struct {
	Work    string // "flush", "compaction" or "load" (of a table's index or filter)
	Attempt int    // from 1 on
	Err     error
}

// PromiseInfo says what a store promises, when memory has become too short for what was asked, or suffices again.
type PromiseInfo struct {
	Kept  bool    // the store keeps what was asked
	Asked float64 // Options.FilterFPR
	// Reads is the most that a lookup of an absent key reads outside of memory while the store is written to.
	// IdleReads is the same for memtables that stay as they are now: see Metrics.ReadsPromised.
	Reads, IdleReads float64
	Budget           int64 // bytes of Options.MemoryBudget, or of shared Resources, that would keep what was asked
}

// A StallReason is the reason why writes had to wait for background work.
type StallReason uint8

const (
	// StallSlowedByLevel0 means that each write was delayed a little, because compaction was falling behind: level 0
	// had too many runs.
	StallSlowedByLevel0 StallReason = iota
	// StallStoppedByLevel0 means that writes waited until level 0 had fewer runs.
	StallStoppedByLevel0
	// StallStoppedByMemtable means that writes waited until a full memtable was flushed.
	StallStoppedByMemtable
	// StallSlowedByMemtable means that writes were faster than a flush: each was delayed a little, so that the memtable
	// would not be full before the last one was flushed.
	StallSlowedByMemtable
)

// String returns the reason as text, such as "slowed by level 0".
func (r StallReason) String() string {
	switch r {
	case StallSlowedByLevel0:
		return "slowed by level 0"
	case StallStoppedByLevel0:
		return "stopped by level 0"
	case StallStoppedByMemtable:
		return "stopped by a memtable"
	case StallSlowedByMemtable:
		return "slowed by a memtable"
	}
	return "unknown"
}

// StallInfo describes a period during which writes waited.
type StallInfo struct {
	Reason StallReason
	// Writes is the number of groups of writes that waited: one if they were stopped, several in a row if they were
	// slowed or delayed.
	Writes   uint64
	Duration time.Duration // total time that they waited
}

// A reporter passes events to the logger and to Events. It is the only path to both, so nothing is reported twice.
type reporter struct {
	log *slog.Logger
	to  Events
	dir string

	mu     step.Mutex      // never held during a call
	places map[string]bool // files and offsets of damage
}

// maxPlaces bounds the damage that is remembered.
const maxPlaces = 1024

func tell[T any](f func(T), what T) {
	if f != nil {
		f(what)
	}
}

// Flushed implements scheduler.Observer.
func (r *reporter) Flushed(f scheduler.Flush, tables []*manifest.Table) {
	r.created(0, tables)
	r.log.Info("flushed", slog.Int("tables", f.Tables), slog.Uint64("bytes", f.Bytes),
		slog.Uint64("versions", f.Versions), slog.Duration("duration", f.Duration))
	tell(r.to.Flushed, FlushInfo(f))
}

// Compacted implements scheduler.Observer.
func (r *reporter) Compacted(c scheduler.Compaction, tables []*manifest.Table) {
	r.created(c.To, tables)
	r.log.Info("compacted", slog.Int("from", c.From), slog.Int("to", c.To), slog.Bool("moved", c.Moved),
		slog.Bool("rewritten", c.Rewritten), slog.Int("inputs", c.Inputs), slog.Int("outputs", c.Outputs),
		slog.Uint64("read", c.BytesRead), slog.Uint64("written", c.BytesWritten),
		slog.Uint64("versions", c.Versions), slog.Uint64("dropped", c.Dropped),
		slog.Uint64("keys", c.Keys), slog.Uint64("predicted", c.PredictedKeys), slog.Duration("duration", c.Duration))
	tell(r.to.Compacted, CompactionInfo(c))
}

func (r *reporter) ingested(i IngestInfo, tables []*manifest.Table) {
	r.created(0, tables)
	r.log.Info("ingested", slog.Int("tables", i.Tables), slog.Uint64("bytes", i.Bytes),
		slog.Uint64("versions", i.Versions), slog.Uint64("sequence", i.Sequence), slog.Duration("duration", i.Duration))
	tell(r.to.Ingested, i)
}

// Recovered implements recovery.Observer.
func (r *reporter) Recovered(tables []*manifest.Table) { r.created(0, tables) }

func (r *reporter) created(level int, tables []*manifest.Table) {
	for _, table := range tables {
		t := r.infoOf(level, table)
		r.log.Debug("table created", slog.String("file", t.Path), slog.Int("level", t.Level),
			slog.Uint64("bytes", t.Bytes))
		tell(r.to.TableCreated, t)
	}
}

// Removed implements scheduler.Observer.
func (r *reporter) Removed(level int, table *manifest.Table) {
	t := r.infoOf(level, table)
	r.log.Debug("table removed", slog.String("file", t.Path), slog.Int("level", t.Level),
		slog.Uint64("bytes", t.Bytes))
	tell(r.to.TableRemoved, t)
}

// shortStall is the shortest stall that is logged at level Info: writes stall briefly as long as they are as fast as
// they can be.
const shortStall = 10 * time.Millisecond

// Stalled is called by the writer.
func (r *reporter) Stalled(stall commit.Stall) {
	s := StallInfo{StallReason(stall.Reason), stall.Writes, stall.Duration}
	level := slog.LevelInfo
	if s.Duration < shortStall {
		level = slog.LevelDebug
	}
	r.log.LogAttrs(context.Background(), level, "writes stalled", slog.String("reason", s.Reason.String()),
		slog.Uint64("writes", s.Writes), slog.Duration("duration", s.Duration))
	tell(r.to.Stalled, s)
}

// WorkFailed implements scheduler.Observer and budget.Observer.
func (r *reporter) WorkFailed(work string, attempt int, err error) {
	f := FailureInfo{work, attempt, err}
	if errors.Is(f.Err, corrupt.Err) {
		r.Damaged(f.Err)
	}
	r.log.Warn("background work failed", slog.String("work", f.Work), slog.Int("attempt", f.Attempt),
		slog.Any("error", f.Err))
	tell(r.to.WorkFailed, f)
}

// Damaged implements budget.Observer and scheduler.Observer. It reports damage unless that was reported before.
func (r *reporter) Damaged(err error) {
	if c, ok := errors.AsType[*CorruptionError](err); ok {
		p := fmt.Sprint(c.File, " ", c.Offset)
		r.mu.Lock()
		known := r.places[p]
		if r.places == nil {
			r.places = map[string]bool{}
		}
		if len(r.places) < maxPlaces {
			r.places[p] = true
		}
		r.mu.Unlock()
		if known {
			return
		}
	}
	r.log.Error("damage", slog.Any("error", err))
	tell(r.to.Damaged, err)
}

// Promise implements budget.Observer.
func (r *reporter) Promise(p budget.Promises) {
	i := PromiseInfo{
		Kept: p.Kept(p.Full), Asked: p.Asked, Reads: p.Full.Reads, IdleReads: p.Now.Reads, Budget: p.Full.Budget,
	}
	log := r.log.With(slog.Float64("asked", i.Asked), slog.Float64("reads", i.Reads),
		slog.Float64("idle", i.IdleReads), slog.Int64("budget", i.Budget))
	if i.Kept {
		log.Info("memory suffices for FilterFPR again")
	} else {
		log.Warn("memory is too short for FilterFPR")
	}
	tell(r.to.PromiseChanged, i)
}

// ReadOnly is called by the tree.
func (r *reporter) ReadOnly(cause error) {
	r.log.Error("read-only from now on", slog.Any("error", cause))
	tell(r.to.ReadOnly, cause)
}

// The following events are only logged: the users of Events have called Open, Checkpoint and Close themselves.

func (r *reporter) opened(sequence uint64) {
	r.log.Info("opened", slog.String("dir", r.dir), slog.Uint64("sequence", sequence))
}

// Replayed implements recovery.Observer.
func (r *reporter) Replayed(log uint64, records int, torn bool) {
	r.log.Info("log replayed", slog.Uint64("log", log), slog.Int("records", records), slog.Bool("torn", torn))
}

// OrphanStays implements recovery.Observer.
func (r *reporter) OrphanStays(name string, err error) {
	r.log.Warn("an orphan was not removed", slog.String("file", name), slog.Any("error", err))
}

func (r *reporter) checkpointMade(dir string, v *manifest.Version, copied int, took time.Duration) {
	bytes := uint64(0)
	for level := range v.Levels {
		bytes += v.Bytes(level)
	}
	r.log.Info("checkpoint made", slog.String("dir", dir), slog.Int("tables", v.NumTables()),
		slog.Uint64("bytes", bytes), slog.Int("copied", copied), slog.Duration("duration", took))
}

func (r *reporter) exported(tables int, bytes int64, took time.Duration) {
	r.log.Info("export made", slog.Int("tables", tables), slog.Int64("bytes", bytes), slog.Duration("duration", took))
}

func (r *reporter) imported(added []manifest.Added, bytes int64, took time.Duration) {
	for _, a := range added {
		r.created(a.Level, []*manifest.Table{a.Table})
	}
	r.log.Info("imported", slog.Int("tables", len(added)), slog.Int64("bytes", bytes), slog.Duration("duration", took))
}

func (r *reporter) leftOpen(by []string) {
	for _, opened := range by {
		r.log.Warn("an iterator was left open", slog.String("opened", opened))
	}
}

func (r *reporter) closed() { r.log.Info("closed", slog.String("dir", r.dir)) }

// infoOf returns the TableInfo of a table.
func (r *reporter) infoOf(level int, t *manifest.Table) TableInfo {
	return TableInfo{
		Path: filename.Make(r.dir, filename.Table, t.Number), Level: level,
		Bytes: t.Size, Entries: t.Entries, Deletes: t.Deletes, RangeDeletes: t.RangeDeletes,
	}
}
