package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestAClientGoesToTheStoreThatMayHaveTheKey asks three servers for present and absent keys. It counts the requests,
// and the bytes that keep the digests up to date.
func TestAClientGoesToTheStoreThatMayHaveTheKey(t *testing.T) {
	const n, stores = 3000, 3
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	var dbs []*bloomkv.DB
	var urls []string
	for range stores {
		db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := httptest.NewServer(newServer(db))
		defer s.Close()
		dbs, urls = append(dbs, db), append(urls, s.URL)
	}
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := dbs[i%stores].Put(key(i), key(i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, db := range dbs {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := newClient(urls)
	update := func() int64 {
		t.Helper()
		before := c.received
		if err := c.update(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.received - before
	}
	put(0, n)
	var out strings.Builder
	if err := get(t.Context(), &out, key(1), urls); err != nil ||
		!strings.HasSuffix(out.String(), "\nkey1 (1 of 3 servers asked)\n") {
		t.Errorf("%s%v", &out, err)
	}
	whole := update()
	for i := range n {
		if got, err := c.get(t.Context(), key(i)); err != nil || string(got) != string(key(i)) {
			t.Fatalf("key %d: %q: %v", i, got, err)
		}
	}
	if c.asked > n*102/100 {
		t.Errorf("%d requests for %d keys", c.asked, n)
	}
	c.asked = 0
	for i := n; i < 2*n; i++ {
		if _, err := c.get(t.Context(), key(i)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatalf("absent key %d: %v", i, err)
		}
	}
	if c.asked > stores*n*2/100 {
		t.Errorf("%d requests for %d absent keys", c.asked, n)
	}
	if again := update(); again != 0 {
		t.Errorf("%d bytes though nothing has changed", again)
	}
	put(n, n+n/10)
	patches := update()
	t.Logf("digests %d bytes, patches after a tenth more %d", whole, patches)
	if patches > whole/4 {
		t.Errorf("patches of %d bytes, the digests have %d", patches, whole)
	}
	for i := range n + n/10 {
		if got, err := c.get(t.Context(), key(i)); err != nil || string(got) != string(key(i)) {
			t.Fatalf("key %d after the update: %q: %v", i, got, err)
		}
	}
}

func TestAnAnswerOfNothingIsNoDigest(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotModified)
	}))
	defer s.Close()
	if err := get(t.Context(), io.Discard, []byte("key"), []string{s.URL}); err == nil {
		t.Error("no error")
	}
}
