package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// crashes collects what crashes before each changing operation leave, while it is armed.
type crashes struct {
	armed atomic.Bool
	mu    sync.Mutex
	mem   *vfstest.Mem
	found []crashImage
}

type crashImage struct {
	fs   *vfstest.Mem
	what string
}

func (c *crashes) hook(op vfstest.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed.Load() || !op.Kind.Changes() {
		return nil
	}
	at := func(kind string) string { return fmt.Sprintf("before operation %d (%s), %s", len(c.found), op, kind) }
	seed := uint64(len(c.found))
	c.found = append(c.found,
		crashImage{c.mem.Kill(), at("process death")},
		crashImage{c.mem.Crash(vfstest.KeepNothing), at("nothing kept")},
		crashImage{c.mem.Crash(vfstest.KeepAll), at("all kept")},
		crashImage{c.mem.Crash(vfstest.KeepSome(seed, 50)), at("half kept")})
	return nil
}

// take ends the collection and returns what was collected.
func (c *crashes) take() []crashImage {
	c.armed.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.found
	c.found = nil
	return found
}

// sources returns the streams of a store, whole and since the whole one, and what they contain. The second needs the
// first.
func sources(t *testing.T) (whole, more []byte, first, second map[string]string) {
	t.Helper()
	db, want := grown(t, vfstest.NewMem())
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{})) // so that no follower compacts
	storetest.Settle(t, db)
	whole, first = exported(t, db, bloomkv.ExportOptions{}), maps.Clone(want)
	has, err := bloomkv.ReadInventory(bytes.NewReader(whole))
	must(t, err)
	for i := range 50 {
		must(t, db.Put(fmt.Appendf(nil, "new%03d", i), []byte("v")))
		want[fmt.Sprintf("new%03d", i)] = "v"
	}
	more = exported(t, db, bloomkv.ExportOptions{Since: has})
	must(t, db.Close())
	return whole, more, first, want
}

// TestCrashOfAnImportLeavesTheOldStoreOrTheNew imports a whole export, then an incremental one.
func TestCrashOfAnImportLeavesTheOldStoreOrTheNew(t *testing.T) {
	whole, more, first, second := sources(t)
	mem := vfstest.NewMem()
	c := crashes{mem: mem}
	db, old := grown(t, vfstest.NewHook(mem, c.hook)) // with writes in memory
	must(t, storetest.PutWith(db, bloomkv.DurabilitySync, []byte("own"), []byte("v")))
	old["own"] = "v"
	storetest.Settle(t, db)
	for _, step := range []struct {
		stream      []byte
		before, now map[string]string
	}{{whole, old, first}, {more, first, second}} {
		c.armed.Store(true)
		must(t, db.Import(t.Context(), bytes.NewReader(step.stream), bloomkv.ImportOptions{Replace: true}))
		must(t, c.hook(vfstest.Op{Kind: vfstest.OpSync})) // after the last one
		found := c.take()
		must(t, holds(mem.Crash(vfstest.KeepNothing), "db", step.now))
		olds, news := 0, 0
		for i, s := range found {
			if i%(20/storetest.AtStride(20)) > 0 {
				continue
			}
			before, after := holds(s.fs.Kill(), "db", step.before), error(nil)
			if before != nil {
				after = holds(s.fs, "db", step.now)
				news++
			} else {
				olds++
			}
			if after != nil {
				t.Fatalf("%s: neither the old store: %v\nnor the new one: %v", s.what, before, after)
			}
		}
		t.Logf("%d states with the old store, %d with the new one", olds, news)
		if storetest.AtStride(20) == 20 && (olds == 0 || news == 0) {
			t.Error("want some of both")
		}
	}
	must(t, db.Close())
}

func TestACrashDuringAnImportLeavesTheWholeStoreOrNone(t *testing.T) {
	whole, more, first, second := sources(t)
	mem := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(whole), "base", bloomkv.NewStoreOptions{FS: mem}))
	for _, step := range []struct {
		stream []byte
		base   string
		want   map[string]string
	}{{whole, "", first}, {more, "base", second}} {
		c := crashes{mem: mem.Kill()}
		c.armed.Store(true)
		o := bloomkv.NewStoreOptions{FS: vfstest.NewHook(c.mem, c.hook), Base: step.base}
		must(t, bloomkv.Import(t.Context(), bytes.NewReader(step.stream), "copy", o))
		found := c.take()
		must(t, holds(c.mem.Crash(vfstest.KeepNothing), "copy", step.want))
		wholes := 0
		for i, s := range found {
			if i%(20/storetest.AtStride(20)) > 0 {
				continue
			}
			there, err := wholeOrNone(s.fs, step.want)
			if err != nil {
				t.Fatalf("%s: %v", s.what, err)
			}
			if there {
				wholes++
			}
			if step.base != "" {
				must(t, holds(s.fs, "base", first))
			}
		}
		t.Logf("%d of %d states have a store", wholes, len(found))
		if storetest.AtStride(20) == 20 && (wholes == 0 || wholes > len(found)/2) {
			t.Errorf("%d of %d states have a store, want a few", wholes, len(found))
		}
	}
}

