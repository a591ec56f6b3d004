// Command copy copies a bbolt file into a bloomkv store.
//
//	go -C examples/bbolt run ./copy /path/of/file.db /path/of/store
//
// It reads the file in one transaction and does not change it; no process may have it open for writing. The store must
// be new or empty. It receives everything in one step, so an interrupted run leaves it empty and may be repeated.
// Buckets become prefixes of keys, as package bucket encodes them. Empty buckets and the sequences of buckets are not
// copied.
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"os/signal"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/examples/bbolt/bucket"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: copy FILE STORE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := copyFile(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

var errNotEmpty = errors.New("the store is not empty")

func copyFile(ctx context.Context, from, to string) (err error) {
	source, err := bbolt.Open(from, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	db, err := bloomkv.Open(to, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, err := range db.Scan(bloomkv.IterOptions{KeysOnly: true}) {
		if err == nil {
			err = errNotEmpty
		}
		return fmt.Errorf("%s: %w", to, err)
	}
	return source.View(func(tx *bbolt.Tx) error {
		return db.Ingest(ctx, pairs(tx), bloomkv.IngestOptions{})
	})
}

// pairs returns all keys and values of the file, in the order of their keys in the store.
func pairs(tx *bbolt.Tx) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		walk(nil, tx.Cursor(), tx.Bucket, func(kv bloomkv.KV) bool { return yield(kv, nil) })
	}
}

// walk yields the keys of the bucket with the given prefix and of all buckets in it. It returns false if yield did.
func walk(prefix []byte, at *bbolt.Cursor, inner func(name []byte) *bbolt.Bucket, yield func(bloomkv.KV) bool) bool {
	for name, value := at.First(); name != nil; name, value = at.Next() {
		if value != nil {
			if !yield(bloomkv.KV{Key: bucket.Key(prefix, name), Value: value}) {
				return false
			}
			continue
		}
		b := inner(name)
		if !walk(bucket.Prefix(prefix, name), b.Cursor(), b.Bucket, yield) {
			return false
		}
	}
	return true
}
