package bloomkv_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestStretchesOfDeadKeysHideNothing deletes long ranges of keys, puts some back, and compares iterators in both
// directions, of several ages, with a map.
func TestStretchesOfDeadKeysHideNothing(t *testing.T) {
	recorded := 0 // steps after which a range was recorded
	for seed := range uint64(max(3, storetest.AtStride(60))) {
		rng := rand.New(rand.NewPCG(seed, 7))
		o := storetest.Tiny(vfs.NewMem())
		o.Durability = bloomkv.NoSync
		if seed%2 == 0 {
			o.MemtableSize = 1 << 20
		}
		db, err := bloomkv.Open("db", o)
		must(t, err)
		const n = 600
		key := func(i int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(i)) }
		alive := map[int]bool{}
		put := func(i int) {
			must(t, db.Put(key(i), []byte("v")))
			alive[i] = true
		}
		for i := range n {
			put(i)
		}
		type kept struct {
			it   *bloomkv.Iterator
			want []int
		}
		var old []kept
		sorted := func() (all []int) {
			for i := range alive {
				all = append(all, i)
			}
			slices.Sort(all)
			return all
		}
		check := func(it *bloomkv.Iterator, want []int) {
			t.Helper()
			i, _ := slices.BinarySearch(want, rng.IntN(n))
			var at int
			var ok bool
			switch rng.IntN(4) {
			case 0:
				at, ok = 0, it.First()
			case 1:
				at, ok = len(want)-1, it.Last()
			case 2:
				at = i
				ok = it.SeekGE(key(func() int {
					if i < len(want) {
						return max(0, want[i]-rng.IntN(50))
					}
					return n
				}()))
				if i < len(want) && it.Valid() { // the seek may land on an earlier key
					at, _ = slices.BinarySearch(want, int(binary.BigEndian.Uint16(it.Key())))
				}
			default:
				at = i - 1
				target := n
				if i < len(want) {
					target = want[i]
				}
				ok = it.SeekLT(key(target))
			}
			for step := 0; ; step++ {
				inside := at >= 0 && at < len(want)
				if ok != inside || ok && int(binary.BigEndian.Uint16(it.Key())) != want[at] {
					t.Fatalf("seed %d: at %v (%v), want index %d of %d", seed, it.Key(), ok, at, len(want))
				}
				if !ok || step == 8 {
					return
				}
				if rng.IntN(3) == 0 {
					at, ok = at-1, it.Prev()
				} else {
					at, ok = at+1, it.Next()
				}
			}
		}
		for range 120 {
			switch rng.IntN(6) {
			case 0: // delete a row of keys
				from := rng.IntN(n)
				for i := from; i < min(n, from+rng.IntN(200)); i++ {
					must(t, db.Delete(key(i)))
					delete(alive, i)
				}
			case 1:
				for range rng.IntN(4) {
					put(rng.IntN(n))
				}
			case 2:
				old = append(old, kept{db.Iter(bloomkv.IterOptions{}), sorted()})
			case 3:
				if len(old) > 0 {
					k := old[rng.IntN(len(old))]
					check(k.it, k.want)
				}
			default:
				it := db.Iter(bloomkv.IterOptions{})
				check(it, sorted())
				must(t, it.Close())
			}
			recorded += min(1, db.Reads().DeadKeys.Len())
		}
		for _, k := range old {
			check(k.it, k.want)
			must(t, k.it.Close())
		}
		must(t, db.Close())
	}
	if recorded == 0 {
		t.Error("no range was ever recorded")
	}
}

// TestAPutIntoADeadStretchIsSeenAtOnce puts keys where other readers have just remembered a range without live keys.
func TestAPutIntoADeadStretchIsSeenAtOnce(t *testing.T) {
	o := storetest.Tiny(vfs.NewMem())
	o.Durability, o.MemtableSize = bloomkv.NoSync, 1<<20
	db, err := bloomkv.Open("db", o)
	must(t, err)
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	const workers, rows = 4, 100
	key := func(w, i int) []byte { return fmt.Appendf(nil, "%04d/%d", i, w) }
	var wg sync.WaitGroup
	var recorded atomic.Bool
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 9))
			for range storetest.AtStride(400) {
				for i := range rows {
					if err := cmp.Or(db.Put(key(w, i), nil), db.Delete(key(w, i))); err != nil {
						t.Error(err)
						return
					}
				}
				mine := key(w, rng.IntN(rows))
				if err := db.Put(mine, nil); err != nil {
					t.Error(err)
					return
				}
				it := db.Iter(bloomkv.IterOptions{})
				seen := false
				if rng.IntN(2) == 0 {
					for k := range it.All() {
						seen = seen || string(k) == string(mine)
					}
				} else {
					for k := range it.Backward() {
						seen = seen || string(k) == string(mine)
					}
				}
				if db.Reads().DeadKeys.Len() > 0 {
					recorded.Store(true)
				}
				if err := it.Close(); err != nil || !seen {
					t.Errorf("worker %d: its put of %q was not seen, %v", w, mine, err)
					return
				}
				if err := db.Delete(mine); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if !recorded.Load() {
		t.Error("no range was ever recorded")
	}
}

