package main

import (
	"context"
	"errors"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// own is the store of this repository.
type own struct {
	*bloomkv.DB

	batch bloomkv.Batch
}

func openBloomkv(dir string) (engine, error) {
	db, err := bloomkv.Open(dir, &bloomkv.Options{
		Durability:    bloomkv.NoSync,
		FilterFPR:     0.01, // what ten bits per key give
		MemoryBudget:  cacheBytes + 2*memtableBytes,
		MemtableSize:  memtableBytes,
		BlockSize:     blockBytes,
		TableSize:     tableBytes,
		BaseLevelSize: baseLevelBytes,
		LevelRatio:    levelRatio,
		Compression:   bloomkv.NoCompression,
	})
	if err != nil {
		return nil, err
	}
	return &own{DB: db}, nil
}

func (s *own) lookups() []lookup { return []lookup{{"bloomkv", s}} }

func (s *own) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	out, err = s.DB.AppendGet(dst, key)
	if errors.Is(err, bloomkv.ErrNotFound) {
		return out, false, nil
	}
	return out, err == nil, err
}

func (s *own) Apply(pairs workload.Batch) error {
	s.batch.Reset()
	for key, value := range pairs.All() {
		s.batch.Put(key, value)
	}
	return s.DB.Apply(&s.batch, bloomkv.DefaultDurability)
}

func (s *own) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for kv, err := range s.DB.Scan(bloomkv.ScanOptions{Lower: from}) {
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

func (s *own) Settle(ctx context.Context) error {
	for !s.DB.Metrics().Settled {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (s *own) Compact(ctx context.Context) error { return s.DB.Compact(ctx, nil, nil) }
