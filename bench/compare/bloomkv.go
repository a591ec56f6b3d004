package main

import (
	"errors"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

// bloomkvStore is the store of this repository.
type bloomkvStore struct{ *own.Store }

func openBloomkv(dir string, s settings) (engine, error) {
	// The store reserves the memory of its memtables, at most half of the total; the rest is for blocks, filters and
	// indexes. With a small cache the settings have small memtables too.
	store, err := own.Open(dir, &bloomkv.Options{
		FilterFPR:    promisedFPR,
		MemoryBudget: s.cache + 2*s.memtable,
		MemtableSize: s.memtable,
		BlockSize:    blockBytes,
		TableSize:    tableBytes,
		LevelRatio:   levelRatio,
		Compression:  bloomkv.CompressionNone,
	})
	if err != nil {
		return nil, err
	}
	return bloomkvStore{store}, nil
}

// promisedFPR is the rate that ten bits per key give.
const promisedFPR = 0.01

func (s bloomkvStore) lookups() []view { return []view{whole(s)} }

func (s bloomkvStore) blockReads() uint64 {
	l := s.Metrics().Lookups
	return l.BlocksRead + l.TailLoads
}

func (s bloomkvStore) filterBytes() (int64, error) { //nolint:unparam // see filterMemory
	return s.Metrics().Memory.Filters, nil
}

func (s bloomkvStore) kept() (view, error) {
	it := s.Iter(bloomkv.IterOptions{})
	return view{scanner[*bloomkv.Iterator]{s, it, scanBloomkv}, it.Close}, nil
}

func scanBloomkv(it *bloomkv.Iterator, from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for ok := it.SeekGE(from); ok; ok = it.Next() {
		if err := each(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Err())
		}
		if n++; n == limit {
			break
		}
	}
	return it.Err()
}