// TestLongBoundsEndWhereTheySay iterates over dead keys up to bounds that are longer than any key.
func TestLongBoundsEndWhereTheySay(t *testing.T) {
	for _, length := range []int{
		1, bloomkv.MaxKeySize, bloomkv.MaxKeySize + 1, bloomkv.MaxKeySize + 2, bloomkv.MaxKeySize + 100,
	} {
		for _, back := range []bool{false, true} {
			db := storetest.OpenTiny(t)
			for i := range 3 * deadkeys.Worth {
				k := fmt.Appendf(nil, "a%03d", i)
				must(t, db.Delete(k))
			}
			must(t, db.Put([]byte("z"), nil))
			bound := bytes.Repeat([]byte("b"), length)
			for range 3 { // the first one enables the notes, which need a write
				var it *bloomkv.Iterator
				if back {
					it = db.Iter(bloomkv.IterOptions{})
					it.SeekLT(bound)
				} else {
					it = db.Iter(bloomkv.IterOptions{Upper: bound})
					it.SeekGE([]byte("a"))
				}
				must(t, it.Close())
				must(t, db.Put([]byte("0"), nil))
			}
			it := db.Iter(bloomkv.IterOptions{})
			n := 0
			for range it.All() {
				n++
			}
			must(t, errors.Join(it.Close(), db.Close()))
			if n != 2 {
				t.Errorf("bound of %d bytes, back %v: %d keys, want 2", length, back, n)
			}
		}
	}
}

// TestKeysIngestedIntoAStretchOfDeadKeysAreSeenAtOnce has iterators record a range of dead keys, and then ingests into
// it.
func TestKeysIngestedIntoAStretchOfDeadKeysAreSeenAtOnce(t *testing.T) {
	db, err := bloomkv.Open("db", storetest.Tiny(vfs.NewMem()))
	must(t, err)
	key := func(i int) string { return fmt.Sprintf("key%03d", i) }
	want := map[string]string{"a": "", "z": ""}
	keys := []string{"a", "z"}
	must(t, errors.Join(db.Put([]byte("a"), nil), db.Put([]byte("z"), nil)))
	for i := range 3 * deadkeys.Worth {
		keys = append(keys, key(i))
	}
	for round := range 10 {
		for i := range 3 * deadkeys.Worth { // repeatedly, because compaction drops them
			must(t, db.Delete([]byte(key(i))))
		}
		for _, k := range []string{"a", "z"} { // what iterators record takes effect after a write was counted
			must(t, errors.Join(db.Put([]byte(k), nil), storetest.Shows(db, want, keys)))
		}
		if db.Reads().DeadKeys.Len() == 0 {
			t.Fatalf("round %d: the dead keys were not recorded: the test tests nothing", round)
		}
		k := key(deadkeys.Worth/2 + round*deadkeys.Worth/5)
		want[k] = "in"
		if err := db.Ingest(t.Context(), storetest.PairsOf(map[string]string{k: "in"}),
			bloomkv.IngestOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := storetest.Shows(db, want, keys); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		delete(want, k)
	}
	must(t, db.Close())
}

// TestWhatIsIngestedIsNotTakenForDead stops an ingest after it was assigned its sequence number and before its state is
// installed. Meanwhile an iterator finds a long row of dead keys, and a snapshot has to wait.
func TestWhatIsIngestedIsNotTakenForDead(t *testing.T) {
	db := storetest.OpenTiny(t)
	for i := range 3 * deadkeys.Worth {
		must(t, db.Delete(fmt.Appendf(nil, "a%03d", i)))
	}
	walk := func() {
		it := db.Iter(bloomkv.IterOptions{})
		it.First()
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	}
	walk() // enables the recording of dead keys, which takes effect with a write
	must(t, db.Put([]byte("z"), nil))
	taken := make(chan *bloomkv.Snapshot, 1)
	seq, err := db.Writer().Halt(t.Context(), 0)
	must(t, err)
	db.Tree().Await(func(tree.View) bool { // the tree is locked, as during the installation of ingested tables
		db.Tree().Publish(seq)
		walk()
		go func() {
			s, err := db.Snapshot()
			if err != nil {
				t.Error(err)
			}
			taken <- s
		}()
		storetest.Soon(t, "the snapshot waits", func() bool {
			return len(taken) > 0 || storetest.Waiting(storetest.DBSnapshot)
		})
		if len(taken) > 0 {
			t.Error("a snapshot has the sequence number of an ingest before its state is installed")
		}
		return true
	})
	db.Writer().Resume(seq)
	if n := db.Reads().DeadKeys.Len(); n > 0 {
		t.Errorf("%d ranges are recorded as dead, but an ingest may have put keys into them", n)
	}
	if err := (<-taken).Close(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
