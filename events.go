package bloomkv

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Events are functions that a store calls when something has happened to it: Options.Events. Those that are nil are skipped.
//
// They are called on the goroutine to which it happened, which waits for them, one at a time or side by side, and some with
// locks of the store held. So they must return soon, and must not call anything of the DB, or of one that shares its
// Resources, but Metrics; who wants to do more sends what was told to a goroutine of his own. Open calls them before it has
// returned. None is called after Close has returned. Options.Logger hears of the same things.
type Events struct {
	// Flushed is told of each memtable that was written out.
	Flushed func(FlushInfo)
	// Compacted is told when tables were merged, or moved to another level as they are.
	Compacted func(CompactionInfo)
	// Ingested is told of each Ingest that has stored something.
	Ingested func(IngestInfo)

	// TableCreated is told of each table that has become part of the store, durably: by a flush, a compaction or an Ingest,
	// just before that is told itself, or by Open, out of logs.
	TableCreated func(TableInfo)
	// TableRemoved is told of each table whose file is gone: what it held was compacted, and the last reader has let go of it.
	TableRemoved func(TableInfo)

	// Stalled is told when writes no longer wait for background work.
	Stalled func(StallInfo)
	// WorkFailed is told of background work that failed and will be tried again. When it is given up, ReadOnly is told.
	// It is also told, once, when a compaction is put off since the disk has no room for it.
	WorkFailed func(FailureInfo)
	// Damaged is told of damage met by reads, compactions and loads of filters, once for each place. The error has a
	// CorruptionError with file and offset. A damaged filter is told here alone, since reads go on without it, and so is one of
	// an unknown kind, as a later version might write, with an error that is not ErrCorruption.
	Damaged func(error)
	// ReadOnly is told when the store has become read-only, with the cause: every later write answers ErrReadOnly.
	ReadOnly func(cause error)
}

// FlushInfo is a memtable that was written out.
type FlushInfo struct {
	Tables   int    // made, in level 0
	Bytes    uint64 // of them
	Versions uint64 // read from the memtable
	Duration time.Duration
}

// CompactionInfo is tables that were merged or moved.
type CompactionInfo struct {
	From, To     int    // levels: the uppermost of the inputs, and where they went
	Moved        bool   // the tables changed their level as they are: nothing was read or written
	Rewritten    bool   // the tables were written anew by themselves: nothing was merged with them or dropped
	Inputs       int    // tables
	Outputs      int    // tables
	BytesRead    uint64 // of inputs, but for those that range deletes dropped as a whole
	BytesWritten uint64 // of outputs
	Versions     uint64 // read
	Dropped      uint64 // of them: no longer needed
	Keys         uint64 // distinct keys written
	Duration     time.Duration

	// PredictedKeys is what samples of the inputs' keys, asked in the filters of newer inputs, had said that Keys would be; a few
	// hundredths off at most where tables have thousands of keys. It is 0 where that could not be said: of tables that are moved,
	// or have range deletes, or no samples, as their filters are none or not in memory.
	PredictedKeys uint64
}

// IngestInfo is what an Ingest has stored.
type IngestInfo struct {
	Tables   int    // made, in level 0
	Bytes    uint64 // of them
	Versions uint64 // keys
	Sequence uint64 // of all of them
	Duration time.Duration
}

// TableInfo is one table.
type TableInfo struct {
	Path         string // of its file
	Level        int    // where it was put, or was last
	Bytes        uint64 // of the file
	Entries      uint64 // versions, tombstones included
	Deletes      uint64 // tombstones among them
	RangeDeletes uint64 // range tombstones, which are not among Entries
}

// FailureInfo is background work that failed.
type FailureInfo struct {
	Work    string // "flush", "compaction", "load": of a table's index or filter, or "trim": of a filter
	Attempt int    // from 1 on
	Err     error
}

// A reporter tells logger and events what has happened: all that they hear goes through it, so that nothing is told twice.
type reporter struct {
	log *slog.Logger
	to  Events
	dir string

	mu     sync.Mutex // held over no call
	places map[damagePlace]bool
}

// A damagePlace is where damage was found.
type damagePlace struct {
	file   string
	offset int64
}

// maxPlaces bounds the places that are remembered. Whoever has more damage hears of some of it again.
const maxPlaces = 1024

func tell[T any](f func(T), what T) {
	if f != nil {
		f(what)
	}
}

func (r *reporter) flushed(f FlushInfo, tables []TableInfo) {
	r.created(tables)
	r.log.Info("flushed", slog.Int("tables", f.Tables), slog.Uint64("bytes", f.Bytes), slog.Uint64("versions", f.Versions),
		slog.Duration("duration", f.Duration))
	tell(r.to.Flushed, f)
}

