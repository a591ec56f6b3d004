package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/bloomkv/bloomkv/tools/workload"
)

const (
	pebbleName  = "pebble"
	pebbleL6    = "pebble-l6"
	pebbleTuned = "pebble-tuned"
)

// pebbleStore is Pebble with DB.Get, which never uses the filters of the last level.
type pebbleStore struct {
	dir     string
	options *pebble.Options
	tuned   bool
	db      *pebble.DB

	written atomic.Uint64 // number of calls that changed the store, for lookups with kept iterators
}

// silent discards the log of Pebble, except fatal messages.
type silent struct{ pebble.Logger }

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

func openPebble(dir string, s settings) (engine, error) {
	p := newPebble(dir, s)
	return p, p.open()
}

// openPebbleTuned opens Pebble with single-level indexes and only the lookups that use all filters.
func openPebbleTuned(dir string, s settings) (engine, error) {
	p := newPebble(dir, s)
	p.tuned = true
	for i := range p.options.Levels {
		p.options.Levels[i].IndexBlockSize = math.MaxInt32
	}
	return p, p.open()
}

func newPebble(dir string, s settings) *pebbleStore {
	o := &pebble.Options{
		CacheSize:                   s.cache,
		MemTableSize:                uint64(s.memtable), //nolint:gosec // positive
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
	return &pebbleStore{dir: dir, options: o}
}

func (s *pebbleStore) open() (err error) {
	s.db, err = pebble.Open(s.dir, s.options)
	return err
}

func (s *pebbleStore) Reopen() (time.Duration, error) { return reopened(s.Close, s.open) }

// lookups returns a view with SeekPrefixGE on a kept iterator, which uses every filter. Each goroutine keeps its
// iterator between lookups and makes a new one if the store has changed, because an iterator never sees later writes.
func (s *pebbleStore) lookups() []view {
	all := &keeper[*pebble.Iterator]{
		Store: s, changes: &s.written, get: appendPrefix, close: (*pebble.Iterator).Close,
		open: func() (*pebble.Iterator, error) { return s.db.NewIter(&pebble.IterOptions{UseL6Filters: true}) },
	}
	if s.tuned {
		return []view{all.view()}
	}
	return []view{whole(s), all.view()}
}

func appendPrefix(it *pebble.Iterator, dst, key []byte) (out []byte, found bool, err error) {
	if !it.SeekPrefixGE(key) || !bytes.Equal(it.Key(), key) {
		return dst, false, it.Error()
	}
	value, err := it.ValueAndErr()
	return append(dst, value...), err == nil, err
}

func (s *pebbleStore) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
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

func (s *pebbleStore) Put(key, value []byte) error {
	defer s.written.Add(1)
	return s.db.Set(key, value, pebble.NoSync)
}

func (s *pebbleStore) PutSync(key, value []byte) error {
	defer s.written.Add(1)
	return s.db.Set(key, value, pebble.Sync)
}

func (s *pebbleStore) Apply(pairs workload.Batch) error {
	defer s.written.Add(1)
	b := s.db.NewBatch()
	for key, value := range pairs.All() {
		if err := b.Set(key, value, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(pebble.NoSync), b.Close())
}

func (s *pebbleStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	return errors.Join(scanPebble(it, from, limit, each), it.Close())
}

func (s *pebbleStore) kept() (view, error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return view{}, err
	}
	return view{scanner[*pebble.Iterator]{s, it, scanPebble}, it.Close}, nil
}

func scanPebble(it *pebble.Iterator, from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for ok := it.SeekGE(from); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = each(it.Key(), value)
		}
		if err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return it.Error()
}

func (s *pebbleStore) Flush(context.Context) error { return s.db.Flush() }

func (s *pebbleStore) Settle(ctx context.Context) error {
	return quiet(ctx, func() ([]int64, bool, error) {
		m := s.db.Metrics()
		idle := m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0
		return []int64{m.Flush.Count, m.Compact.Count}, idle, nil
	})
}

// Compact covers all keys up to a few bytes of 0xff, which no key of the workload has.
func (s *pebbleStore) Compact(ctx context.Context) error {
	return s.db.Compact(ctx, nil, bytes.Repeat([]byte{0xff}, 64), true)
}

func (s *pebbleStore) blockReads() uint64 { return uint64(s.db.Metrics().BlockCache.Misses) } //nolint:gosec // a count

func (s *pebbleStore) filterBytes() (sum int64, err error) {
	levels, err := s.db.SSTables(pebble.WithProperties())
	for _, tables := range levels {
		for _, t := range tables {
			sum += int64(t.Properties.FilterSize) //nolint:gosec // of a table
		}
	}
	return sum, err
}

func (s *pebbleStore) Close() error { return s.db.Close() }
