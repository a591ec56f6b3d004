package main

import (
	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/workload/own"
)

// ours is the store of this repository.
type ours struct{ *own.Store }

func openBloomkv(dir string) (engine, error) {
	s, err := own.Open(dir, &bloomkv.Options{
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
	return ours{s}, nil
}

func (s ours) lookups() []lookup { return []lookup{{"bloomkv", s}} }
