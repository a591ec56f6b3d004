package bloomkv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

func TestWhatWasPutIsFoundThroughFlushCompactionAndReopen(t *testing.T) {
	fs := vfs.NewMem()
	opts := storetest.Small(fs)
	opts.Durability = bloomkv.NoSync
	db, err := bloomkv.Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key%08d", i*2) }
	const n = 20000
	for _, i := range rand.Perm(n) {
		if err := db.Put(key(i), fmt.Appendf(nil, "value %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if err := db.Delete(key(i * 7)); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		for i := range n {
			v, err := db.Get(key(i))
			if i < 700 && i%7 == 0 {
				if !errors.Is(err, bloomkv.ErrNotFound) {
					t.Fatalf("key %d: got %q, %v, want ErrNotFound", i, v, err)
				}
				continue
			}
			if want := fmt.Sprintf("value %d", i); err != nil || string(v) != want {
				t.Fatalf("key %d: got %q, %v, want %q", i, v, err, want)
			}
			if _, err := db.Get(fmt.Appendf(nil, "key%08d", i*2+1)); !errors.Is(err, bloomkv.ErrNotFound) {
				t.Fatalf("absent key: %v", err)
			}
		}
		seen := 0
		for kv, err := range db.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			_ = kv
			seen++
		}
		if seen != n-100 {
			t.Fatalf("scan saw %d keys, want %d", seen, n-100)
		}
	}
	check()
	t.Log("\n" + db.Metrics().String())
	if err := db.Compact(context.Background(), nil, nil); err != nil {
		t.Fatal(err)
	}
	check()
	t.Log("\n" + db.Metrics().String())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = bloomkv.Open("db", opts); err != nil {
		t.Fatal(err)
	}
	check()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); !errors.Is(err, bloomkv.ErrClosed) {
		t.Fatal(err)
	}
	report, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: opts.FS})
	t.Logf("%+v", report)
	if err != nil {
		t.Fatal(err)
	}
}
