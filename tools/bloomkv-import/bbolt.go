package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/examples/bucket"
	"github.com/bloomkv/bloomkv/internal/words"
)

type bboltSource struct {
	db *bbolt.DB
	tx *bbolt.Tx
}

func openBbolt(path string) (source, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file, want the file of a bbolt store")
	case info.Size() == 0: // bbolt would try to write into it
		return nil, errors.New("an empty file, not a bbolt store")
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		err = errInUse
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	tx, err := db.Begin(false)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &bboltSource{db, tx}
	if tx.Size() > info.Size() { // reading behind the end of a mapped file would be a fault
		err := fmt.Errorf("damaged: the file has %d bytes, want %d", info.Size(), tx.Size())
		return nil, errors.Join(err, s.Close())
	}
	return s, s.structure()
}

func (s *bboltSource) each(lost *losses, f func(bloomkv.KV) error) error {
	return bboltWalk{lost, f}.bucket(nil, s.tx.Cursor(), s.tx.Bucket)
}

type bboltWalk struct {
	lost *losses
	f    func(bloomkv.KV) error
}

// bucket calls f for the pairs of the bucket with the given prefix and of all buckets in it.
func (w bboltWalk) bucket(prefix []byte, at *bbolt.Cursor, inner func(name []byte) *bbolt.Bucket) error {
	for name, value := at.First(); name != nil; name, value = at.Next() {
		if value != nil {
			if err := w.f(bloomkv.KV{Key: bucket.Key(prefix, name), Value: value}); err != nil {
				return err
			}
			continue
		}
		b := inner(name)
		if b == nil {
			return fmt.Errorf("damaged: bucket %s cannot be opened", words.Escaped(name, 64))
		}
		if b.Sequence() > 0 {
			w.lost.Sequences++
		}
		if first, _ := b.Cursor().First(); first == nil {
			w.lost.EmptyBuckets++
		}
		if err := w.bucket(bucket.Prefix(prefix, name), b.Cursor(), b.Bucket); err != nil {
			return err
		}
	}
	return nil
}

// structure verifies the structure of the file, for which bbolt has no checksums. A cursor that follows a circle of
// pages would take all memory, and so might a check that goes on after its first error. bbolt may still read the file
// after structure has returned, so the file stays open until the process ends.
func (s *bboltSource) structure() error {
	err, damaged := <-s.tx.Check()
	if damaged {
		err = fmt.Errorf("damaged: %w", err)
	}
	return err
}

func (s *bboltSource) Close() error { return errors.Join(s.tx.Rollback(), s.db.Close()) }
