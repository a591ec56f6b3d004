package recovery

import (
	"context"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
)

// A Replay brings what the logs of a store hold into tables, or into memtables if the store must not be changed. If a
// crash interrupts it, it can start again (I10): logs are removed only after the manifest no longer needs them.
type Replay struct {
	Logs         Logs
	Mark         batch.Mark                 // of the manifest
	Strict       bool                       // a gap in the logs is an error
	Seed         bloomblock.Seed            // of memtables
	MemtableSize int64                      // bytes
	Env          compaction.Env             // of new tables
	Record       func(*manifest.Edit) error // records an edit durably; nil if nothing may be changed
	Observer     Observer
	// Clear, if not nil, is called before anything is written, once all logs are known to be intact.
	Clear func()

	mem    *memtable.Table
	added  []manifest.Added
	frozen []*memtable.Table // without Record: full memtables, newest first
}

// An Observer is called for what recovery does.
type Observer interface {
	Replayed(log uint64, records int, torn bool)
	Recovered(tables []*manifest.Table) // new tables, durable, in level 0
	OrphanStays(name string, err error) // RemoveOrphans failed to remove a file
}

// seqGap is the number of sequence numbers that Open leaves unused. The end of a log, or the whole of the last one, may
// be lost without a trace, and sequence numbers that a reader may have seen must not be used again.
const seqGap = 1 << 24

// skip returns the newest sequence number in use after Open has left seqGap of them unused: fewer if a manifest may not
// record more. Then no write follows, since each is refused, and no number is used again.
func skip(last ikey.Seq) ikey.Seq { return min(last+seqGap, manifest.MaxSeq) }

// Replayed is the result of a replay.
type Replayed struct {
	Memtables []*memtable.Table // newest first; none if edits are recorded
	Last      ikey.Seq          // the newest sequence number in use
	Mark      batch.Mark        // the newest, of the logs or else of the manifest; none if its Seq is 0
}

// Run replays the given logs, ascending by number. When ctx ends, it stops as an error stops it.
func (r *Replay) Run(ctx context.Context, logs []uint64) (Replayed, error) {
	// Damage is found before the first change. Writes after a gap are newer than those lost in it, and are discarded.
	counted, err := r.Logs.Check(logs, r.Strict)
	if err != nil {
		return Replayed{}, err
	}
	if r.Clear != nil {
		r.Clear()
	}
	if len(logs) == 0 {
		return Replayed{nil, r.Logs.Last, r.Mark}, nil
	}
	if r.Logs.Newest.Seq > 0 {
		r.Mark = r.Logs.Newest
	}
	r.mem = memtable.New(nil, 0, r.MemtableSize)
	if r.Record == nil {
		err := r.read(ctx, counted)
		return Replayed{r.frozen, r.Logs.Last, r.Mark}, err
	}
	// From here on files are written. The manifest must cover their numbers, so that a second recovery does not reuse
	// them.
	if err := r.Record(&manifest.Edit{}); err != nil {
		return Replayed{}, err
	}
	if err := r.read(ctx, counted); err != nil {
		return Replayed{}, err
	}
	last, err := r.install(logs)
	return Replayed{nil, last, r.Mark}, err
}

// install makes the new tables part of the store, in place of the logs, which it removes.
func (r *Replay) install(logs []uint64) (ikey.Seq, error) {
	if len(r.added) > 0 {
		if err := r.Env.FS.SyncDir(r.Env.Dir); err != nil {
			return 0, err
		}
	}
	e := &manifest.Edit{
		MinLog: logs[len(logs)-1] + 1, LastSeq: skip(r.Logs.Last), NoLog: true, Mark: r.Logs.Newest, Added: r.added,
	}
	if err := r.Record(e); err != nil {
		return 0, err
	}
	var tables []*manifest.Table
	for _, a := range r.added {
		tables = append(tables, a.Table)
	}
	r.Observer.Recovered(tables)
	for _, n := range logs {
		_ = r.Env.FS.Remove(filename.Make(r.Env.Dir, filename.Log, n)) // if it fails, the next Open does it
	}
	return e.LastSeq, nil
}

// read reads logs into memtables, and flushes each full one.
func (r *Replay) read(ctx context.Context, logs []uint64) error {
	for _, n := range logs {
		res, err := r.Logs.Read(n, r.add, func() error { return r.makeSpace(ctx) })
		if err != nil {
			return err
		}
		r.Observer.Replayed(n, res.Records, res.Torn)
	}
	return r.flush(ctx)
}

func (r *Replay) add(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
	if kind == ikey.Mark {
		return // Check has seen it
	}
	h := r.Seed.Mix(bloomblock.HashKey(key))
	// Nobody reads until all logs are read, so that all is like one record.
	r.mem.AddOps(1, []memtable.Op{{Seq: seq, Kind: kind, Key: key, Value: value, Hash: h}})
}

func (r *Replay) makeSpace(ctx context.Context) error {
	if r.mem.Bytes() < r.MemtableSize {
		return nil
	}
	return r.flush(ctx)
}

// flush writes the memtable to tables, or without Record keeps it, and begins another.
func (r *Replay) flush(ctx context.Context) error {
	if r.mem.Len() == 0 {
		return nil
	}
	r.mem.Freeze()
	if r.Record == nil {
		r.frozen = slices.Insert(r.frozen, 0, r.mem)
	} else {
		res, err := compaction.Flush(ctx, r.mem.Flush(), r.mem.RangeDels().List(nil), r.Env)
		if err != nil {
			return err
		}
		r.added = append(r.added, compaction.NewRun(res.Tables)...)
	}
	r.mem = memtable.New(r.mem.CommonPrefix(), r.mem.Keys(), r.MemtableSize)
	return nil
}
