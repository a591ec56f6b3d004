// Command backup keeps generations of a store in an object storage, and shows how to put one behind package backup:
//
//	go run ./examples/backup -serve 127.0.0.1:8090 ./backups &
//	go run ./examples/backup -keep 7 ./store http://127.0.0.1:8090/
//
// The second command copies the tables that the storage does not have yet, verifies all that it has, and removes all
// but the newest generations. Only one process may open a store, so a running program calls the function save itself.
// The storage is a server with PUT, GET and DELETE of objects by name, as object storages have them; the first command
// is such a server over a directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/httpguard"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("serve", "", "serve the directory `ADDRESS`")
	keep := flag.Int("keep", 7, "keep the newest `N` generations, at least 1")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *listen != "" && flag.NArg() == 1:
		err = serve(ctx, *listen, flag.Arg(0))
	case *listen == "" && flag.NArg() == 2:
		err = run(ctx, flag.Arg(0), flag.Arg(1), *keep)
	default:
		err = errors.New("usage: backup [-keep N] STORE URL, or backup -serve ADDRESS DIRECTORY")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// objectTimeout is the longest time for one object, which is a table at most: 8 MiB by default.
const objectTimeout = 10 * time.Minute

// run backs up a store that no process has open.
func run(ctx context.Context, store, url string, keep int) (err error) {
	db, err := bloomkv.Open(store, &bloomkv.Options{ErrorIfMissing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	client := &http.Client{Timeout: objectTimeout}
	r, err := save(ctx, db, remote{client, url}, keep)
	if err == nil {
		fmt.Printf("generation %d: %d of %d tables were new\n", r.Generation, r.Stored, r.Tables)
	}
	return err
}

// save stores a generation, while reads and writes of the store go on. Older ones are removed only after everything in
// the storage has been read again.
func save(ctx context.Context, db *bloomkv.DB, to backup.Storage, keep int) (backup.Report, error) {
	r, err := backup.Make(ctx, db, to)
	if err != nil {
		return r, err
	}
	if err := backup.Verify(ctx, to, nil); err != nil {
		return r, err
	}
	return r, backup.Prune(ctx, to, keep)
}

// serve serves a directory of backups until ctx ends.
func serve(ctx context.Context, address, dir string) (err error) {
	objects, err := backup.OpenDir(nil, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	s := httpguard.Server(httpguard.Handler(handler(objects), address))
	s.Addr, s.ReadTimeout, s.WriteTimeout = address, objectTimeout, objectTimeout
	context.AfterFunc(ctx, func() { _ = s.Close() }) // it returns what ListenAndServe does
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
