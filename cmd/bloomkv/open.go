package main

import (
	"errors"

	"github.com/bloomkv/bloomkv"
)

// openToRead opens a store that is there, and changes nothing.
func openToRead(dir string) (*bloomkv.DB, error) {
	if err := storeDir(dir); err != nil {
		return nil, err
	}
	o := new(writeFlags).kept(dir, bloomkv.Options{ReadOnly: true})
	return bloomkv.Open(dir, &o)
}

// with opens a store, runs body on it and closes it, whatever body says.
func with(db *bloomkv.DB, err error, body func(db *bloomkv.DB) error) error {
	if err != nil {
		return err
	}
	return errors.Join(body(db), db.Close())
}

// create opens a store, creating it if necessary, and runs body on it. A store that was made is removed again
// after an error, unless body wants to keep it.
func (w *writeFlags) create(dir string, body func(db *bloomkv.DB, isNew bool) (keep bool, err error)) error {
	s, err := look(dir)
	if err != nil {
		return err
	}
	keep := false
	db, err := w.open(dir, bloomkv.Options{})
	err = with(db, err, func(db *bloomkv.DB) (err error) {
		keep, err = body(db, s.isNew)
		return err
	})
	if err != nil && s.isNew && !keep {
		err = errors.Join(err, s.remove())
	}
	return err
}
