package bloomkv_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestStretchesOfDeadKeysHideNothing deletes long ranges of keys, puts some back, and compares iterators in both
// directions, of several ages, and of transactions that have written, with a map.
func TestStretchesOfDeadKeysHideNothing(t *testing.T) {
	recorded := 0 // steps after which a range was recorded
	for seed := range uint64(max(3, storetest.AtStride(60))) {
		rng := rand.New(rand.NewPCG(seed, 7))
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability = bloomkv.DurabilityNoSync
		if seed%2 == 0 {
			o.MemtableSize = 1 << 20
		}
		db := storetest.Open(t, "db", o)
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
			switch rng.IntN(7) {
			case 6: // the writes of a transaction lie in the ranges
				stored := maps.Clone(alive)
				undo := errors.New("undo")
				if err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
					for range rng.IntN(8) {
						i := rng.IntN(n)
						must(t, tx.Put(key(i), []byte("v")))
						alive[i] = true
						i = rng.IntN(n)
						must(t, tx.Delete(key(i)))
						delete(alive, i)
						j := min(n, i+rng.IntN(60))
						must(t, tx.DeleteRange(bloomkv.KeyRange{Lower: key(i), Upper: key(j)}))
						for ; i < j; i++ {
							delete(alive, i)
						}
						check(tx.Iter(bloomkv.IterOptions{}), sorted())
					}
					return undo
				}); err != undo { //nolint:errorlint // returned as it is
					t.Fatal(err)
				}
				alive = stored
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
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability, o.MemtableSize = bloomkv.DurabilityNoSync, 1<<20
	db := storetest.Open(t, "db", o)
	defer func() {
		must(t, db.Close())
	}()
	const workers, rows = 4, 100
	values := [][]byte{nil, make([]byte, 1<<20)} // a large one takes another way into the store
	key := func(w, i int) []byte { return fmt.Appendf(nil, "%04d/%d", i, w) }
	var wg sync.WaitGroup
	var recorded atomic.Bool
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 9))
			for range storetest.Seeds(200) {
				for i := range rows {
					if err := cmp.Or(db.Put(key(w, i), nil), db.Delete(key(w, i))); err != nil {
						t.Error(err)
						return
					}
				}
				mine := key(w, rng.IntN(rows))
				if err := db.Put(mine, values[rng.IntN(20)/19]); err != nil {
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
			for range 3 {
				var it *bloomkv.Iterator
				if back {
					it = db.Iter(bloomkv.IterOptions{})
					it.SeekLT(bound)
				} else {
					it = db.Iter(bloomkv.IterOptions{Upper: bound})
					it.SeekGE([]byte("a"))
				}
				must(t, it.Close())
			}
			must(t, db.Put([]byte("0"), nil))
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
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
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
		must(t, storetest.Shows(db, want, keys))
		if db.Reads().DeadKeys.Len() == 0 {
			t.Fatalf("round %d: the dead keys were not recorded: the test tests nothing", round)
		}
		k := key(deadkeys.Worth/2 + round*deadkeys.Worth/5)
		want[k] = "in"
		must(t, db.Ingest(t.Context(), storetest.PairsOf(map[string]string{k: "in"}),
			bloomkv.IngestOptions{}))
		if err := storetest.Shows(db, want, keys); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		delete(want, k)
	}
	must(t, db.Close())
}