func (r *reporter) compacted(c CompactionInfo, tables []TableInfo) {
	r.created(tables)
	r.log.Info("compacted", slog.Int("from", c.From), slog.Int("to", c.To), slog.Bool("moved", c.Moved), slog.Bool("rewritten", c.Rewritten), slog.Int("inputs", c.Inputs),
		slog.Int("outputs", c.Outputs), slog.Uint64("read", c.BytesRead), slog.Uint64("written", c.BytesWritten),
		slog.Uint64("versions", c.Versions), slog.Uint64("dropped", c.Dropped),
		slog.Uint64("keys", c.Keys), slog.Uint64("predicted", c.PredictedKeys), slog.Duration("duration", c.Duration))
	tell(r.to.Compacted, c)
}

func (r *reporter) ingested(i IngestInfo, tables []TableInfo) {
	r.created(tables)
	r.log.Info("ingested", slog.Int("tables", i.Tables), slog.Uint64("bytes", i.Bytes), slog.Uint64("versions", i.Versions),
		slog.Uint64("sequence", i.Sequence), slog.Duration("duration", i.Duration))
	tell(r.to.Ingested, i)
}

func (r *reporter) created(tables []TableInfo) {
	for _, t := range tables {
		r.log.Debug("table created", slog.String("file", t.Path), slog.Int("level", t.Level), slog.Uint64("bytes", t.Bytes))
		tell(r.to.TableCreated, t)
	}
}

func (r *reporter) removed(t TableInfo) {
	r.log.Debug("table removed", slog.String("file", t.Path), slog.Int("level", t.Level), slog.Uint64("bytes", t.Bytes))
	tell(r.to.TableRemoved, t)
}

func (r *reporter) stalled(s StallInfo) {
	r.log.Info("writes stalled", slog.String("reason", s.Reason.String()), slog.Uint64("writes", s.Writes), slog.Duration("duration", s.Duration))
	tell(r.to.Stalled, s)
}

// workFailed tells of work that will be tried again.
func (r *reporter) workFailed(f FailureInfo) {
	if errors.Is(f.Err, corrupt.Err) {
		r.Damaged(f.Err)
	}
	r.log.Warn("background work failed", slog.String("work", f.Work), slog.Int("attempt", f.Attempt), slog.Any("error", f.Err))
	tell(r.to.WorkFailed, f)
}

// LoadFailed implements budget.Observer.
func (r *reporter) LoadFailed(work string, err error) {
	r.workFailed(FailureInfo{Work: work, Attempt: 1, Err: err})
}

// Damaged implements budget.Observer. It tells of damage unless it is known.
func (r *reporter) Damaged(err error) {
	if c, ok := errors.AsType[*CorruptionError](err); ok {
		p := damagePlace{c.File, c.Offset}
		r.mu.Lock()
		known := r.places[p]
		if len(r.places) == maxPlaces {
			clear(r.places)
		}
		if r.places == nil {
			r.places = map[damagePlace]bool{}
		}
		r.places[p] = true
		r.mu.Unlock()
		if known {
			return
		}
	}
	r.log.Error("damage", slog.Any("error", err))
	tell(r.to.Damaged, err)
}

// ReadOnly implements tree.Observer.
func (r *reporter) ReadOnly(cause error) {
	r.log.Error("read-only from now on", slog.Any("error", cause))
	tell(r.to.ReadOnly, cause)
}

// The rest is for the log alone: who hears events has called Open, Checkpoint and Close himself.

func (r *reporter) opened(sequence uint64) {
	r.log.Info("opened", slog.String("dir", r.dir), slog.Uint64("sequence", sequence))
}

func (r *reporter) replayed(log uint64, records int, torn bool) {
	r.log.Info("log replayed", slog.Uint64("log", log), slog.Int("records", records), slog.Bool("torn", torn))
}

func (r *reporter) orphanStays(name string, err error) {
	r.log.Warn("an orphan stays", slog.String("file", name), slog.Any("error", err))
}

func (r *reporter) checkpointMade(dir string, tables, copied int, bytes uint64, took time.Duration) {
	r.log.Info("checkpoint made", slog.String("dir", dir), slog.Int("tables", tables), slog.Uint64("bytes", bytes),
		slog.Int("copied", copied), slog.Duration("duration", took))
}

func (r *reporter) leftOpen(by []string) {
	for _, opened := range by {
		r.log.Warn("an iterator was left open", slog.String("opened", opened))
	}
}

func (r *reporter) closed() { r.log.Info("closed", slog.String("dir", r.dir)) }

// infoOf returns the description of a table for events.
func (r *reporter) infoOf(level int, t *manifest.Table) TableInfo {
	return TableInfo{
		Path: filename.Make(r.dir, filename.Table, t.Number), Level: level, Bytes: t.Size, Entries: t.Entries, Deletes: t.Deletes, RangeDeletes: t.RangeDeletes,
	}
}

// infosOf returns the descriptions of new tables for events.
func (r *reporter) infosOf(level int, tables []*manifest.Table) (infos []TableInfo) {
	for _, t := range tables {
		infos = append(infos, r.infoOf(level, t))
	}
	return infos
}
