package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

type pebbleSource struct{ *pebble.DB }

func openPebble(path string) (source, error) {
	if err := isStore(path, "marker.manifest.*", "CURRENT"); err != nil {
		return nil, err
	}
	db, err := pebble.Open(path, &pebble.Options{
		ReadOnly: true, ErrorIfNotExists: true, Logger: silent{},
		DisableTableStats: true, // a goroutine that reads tables
		EventListener: &pebble.EventListener{
			DataCorruption: func(pebble.DataCorruptionInfo) {}, // a call returns the error
		},
	})
	if errors.Is(err, syscall.EAGAIN) {
		err = errInUse
	}
	if err != nil {
		return nil, err
	}
	s := &pebbleSource{db}
	if err := s.checkTables(path); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// checkTables returns an error if the directory has a table that the store does not know. Pebble takes a damaged record
// for the end of its manifest, which may have named newer tables.
func (s *pebbleSource) checkTables(path string) error {
	levels, err := s.SSTables()
	if err != nil {
		return err
	}
	known := make(map[string]bool)
	for _, tables := range levels {
		for _, t := range tables {
			known[t.BackingSSTNum.String()+".sst"] = true
		}
	}
	other, err := find(path, func(name string) bool { return strings.HasSuffix(name, ".sst") && !known[name] })
	if other != "" {
		err = fmt.Errorf("%s is not in the manifest: the store was not closed, or its manifest is damaged; after "+
			"a backup, open and close it once with its own program", other)
	}
	return err
}

// silent is a logger that discards everything. A fatal message, after which Pebble expects the process to end, panics.
type silent struct{}

func (silent) Infof(string, ...any)                {}
func (silent) Errorf(string, ...any)               {}
func (silent) Fatalf(format string, values ...any) { panic(fmt.Sprintf(format, values...)) }

func (s *pebbleSource) each(_ *losses, f func(bloomkv.KV) error) error {
	if err := s.noRangeKeys(); err != nil {
		return err
	}
	it, err := s.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(bloomkv.KV{Key: it.Key(), Value: value})
		}
		if err != nil {
			return cmp.Or(err, it.Close())
		}
	}
	return it.Close() // also the error that ended the loop
}

// noRangeKeys returns an error if the store has a range key.
func (s *pebbleSource) noRangeKeys() error {
	it, err := s.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypeRangesOnly})
	if err != nil {
		return err
	}
	if it.First() {
		err = fmt.Errorf("range keys, the first at %s: a bloomkv store has none", words.Escaped(it.Key(), 64))
	}
	return errors.Join(err, it.Close())
}
