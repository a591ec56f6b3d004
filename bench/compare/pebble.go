package main

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/bloomkv/bloomkv/internal/workload"
)

// pebbleL6 is the column of Pebble asked in the way that uses all its filters.
const pebbleL6 = "pebble-l6"

// peer is Pebble, asked with DB.Get, which never asks the filters of the last level.
type peer struct{ db *pebble.DB }

// peerL6 is Pebble asked with SeekPrefixGE on one iterator for all lookups, which asks every filter. It is for one
// goroutine, and sees the store as it was at the first lookup.
type peerL6 struct {
	peer

	iter *pebble.Iterator
}

// silent discards what Pebble logs, but not what is fatal.
type silent struct{ pebble.Logger }

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

func openPebble(dir string) (engine, error) {
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
	db, err := pebble.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &peerL6{peer: peer{db}}, nil
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

func (s *peerL6) Close() error {
	var err error
	if s.iter != nil {
		err = s.iter.Close()
	}
	return errors.Join(err, s.peer.Close())
}

func (s peer) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
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

func (s peer) Put(key, value []byte) error { return s.db.Set(key, value, pebble.NoSync) }

func (s peer) Apply(pairs workload.Batch) error {
	b := s.db.NewBatch()
	for key, value := range pairs.All() {
		if err := b.Set(key, value, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(pebble.NoSync), b.Close())
}

func (s peer) Scan(from []byte, limit int, each func(key, value []byte) error) error {
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

func (s peer) Flush(context.Context) error { return s.db.Flush() }

func (s peer) Settle(ctx context.Context) error {
	return quiet(ctx, func() ([]int64, bool) {
		m := s.db.Metrics()
		return []int64{m.Flush.Count, m.Compact.Count}, m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0
	})
}

// Compact takes all keys up to a few bytes of 0xff, which the workload has none of.
func (s peer) Compact(ctx context.Context) error {
	return s.db.Compact(ctx, nil, bytes.Repeat([]byte{0xff}, 64), true)
}

func (s peer) Close() error { return s.db.Close() }
