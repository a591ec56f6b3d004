package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomkv/bloomkv/internal/intake"
)

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
	ctx, end, err := db.tree.BeginCall(ctx)
	if err != nil {
		return err
	}
	if err = db.ingestTables(ctx, paths); err == nil {
		return end(nil)
	}
	if err = end(err); errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("bloomkv: ingest tables: %w", err)
}

func (db *DB) ingestTables(ctx context.Context, paths []string) error {
	began := time.Now()
	t := &intake.Target{FS: db.home.FS, Dir: db.dir, Numbers: db.tree}
	tables, err := t.Files(ctx, paths)
	if err != nil {
		if errors.Is(err, intake.ErrOverlap) {
			err = fmt.Errorf("%w: %w", ErrOrder, err)
		}
		return errors.Join(err, t.Abandon())
	}
	return db.ingestAll(ctx, tables, nil, began)
}
