// Command backup copies a store into a directory of backups, verifies the copy, and removes the oldest ones.
//
//	go run ./examples/backup -keep 7 store backups
//
// Only one process may open a store, so a running program calls the function backup itself. Reads and writes continue
// while the copy is made, and it takes no space until the store's own tables are replaced.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/bloomkv/bloomkv"
)

func main() {
	log.SetFlags(0)
	keep := flag.Int("keep", 7, "keep the newest `N` backups, at least 1")
	flag.Parse()
	if flag.NArg() != 2 || *keep < 1 {
		log.Fatal("usage: backup [-keep N] STORE BACKUPS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), flag.Arg(1), *keep); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, store, backups string, keep int) (err error) {
	db, err := bloomkv.Open(store, &bloomkv.Options{ErrorIfMissing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	name, err := backup(ctx, db, backups, time.Now(), keep)
	if err == nil {
		fmt.Println(name)
	}
	return err
}

const stamp = "20060102T150405.000Z" // sorts by time

// backup makes a backup and returns its path. An unfinished backup never has the name of a finished one.
func backup(ctx context.Context, db *bloomkv.DB, backups string, now time.Time, keep int) (string, error) {
	if err := os.MkdirAll(backups, 0o700); err != nil {
		return "", err
	}
	unfinished, name := filepath.Join(backups, "unfinished"), filepath.Join(backups, now.UTC().Format(stamp))
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := db.Checkpoint(ctx, unfinished); err != nil {
		return "", err
	}
	if _, err := bloomkv.Check(ctx, unfinished, bloomkv.CheckOptions{}); err != nil {
		return "", err
	}
	if err := os.Rename(unfinished, name); err != nil {
		return "", err
	}
	return name, removeOld(backups, keep)
}

// removeOld removes all backups except the newest, and leaves other files in the directory alone.
func removeOld(backups string, keep int) error {
	entries, err := os.ReadDir(backups) // sorted by name
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if _, err := time.Parse(stamp, e.Name()); err == nil {
			names = append(names, e.Name())
		}
	}
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := os.RemoveAll(filepath.Join(backups, name)); err != nil {
			return err
		}
	}
	return nil
}
