package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// foreignTable inspects a table of another store. It returns inspect.ErrNotForeign for another file.
func (i *inspection) foreignTable(ctx context.Context, name string) error {
	f, err := inspect.ReadForeign(ctx, name, i.options)
	if err != nil {
		return notOurs(err)
	}
	if err := i.checkForeign(); err != nil {
		return fmt.Errorf("%s is of %s: %w", filepath.Base(name), f.Store, err)
	}
	return notOurs(i.show(ctx, f, f.Wrong(), func() page { return f.Page() },
		func() { f.WriteText(i.Out, inspect.Style{Color: i.Color}) }))
}

// foreignStore inspects the tables in a directory of another store. It returns inspect.ErrNotForeign for another
// directory.
func (i *inspection) foreignStore(ctx context.Context, dir string) error {
	s, err := inspect.ReadForeignStore(ctx, dir, i.options)
	if err != nil {
		return notOurs(err)
	}
	if err := i.checkForeign(); err != nil {
		return err
	}
	return notOurs(i.show(ctx, s, s.Wrong(), func() page { return s.Page() },
		func() { s.WriteText(i.Out, inspect.Style{Color: i.Color}) }))
}

// checkForeign returns an error if the flags do not apply to tables of other stores.
func (i *inspection) checkForeign() error {
	switch {
	case i.options.Verify, i.options.Entries, i.hex:
		return errors.New("--verify, --entries and --hex are for tables of bloomkv")
	case len(i.options.WhatIf) > 0:
		return errors.New("--what-if is for stores of bloomkv")
	}
	return nil
}

// notOurs returns damage of a file of another store as an error without the advice for a damaged bloomkv store.
func notOurs(err error) error {
	if errors.Is(err, bloomkv.ErrCorruption) {
		return errors.New(err.Error())
	}
	return err
}
