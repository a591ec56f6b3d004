// Package own is the store of this repository as the workload knows one.
package own

import (
	"context"
	"errors"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// A Store is a DB to run phases on. Apply is for one goroutine at a time.
type Store struct {
	*bloomkv.DB

	batch bloomkv.Batch
}

var _ workload.Store = (*Store)(nil)

// AppendGet has false where the DB has ErrNotFound.
func (s *Store) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	out, err = s.DB.AppendGet(dst, key)
	if errors.Is(err, bloomkv.ErrNotFound) {
		return out, false, nil
	}
	return out, err == nil, err
}

// Apply copies the pairs into a batch of the DB, as a caller of it would.
func (s *Store) Apply(pairs workload.Batch) error {
	s.batch.Reset()
	for key, value := range pairs.All() {
		s.batch.Put(key, value)
	}
	return s.DB.Apply(&s.batch, bloomkv.DefaultDurability)
}

// Scan reads until each returns an error or limit pairs were read.
func (s *Store) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for kv, err := range s.DB.Scan(bloomkv.IterOptions{Lower: from}) {
		if err == nil {
			err = each(kv.Key, kv.Value)
		}
		if err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return nil
}

// Settle waits until nothing is left to flush or compact.
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
func (s *Store) Compact(ctx context.Context) error { return s.DB.Compact(ctx, nil, nil) }
