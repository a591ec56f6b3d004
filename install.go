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
		if err := db.load(t); err != nil { // it must be readable before anything relies on it
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
	db.dropReplaced(old, now, e.Deleted)
	_ = db.replan(now) // where too many keys came, tables go without a filter
	moved := map[uint64]bool{}
	for _, d := range e.Deleted {
		moved[d.Number] = true
	}
	now.EachTable(func(_ int, t *tree.Table) {
		if moved[t.Meta.Number] {
			db.trim(t)
		}
	})
	db.res.rebalance() // of the tables that stay: until now those of the old state stood for them
	db.restore()
	return nil
}

// dropReplaced drops the filters of tables that an edit took out of the tree, so that they need no room beside those that take their
// place. Who still reads the old state searches these tables as if their filters said maybe.
func (db *DB) dropReplaced(old, now *tree.State, deleted []manifest.Deleted) {
	gone := map[uint64]bool{}
	for _, d := range deleted {
		gone[d.Number] = true
	}
	now.EachTable(func(_ int, t *tree.Table) { delete(gone, t.Meta.Number) })
	if len(gone) == 0 {
		return
	}
	old.EachTable(func(_ int, t *tree.Table) {
		if gone[t.Meta.Number] {
			t.Loading.Lock()
			t.Kept.Store(0)
			t.Reader.Shed(0, false)
			db.res.count(db, t)
			t.Loading.Unlock()
		}
	})
}

// forget lets go of tables that are in no state, and removes their files where nothing can name them.
func (db *DB) forget(tables []*tree.Table, remove bool) error {
	var errs []error
	for _, t := range tables {
		errs = append(errs, db.releaseTable(t))
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
		closeErr, err := db.releaseTable(t), db.opts.FS.Remove(t.File.Path)
		if err == nil {
			db.report.removed(db.report.infoOf(int(t.Level.Load()), t.Meta))
		}
		errs = append(errs, closeErr, err)
	}
	if len(dead) > 0 {
		db.res.offer()
	}
	return errors.Join(errs...)
}
