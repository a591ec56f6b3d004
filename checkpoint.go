package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomkv/bloomkv/internal/newstore"
)

// Checkpoint makes a copy of the store in dir. The copy contains every write that returned before the call, and of
// the writes that run concurrently a prefix, possibly empty; a batch is in it whole or not at all. When Checkpoint
// returns, the copy is durable. It is a store of its own.
//
// Checkpoint first writes out what is in memory, as Flush does. Tables never change, so they are not copied but get a
// second name (a hard link): they take additional disk space only after one of the two stores has replaced them.
// Where links are not possible, such as on another file system, tables are copied.
//
// dir must not exist or must be an empty directory, otherwise the error matches fs.ErrExist; its parent must exist.
// dir must not lie inside the directory of the store itself, not even through links. After any error, including that
// of ctx, Checkpoint removes what it made. A crash during the call leaves no store in dir: Open refuses the directory
// or finds nothing. With Options.ReadOnly, Checkpoint returns ErrReadOnly.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	var left error // by Abandon
	err := db.tree.Call(ctx, func(ctx context.Context) error {
		n := newstore.New(db.home.FS, dir, db.dir)
		err := n.Enter()
		if err == nil {
			err = db.copyTo(ctx, n)
		}
		if err != nil {
			left = n.Abandon()
		}
		return err
	})
	if left != nil {
		return fmt.Errorf("bloomkv: checkpoint %s: %w", dir, errors.Join(err, left))
	}
	return named(err, "checkpoint "+dir)
}

func (db *DB) copyTo(ctx context.Context, n *newstore.Store) error {
	began := time.Now()
	recorded, s := db.tree.Recorded() // not nil, since Close waits
	defer db.tree.Release(s)          // keeps its tables on the disk until then
	copied, err := n.Copy(ctx, recorded)
	if err == nil {
		db.report.checkpointMade(n.Dir(), recorded.Version, copied, time.Since(began))
	}
	return err
}
