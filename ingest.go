package bloomkv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// IngestOptions say what an Ingest does beside storing.
type IngestOptions struct {
	// Replace, if not nil, is a range whose keys are deleted in the same step, except for those that are ingested, also where
	// nothing is. A zero KeyRange is the whole store. The bounds are copied.
	Replace *KeyRange
}

// Ingest stores a whole sequence of keys and values at once: it writes them straight into tables, without log and memtable,
// and makes them part of the store in one step: readers and crashes see all of them or none. It is the fast way to load many
// keys. They replace what the store holds under them. When it returns nil they are durable.
//
// The keys must be in strictly ascending bytewise order, else the error Is [ErrOrder]; an error that the sequence yields is
// returned as it is. The slices are read before the next step, and not kept: what [DB.Scan] of another store yields may be
// passed on. After an error, and when ctx ends before the last step, nothing has changed and nothing is left behind. Other
// writers wait for that last step only, which is short. The sequence may read and write this store, but must not
// close it: Close waits for it. Other errors are ErrTooLarge, ErrReadOnly, ErrClosed, those of ctx and of the file system.
func (db *DB) Ingest(ctx context.Context, sorted iter.Seq2[KV, error], opts IngestOptions) (err error) {
	if err := db.tree.Writable(); err != nil {
		return err
	}
	ctx, end, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }() // also where the sequence panics
	return db.ingest(ctx, sorted, opts)
}

func (db *DB) ingest(ctx context.Context, sorted iter.Seq2[KV, error], opts IngestOptions) error {
	began := time.Now()
	tables, err := db.writeSorted(ctx, sorted, opts)
	if err != nil || len(tables) == 0 {
		return err
	}
	seq, err := db.takeIn(ctx, tables)
	if err != nil {
		return err
	}
	var size, entries uint64
	for _, t := range tables {
		size += t.Size
		entries += t.Entries
	}
	db.writes.ingests.Add(1)
	db.writes.ingestBytes.Add(size)
	db.report.ingested(IngestInfo{len(tables), size, entries, uint64(seq), time.Since(began)}, db.report.infosOf(0, tables))
	return nil
}

// writeSorted writes a sequence into tables, and the range that it replaces. After an error no file is left.
func (db *DB) writeSorted(ctx context.Context, sorted iter.Seq2[KV, error], opts IngestOptions) ([]*manifest.Table, error) {
	seq := ikey.Seq(0) // of every version until takeIn gives them another; 0 costs no byte
	var dels rangedel.List
	if r := opts.Replace; r != nil {
		lo, hi := bytes.Clone(cutBound(r.Lower)), bytes.Clone(cutBound(r.Upper))
		if hi == nil || bytes.Compare(lo, hi) < 0 {
			seq = 1 // what is ingested lives beside a tombstone of its own number
			dels = rangedel.Fragmented([]rangedel.Tombstone{{Start: lo, End: hi, Seq: seq}})
		}
	}
	load := compaction.NewLoader(db.env(0), dels)
	finished := false
	defer func() {
		if !finished { // also where the sequence panics
			load.Abandon()
		}
	}()
	var last []byte
	n := 0
	for kv, err := range sorted {
		switch {
		case err != nil:
			return nil, err
		case len(kv.Key) > MaxKeySize:
			return nil, fmt.Errorf("bloomkv: ingest: key of %d bytes, want at most %d: %w", len(kv.Key), MaxKeySize, ErrTooLarge)
		case len(kv.Value) > MaxValueSize:
			return nil, fmt.Errorf("bloomkv: ingest: value of %d bytes, want at most %d: %w", len(kv.Value), MaxValueSize, ErrTooLarge)
		case n > 0 && bytes.Compare(last, kv.Key) >= 0:
			return nil, fmt.Errorf("bloomkv: ingest: key %d, %.64q, after %.64q: %w", n+1, kv.Key, last, ErrOrder)
		case ctx.Err() != nil: // a look at each key: the sequence may take its time
			return nil, ctx.Err()
		}
		if err := load.Add(ikey.Key{User: kv.Key, Trailer: ikey.MakeTrailer(seq, ikey.Set)}, kv.Value); err != nil {
			return nil, err
		}
		last = append(last[:0], kv.Key...)
		n++
	}
	finished = true
	return load.Finish(ctx)
}

// takeIn makes new tables the newest run of the store, under one sequence number. They are removed if that fails.
func (db *DB) takeIn(ctx context.Context, tables []*manifest.Table) (seq ikey.Seq, err error) {
	installing := false
	defer func() {
		if err == nil || installing { // else install has removed them, or cannot know whether the manifest names them
			return
		}
		for _, t := range tables {
			err = errors.Join(err, db.opts.FS.Remove(filename.Make(db.dir, filename.Table, t.Number)))
		}
	}()
	// Everything in memory is older than what comes, and its logs must end before the number that is taken. Most of it is
	// written out before writers have to wait.
	if err := db.Flush(ctx); err != nil {
		return 0, err
	}
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	if err := db.waitForRoom(ctx); err != nil {
		return 0, err
	}
	if db.tree.Load().Mem.Len() > 0 {
		db.rotate()
	}
	if err := db.tree.Wait(ctx, func(v tree.View) bool { return len(v.Flushing) == 0 }); err != nil {
		return 0, err
	}
	if err := cmp.Or(db.tree.Writable(), ctx.Err()); err != nil {
		return 0, err
	}
	run, err := db.tree.NewNumber() // higher than those of all flushes before
	if err != nil {
		return 0, err
	}
	seq = db.lastSeq + 1
	e := &manifest.Edit{LastSeq: seq}
	for _, t := range tables {
		t.Flags |= manifest.SeqOverridden
		t.MinSeq, t.MaxSeq = seq, seq
		e.Added = append(e.Added, manifest.Added{Level: 0, Run: run, Table: t})
	}
	db.read.DeadKeys.Ingested(seq)
	installing = true
	err = db.install(e, tree.Change{Seq: seq}, func() { db.lastSeq = seq })
	return seq, err
}
