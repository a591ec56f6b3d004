package main

import (
	"errors"
	"strings"
	"syscall"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/bloomkv/bloomkv"
)

type goleveldbSource struct{ *leveldb.DB }

func openGoleveldb(path string) (source, error) {
	if err := isStore(path, "CURRENT"); err != nil {
		return nil, err
	}
	// RocksDB and Pebble have this file, LevelDB has not. goleveldb could take their manifests for its own.
	other, err := find(path, func(name string) bool { return strings.HasPrefix(name, "OPTIONS-") })
	if err != nil || other != "" {
		return nil, errors.Join(err, errors.New("a store of RocksDB or Pebble, not of goleveldb or LevelDB"))
	}
	db, err := leveldb.OpenFile(path, &opt.Options{ReadOnly: true, ErrorIfMissing: true, Strict: opt.StrictAll})
	if errors.Is(err, syscall.EAGAIN) {
		err = errInUse
	}
	if err != nil {
		return nil, err
	}
	return &goleveldbSource{db}, nil
}

func (s *goleveldbSource) each(_ *losses, f func(bloomkv.KV) error) error {
	it := s.NewIterator(nil, &opt.ReadOptions{DontFillCache: true, Strict: opt.StrictAll})
	defer it.Release()
	for it.Next() {
		if err := f(bloomkv.KV{Key: it.Key(), Value: it.Value()}); err != nil {
			return err
		}
	}
	return it.Error()
}
