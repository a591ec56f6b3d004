// Command copy fills a bloomkv store with what a bbolt file holds.
//
//	go -C examples/bbolt run ./copy /path/of/file.db /path/of/store
//
// It reads the file in one transaction and changes nothing in it; nobody may have it open to write. The store must be new or
// empty; it gets everything in one step, so that a run that was cut short left nothing and may be made again. Buckets become
// parts of keys, as package bucket writes them. An empty bucket leaves no trace, nor do the sequences of buckets.
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

var errNotEmpty = errors.New("there is something in it")

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

// pairs is all that a file holds, in the order of the keys that it gets.
func pairs(tx *bbolt.Tx) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		walk(nil, tx.Cursor(), tx.Bucket, func(kv bloomkv.KV) bool { return yield(kv, nil) })
	}
}

// walk goes through the bucket with a prefix, and the buckets in it. It ends early, with false, where yield says so.
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