// TestWhatIsIngestedIsNotTakenForDead stops an ingest after it was assigned its sequence number and before its state is
// installed. Meanwhile a snapshot has to wait, and an iterator begins, which has the number without the tables. It
// finds a long row of dead keys then, and again after keys were ingested into the row.
func TestWhatIsIngestedIsNotTakenForDead(t *testing.T) {
	db := storetest.OpenTiny(t)
	for i := range 3 * deadkeys.Worth {
		must(t, db.Delete(fmt.Appendf(nil, "a%03d", i)))
	}
	var old *bloomkv.Iterator
	taken := make(chan *bloomkv.Snapshot, 1)
	must(t, db.Writer().Alone(t.Context(), 0, func(seq ikey.Seq) error {
		db.Tree().Await(func(tree.View) bool { // the tree is locked, as during the installation of ingested tables
			db.Tree().Publish(seq)
			old = db.Iter(bloomkv.IterOptions{})
			if old.First() {
				t.Errorf("the iterator is at %q", old.Key())
			}
			go func() {
				s, err := db.Snapshot()
				if err != nil {
					t.Error(err)
				}
				taken <- s
			}()
			testkit.Soon(t, "the snapshot waits", func() bool {
				return len(taken) > 0 || storetest.Waiting(storetest.DBSnapshot)
			})
			if len(taken) > 0 {
				t.Error("a snapshot has the sequence number of an ingest before its state is installed")
			}
			return true
		})
		return nil
	}))
	if err := (<-taken).Close(); err != nil {
		t.Error(err)
	}
	want := map[string]string{"a050": "in"}
	must(t, db.Ingest(t.Context(), storetest.PairsOf(want), bloomkv.IngestOptions{}))
	for range 2 {
		if old.First() {
			t.Errorf("the iterator is at %q", old.Key())
		}
		if err := storetest.Shows(db, want, []string{"a010", "a050", "a090"}); err != nil {
			t.Error(err)
		}
	}
	must(t, errors.Join(old.Close(), db.Close()))
}

// TestAStoreThatWasImportedIsNotTakenForDead imports a store over one whose keys are dead, and polls both.
func TestAStoreThatWasImportedIsNotTakenForDead(t *testing.T) {
	from, to := storetest.OpenTiny(t), storetest.OpenTiny(t)
	want := map[string]string{}
	for i := range 3 * deadkeys.Worth {
		k := fmt.Sprintf("a%03d", i)
		want[k] = "v"
		must(t, errors.Join(from.Put([]byte(k), []byte("v")), to.Put([]byte(k), nil), to.Delete([]byte(k))))
	}
	snap, err := to.Snapshot()
	must(t, err)
	old := to.Iter(bloomkv.IterOptions{})
	first := func(it *bloomkv.Iterator) string {
		it.First()
		return string(it.Key())
	}
	if got := first(old); got != "" || to.Reads().DeadKeys.Len() != 1 {
		t.Fatalf("the first key is %q, and there are %d ranges, want 1", got, to.Reads().DeadKeys.Len())
	}
	var stream bytes.Buffer
	e, err := from.Export(t.Context(), bloomkv.ExportOptions{})
	must(t, err)
	_, err = e.WriteTo(&stream)
	must(t, errors.Join(err, e.Close()))
	must(t, to.Import(t.Context(), &stream, bloomkv.ImportOptions{Replace: true}))
	for range 3 {
		kept := snap.Iter(bloomkv.IterOptions{})
		if got, was := first(old), first(kept); got != "" || was != "" {
			t.Errorf("the iterator from before is at %q, that of the snapshot at %q, want at no key", got, was)
		}
		must(t, errors.Join(kept.Close(), storetest.Shows(to, want, []string{"a000", "a050", "b"})))
	}
	must(t, errors.Join(old.Close(), snap.Close(), from.Close(), to.Close()))
}

// TestWhatASnapshotFindsDeadIsNotDeadForOthers polls dead keys by a snapshot after a key was put among them, which is
// in a table.
func TestWhatASnapshotFindsDeadIsNotDeadForOthers(t *testing.T) {
	db := storetest.OpenTiny(t)
	for i := range 3 * deadkeys.Worth {
		must(t, db.Delete(itemKey(i)))
	}
	snap, err := db.Snapshot()
	must(t, err)
	want := map[string]string{string(itemKey(50)): "in"}
	must(t, errors.Join(db.Put(itemKey(50), []byte("in")), db.Flush(t.Context())))
	for _, p := range polls {
		for range 2 {
			if got, want := p.poll(snap), "<nil>"; got != want {
				t.Errorf("poll %s of the snapshot: got %q, want %q", p.name, got, want)
			}
			must(t, storetest.Shows(db, want, []string{string(itemKey(49)), string(itemKey(50))}))
		}
	}
	must(t, errors.Join(snap.Close(), db.Close()))
}

