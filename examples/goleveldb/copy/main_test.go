package main

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"

	"github.com/bloomkv/bloomkv"
)

// database creates a goleveldb database of random keys, some of them deleted, and returns its path and contents.
func database(t *testing.T) (dir string, want map[string]string) {
	t.Helper()
	dir, want = filepath.Join(t.TempDir(), "database"), map[string]string{"": "the empty key", "empty": ""}
	db, err := leveldb.OpenFile(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		want[strconv.FormatUint(rnd.Uint64N(4000), 16)] = strings.Repeat(strconv.Itoa(i), rnd.IntN(200))
	}
	for key, value := range want {
		if err := db.Put([]byte(key), []byte(value), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 500 {
		key := strconv.FormatUint(rnd.Uint64N(4000), 16)
		delete(want, key)
		if err := db.Delete([]byte(key), nil); err != nil {
			t.Fatal(err)
		}
	}
	return dir, want
}

// files returns the contents of a directory's files.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	content := make(map[string]string)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		content[e.Name()] = string(data)
	}
	return content
}

func TestTheCopyHoldsWhatTheDatabaseHolds(t *testing.T) {
	from, want := database(t)
	to := filepath.Join(t.TempDir(), "store")
	before := files(t, from)
	if err := copyDatabase(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(files(t, from), before) {
		t.Error("the database was changed")
	}
	db, err := bloomkv.Open(to, &bloomkv.Options{ErrorIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := make(map[string]string)
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(kv.Key)] = string(kv.Value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %d pairs, want %d, or some differ", len(got), len(want))
	}
}

func TestACopyThatFailsMayBeMadeAgain(t *testing.T) {
	from, _ := database(t)
	dir := t.TempDir()
	to := filepath.Join(dir, "store")
	if err := copyDatabase(t.Context(), filepath.Join(dir, "nothing"), to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no database: got %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no database, but a store was created: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, step := range []struct {
		ctx  context.Context
		want error
	}{{ctx, context.Canceled}, {t.Context(), nil}, {t.Context(), errNotEmpty}} {
		if err := copyDatabase(step.ctx, from, to); !errors.Is(err, step.want) {
			t.Errorf("copy %d: got %v, want %v", i+1, err, step.want)
		}
	}
}
