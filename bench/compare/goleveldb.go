package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// goleveldbStore is goleveldb.
type goleveldbStore struct {
	dir     string
	options *opt.Options
	db      *leveldb.DB
}

func openGoleveldb(dir string, s settings) (engine, error) {
	e := &goleveldbStore{dir: dir, options: &opt.Options{
		WriteBuffer:         int(s.memtable),
		BlockCacheCapacity:  int(s.cache),
		BlockSize:           blockBytes,
		CompactionL0Trigger: levelZeroRuns,
		CompactionTableSize: tableBytes,
		// it limits level n to this size times the multiplier to the power of n, and the first sorted level is level 1
		CompactionTotalSize:           baseLevelBytes / levelRatio,
		CompactionTotalSizeMultiplier: levelRatio,
		Compression:                   opt.NoCompression,
		Filter:                        filter.NewBloomFilter(filterBits),
		DisableSeeksCompaction:        true, // lookups must not change the tree
	}}
	return e, e.open()
}

func (s *goleveldbStore) open() (err error) {
	s.db, err = leveldb.OpenFile(s.dir, s.options)
	return err
}

func (s *goleveldbStore) Reopen() (time.Duration, error) { return reopened(s.Close, s.open) }

func (s *goleveldbStore) lookups() []view { return []view{whole(s)} }

func (s *goleveldbStore) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	value, err := s.db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return dst, false, nil
	}
	return append(dst, value...), err == nil, err
}

func (s *goleveldbStore) Put(key, value []byte) error { return s.db.Put(key, value, nil) }

func (s *goleveldbStore) PutSync(key, value []byte) error {
	return s.db.Put(key, value, &opt.WriteOptions{Sync: true})
}

func (s *goleveldbStore) Apply(pairs workload.Batch) error {
	var b leveldb.Batch
	for key, value := range pairs.All() {
		b.Put(key, value)
	}
	return s.db.Write(&b, nil)
}

func (s *goleveldbStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	it := s.db.NewIterator(nil, nil)
	defer it.Release()
	return scanGoleveldb(it, from, limit, each)
}

func (s *goleveldbStore) kept() (view, error) {
	it := s.db.NewIterator(nil, nil)
	return view{scanner[iterator.Iterator]{s, it, scanGoleveldb}, func() error {
		it.Release()
		return nil
	}}, nil
}

func scanGoleveldb(it iterator.Iterator, from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for ok := it.Seek(from); ok; ok = it.Next() {
		if err := each(it.Key(), it.Value()); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return it.Error()
}

// Flush opens and discards a transaction, which writes the memtable.
func (s *goleveldbStore) Flush(context.Context) error {
	t, err := s.db.OpenTransaction()
	if err != nil {
		return err
	}
	t.Discard()
	return nil
}

func (s *goleveldbStore) Settle(ctx context.Context) error {
	return quiet(ctx, func() ([]int64, bool, error) {
		var st leveldb.DBStats
		if err := s.db.Stats(&st); err != nil {
			return nil, false, fmt.Errorf("goleveldb's figures: %w", err)
		}
		files := 0
		if len(st.LevelTablesCounts) > 0 {
			files = st.LevelTablesCounts[0]
		}
		compactions := int64(st.MemComp) + int64(st.Level0Comp) + int64(st.NonLevel0Comp) + int64(st.SeekComp)
		return []int64{compactions, int64(st.IOWrite)}, files < levelZeroRuns, nil //nolint:gosec // of a benchmark
	})
}

func (s *goleveldbStore) Compact(context.Context) error { return s.db.CompactRange(util.Range{}) }

func (s *goleveldbStore) Close() error { return s.db.Close() }