// dead returns options, and fills a store with n dead keys, m00000 on, between the keys a and z.
func dead(tb testing.TB, n int) *bloomkv.Options {
	tb.Helper()
	o := &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync}
	db := storetest.Open(tb, "db", o)
	must(tb, errors.Join(db.Put([]byte("a"), nil), db.Put([]byte("z"), nil)))
	var b bloomkv.Batch
	for i := range n {
		b.Put(itemKey(i), nil)
	}
	must(tb, errors.Join(db.Apply(&b), db.Flush(tb.Context())))
	b.Reset()
	for i := range n {
		b.Delete(itemKey(i))
	}
	must(tb, errors.Join(db.Apply(&b), db.Close()))
	return o
}

func itemKey(i int) []byte { return fmt.Appendf(nil, "m%07d", i) }

// polls are ways to find out that there is no key with the prefix m. Each returns the keys around, or none.
var polls = []struct {
	name string
	poll func(db bloomkv.Reader) string
}{
	{"of a prefix", func(db bloomkv.Reader) string {
		return moved(db, bloomkv.IterOptions{Prefix: []byte("m")}, (*bloomkv.Iterator).First)
	}},
	{"of a prefix from its end", func(db bloomkv.Reader) string {
		return moved(db, bloomkv.IterOptions{Prefix: []byte("m")}, (*bloomkv.Iterator).Last)
	}},
	{"by a seek", func(db bloomkv.Reader) string {
		return moved(db, bloomkv.IterOptions{}, func(it *bloomkv.Iterator) bool { return it.SeekGE([]byte("m0")) })
	}},
	{"by a seek back", func(db bloomkv.Reader) string {
		return moved(db, bloomkv.IterOptions{}, func(it *bloomkv.Iterator) bool { return it.SeekLT([]byte("n")) })
	}},
	{"by a step", func(db bloomkv.Reader) string {
		return moved(db, bloomkv.IterOptions{}, func(it *bloomkv.Iterator) bool { return it.First() && it.Next() })
	}},
	{"by a step back", func(db bloomkv.Reader) string {
		return moved(db, bloomkv.IterOptions{}, func(it *bloomkv.Iterator) bool { return it.Last() && it.Prev() })
	}},
	{"by a scan", func(db bloomkv.Reader) string {
		for kv, err := range db.Scan(bloomkv.IterOptions{Lower: []byte("b"), Upper: []byte("y")}) {
			return fmt.Sprint(string(kv.Key), err)
		}
		return "<nil>"
	}},
}

func moved(db bloomkv.Reader, o bloomkv.IterOptions, move func(it *bloomkv.Iterator) bool) string {
	it := db.Iter(o)
	move(it)
	return string(it.Key()) + fmt.Sprint(it.Close())
}

