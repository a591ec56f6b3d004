package bloomkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/intake"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// IngestOptions are options of Ingest.
type IngestOptions struct {
	// Replace, if not nil, is a range whose present keys are deleted in the same step. Ingested keys are not deleted.
	// The range is deleted even if nothing is ingested. The bounds are copied.
	Replace *KeyRange
	// Mark, if not nil, becomes the mark of the store in the same step, even if nothing is ingested: see DB.Mark. A
	// mark of length 0 removes the mark. It is copied, and has at most MaxMarkSize bytes.
	Mark []byte
}

// Ingest stores a whole sequence of keys and values at once. It writes them straight into tables, without log and
// memtable, and makes them part of the store in one step: readers see all of them or none, even after a crash. It is
// the fast way to load many keys. The new values replace existing ones. When Ingest returns nil, they are durable.
//
// The keys must be in strictly ascending bytewise order, otherwise the error matches [ErrOrder] (errors.Is). If the
// sequence yields an error, Ingest returns it as it is. Slices are read before the next step of the sequence and are
// not kept, so the results of [DB.Scan] of another store may be passed on. Other writers only wait for the last step,
// which is short. The sequence may read and write this store, but must not close it, since Close waits for Ingest.
//
// After an error, or if ctx ends before the last step, the store is unchanged and no file is left. The exception is a
// last step that fails and makes the store read-only: its files are then left for the next Open, which finds all of
// the keys or none. Other errors are ErrTooLarge, ErrReadOnly, ErrClosed, those of ctx and of the file system, and
// ErrNoSpace if the disk would have too little space left for later writes.
func (db *DB) Ingest(ctx context.Context, sorted iter.Seq2[KV, error], opts IngestOptions) error {
	if err := db.tree.Writable(); err != nil {
		return err
	}
	return db.tree.Call(ctx, func(ctx context.Context) error { return db.ingest(ctx, sorted, opts) })
}

func (db *DB) ingest(ctx context.Context, sorted iter.Seq2[KV, error], opts IngestOptions) error {
	began := time.Now()
	mark := bytes.Clone(opts.Mark)
	if err := batch.Check("mark", mark, batch.MaxMark); err != nil {
		return fmt.Errorf("bloomkv: %w", err)
	}
	env := db.work.Env(0)
	env.FS = db.work.Sparing()
	tables, err := intake.Sorted(ctx, env, sorted, (*intake.Range)(opts.Replace))
	if err != nil {
		return err
	}
	if len(tables) == 0 && mark != nil {
		var b Batch
		b.SetMark(mark)
		return db.ApplyWith(&b, DurabilitySync)
	}
	return db.takeIn(ctx, tables, mark, began)
}

// takeIn makes new tables, if there are some, the newest run of the store, under one sequence number, and reports that.
// A mark that is not nil is set with them. It removes them if that fails.
func (db *DB) takeIn(ctx context.Context, tables []*manifest.Table, mark []byte, began time.Time) error {
	if len(tables) == 0 {
		return nil
	}
	info := IngestInfo{Tables: len(tables)}
	// Everything in memory is older than the new tables, and its logs must end before the new sequence number.
	err := db.writer.Alone(ctx, 0, func(seq ikey.Seq) error {
		info.Sequence = uint64(seq)
		return db.work.Ingest(tables, seq, mark)
	})
	if err != nil && info.Sequence == 0 { // it was not tried
		err = errors.Join(err, db.work.Discard(tables))
	}
	if err != nil {
		return err
	}
	_ = db.work.WaitForFilters(ctx) // the tables are in the store even if ctx ends
	for _, t := range tables {
		info.Bytes += t.Size
		info.Versions += t.Entries
	}
	info.Duration = time.Since(began)
	db.report.ingested(info, tables)
	return nil
}

// IngestTables stores the keys of tables that were built elsewhere with a Writer of package sstable, in one step, as
// [DB.Ingest] does: readers see all of them or none, the new values replace existing ones, and when it returns nil,
// they are durable. The ranges of keys of the tables must not overlap, otherwise the error matches ErrOrder.
//
// The paths are names in the file system of the store. The files get a second name in the store's directory (a hard
// link), or are copied where that is not possible. They must never be changed afterwards; their own names may be
// removed. IngestTables reads their indexes and the headers of their filters, but no key: the Verify method of
// sstable.Reader does, and a table from an unreliable source should be verified before. A table without a filter, or
// with one that does not fit the store's options, is as good until a compaction rewrites it, but lookups read it more
// often.
//
// Damage is an error matching ErrCorruption. A table with several versions of a key or with range tombstones, such as
// one of another store, is refused. The error for a table that is in the store already matches ErrSameTable: tables are
// told apart by their random ids. Other errors are those of [DB.Ingest]; after an error nothing is left of the files in
// the store, with the same exception.
func (db *DB) IngestTables(ctx context.Context, paths ...string) error {
	if err := db.tree.Writable(); err != nil {
		return err
	}
	err := db.tree.Call(ctx, func(ctx context.Context) error { return db.ingestTables(ctx, paths) })
	return named(err, "ingest tables")
}

func (db *DB) ingestTables(ctx context.Context, paths []string) error {
	began := time.Now()
	t := &intake.Target{FS: db.work.Sparing(), Dir: db.dir, Numbers: db.tree}
	tables, err := t.Files(ctx, paths)
	if err != nil {
		return errors.Join(err, t.Abandon())
	}
	return db.takeIn(ctx, tables, nil, began)
}
