package main

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/bloomkv/bloomkv/internal/workload"
)

// pebbleL6 is the column of Pebble asked in the way that uses all its filters.
const pebbleL6 = "pebble-l6"

// peer is Pebble, asked with DB.Get, which never asks the filters of the last level.
type peer struct {
	db  *pebble.DB // replaced by Reopen
	dir string
}

// peerL6 is Pebble asked with SeekPrefixGE on one iterator for all lookups, which asks every filter. It is for one
// goroutine, and sees the store as it was at the first lookup.
type peerL6 struct {
	*peer

	iter *pebble.Iterator
}

// silent discards what Pebble logs, but not what is fatal.
type silent struct{ pebble.Logger }

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

func openPebble(dir string) (engine, error) {
	s := &peerL6{peer: &peer{dir: dir}}
	return s, s.open()
}

func (s *peer) open() (err error) {
	o := &pebble.Options{
		CacheSize:                   cacheBytes,
		MemTableSize:                memtableBytes,
		MemTableStopWritesThreshold: 2,
		L0CompactionThreshold:       levelZeroRuns,
		LBaseMaxBytes:               baseLevelBytes,
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, background },
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      silent{pebble.DefaultLogger},
	}
	o.Experimental.LevelMultiplier = levelRatio
	for i := range o.Levels {
		o.TargetFileSizes[i] = tableBytes
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	s.db, err = pebble.Open(s.dir, o)
	return err
}

func (s *peer) Reopen() (opening time.Duration, err error) {
	if err := s.db.Close(); err != nil {
		return 0, err
	}
	begin := time.Now()
	err = s.open()
	return time.Since(begin), err
}

func (s *peerL6) lookups() []lookup { return []lookup{{pebbleL6, s}, {"pebble", s.peer}} }

func (s *peerL6) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	if s.iter == nil {
		if s.iter, err = s.db.NewIter(&pebble.IterOptions{UseL6Filters: true}); err != nil {
			return dst, false, err
		}
	}
	if !s.iter.SeekPrefixGE(key) || !bytes.Equal(s.iter.Key(), key) {
		return dst, false, s.iter.Error()
	}
	value, err := s.iter.ValueAndErr()
	return append(dst, value...), err == nil, err
}

func (s *peerL6) GetMany(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	return oneByOne(s, keys, each)
}

func (s *peerL6) Reopen() (opening time.Duration, err error) {
	if err := s.forget(); err != nil {
		return 0, err
	}
	return s.peer.Reopen()
}

func (s *peerL6) Close() error { return errors.Join(s.forget(), s.peer.Close()) }

// forget closes the iterator.
func (s *peerL6) forget() error {
	if s.iter == nil {
		return nil
	}
	iter := s.iter
	s.iter = nil
	return iter.Close()
}

func (s *peer) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, err
	}
	dst = append(dst, value...)
	return dst, true, closer.Close()
}

func (s *peer) GetMany(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	return oneByOne(s, keys, each)
}

func (s *peer) Put(key, value []byte) error { return s.db.Set(key, value, pebble.NoSync) }

func (s *peer) PutSync(key, value []byte) error { return s.db.Set(key, value, pebble.Sync) }

// PutIfAbsent looks the key up with Get: an iterator would not see what was put after it was made.
func (s *peer) PutIfAbsent(key, value []byte) (bool, error) { return checkAndPut(s, key, value) }

func (s *peer) Delete(key []byte) error { return s.db.Delete(key, pebble.NoSync) }

func (s *peer) Apply(pairs workload.Batch) error {
	b := s.db.NewBatch()
	for key, value := range pairs.All() {
		if err := b.Set(key, value, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(pebble.NoSync), b.Close())
}

func (s *peer) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from})
	if err != nil {
		return err
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = each(it.Key(), value)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if n++; n == limit {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func (s *peer) Flush(context.Context) error { return s.db.Flush() }

func (s *peer) Settle(ctx context.Context) error {
	return quiet(ctx, func() ([]int64, bool) {
		m := s.db.Metrics()
		return []int64{m.Flush.Count, m.Compact.Count}, m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0
	})
}

// Compact takes all keys up to a few bytes of 0xff, which the workload has none of.
func (s *peer) Compact(ctx context.Context) error {
	return s.db.Compact(ctx, nil, bytes.Repeat([]byte{0xff}, 64), true)
}

func (s *peer) Close() error { return s.db.Close() }
