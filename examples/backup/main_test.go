package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
)

// storage returns a storage at a server, over a directory that it also returns.
func storage(t *testing.T) (remote, *backup.Dir) {
	t.Helper()
	dir, err := backup.OpenDir(nil, filepath.Join(t.TempDir(), "backups"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler(dir))
	t.Cleanup(func() {
		server.Close()
		dir.Close()
	})
	return remote{server.Client(), server.URL + "/"}, dir
}

func TestTheNewestGenerationsStayAndAreRestored(t *testing.T) {
	dir := t.TempDir()
	db, err := bloomkv.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	objects, _ := storage(t)
	for day := range 4 {
		if err := db.Put([]byte("day"), fmt.Append(nil, day)); err != nil {
			t.Fatal(err)
		}
		if _, err := save(t.Context(), db, objects, 2); err != nil {
			t.Fatal(err)
		}
	}
	all, err := backup.List(t.Context(), objects)
	if err != nil || !slices.Equal(all, []uint64{3, 4}) {
		t.Fatalf("generations %d, %v, want 3 and 4", all, err)
	}
	for i, want := range []string{"2", "3"} {
		restored := filepath.Join(dir, want)
		if err := backup.Restore(t.Context(), objects, all[i], restored, bloomkv.NewStoreOptions{}); err != nil {
			t.Fatal(err)
		}
		old, err := bloomkv.Open(restored, &bloomkv.Options{ErrorIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		if value, err := old.Get([]byte("day")); err != nil || string(value) != want {
			t.Errorf("generation %d: got %q, %v, want %q", all[i], value, err, want)
		}
		old.Close()
	}
}

func TestAnObjectIsWholeOrNotThere(t *testing.T) {
	objects, dir := storage(t)
	broken := errors.New("broken")
	// More than the client reads before it sends.
	half := io.MultiReader(io.LimitReader(zeros{}, 1<<20), iotest.ErrReader(broken))
	if err := objects.Put(t.Context(), "tables/half", half); !errors.Is(err, broken) {
		t.Errorf("put: %v, want the error of the reader", err)
	}
	for _, s := range []backup.Storage{objects, dir} {
		if _, err := s.Get(t.Context(), "tables/half"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get: %v, want fs.ErrNotExist", err)
		}
	}
	if err := objects.Delete(t.Context(), "tables/half"); err != nil {
		t.Error(err)
	}
}

func TestNamesStayInTheDirectory(t *testing.T) {
	objects, _ := storage(t)
	for _, name := range []string{"tables/..%2F..%2Fx", "..%2F/x", "tables/%5Cx", "tables/X"} {
		if err := objects.Put(t.Context(), name, strings.NewReader("x")); err == nil {
			t.Errorf("put %s: no error", name)
		}
	}
	if names, err := objects.List(t.Context(), "../"); err == nil {
		t.Errorf("list ../: %q", names)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestNoBackupOfNoStore(t *testing.T) {
	dir := t.TempDir()
	err := run(t.Context(), filepath.Join(dir, "store"), "http://127.0.0.1:0/", 1)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestABackupThatIsInterruptedLosesNothing(t *testing.T) {
	db, err := bloomkv.Open(filepath.Join(t.TempDir(), "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	objects, _ := storage(t)
	if _, err := save(t.Context(), db, objects, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := save(ctx, db, objects, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := backup.Verify(t.Context(), objects, nil); err != nil {
		t.Error(err)
	}
}
