package bloomkv

import (
	"errors"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Every change of the tree follows one order (I13): the tables become durable, then their names, then the edit in the
// manifest. Then readers see the new state. Only after that may inputs and old logs be removed.

// install makes an edit and the tables it adds part of the tree. Tables that the edit moves from another level are
// already known. install calls done once the edit is in effect. When it returns, filters in memory follow the plan of
// the new tree, as far as there is memory. A goroutine that has seen the new state earlier can wait for that by
// locking installMu.
func (db *DB) install(e *manifest.Edit, c tree.Change, done func()) error {
	if len(e.Added) > 0 {
		if err := db.opts.FS.SyncDir(db.dir); err != nil {
			return db.tree.Fail(err)
		}
	}
	fresh := db.tree.Fresh(e)
	for _, t := range fresh {
		if err := db.share.Load(t); err != nil { // it must be readable before anything depends on it (I27)
			return errors.Join(err, db.forget(fresh, true))
		}
	}
	db.installMu.Lock()
	defer db.installMu.Unlock()
	old, now, uncertain, err := db.tree.Install(e, fresh, c)
	if err != nil {
		return errors.Join(err, db.forget(fresh, !uncertain)) // if it is uncertain, the manifest may name them
	}
	done()
	db.share.Follow(old, now, e.Deleted)
	db.share.Restore(db.tree.Life())
	return nil
}

// forget releases tables that are in no state. If remove is true, because nothing can name them, it removes their
// files.
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
