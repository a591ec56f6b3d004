package tests

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// walks compares all that an iterator shows, in both directions and from the middle, with a map.
func walks(it *bloomkv.Iterator, want map[string]string) error {
	keys := slices.Sorted(maps.Keys(want))
	at := func(what string, ok bool, i int) error {
		inside := i >= 0 && i < len(keys)
		switch {
		case ok != inside || it.Valid() != inside || it.Err() != nil:
			return fmt.Errorf("%s, position %d of %d: %v, valid %v, at %q, %w", what, i, len(keys), ok, it.Valid(),
				it.Key(), it.Err())
		case inside && (string(it.Key()) != keys[i] || string(it.Value()) != want[keys[i]]):
			return fmt.Errorf("%s, position %d of %d: %q = %.40q, want %q = %.40q", what, i, len(keys), it.Key(),
				it.Value(), keys[i], want[keys[i]])
		}
		return nil
	}
	if err := at("first", it.First(), 0); err != nil {
		return err
	}
	for i := range keys {
		if err := at("next", it.Next(), i+1); err != nil {
			return err
		}
	}
	for i := range keys {
		if err := at("prev", it.Prev(), len(keys)-1-i); err != nil {
			return err
		}
	}
	if err := at("prev", it.Prev(), -1); err != nil {
		return err
	}
	for i := 0; i < len(keys); i += 7 {
		if err := at("seek ≥", it.SeekGE([]byte(keys[i])), i); err != nil {
			return err
		}
		if err := at("prev after seek ≥", it.Prev(), i-1); err != nil {
			return err
		}
		if err := at("seek <", it.SeekLT([]byte(keys[i]+"\x00")), i); err != nil {
			return err
		}
		if err := at("next after seek <", it.Next(), i+1); err != nil {
			return err
		}
	}
	return nil
}

// TestAScanMayGoBackwardsAndEndEarly scans five keys, one of them only in a transaction.
func TestAScanMayGoBackwardsAndEndEarly(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	defer func() { must(t, db.Close()) }()
	for _, key := range []string{"a", "b1", "b2", "b3", "c"} {
		must(t, db.Put([]byte(key), []byte("value of "+key)))
	}
	snap, err := db.Snapshot()
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	must(t, db.Delete([]byte("b2")))
	prefix := bloomkv.IterOptions{Prefix: []byte("b"), Reverse: true}
	for _, c := range []struct {
		o                bloomkv.IterOptions
		snap, now, again string // the keys of the snapshot, the store, and a transaction that puts b4
	}{
		{bloomkv.IterOptions{}, "a b1 b2 b3 c", "a b1 b3 c", "a b1 b3 b4 c"},
		{bloomkv.IterOptions{Reverse: true}, "c b3 b2 b1 a", "c b3 b1 a", "c b4 b3 b1 a"},
		{bloomkv.IterOptions{Limit: 2}, "a b1", "a b1", "a b1"},
		{bloomkv.IterOptions{Limit: 9}, "a b1 b2 b3 c", "a b1 b3 c", "a b1 b3 b4 c"},
		{bloomkv.IterOptions{Limit: 2, Reverse: true, KeysOnly: true}, "c b3", "c b3", "c b4"},
		{prefix, "b3 b2 b1", "b3 b1", "b4 b3 b1"},
		{bloomkv.IterOptions{Upper: []byte("b2"), Limit: 1, Reverse: true}, "b1", "b1", "b1"},
		{bloomkv.IterOptions{Lower: []byte("d"), Limit: 1, Reverse: true}, "", "", ""},
	} {
		keys := func(scan func(bloomkv.IterOptions) iter.Seq2[bloomkv.KV, error]) string {
			var keys []string
			for kv, err := range scan(c.o) {
				must(t, err)
				if want := "value of " + string(kv.Key); string(kv.Value) != want && !c.o.KeysOnly {
					t.Errorf("%+v: value %q, want %q", c.o, kv.Value, want)
				}
				keys = append(keys, string(kv.Key))
			}
			return strings.Join(keys, " ")
		}
		if snap, now := keys(snap.Scan), keys(db.Scan); snap != c.snap || now != c.now {
			t.Errorf("%+v: %q as of the snapshot and %q now, want %q and %q", c.o, snap, now, c.snap, c.now)
		}
		must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) error {
			must(t, tx.Put([]byte("b4"), []byte("value of b4")))
			if got := keys(tx.Scan); got != c.again {
				t.Errorf("%+v: %q in a transaction, want %q", c.o, got, c.again)
			}
			return nil
		}))
		must(t, db.Delete([]byte("b4")))
	}
}