// TestEveryFailedOperationOfAnImportLeavesTheStoreAsItWas fails each operation in turn.
func TestEveryFailedOperationOfAnImportLeavesTheStoreAsItWas(t *testing.T) {
	testkit.Long(t)
	whole, more, first, second := sources(t)
	source := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(whole), "db", bloomkv.NewStoreOptions{FS: source}))
	for _, kind := range []fault{
		{"EIO once", syscall.EIO, 1, vfstest.OpKind.Changes},
		{"EIO from then on", syscall.EIO, forEver, vfstest.OpKind.Changes},
		{"a full disk from then on", syscall.ENOSPC, forEver, needsSpace},
	} {
		t.Run(kind.name, func(t *testing.T) {
			at := int64(0)
			for done := false; !done; at += int64(5 / storetest.AtStride(5)) {
				f := &faulty{fault: kind, first: at}
				var err error
				if done, err = failedImport(source.Kill(), f, more, first, second); err != nil {
					t.Fatalf("operation %d, %v: %v", at, f.where.Load(), err)
				}
			}
			if at < 5 {
				t.Errorf("only %d operations failed", at)
			}
		})
	}
}

// failedImport imports under a fault; done is true if the fault did not strike.
func failedImport(mem *vfstest.Mem, f *faulty, stream []byte, old, now map[string]string) (done bool, err error) {
	var armed atomic.Bool
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if !armed.Load() {
			return nil
		}
		return f.hook(op)
	})))
	if err != nil {
		return false, err
	}
	for !db.Metrics().Settled {
		time.Sleep(time.Millisecond)
	}
	names, err := mem.List("db")
	if err != nil {
		return false, err
	}
	armed.Store(true)
	failed := db.Import(context.Background(), bytes.NewReader(stream), bloomkv.ImportOptions{Replace: true})
	armed.Store(false)
	want := old
	if failed == nil {
		want = now
	} else if !f.struck.Load() || !errors.Is(failed, f.err) {
		return false, fmt.Errorf("%w, which is not the cause", failed)
	}
	if err := contains(db, want); err != nil {
		return false, err
	}
	// A failure that did not make the store read-only leaves nothing, unless files cannot be removed.
	writable := db.Put([]byte("k"), nil) == nil
	if writable {
		if err := db.Delete([]byte("k")); err != nil {
			return false, err
		}
	}
	if failed != nil && writable && (f.last == 1 || errors.Is(f.err, syscall.ENOSPC)) {
		after, err := mem.List("db")
		if tables(after) != tables(names) {
			return false, fmt.Errorf("left %q, %w, want %q", after, err, names)
		}
	}
	if err := db.Close(); err != nil && writable {
		return false, err
	}
	err = holds(mem.Kill(), "db", want)
	if err != nil && failed != nil && !writable { // the edit may be in the manifest
		err = holds(mem, "db", now)
	}
	return !f.struck.Load(), err
}

// tables returns the names of tables, joined.
func tables(names []string) string {
	var all []string
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			all = append(all, n)
		}
	}
	return strings.Join(all, " ")
}

// TestReadsDoNotFailWhileImportsReplaceTheStore imports two stores in turn under readers, writers and compactions.
// Every read of all keys sees one of the stores as a whole.
func TestReadsDoNotFailWhileImportsReplaceTheStore(t *testing.T) {
	const keys = 600
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	var streams [2][]byte
	for v := range streams {
		db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
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
	db := storetest.Open(t, "db", storetest.Tiny(mem))
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
	imports := storetest.Seeds(10)
	for i := range imports {
		must(t, db.Import(t.Context(), bytes.NewReader(streams[i%2]), bloomkv.ImportOptions{Replace: true}))
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	t.Logf("%d reads and writes under %d imports", reads.Load(), imports)
	storetest.Settle(t, db)
	testkit.Soon(t, "the replaced tables are removed", func() bool { return db.Metrics().Files.Obsolete == 0 })
	must(t, db.Close())
	if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem}); err != nil {
		t.Error(err)
	}
}

// TestOfTwoImportersOneComesAfterTheOther imports into one store, and into one directory, at once.
func TestOfTwoImportersOneComesAfterTheOther(t *testing.T) {
	whole, _, first, _ := sources(t)
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
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

// TestImportOfABlockedReaderCanBeEnded cancels and closes while the reader blocks.
func TestImportOfABlockedReaderCanBeEnded(t *testing.T) {
	whole, _, _, _ := sources(t)
	for _, n := range []int{0, 10, 100, len(whole) / 2, len(whole) - 1} {
		mem := vfstest.NewMem()
		db := storetest.Open(t, "db", storetest.Tiny(mem))
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
			testkit.Within(t, how, func() {
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
