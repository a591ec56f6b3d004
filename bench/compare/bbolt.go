package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// bboltStore is bbolt: a B+ tree in one memory-mapped file, without tables, filters or a cache of its own.
type bboltStore struct {
	dir      string
	settings settings
	db       *bolt.DB
}

var bucketName = []byte("pairs")

func openBbolt(dir string, s settings) (engine, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	t := &bboltStore{dir: dir, settings: s}
	return t, t.open()
}

func (t *bboltStore) file() string { return filepath.Join(t.dir, "bbolt.db") }

// options returns the settings that its documentation recommends for speed: a free list as a map, in memory only.
func (t *bboltStore) options() *bolt.Options {
	return &bolt.Options{
		NoSync:         !t.settings.durable,
		NoFreelistSync: true,
		FreelistType:   bolt.FreelistMapType,
		NoStatistics:   true,
	}
}

func (t *bboltStore) open() (err error) {
	if t.db, err = bolt.Open(t.file(), 0o644, t.options()); err != nil {
		return err
	}
	return t.db.Update(func(tx *bolt.Tx) error {
		if tx.Bucket(bucketName) != nil {
			return nil
		}
		_, err := tx.CreateBucket(bucketName)
		return err
	})
}

func (t *bboltStore) Reopen() (time.Duration, error) { return reopened(t.Close, t.open) }

// lookups returns a second view that looks keys up in the bucket of one transaction per goroutine.
func (t *bboltStore) lookups() []view {
	frozen := &keeper[*bolt.Bucket]{
		Store: t, changes: new(atomic.Uint64), get: appendValue,
		open: func() (*bolt.Bucket, error) {
			tx, err := t.db.Begin(false)
			if err != nil {
				return nil, err
			}
			return tx.Bucket(bucketName), nil
		},
		close: func(b *bolt.Bucket) error { return b.Tx().Rollback() },
	}
	return []view{whole(t), frozen.view()}
}

func (t *bboltStore) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	err = t.db.View(func(tx *bolt.Tx) error {
		dst, found, err = appendValue(tx.Bucket(bucketName), dst, key)
		return err
	})
	return dst, found, err
}

func appendValue(b *bolt.Bucket, dst, key []byte) (out []byte, found bool, err error) {
	value := b.Get(key)
	return append(dst, value...), value != nil, nil
}

// update runs a transaction on the bucket. If keys arrive in order, pages are filled completely.
func (t *bboltStore) update(do func(b *bolt.Bucket) error) error {
	return t.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketName)
		if t.settings.ascending {
			b.FillPercent = 1
		}
		return do(b)
	})
}

func (t *bboltStore) Put(key, value []byte) error {
	return t.update(func(b *bolt.Bucket) error { return b.Put(key, value) })
}

func (t *bboltStore) PutSync(key, value []byte) error {
	err := t.Put(key, value)
	if err == nil && !t.settings.durable {
		err = t.db.Sync()
	}
	return err
}

// Apply passes the pairs to one transaction, which ends before it returns.
func (t *bboltStore) Apply(pairs workload.Batch) error {
	return t.update(func(b *bolt.Bucket) error {
		for key, value := range pairs.All() {
			if err := b.Put(key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *bboltStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	return t.db.View(func(tx *bolt.Tx) error {
		return scanBbolt(tx.Bucket(bucketName).Cursor(), from, limit, each)
	})
}

func (t *bboltStore) kept() (view, error) {
	tx, err := t.db.Begin(false)
	if err != nil {
		return view{}, err
	}
	return view{scanner[*bolt.Cursor]{t, tx.Bucket(bucketName).Cursor(), scanBbolt}, tx.Rollback}, nil
}

func scanBbolt(it *bolt.Cursor, from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for key, value := it.Seek(from); key != nil; key, value = it.Next() {
		if err := each(key, value); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return nil
}

// Flush does nothing: bbolt has no memtable.
func (t *bboltStore) Flush(context.Context) error { return nil }

// Settle does nothing: bbolt does all its work in the calls.
func (t *bboltStore) Settle(context.Context) error { return nil }

// Compact copies the store into a new file with full pages and replaces the old file, as bbolt's own tool does.
func (t *bboltStore) Compact(context.Context) error {
	temporary := t.file() + ".new"
	dst, err := bolt.Open(temporary, 0o644, t.options())
	if err != nil {
		return err
	}
	err = errors.Join(bolt.Compact(dst, t.db, 64<<20), dst.Close(), t.db.Close())
	if err == nil {
		err = os.Rename(temporary, t.file())
	}
	return errors.Join(err, t.open())
}

func (t *bboltStore) Close() error { return t.db.Close() }