// TestAPollOfDeletedKeysStepsOverThemOnce polls a range of deleted keys, of numbers around those at which something
// changes. Only the first poll may step over them, and each poll after it reads as many blocks for any number.
func TestAPollOfDeletedKeysStepsOverThemOnce(t *testing.T) {
	testkit.Long(t)
	numbers := []int{
		deadkeys.Worth, deadkeys.Worth + 1, deadkeys.Chunk - 1, deadkeys.Chunk, deadkeys.Chunk + 1,
		2 * deadkeys.Chunk, 2*deadkeys.Chunk + deadkeys.Worth + 1, 20_000,
	}
	for _, readOnly := range []bool{false, true} {
		for _, n := range numbers {
			for _, p := range polls {
				o := dead(t, n)
				files := storetest.LogFiles(o.FS)
				o.FS, o.ReadOnly, o.MaxMappedBytes = files, readOnly, -1
				db := storetest.Open(t, "db", o)
				uncached(db)
				// The first walk may end just before a report is worth it, but the second one does not.
				want := p.poll(db)
				p.poll(db)
				stepped := func() int { return int(db.Reads().DeadKeys.Stepped()) }
				if before := stepped(); before < n-deadkeys.Worth {
					t.Errorf("%d keys, poll %s: %d steps at first, the test tests nothing", n, p.name, before)
				}
				check := func(when string, most int) {
					t.Helper()
					files.Reads()
					before := stepped()
					if got := p.poll(db); got != want {
						t.Errorf("%d keys, read only %v, poll %s %s: got %q, want %q",
							n, readOnly, p.name, when, got, want)
					}
					if got := stepped() - before; got > most {
						t.Errorf("%d keys, read only %v, poll %s %s: %d dead keys, want at most %d",
							n, readOnly, p.name, when, got, most)
					}
					if blocks, _ := files.Reads(); blocks > 8 {
						t.Errorf("%d keys, read only %v, poll %s %s: %d blocks, want at most 8",
							n, readOnly, p.name, when, blocks)
					}
				}
				check("again", deadkeys.Worth)
				if !readOnly {
					const writes, puts = 1000, 20
					for i := range writes {
						must(t, db.Put([]byte{"az"[i%2]}, nil))
					}
					check("after writes elsewhere", deadkeys.Worth)
					for i := range puts {
						k := itemKey(i * n / puts)
						must(t, errors.Join(db.Put(k, nil), db.Delete(k)))
						check("after a put into it and a delete", deadkeys.Worth+1)
					}
				}
				must(t, db.Close())
			}
		}
	}
}

// TestPollsOfManyRangesStepOverTheirKeysOnce polls a thousand ranges in turns.
func TestPollsOfManyRangesStepOverTheirKeysOnce(t *testing.T) {
	testkit.Long(t)
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
	const ranges, n = 1000, 2 * deadkeys.Worth
	for i := range ranges * n {
		must(t, db.Delete(fmt.Appendf(nil, "%03d/%d", i%ranges, i/ranges)))
	}
	for round := range 3 {
		before := db.Reads().DeadKeys.Stepped()
		for i := range ranges {
			got := moved(db, bloomkv.IterOptions{Prefix: fmt.Appendf(nil, "%03d/", i)}, (*bloomkv.Iterator).First)
			if got != "<nil>" {
				t.Errorf("range %d: %s", i, got)
			}
		}
		want := uint64(0)
		if round == 0 {
			want = ranges * n
			bytes := db.Reads().DeadKeys.Bytes()
			if counted := db.Metrics().Memory.Tables; bytes < 40*ranges || counted < bytes {
				t.Errorf("the ranges take %d bytes, and %d are counted", bytes, counted)
			}
		}
		if got := db.Reads().DeadKeys.Stepped() - before; got != want {
			t.Errorf("round %d: %d dead keys, want %d", round, got, want)
		}
	}
	must(t, db.Close())
}

// TestAQueueStepsOverFewDeadKeysAPop pops the items of a queue from either end, each by an iterator and a delete, or
// by a transaction, which may have written before, with puts at the other end, and after a reopen.
func TestAQueueStepsOverFewDeadKeysAPop(t *testing.T) {
	testkit.Long(t)
	for _, back := range []bool{false, true} {
		for _, tx := range []string{"", "reads first", "writes first"} {
			o := &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync}
			db, err := bloomkv.Open("db", o)
			must(t, err)
			const n = 6_000
			for i := range n {
				must(t, db.Put(itemKey(i), nil))
			}
			at := func(i int) []byte {
				if back {
					i = n - 1 - i
				}
				return itemKey(i)
			}
			end := func(it interface {
				First() bool
				Last() bool
			},
			) bool {
				if back {
					return it.Last()
				}
				return it.First()
			}
			pop := func(i int) {
				t.Helper()
				if tx != "" {
					must(t, db.Update(t.Context(), func(own *bloomkv.Tx) error {
						if tx == "writes first" {
							must(t, own.Delete([]byte("none")))
						}
						it := own.Iter(bloomkv.IterOptions{})
						if !end(it) || !bytes.Equal(it.Key(), at(i)) {
							t.Fatalf("back %v: pop %d: at %q, want %q", back, i, it.Key(), at(i))
						}
						return own.Delete(it.Key())
					}))
					return
				}
				it := db.Iter(bloomkv.IterOptions{})
				if !end(it) || !bytes.Equal(it.Key(), at(i)) {
					t.Fatalf("back %v: pop %d: at %q, want %q", back, i, it.Key(), at(i))
				}
				must(t, errors.Join(db.Delete(it.Key()), it.Close()))
			}
			for i := range n / 2 {
				pop(i)
			}
			// A pop reports the dead keys once it has found Worth of them.
			if got := db.Reads().DeadKeys.Stepped(); got > uint64(n)/2*(deadkeys.Worth+1)/2 {
				t.Errorf("back %v, transaction %q: %d dead keys for %d pops, want at most half of %d for each",
					back, tx, got, n/2, deadkeys.Worth+1)
			}
			must(t, db.Close())
			db = storetest.Open(t, "db", o)
			for i := range n / 2 {
				pop(n/2 + i)
			}
			if got := db.Reads().DeadKeys.Stepped(); got > uint64(n)/2*(deadkeys.Worth+1)/2+uint64(n)/2 {
				t.Errorf("back %v, transaction %q, reopened: %d dead keys for %d pops", back, tx, got, n/2)
			}
			must(t, db.Close())
		}
	}
}

