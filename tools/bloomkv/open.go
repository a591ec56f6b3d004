package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/bloomkv/bloomkv"
)

// openToRead opens an existing store without changing it.
func openToRead(ctx context.Context, dir string) (*bloomkv.DB, error) {
	return openInMemory(ctx, dir, 0)
}

// openInMemory opens a store as openToRead does, with a MemoryBudget in bytes; 0 means 64 MiB, or enough for the
// FilterMemory of the store.
func openInMemory(ctx context.Context, dir string, budget int64) (*bloomkv.DB, error) {
	if err := storeDir(dir); err != nil {
		return nil, err
	}
	o := new(writeFlags).kept(dir, bloomkv.Options{ReadOnly: true})
	o.MemoryBudget = cmp.Or(budget, o.MemoryBudget)
	return bloomkv.OpenContext(ctx, dir, &o)
}

// with runs body on a store and closes it, even if body fails.
func with(db *bloomkv.DB, err error, body func(db *bloomkv.DB) error) error {
	if err != nil {
		return err
	}
	return errors.Join(body(db), db.Close())
}

// create opens a store, creating it if necessary, and runs body on it. If body fails, a store that was created is
// removed, unless body returns keep.
func (w *writeFlags) create(
	ctx context.Context, dir string, o bloomkv.Options, body func(db *bloomkv.DB, isNew bool) (keep bool, err error),
) error {
	s, err := look(dir)
	if err != nil {
		return err
	}
	keep := false
	db, err := w.open(ctx, dir, o)
	err = with(db, err, func(db *bloomkv.DB) (err error) {
		keep, err = body(db, s.isNew)
		return err
	})
	if err != nil && s.isNew && !keep {
		err = errors.Join(err, s.remove())
	}
	return err
}
