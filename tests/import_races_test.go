package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestReadsDoNotFailWhileImportsReplaceTheStore imports two stores in turn under readers, writers and compactions.
// Every read of all keys sees one of the stores as a whole.
func TestReadsDoNotFailWhileImportsReplaceTheStore(t *testing.T) {
	const keys = 600
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	var streams [2][]byte
	for v := range streams {
		db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
		must(t, err)
		for range 1 + 2*v { // the second has larger sequence numbers
			for i := range keys {
				must(t, storetest.PutWith(db, bloomkv.DurabilityNoSync, key(i), fmt.Appendf(nil, "store %d", v)))
			}
		}
		streams[v] = exported(t, db, bloomkv.ExportOptions{})
		must(t, db.Close())
	}
	mem := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(streams[0]), "db", bloomkv.NewStoreOptions{FS: mem}))
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
	many := make([][]byte, keys)
	for i := range many {
		many[i] = key(i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var reads atomic.Int64
	run := func(f func(rng *rand.Rand) error) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, 2))
			for ctx.Err() == nil {
				if err := f(rng); err != nil {
					t.Error(err)
					return
				}
				reads.Add(1)
			}
		})
	}
	same := func(seen []byte, i int, v []byte) ([]byte, error) {
		if seen != nil && !bytes.Equal(seen, v) {
			return nil, fmt.Errorf("key %d is of %q, those before of %q", i, v, seen)
		}
		return bytes.Clone(v), nil
	}
	scan := func(r bloomkv.Reader) error {
		var seen []byte
		n := 0
		for kv, err := range r.Scan(bloomkv.IterOptions{Upper: []byte("kez")}) {
			if err == nil {
				seen, err = same(seen, n, kv.Value)
			}
			if err != nil {
				return err
			}
			n++
		}
		if n != keys {
			return fmt.Errorf("a scan saw %d keys, want %d", n, keys)
		}
		return nil
	}
	run(func(rng *rand.Rand) error { _, err := db.Get(key(rng.IntN(keys))); return err })
	run(func(rng *rand.Rand) error {
		found, err := db.Has(fmt.Appendf(nil, "absent%d", rng.IntN(keys)))
		if found {
			err = errors.New("an absent key is there")
		}
		return err
	})
	run(func(*rand.Rand) error {
		var seen []byte
		return db.GetMany(many, func(i int, v []byte, found bool) (err error) {
			if !found {
				return fmt.Errorf("key %d is gone", i)
			}
			seen, err = same(seen, i, v)
			return err
		})
	})
	run(func(*rand.Rand) error { return scan(db) })
	run(func(*rand.Rand) error {
		s, err := db.Snapshot()
		if err != nil {
			return err
		}
		v, err := s.Get(key(0))
		for range 3 {
			if err == nil {
				err = scan(s)
			}
		}
		if last, lastErr := s.Get(key(0)); err == nil && (lastErr != nil || !bytes.Equal(v, last)) {
			err = fmt.Errorf("a snapshot shows %q and then %q, %w", v, last, lastErr)
		}
		return errors.Join(err, s.Close())
	})
	run(func(rng *rand.Rand) error { // writers and compactions
		k := fmt.Appendf(nil, "z%03d", rng.IntN(100))
		if err := storetest.PutWith(db, bloomkv.DurabilityNoSync, k, make([]byte, 500)); err != nil {
			return err
		}
		if rng.IntN(200) > 0 {
			return nil
		}
		return db.Compact(context.Background(), bloomkv.CompactOptions{})
	})
	run(func(*rand.Rand) error {
		_, err := db.PutIfAbsent([]byte("z-if"), []byte("v"))
		return errors.Join(err, db.Delete([]byte("z-if")))
	})
	const imports = 10
	for i := range imports {
		must(t, db.Import(t.Context(), bytes.NewReader(streams[i%2]), bloomkv.ImportOptions{Replace: true}))
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	t.Logf("%d reads and writes under %d imports", reads.Load(), imports)
	storetest.Settle(t, db)
	storetest.Soon(t, "the replaced tables are removed", func() bool { return db.Metrics().Files.Obsolete == 0 })
	must(t, db.Close())
	if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem}); err != nil {
		t.Error(err)
	}
}

// TestOfTwoImportersOneComesAfterTheOther imports into one store, and into one directory, at once.
func TestOfTwoImportersOneComesAfterTheOther(t *testing.T) {
	whole, _, first, _ := sources(t)
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
	for _, replace := range []bool{false, true} {
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() {
				errs <- db.Import(t.Context(), bytes.NewReader(whole), bloomkv.ImportOptions{Replace: replace})
			}()
		}
		done := 0
		for range cap(errs) {
			switch err := <-errs; {
			case err == nil:
				done++
			case replace || !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		}
		if !replace && done != 1 {
			t.Errorf("%d of 4 imports into an empty store, want one", done)
		}
		must(t, contains(db, first))
	}
	must(t, db.Close())
	must(t, holds(mem, "db", first))

	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			errs <- bloomkv.Import(t.Context(), bytes.NewReader(whole), "copy", bloomkv.NewStoreOptions{FS: mem})
		}()
	}
	done := 0
	for range cap(errs) {
		switch err := <-errs; {
		case err == nil:
			done++
		case !errors.Is(err, fs.ErrExist) && !errors.Is(err, bloomkv.ErrLocked):
			t.Error(err)
		}
	}
	if done == 1 {
		must(t, holds(mem, "copy", first))
	} else if done > 1 {
		t.Errorf("%d of 4 imports into one directory, want at most one", done)
	}
}

// A blocking reader yields a part of a stream and then blocks.
type blocking struct {
	io.Reader

	blocked chan struct{} // closed when it blocks
	release chan struct{}
	once    sync.Once
}

func (b *blocking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.once.Do(func() { close(b.blocked) })
		<-b.release
	}
	return n, err
}

// TestAnImportOfAReaderThatBlocksEndsWithItsContextAndWithItsStore cancels and closes while the reader blocks.
func TestAnImportOfAReaderThatBlocksEndsWithItsContextAndWithItsStore(t *testing.T) {
	whole, _, _, _ := sources(t)
	for _, n := range []int{0, 10, 100, len(whole) / 2, len(whole) - 1} {
		mem := vfstest.NewMem()
		db, err := bloomkv.Open("db", storetest.Tiny(mem))
		must(t, err)
		for _, how := range []string{"cancel, new store", "cancel", "close"} {
			r := &blocking{
				Reader: bytes.NewReader(whole[:n]), blocked: make(chan struct{}), release: make(chan struct{}),
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				if how == "cancel, new store" {
					ended <- bloomkv.Import(ctx, r, "copy", bloomkv.NewStoreOptions{FS: mem})
				} else {
					ended <- db.Import(ctx, r, bloomkv.ImportOptions{Replace: true})
				}
			}()
			<-r.blocked
			want := context.Canceled
			storetest.Within(t, 20*time.Second, how, func() {
				if how == "close" {
					want = bloomkv.ErrClosed
					must(t, db.Close())
				} else {
					cancel()
				}
				if err := <-ended; !errors.Is(err, want) {
					t.Errorf("%d bytes, %s: %v, want %v", n, how, err, want)
				}
			})
			cancel()
			close(r.release)
			if left := leftOf(mem, false); left != "" {
				t.Errorf("left %s", left)
			}
		}
		names, err := mem.List("db")
		if err != nil || tables(names) != "" {
			t.Errorf("the store has %q, %v, want no table", names, err)
		}
		must(t, holds(mem, "db", map[string]string{}))
	}
}
