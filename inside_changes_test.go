package bloomkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A reader loads its state and its sequence separately. These tests change the store between the two loads.

// replace overwrites key and drops the old version from the tree: a lookup that begins later does not need it.
func replace(t *testing.T, db *bloomkv.DB, key, value []byte) {
	t.Helper()
	must(t, errors.Join(db.Put(key, value), db.Compact(t.Context(), bloomkv.CompactOptions{})))
}

// TestASnapshotThatIsTakenWhileTablesAreWrittenKeepsWhatItSees takes a snapshot after a compaction has read the
// versions of its inputs and before it is installed.
func TestASnapshotThatIsTakenWhileTablesAreWrittenKeepsWhatItSees(t *testing.T) {
	for _, work := range []storetest.Function{storetest.CompactLoop, storetest.FlushLoop} {
		g := storetest.NewGate()
		db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
			if storetest.CreatesTable(op) && storetest.Inside(work) {
				g.Pass()
			}
			return nil
		})))
		key := []byte("key")
		put := func(v string) {
			if err := db.Put(key, []byte(v)); err != nil {
				t.Error(err)
			}
		}
		done := make(chan error, 1)
		put("first")
		if work == storetest.FlushLoop {
			go func() { done <- db.Flush(t.Context()) }()
		} else {
			must(t, db.Flush(t.Context()))
			put("second")
			go func() { done <- db.Compact(t.Context(), bloomkv.CompactOptions{}) }()
		}
		g.Wait(t, string(work)+" writes a table")
		s, err := db.Snapshot()
		must(t, err)
		want, err := s.Get(key)
		must(t, err)
		put("third")
		close(g.Open)
		must(t, <-done)
		replace(t, db, key, []byte("fourth"))
		if got, err := s.Get(key); err != nil || string(got) != string(want) {
			t.Errorf("%s: the snapshot returns %q, %v, want %q", work, got, err, want)
		}
		must(t, errors.Join(s.Close(), db.Close()))
	}
}

// TestAReadUnderWayKeepsItsTable stops a lookup at its read of a table, replaces the table and removes obsolete files.
func TestAReadUnderWayKeepsItsTable(t *testing.T) {
	g := storetest.NewGate()
	slow := false
	files := storetest.TrackOpen(vfstest.NewMem())
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(files, func(op vfstest.Op) error {
		if slow && op.Kind == vfstest.OpReadAt && storetest.Inside(storetest.Search) {
			g.Pass()
		}
		return nil
	})))
	key := []byte("key")
	must(t, errors.Join(db.Put(key, []byte("old")), db.Flush(t.Context())))
	atRest(t, db)
	spoilAll(db)
	old, _ := tablesOf(db)
	slow = true
	done := make(chan error, 1)
	go func() {
		v, err := db.Get(key)
		if err == nil && string(v) != "old" {
			err = fmt.Errorf("value %q", v)
		}
		done <- err
	}()
	g.Wait(t, "the lookup reads")
	replace(t, db, key, []byte("new"))
	for range 2 {
		must(t, errors.Join(db.Put([]byte("x"), nil), db.Flush(t.Context())))
	}
	if files.Of(old[0].File.Path) != 1 {
		t.Error("the table was closed under a read")
	}
	close(g.Open)
	if err := <-done; err != nil {
		t.Error(err)
	}
	atRest(t, db)
	if files.Of(old[0].File.Path) != 0 {
		t.Error("the table stays open")
	}
	must(t, errors.Join(db.Close(), files.Left()))
}

// withBlocks runs a test with blocks in the heap, and with blocks in frames outside of it.
func withBlocks(t *testing.T, test func(t *testing.T, blockSize int)) {
	t.Helper()
	for _, size := range []int{512, 4 << 10} {
		t.Run(strconv.Itoa(size), func(t *testing.T) { test(t, size) })
	}
}

