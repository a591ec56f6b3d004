// Package own adapts a bloomkv.DB to workload.Store.
package own

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// A Store is a DB on which phases can run.
type Store struct {
	*bloomkv.DB // replaced by Reopen

	dir     string
	options bloomkv.Options
}

var _ workload.FullStore = (*Store)(nil)

// errForeign is returned by Reopen for a DB that was not opened by Open.
var errForeign = errors.New("reopen: the store was not opened by Open, so its options are not known")

// Open calls bloomkv.Open for a store that [Store.Reopen] can open again. The options may be nil. Writes do not wait
// for the disk, except in PutSync, whatever Options.Durability is.
func Open(dir string, options *bloomkv.Options) (*Store, error) {
	s := &Store{dir: dir}
	if options != nil {
		s.options = *options
	}
	s.options.Durability = bloomkv.DurabilityNoSync
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// open leaves the DB unchanged if it fails, so that a closed DB can be closed again.
func (s *Store) open() error {
	db, err := bloomkv.Open(s.dir, &s.options)
	if err == nil {
		s.DB = db
	}
	return err
}

// Reopen closes the DB and opens it again with the same options. The store must not be used in the meantime.
func (s *Store) Reopen() (opening time.Duration, err error) {
	if s.dir == "" {
		return 0, errForeign
	}
	if err := s.DB.Close(); err != nil {
		return 0, err
	}
	begin := time.Now()
	err = s.open()
	return time.Since(begin), err
}

// AppendGet returns false if the DB returns ErrNotFound.
func (s *Store) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	out, err = s.DB.AppendGet(dst, key)
	if errors.Is(err, bloomkv.ErrNotFound) {
		return out, false, nil
	}
	return out, err == nil, err
}

// batches are recycled, as an application would do.
var batches = sync.Pool{New: func() any { return new(bloomkv.Batch) }}

// PutSync syncs the log, whatever the options are.
func (s *Store) PutSync(key, value []byte) error {
	b := batches.Get().(*bloomkv.Batch) //nolint:errcheck // the pool holds nothing else
	b.Put(key, value)
	return s.apply(b, bloomkv.DurabilitySync)
}

// Apply copies the pairs into a batch of the DB, as an application would do.
func (s *Store) Apply(pairs workload.Batch) error {
	b := batches.Get().(*bloomkv.Batch) //nolint:errcheck // the pool holds nothing else
	for key, value := range pairs.All() {
		b.Put(key, value)
	}
	return s.apply(b, bloomkv.DurabilityNoSync)
}

// apply applies a batch of the pool and gives it back.
func (s *Store) apply(b *bloomkv.Batch, d bloomkv.Durability) error {
	err := s.DB.ApplyWith(b, d)
	b.Reset()
	batches.Put(b)
	return err
}

// Scan calls each for up to limit pairs, until each returns an error.
func (s *Store) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	it := s.Iter(bloomkv.IterOptions{Lower: from})
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if err := each(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
		if n++; n == limit {
			break
		}
	}
	return it.Close()
}

// Settle waits until there is nothing left to flush or compact.
func (s *Store) Settle(ctx context.Context) error {
	for !s.Metrics().Settled {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// Compact merges everything into the last level.
func (s *Store) Compact(ctx context.Context) error {
	return s.DB.Compact(ctx, bloomkv.CompactOptions{})
}
