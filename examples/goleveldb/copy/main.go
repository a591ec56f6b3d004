// Command copy copies a goleveldb database into a bloomkv store.
//
//	go -C examples/goleveldb run ./copy /path/of/database /path/of/store
//
// It does not change the database, which no process may have open for writing. The store must be new or empty. It
// receives everything in one step, so an interrupted run leaves it empty and may be repeated. goleveldb refuses
// databases whose keys are not in byte order, and bloomkv refuses keys longer than 64 KiB.
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"os/signal"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/bloomkv/bloomkv"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: copy DATABASE STORE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := copyDatabase(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

var errNotEmpty = errors.New("the store is not empty")

func copyDatabase(ctx context.Context, from, to string) (err error) {
	source, err := leveldb.OpenFile(from, &opt.Options{ReadOnly: true, ErrorIfMissing: true, Strict: opt.StrictAll})
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
	return db.Ingest(ctx, pairs(source), bloomkv.IngestOptions{})
}

// pairs returns all keys and values of the database, in order. An error is the last element.
func pairs(source *leveldb.DB) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		it := source.NewIterator(nil, &opt.ReadOptions{DontFillCache: true})
		defer it.Release()
		for it.Next() {
			if !yield(bloomkv.KV{Key: it.Key(), Value: it.Value()}, nil) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(bloomkv.KV{}, err)
		}
	}
}