// blockStore returns a compacted store of n keys. Each entry fills a block or two, so that only adjacent keys share a
// block.
func blockStore(t *testing.T, n, blockSize int) (db *bloomkv.DB, key, value func(int) []byte) {
	t.Helper()
	storetest.Roomy(t) // so that blocks stay cached until spoilAll
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability, o.Compression, o.BlockSize = bloomkv.DurabilityNoSync, bloomkv.CompressionNone, blockSize
	db = storetest.Open(t, "db", o)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, bloomkv.ErrClosed) {
			t.Error(err)
		}
	})
	key = func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	value = func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%04d", i), blockSize/5) }
	for i := range n {
		must(t, db.Put(key(i), value(i)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	atRest(t, db)
	return db, key, value
}

// spoilAll evicts all blocks, and has every block spoiled that no guard and no holder protects.
func spoilAll(db *bloomkv.DB) {
	db.Pool().Blocks.SetCapacity(0)
	db.Tree().Domain.Collect()
	db.Pool().Rebalance()
}

// TestWhatReadersHandOutStaysWhileBlocksAreRecycled recycles all blocks while the function of View uses a value, and
// while an iterator is at a key.
func TestWhatReadersHandOutStaysWhileBlocksAreRecycled(t *testing.T) {
	withBlocks(t, testWhatReadersHandOut)
}

func testWhatReadersHandOut(t *testing.T, blockSize int) {
	t.Helper()
	const n = 300
	db, key, value := blockStore(t, n, blockSize)
	snap, err := db.Snapshot()
	must(t, err)
	look := func(what string, i int, got []byte) {
		t.Helper()
		db.Tree().Domain.Wait() // it would never return if the caller were inside a guard
		spoilAll(db)
		if !bytes.Equal(got, value(i)) {
			t.Errorf("%s: the value of key %d became %.12q", what, i, got)
		}
	}
	var keys [][]byte
	for i := range n {
		keys = append(keys, key(i))
	}
	type reader interface {
		View(key []byte, f func([]byte) error) error
		GetMany(keys [][]byte, f func(i int, value []byte, found bool) error) error
		Iter(o bloomkv.IterOptions) *bloomkv.Iterator
	}
	testkit.Within(t, "the readers", func() {
		for name, r := range map[string]reader{"store": db, "snapshot": snap} {
			for i := range 20 {
				if err := r.View(key(i), func(v []byte) error { look(name+".View", i, v); return nil }); err != nil {
					t.Error(err)
				}
			}
			for range 2 { // with and without cached blocks
				if err := r.GetMany(keys[:150], func(i int, v []byte, found bool) error {
					if !found {
						t.Errorf("%s.GetMany: key %d not found", name, i)
					}
					if i%10 == 0 {
						look(name+".GetMany", i, v)
					} else if !bytes.Equal(v, value(i)) {
						t.Errorf("%s.GetMany: the value of key %d became %.12q", name, i, v)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
			it := r.Iter(bloomkv.IterOptions{})
			for i, ok := 0, it.First(); i < 20; i, ok = i+1, it.Next() {
				if !ok || !bytes.Equal(it.Key(), key(i)) {
					t.Fatalf("%s: %v, at %q, want %q", name, it.Err(), it.Key(), key(i))
				}
				look(name+" forward", i, it.Value())
			}
			for i := 19; i > 0; i-- {
				if !it.Prev() || !bytes.Equal(it.Key(), key(i)) {
					t.Fatalf("%s: %v, at %q, want %q", name, it.Err(), it.Key(), key(i))
				}
				look(name+" backward", i, it.Value())
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	must(t, snap.Close())
}

// TestABlockIsHeldInsideTheGuard recycles all blocks at the moment at which a reader is about to hold its own. Only one
// goroutine reads, so that only its guard protects the block.
func TestABlockIsHeldInsideTheGuard(t *testing.T) { withBlocks(t, testABlockIsHeld) }

func testABlockIsHeld(t *testing.T, blockSize int) {
	t.Helper()
	const n = 100
	db, key, value := blockStore(t, n, blockSize)
	held := 0
	spoiling := &cache.TestMode{Acquire: func() { held++; spoilAll(db) }}
	cache.Testing.Store(spoiling)
	check := func(what string, i int, got []byte) {
		t.Helper()
		if !bytes.Equal(got, value(i)) {
			t.Errorf("%s: the value of key %d became %.12q", what, i, got)
		}
	}
	var keys [][]byte
	for i := range n {
		keys = append(keys, key(i))
		if _, err := db.Get(key(i)); err != nil { // so that the block is cached
			t.Fatal(err)
		}
	}
	for i := range n / 2 {
		before := held
		if err := db.View(key(i), func(v []byte) error { check("View", i, v); return nil }); err != nil {
			t.Error(err)
		}
		if held == before {
			t.Fatal("View held no block")
		}
	}
	before := held
	if err := db.GetMany(keys, func(i int, v []byte, _ bool) error {
		check("GetMany", i, v)
		return nil
	}); err != nil {
		t.Error(err)
	}
	if held < before+n {
		t.Errorf("GetMany held %d blocks for %d keys", held-before, n)
	}
	for range 2 { // from the file, then from the cache
		it := db.Iter(bloomkv.IterOptions{})
		for i, ok := 0, it.First(); i < n; i, ok = i+1, it.Next() {
			if !ok || !bytes.Equal(it.Key(), key(i)) {
				t.Fatalf("%v, at %q, want %q", it.Err(), it.Key(), key(i))
			}
			check("an iterator", i, it.Value())
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		cache.Testing.Store(&cache.TestMode{})
		if _, err := storetest.Contents(db); err != nil { // so that the blocks are cached again
			t.Fatal(err)
		}
		cache.Testing.Store(spoiling)
	}
}

// TestABlockIsLetGo has every kind of reader hold every block once, also if its function panics, and checks that none
// stays held: the cache can't reuse a held block.
func TestABlockIsLetGo(t *testing.T) { withBlocks(t, testABlockIsLetGo) }

func testABlockIsLetGo(t *testing.T, blockSize int) {
	t.Helper()
	const n = 100
	db, key, _ := blockStore(t, n, blockSize)
	var keys [][]byte
	for i := range n {
		keys = append(keys, key(i))
	}
	stop := errors.New("stop")
	panics := func(call func()) {
		defer func() {
			if recover() == nil {
				t.Error("the panic of a function does not reach the caller")
			}
		}()
		call()
	}
	for range 3 {
		panics(func() { _ = db.View(key(7), func([]byte) error { panic(stop) }) })
		panics(func() { _ = db.GetMany(keys, func(i int, _ []byte, _ bool) error { panic(stop) }) })
		if err := db.View(key(7), func([]byte) error { return stop }); !errors.Is(err, stop) {
			t.Error(err)
		}
		if err := db.GetMany(keys, func(i int, _ []byte, _ bool) error {
			if i == 70 {
				return stop
			}
			return nil
		}); !errors.Is(err, stop) {
			t.Error(err)
		}
		it := db.Iter(bloomkv.IterOptions{})
		for it.First(); it.Valid() && string(it.Key()) < string(key(n/2)); it.Next() {
		}
		must(t, it.Close())
		if _, err := storetest.Contents(db); err != nil {
			t.Error(err)
		}
	}
	blocks, held, framed := db.Tree().Blocks.Held()
	if blocks == 0 || held > 0 {
		t.Errorf("%d of %d blocks are still held without a reader", held, blocks)
	}
	if want := blockSize >= 4<<10; want != (framed > 0) {
		t.Errorf("%d of %d blocks of %d bytes are in frames", framed, blocks, blockSize)
	}
}

// TestRunsThatDoNotChangeAreKept: a flush adds one run and keeps the others.
func TestRunsThatDoNotChangeAreKept(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
	defer func() { _ = db.Close() }()
	for i := range 3 {
		before := db.Tree().Load().Runs
		must(t, errors.Join(db.Put([]byte{byte(i)}, nil), db.Flush(t.Context())))
		if after := db.Tree().Load().Runs; len(after) != i+1 || !slices.Equal(after[1:], before) {
			t.Errorf("flush %d: the runs are not the previous ones and a new one", i+1)
		}
	}
}

// TestAnIngestIsVisibleWithItsState checks, just after the state is swapped, whether readers of it see its tables: a
// compaction that found them before readers do could drop keys that readers still need.
func TestAnIngestIsVisibleWithItsState(t *testing.T) {
	var db *bloomkv.DB
	var leave func()
	db = storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.Contains(op.Name, "MANIFEST") && leave != nil &&
			storetest.Inside(storetest.InstallIngest) {
			leave()
			leave = nil
		}
		return nil
	})))
	must(t, db.Put([]byte("key"), []byte("old")))
	atRest(t, db)
	// A callback retired while a reader is inside runs at the first retirement after it left, which is that of the old
	// state.
	looked := make(chan struct{})
	g := db.Tree().Domain.Enter()
	db.Tree().Domain.Retire(func() {
		defer close(looked)
		db.Tree().Load().EachTable(func(_ int, table *tree.Table) {
			if visible := db.Tree().NewestSeq(); table.Meta.MaxSeq > visible {
				t.Errorf("the state has a table of sequence number %d, but readers see up to %d", table.Meta.MaxSeq,
					visible)
			}
		})
	})
	leave = g.Leave
	must(t, db.Ingest(t.Context(), storetest.PairsOf(map[string]string{"key": "new"}), bloomkv.IngestOptions{}))
	db.Tree().Domain.Wait() // another goroutine may have begun the check
	select {
	case <-looked:
	default:
		t.Error("the check did not run")
	}
	must(t, db.Close())
}
