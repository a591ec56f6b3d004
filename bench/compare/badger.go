package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// badgerStore is Badger.
type badgerStore struct {
	options badger.Options
	db      *badger.DB
}

// badgerFPR makes Badger build filters of ten bits per key. Badger uses the number of probes that a rate asks for as
// the number of bits: seven at 0.01, ten at this rate.
const badgerFPR = 0.0014

// badgerMemtable is the minimum size of a memtable: Badger wants a batch, which is a share of it, to hold a value of a
// megabyte.
const badgerMemtable = 8 << 20

func openBadger(dir string, s settings) (engine, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	h := &badgerStore{options: badger.DefaultOptions(dir).
		WithLogger(nil).
		WithMetricsEnabled(false).
		WithDetectConflicts(false). // no transaction here both reads and writes
		WithSyncWrites(s.durable).
		WithMemTableSize(max(s.memtable, badgerMemtable)).
		WithNumMemtables(2).
		WithNumLevelZeroTables(levelZeroRuns).
		WithBaseLevelSize(baseLevelBytes).
		WithLevelSizeMultiplier(levelRatio).
		WithBaseTableSize(tableBytes).
		WithBlockSize(blockBytes).
		WithBloomFalsePositive(badgerFPR).
		WithNumCompactors(background).
		WithCompression(options.None).
		WithBlockCacheSize(0)} // as its documentation advises without compression: its tables are mapped into memory
	return h, h.open()
}

func (h *badgerStore) open() (err error) {
	h.db, err = badger.Open(h.options)
	return err
}

func (h *badgerStore) Reopen() (time.Duration, error) { return reopened(h.Close, h.open) }

// lookups returns a second view that looks keys up in one transaction per goroutine.
func (h *badgerStore) lookups() []view {
	frozen := &keeper[*badger.Txn]{
		Store: h, changes: new(atomic.Uint64), get: appendItem,
		open: func() (*badger.Txn, error) { return h.db.NewTransaction(false), nil },
		close: func(txn *badger.Txn) error {
			txn.Discard()
			return nil
		},
	}
	return []view{whole(h), frozen.view()}
}

func (h *badgerStore) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	err = h.db.View(func(txn *badger.Txn) error {
		dst, found, err = appendItem(txn, dst, key)
		return err
	})
	return dst, found, err
}

// appendItem looks up a key in a transaction.
func appendItem(txn *badger.Txn, dst, key []byte) (out []byte, found bool, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, err
	}
	err = item.Value(func(value []byte) error {
		dst = append(dst, value...)
		return nil
	})
	return dst, err == nil, err
}

func (h *badgerStore) Put(key, value []byte) error {
	return h.db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) })
}

func (h *badgerStore) PutSync(key, value []byte) error {
	err := h.Put(key, value)
	if err == nil && !h.options.SyncWrites {
		err = h.db.Sync()
	}
	return err
}

func (h *badgerStore) Apply(pairs workload.Batch) error {
	return h.db.Update(func(txn *badger.Txn) error {
		for key, value := range pairs.All() {
			if err := txn.Set(key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *badgerStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	v := h.iterate()
	return errors.Join(v.Scan(from, limit, each), v.end())
}

func (h *badgerStore) kept() (view, error) { return h.iterate(), nil }

// iterate runs a view with one iterator in one transaction. It does not prefetch values, because prefetching is for
// values outside the tree, and here all are in it.
func (h *badgerStore) iterate() view {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false
	txn := h.db.NewTransaction(false)
	it := txn.NewIterator(o)
	return view{scanner[*badger.Iterator]{h, it, scanBadger}, func() error {
		it.Close()
		txn.Discard()
		return nil
	}}
}

func scanBadger(it *badger.Iterator, from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for it.Seek(from); it.Valid(); it.Next() {
		item := it.Item()
		if err := item.Value(func(value []byte) error { return each(item.Key(), value) }); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return nil
}

// Flush closes the store, which makes Badger write its memtable, and opens it again.
func (h *badgerStore) Flush(context.Context) error {
	_, err := h.Reopen()
	return err
}

// Settle waits until the levels do not change and the process is almost idle, because Badger does not report what it is
// doing.
func (h *badgerStore) Settle(ctx context.Context) error {
	var before machine.Counters
	return quiet(ctx, func() ([]int64, bool, error) {
		var figures []int64
		for _, l := range h.db.Levels() {
			figures = append(figures, int64(l.NumTables), l.Size)
		}
		now, _ := machine.Read() // without counters, the levels must suffice
		spent := now.Sub(before)
		before = now
		return figures, spent.User+spent.System < 5*time.Millisecond, nil
	})
}

func (h *badgerStore) Compact(context.Context) error {
	if _, err := h.Reopen(); err != nil { // with the memtable, which Flatten does not write
		return err
	}
	return h.db.Flatten(background)
}

func (h *badgerStore) filterBytes() (sum int64, err error) { //nolint:unparam // see filterMemory
	for _, t := range h.db.Tables() {
		sum += int64(t.BloomFilterSize)
	}
	return sum, nil
}

func (h *badgerStore) Close() error { return h.db.Close() }