// TestAPollBesideWritesStepsOverDeletedKeysOnce has writers put and delete keys everywhere while others poll.
func TestAPollBesideWritesStepsOverDeletedKeysOnce(t *testing.T) {
	const n, rounds = 20_000, 200
	db := storetest.Open(t, "db", dead(t, n))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := db.Put(fmt.Appendf(nil, "z%d", rng.IntN(n)), nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range rounds {
		if got, want := polls[0].poll(db), "<nil>"; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	close(stop)
	wg.Wait()
	if got := db.Reads().DeadKeys.Stepped(); got > 2*n {
		t.Errorf("%d polls have stepped over %d dead keys, want at most twice %d", rounds, got, n)
	}
	must(t, db.Close())
}

// TestATransactionFindsItsKeysAmongDeadOnes puts a key into a range of which earlier cursors have found that no key is
// alive.
func TestATransactionFindsItsKeysAmongDeadOnes(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
	const n = 2000
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	for i := range n {
		must(t, db.Put(key(i), nil))
	}
	for i := 1; i < n-1; i++ {
		must(t, db.Delete(key(i)))
	}
	for range 2 { // the second jumps over what the first has found
		it := db.Iter(bloomkv.IterOptions{})
		if !it.First() || !it.Next() || !it.Prev() {
			t.Fatal("the first and the last key are gone")
		}
		must(t, it.Close())
	}
	if db.Reads().DeadKeys.Len() == 0 {
		t.Fatal("no range of dead keys is known")
	}
	must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		must(t, tx.Put(key(n/2), nil))
		for _, tt := range []struct {
			name string
			move func(it *bloomkv.Iterator) bool
			want int
		}{
			{"SeekGE", func(it *bloomkv.Iterator) bool { return it.SeekGE(key(10)) }, n / 2},
			{"SeekLT", func(it *bloomkv.Iterator) bool { return it.SeekLT(key(n - 10)) }, n / 2},
			{"Next", func(it *bloomkv.Iterator) bool { return it.First() && it.Next() }, n / 2},
			{"Prev", func(it *bloomkv.Iterator) bool { return it.Last() && it.Prev() }, n / 2},
			{"Next past it", func(it *bloomkv.Iterator) bool { return it.SeekGE(key(10)) && it.Next() }, n - 1},
			{"Prev past it", func(it *bloomkv.Iterator) bool { return it.SeekLT(key(n-10)) && it.Prev() }, 0},
		} {
			it := tx.Iter(bloomkv.IterOptions{})
			if !tt.move(it) || !bytes.Equal(it.Key(), key(tt.want)) {
				t.Errorf("%s: at %q, %v, want %q", tt.name, it.Key(), it.Err(), key(tt.want))
			}
			must(t, it.Close())
		}
		return nil
	}))
	must(t, db.Close())
}