// TestIteratorsShowTheMomentTheyWereMade keeps iterators open while the store is written to in every way, flushed,
// compacted and at last closed.
func TestIteratorsShowTheMomentTheyWereMade(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	now := map[string]string{}
	rng := rand.New(rand.NewPCG(51, 52))
	key := func() string { return fmt.Sprintf("key%03d", rng.IntN(400)) }
	type kept struct {
		it   *bloomkv.Iterator
		want map[string]string
		at   string // its position
		what string
	}
	var open []kept
	leave := func(what string) {
		t.Helper()
		k := kept{it: db.Iter(bloomkv.IterOptions{}), want: maps.Clone(now), what: what}
		switch len(open) % 3 { // the third has not been moved
		case 0:
			k.it.SeekGE([]byte(key()))
		case 1:
			k.it.SeekLT([]byte(key()))
		}
		k.at = string(k.it.Key())
		open = append(open, k)
	}
	for step := range 24 {
		leave(fmt.Sprintf("before step %d", step))
		var err error
		switch step % 8 {
		case 0, 3, 6:
			for range 60 {
				k, v := key(), strings.Repeat(fmt.Sprint(step, "."), rng.IntN(60))
				err = errors.Join(err, db.Put([]byte(k), []byte(v)))
				now[k] = v
			}
		case 1:
			for range 20 {
				k := key()
				err = errors.Join(err, db.Delete([]byte(k)))
				delete(now, k)
			}
		case 2:
			op := modelOp{key: key(), ranged: true}
			op.end = append([]byte(op.key[:4]), '9')
			err = db.DeleteRange(bloomkv.KeyRange{Lower: []byte(op.key), Upper: op.end})
			modelWrite{op}.apply(now)
		case 4:
			err = db.Flush(t.Context())
		case 5:
			sorted := map[string]string{}
			for range 30 {
				sorted[key()] = fmt.Sprint("ingested ", step)
			}
			err = db.Ingest(t.Context(), storetest.PairsOf(sorted),
				bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{Lower: []byte("key20"), Upper: []byte("key23")}})
			modelWrite{{key: "key20", ranged: true, end: []byte("key23")}}.apply(now)
			maps.Copy(now, sorted)
		case 7:
			err = db.Compact(t.Context(), bloomkv.CompactOptions{})
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	storetest.Settle(t, db)
	before := bytesOfTables(t, mem)
	for range 3 {
		if got, err := storetest.Contents(db); err != nil || storetest.Diff(got, now) != "" {
			t.Fatalf("scan: %v, %s", err, storetest.Diff(got, now))
		}
	}
	for i, k := range open {
		if k.at != "" && (string(k.it.Key()) != k.at || string(k.it.Value()) != k.want[k.at]) {
			t.Errorf("%s: is at %q = %.40q, want %q = %.40q", k.what, k.it.Key(), k.it.Value(), k.at, k.want[k.at])
		}
		if err := walks(k.it, k.want); err != nil {
			t.Errorf("%s: %v", k.what, err)
		}
		if i%4 > 0 {
			if err := k.it.Close(); err != nil {
				t.Errorf("%s: %v", k.what, err)
			}
		}
	}
	// Files that no state needs are removed when the last iterator on it is closed.
	for i, k := range open {
		if i%4 == 0 && i > 0 {
			if err := k.it.Close(); err != nil {
				t.Errorf("%s: %v", k.what, err)
			}
		}
	}
	must(t, open[0].it.Close())
	testkit.Soon(t, "only the tree's tables are left", func() bool {
		tree := uint64(0)
		for _, l := range db.Metrics().Levels {
			tree += l.Bytes
		}
		return bytesOfTables(t, mem) == int64(tree)
	})
	if after := bytesOfTables(t, mem); after >= before {
		t.Errorf("%d bytes of tables, %d while iterators needed them: the test tests little", after, before)
	}
	must(t, db.Close())
}

// TestAClosedStoreLeavesIteratorsWhereTheyStand closes a store under iterators in every position.
func TestAClosedStoreLeavesIteratorsWhereTheyStand(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	for i := range 200 {
		must(t, db.Put(fmt.Appendf(nil, "table%03d", i), bytes.Repeat([]byte{byte(i)}, 50)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	for i := range 200 {
		must(t, db.Put(fmt.Appendf(nil, "memory%03d", i), bytes.Repeat([]byte{byte(i)}, 50)))
	}
	moves := map[string]func(it *bloomkv.Iterator) bool{
		"at a table's key":            func(it *bloomkv.Iterator) bool { return it.SeekGE([]byte("table077")) },
		"at a table's key, backward":  func(it *bloomkv.Iterator) bool { return it.SeekLT([]byte("table078")) },
		"at a memtable's key":         func(it *bloomkv.Iterator) bool { return it.SeekGE([]byte("memory077")) },
		"at a memtable's, backward":   func(it *bloomkv.Iterator) bool { return it.SeekLT([]byte("memory078")) },
		"nowhere yet":                 func(*bloomkv.Iterator) bool { return false },
		"past the last key":           func(it *bloomkv.Iterator) bool { return it.SeekGE([]byte("u")) },
		"before the first key":        func(it *bloomkv.Iterator) bool { return it.SeekLT([]byte("m")) },
		"at a key, without its value": func(it *bloomkv.Iterator) bool { return it.SeekGE([]byte("table077")) },
	}
	iters := map[string]*bloomkv.Iterator{}
	for what, move := range moves {
		it := db.Iter(bloomkv.IterOptions{KeysOnly: strings.Contains(what, "without")})
		if move(it) != strings.Contains(what, "at a") {
			t.Fatalf("%s: %q, %v", what, it.Key(), it.Err())
		}
		iters[what] = it
	}
	must(t, db.Close())
	runtime.GC()
	for what, it := range iters {
		key, value := "", ""
		if strings.Contains(what, "at a") {
			key, value = "table077", strings.Repeat("\x4d", 50)
			if strings.Contains(what, "memtable") {
				key = "memory077"
			}
		}
		if strings.Contains(what, "without") {
			value = ""
		}
		if string(it.Key()) != key || string(it.Value()) != value || (it.Key() != nil) != it.Valid() ||
			it.Err() != nil {
			t.Errorf("%s, before a move: is at %q = %q, valid %v, %v, want %q = %q", what, it.Key(), it.Value(),
				it.Valid(), it.Err(), key, value)
		}
		for name, move := range map[string]func() bool{
			"next": it.Next, "prev": it.Prev, "first": it.First, "last": it.Last,
			"seek ≥": func() bool { return it.SeekGE(nil) }, "seek <": func() bool { return it.SeekLT([]byte("z")) },
		} {
			if move() || it.Key() != nil || it.Value() != nil || it.Valid() || !errors.Is(it.Err(), bloomkv.ErrClosed) {
				t.Errorf("%s, %s: is at %q = %q, valid %v, %v, want ErrClosed and no key", what, name, it.Key(),
					it.Value(), it.Valid(), it.Err())
			}
		}
		if err := it.Close(); err != bloomkv.ErrClosed { //nolint:errorlint // it is returned bare
			t.Errorf("%s: close: %v, want ErrClosed", what, err)
		}
		if it.Key() != nil || it.Value() != nil || !errors.Is(it.Close(), bloomkv.ErrClosed) {
			t.Errorf("%s: closed iterator is at %q = %q", what, it.Key(), it.Value())
		}
	}
	it := db.Iter(bloomkv.IterOptions{})
	if it == nil || it.First() || it.Last() || it.Next() || it.Prev() || it.Valid() ||
		!errors.Is(it.Err(), bloomkv.ErrClosed) || !errors.Is(it.Close(), bloomkv.ErrClosed) {
		t.Errorf("an iterator of a closed store: %+v", it)
	}
}

// TestManyIteratorsBesideWritersAndClose moves iterators on several goroutines while others write, flush and compact:
// an iterator shows one state. Each commit writes the same number under all keys.
func TestManyIteratorsBesideWritersAndClose(t *testing.T) {
	for round := range storetest.AtStride(6) {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability = bloomkv.DurabilityNoSync
		db := storetest.Open(t, "db", o)
		const keys = 40
		commit := func(n int) error {
			var b bloomkv.Batch
			if n%5 == 4 {
				b.DeleteRange(bloomkv.KeyRange{})
			}
			for i := range keys {
				b.Put(fmt.Appendf(nil, "key%02d", i), fmt.Appendf(nil, "%08d%0*d", n, n%100, 0))
			}
			return db.ApplyWith(&b, bloomkv.DurabilityNoSync)
		}
		must(t, commit(0))
		var wg sync.WaitGroup
		until := func(what string, f func(rng *rand.Rand) error) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(len(what))))
				for {
					if err := f(rng); err != nil {
						if !errors.Is(err, bloomkv.ErrClosed) {
							t.Errorf("%s: %v", what, err)
						}
						return
					}
				}
			})
		}
		n := 0
		until("writing", func(*rand.Rand) error { n++; return commit(n) })
		until("flushing", func(rng *rand.Rand) error {
			if rng.IntN(4) == 0 {
				return db.Compact(t.Context(), bloomkv.CompactOptions{})
			}
			return db.Flush(t.Context())
		})
		for range 3 {
			until("iterating", func(rng *rand.Rand) error {
				it := db.Iter(bloomkv.IterOptions{})
				at, moment := -1, ""
				for step := range 150 {
					var ok bool
					switch m := rng.IntN(10); {
					case m == 0 || step == 0:
						at = rng.IntN(keys)
						ok = it.SeekGE(fmt.Appendf(nil, "key%02d", at))
					case m == 1:
						at = rng.IntN(keys)
						ok = it.SeekLT(fmt.Appendf(nil, "key%02d\x00", at))
					case m < 6 && at < keys-1:
						at++
						ok = it.Next()
					case at > 0:
						at--
						ok = it.Prev()
					default:
						continue
					}
					if !ok {
						if it.Err() == nil {
							return fmt.Errorf("key %d is missing", at)
						}
						break
					}
					if moment == "" {
						moment = string(it.Value())
					}
					if string(it.Key()) != fmt.Sprintf("key%02d", at) || string(it.Value()) != moment {
						return fmt.Errorf("%q = %q, want key %d of %q", it.Key(), it.Value(), at, moment)
					}
				}
				return it.Close()
			})
		}
		time.Sleep(time.Duration(20+round*10) * time.Millisecond)
		must(t, db.Close())
		testkit.Within(t, "ending", wg.Wait)
	}
}
