package bloomkv

import (
	"errors"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Every change of the tree takes the same way: the tables are durable, then their names, then the edit in the manifest;
// only then is the new state what readers see, and only after that may inputs and old logs go.

// install makes an edit and the tables it adds part of the tree; those it takes from another level are known. done is called
// once that has happened. When install returns, filters are in memory as the plan of the new tree has them, as far as there is
// room; whoever has seen the new state before can wait for that by installMu.
func (db *DB) install(e *manifest.Edit, c tree.Change, done func()) error {
	if len(e.Added) > 0 {
		if err := db.opts.FS.SyncDir(db.dir); err != nil {
			return db.tree.Fail(err)
		}
	}
	fresh := db.tree.Fresh(e)
	for _, t := range fresh {
		if err := db.share.Load(t); err != nil { // it must be readable before anything relies on it
			return errors.Join(err, db.forget(fresh, true))
		}
	}
	db.installMu.Lock()
	defer db.installMu.Unlock()
	old, now, uncertain, err := db.tree.Install(e, fresh, c)
	if err != nil {
		return errors.Join(err, db.forget(fresh, !uncertain)) // the manifest may name them, if that is uncertain
	}
	done()
	db.share.Follow(old, now, e.Deleted)
	db.share.Restore(db.ctx)
	return nil
}

// forget lets go of tables that are in no state, and removes their files where nothing can name them.
func (db *DB) forget(tables []*tree.Table, remove bool) error {
	var errs []error
	for _, t := range tables {
		errs = append(errs, db.share.ReleaseTable(t))
		if remove {
			errs = append(errs, db.opts.FS.Remove(t.File.Path))
		}
	}
	return errors.Join(errs...)
}

// removeDead removes the tables that no state names any more.
func (db *DB) removeDead() error {
	var errs []error
	dead := db.tree.TakeDead()
	for _, t := range dead {
		closeErr, err := db.share.ReleaseTable(t), db.opts.FS.Remove(t.File.Path)
		if err == nil {
			db.report.removed(db.report.infoOf(int(t.Level.Load()), t.Meta))
		}
		errs = append(errs, closeErr, err)
	}
	if len(dead) > 0 {
		db.share.Offer()
	}
	return errors.Join(errs...)
}
