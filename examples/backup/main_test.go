package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
)

func TestTheNewestBackupsStay(t *testing.T) {
	dir := t.TempDir()
	backups := filepath.Join(dir, "backups")
	if err := os.MkdirAll(filepath.Join(backups, "unfinished"), 0o700); err != nil { // left by an interrupted run
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(backups, "a note"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bloomkv.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for day := range 4 {
		if err := db.Put([]byte("day"), fmt.Append(nil, day)); err != nil {
			t.Fatal(err)
		}
		if _, err := backup(t.Context(), db, backups, noon.AddDate(0, 0, day), 2); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(backups)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := []string{"20260303T120000.000Z", "20260304T120000.000Z", "a note"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i, want := range []string{"2", "3"} {
		old, err := bloomkv.Open(filepath.Join(backups, got[i]), &bloomkv.Options{ErrorIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		if value, err := old.Get([]byte("day")); err != nil || string(value) != want {
			t.Errorf("%s: got %q, %v, want %q", got[i], value, err, want)
		}
		old.Close()
	}
}

func TestNoBackupOfNoStore(t *testing.T) {
	dir := t.TempDir()
	err := run(t.Context(), filepath.Join(dir, "store"), filepath.Join(dir, "backups"), 1)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestABackupThatIsInterruptedRemovesNothing(t *testing.T) {
	dir := t.TempDir()
	backups := filepath.Join(dir, "backups")
	db, err := bloomkv.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	first, err := backup(t.Context(), db, backups, time.Unix(1, 0), 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := backup(ctx, db, backups, time.Unix(2, 0), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if _, err := bloomkv.Check(t.Context(), first, bloomkv.CheckOptions{}); err != nil {
		t.Error(err)
	}
}
