package tests

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A snapshotRun writes to a store and takes snapshots in between. All values are different.
type snapshotRun struct {
	rng   *rand.Rand
	mem   *vfstest.Mem
	db    *bloomkv.DB
	now   map[string]string
	keys  []string
	snaps []*modelSnap
	n     int
	puts  bool // no deletes
}

func newSnapshotRun(t *testing.T, seed uint64) *snapshotRun {
	t.Helper()
	r := &snapshotRun{mem: vfstest.NewMem(), rng: rand.New(rand.NewPCG(seed, 81)), now: map[string]string{}}
	o := storetest.Tiny(r.mem)
	o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	if seed%2 == 0 {
		o.MemtableSize = 1 << 20 // only the test flushes
	}
	r.db = storetest.Open(t, "db", o)
	for i := range 120 {
		r.keys = append(r.keys, fmt.Sprintf("key%03d", i))
	}
	return r
}

// write makes one commit.
func (r *snapshotRun) write() error {
	var w modelWrite
	for range 1 + r.rng.IntN(4) {
		k := r.keys[r.rng.IntN(len(r.keys))]
		r.n++
		switch kind := r.rng.IntN(8); {
		case kind > 2 || r.puts:
			w = append(w, modelOp{key: k, value: fmt.Sprint(r.n, strings.Repeat(".", r.rng.IntN(60)))})
		case kind < 2:
			w = append(w, modelOp{key: k, del: true})
		default:
			at := r.rng.IntN(len(r.keys))
			end := []byte(r.keys[min(at+r.rng.IntN(30), len(r.keys)-1)])
			if r.rng.IntN(20) == 0 {
				end = nil
			}
			w = append(w, modelOp{key: r.keys[at], ranged: true, end: end})
		}
	}
	w.apply(r.now)
	return r.db.ApplyWith(w.batch(), bloomkv.DurabilityNoSync)
}

func (r *snapshotRun) take() error {
	snap, err := r.db.Snapshot()
	r.snaps = append(r.snaps, &modelSnap{snap, maps.Clone(r.now)})
	return err
}

// agree compares the store and all snapshots with their expected contents.
func (r *snapshotRun) agree() error {
	if err := storetest.Shows(r.db, r.now, r.keys); err != nil {
		return fmt.Errorf("now: %w", err)
	}
	for i, s := range r.snaps {
		if err := storetest.Shows(s.snap, s.want, r.keys); err != nil {
			return fmt.Errorf("snapshot %d of %d: %w", i, len(r.snaps), err)
		}
	}
	return nil
}

// needed returns the number of values visible in the store or a snapshot.
func (r *snapshotRun) needed() int {
	seen := map[[2]string]bool{}
	for _, view := range append([]*modelSnap{{want: r.now}}, r.snaps...) {
		for k, v := range view.want {
			seen[[2]string{k, v}] = true
		}
	}
	return len(seen)
}

// held returns the number of versions with values, and of tombstones of both kinds, in the tables.
func (r *snapshotRun) held() (values int, tombstones uint64) {
	for _, t := range r.db.Tables() {
		values += int(t.Entries - t.Deletes)
		tombstones += t.Deletes + t.RangeDeletes
	}
	return values, tombstones
}

// TestSnapshotsStayExactAndKeepNothingElse takes many snapshots, flushes and compacts everything to the last level, and
// closes the snapshots in any order: compaction keeps exactly the values that are still visible.
func TestSnapshotsStayExactAndKeepNothingElse(t *testing.T) {
	testkit.Long(t)
	for seed := range uint64(storetest.Seeds(20)) {
		r := newSnapshotRun(t, seed)
		must := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, what, err)
			}
		}
		compact := func(what string) {
			t.Helper()
			testkit.Within(t, "Compact while snapshots keep tombstones",
				func() { must(what, r.db.Compact(t.Context(), bloomkv.CompactOptions{})) })
			levels := r.db.Metrics().Levels
			for _, l := range levels[:len(levels)-1] {
				if l.Tables > 0 {
					t.Fatalf("seed %d, %s: level %d has %d tables", seed, what, l.Level, l.Tables)
				}
			}
		}
		for step := range 400 {
			must("write", r.write())
			switch {
			case r.rng.IntN(20) == 0:
				must("snapshot", r.take())
				if r.rng.IntN(4) == 0 {
					must("the same snapshot", r.take())
				}
			case r.rng.IntN(40) == 0:
				must("flush", r.db.Flush(t.Context()))
			case r.rng.IntN(150) == 0:
				must("compact", r.db.Compact(t.Context(), bloomkv.CompactOptions{}))
			}
			if step%100 == 99 {
				must("compare", r.agree())
			}
		}
		if len(r.snaps) < 8 {
			t.Fatalf("seed %d: only %d snapshots: the test tests little", seed, len(r.snaps))
		}
		compact("all snapshots open")
		must("compacted", r.agree())
		values, tombstones := r.held()
		if want := r.needed(); values != want || tombstones == 0 {
			t.Errorf("seed %d: %d snapshots keep %d values and %d tombstones, want %d values and some tombstones",
				seed, len(r.snaps), values, tombstones, want)
		}
		for len(r.snaps) > 0 {
			for range 1 + r.rng.IntN(3) {
				if len(r.snaps) > 0 {
					i := r.rng.IntN(len(r.snaps))
					must("close", r.snaps[i].snap.Close())
					if _, err := r.snaps[i].snap.Get(nil); !errors.Is(err, bloomkv.ErrClosed) {
						t.Errorf("closed: %v", err)
					}
					if it := r.snaps[i].snap.Iter(bloomkv.IterOptions{}); it.First() ||
						!errors.Is(it.Close(), bloomkv.ErrClosed) {
						t.Error("a closed snapshot could be iterated")
					}
					r.snaps = slices.Delete(r.snaps, i, i+1)
				}
			}
			if r.rng.IntN(2) == 0 {
				must("write", r.write())
			}
			compact(fmt.Sprintf("%d snapshots open", len(r.snaps)))
			must("compacted", r.agree())
			values, tombstones := r.held()
			if want := r.needed(); values != want {
				t.Errorf("seed %d: %d snapshots keep %d values, want %d", seed, len(r.snaps), values, want)
			}
			if len(r.snaps) == 0 && tombstones > 0 {
				t.Errorf("seed %d: %d tombstones are left without a snapshot", seed, tombstones)
			}
		}
		must("close", r.db.Close())
	}
}

// TestWhatOnlyASnapshotNeededGoesOnItsOwn closes the last snapshot and calls nothing else.
func TestWhatOnlyASnapshotNeededGoesOnItsOwn(t *testing.T) {
	for _, puts := range []bool{false, true} {
		r := newSnapshotRun(t, 4)
		r.puts = puts
		for range 300 {
			must(t, r.write())
			if r.rng.IntN(20) == 0 {
				must(t, r.take())
			}
		}
		must(t, r.db.Compact(t.Context(), bloomkv.CompactOptions{}))
		storetest.Settle(t, r.db)
		before, tombstones := r.held()
		for _, s := range r.snaps {
			must(t, s.snap.Close())
		}
		r.snaps = nil
		testkit.Soon(t, "the versions kept by snapshots are removed", func() bool {
			values, tombstones := r.held()
			return values == len(r.now) && tombstones == 0
		})
		if before <= len(r.now) || tombstones > 0 == puts {
			t.Errorf("%d values, and %d now, and %d tombstones: the test tests little", before, len(r.now), tombstones)
		}
		must(t, errors.Join(r.agree(), r.db.Close()))
	}
}

// TestASnapshotClosedBesideItsReadersAnswersRightlyOrNot closes a snapshot while readers use it, and has compaction
// drop at once what only it needed. Every commit writes its number under all keys, or deletes all.
func TestASnapshotClosedBesideItsReadersAnswersRightlyOrNot(t *testing.T) {
	for round := range storetest.AtStride(40) {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability = bloomkv.DurabilityNoSync
		db := storetest.Open(t, "db", o)
		const keys = 30
		commit := func(n int) error {
			var b bloomkv.Batch
			if n%4 == 3 {
				b.DeleteRange(bloomkv.KeyRange{})
			} else {
				for i := range keys {
					b.Put(fmt.Appendf(nil, "key%02d", i), fmt.Append(nil, n))
				}
			}
			return db.ApplyWith(&b, bloomkv.DurabilityNoSync)
		}
		var closed, right atomic.Int64
		for n := range 12 {
			must(t, commit(n))
			if n%3 == 0 {
				must(t, db.Flush(t.Context()))
			}
			snap, err := db.Snapshot()
			must(t, err)
			want, there := strconv.Itoa(n), n%4 != 3
			must(t, commit(n+1)) // hides the snapshot's keys
			var wg sync.WaitGroup
			answer := func(what, v string, found bool, err error) bool {
				switch {
				case errors.Is(err, bloomkv.ErrClosed):
					closed.Add(1)
					return false
				case err != nil && !errors.Is(err, bloomkv.ErrNotFound) || found != there || found && v != want:
					t.Errorf("%s: %q, %v, %v, want %q, %v", what, v, found, err, want, there)
					return false
				}
				right.Add(1)
				return true
			}
			started := make(chan struct{}, 4)
			for g := range 4 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(round), uint64(g)))
					for first := true; ; first = false {
						runtime.Gosched() // otherwise Close and Compact would wait long for a processor
						k := fmt.Appendf(nil, "key%02d", rng.IntN(keys))
						var ok bool
						switch rng.IntN(5) {
						case 0:
							v, err := snap.Get(k)
							ok = answer("get", string(v), err == nil, err)
						case 1:
							has, err := snap.Has(k)
							v := want
							ok = answer("has", v, has, err)
						case 2:
							got := ""
							err := snap.View(k, func(v []byte) error { got = string(v); return nil })
							ok = answer("view", got, err == nil, err)
						case 3:
							it := snap.Iter(bloomkv.IterOptions{Lower: k, Upper: append(slices.Clip(k), 0)})
							found := it.First()
							v := string(it.Value())
							ok = answer("iterate", v, found, it.Close())
						default:
							n, v := 0, want
							var err error
							for kv, scanErr := range snap.Scan(bloomkv.IterOptions{}) {
								if err = scanErr; err != nil || string(kv.Value) != want {
									v = string(kv.Value)
									break
								}
								n++
							}
							if err == nil && n != 0 && n != keys {
								t.Errorf("a scan found %d keys, want 0 or %d", n, keys)
							}
							ok = answer("scan", v, n > 0, err)
						}
						if first {
							started <- struct{}{}
						}
						if !ok {
							return
						}
					}
				})
			}
			for range 4 {
				<-started
			}
			beside := snap.Iter(bloomkv.IterOptions{}) // the iterator outlives the snapshot
			must(t, errors.Join(snap.Close(), db.Compact(t.Context(), bloomkv.CompactOptions{})))
			wg.Wait()
			left := 0
			for range beside.All() {
				if left++; string(beside.Value()) != want {
					t.Errorf("%q = %q after the snapshot was closed, want %q", beside.Key(), beside.Value(), want)
				}
			}
			if err := beside.Close(); err != nil || left > 0 != there || left != 0 && left != keys {
				t.Errorf("an iterator that outlives its snapshot has %d keys, %v, want %d: %v", left, err, keys, there)
			}
			if err := snap.Close(); !errors.Is(err, bloomkv.ErrClosed) {
				t.Errorf("closed again: %v", err)
			}
		}
		must(t, db.Close())
		if closed.Load() == 0 || right.Load() == 0 {
			t.Errorf("%d right answers and %d times ErrClosed: the test tests little", right.Load(), closed.Load())
		}
	}
}

// TestSnapshotsOfAStoreThatIsReadOnlyOrClosed checks that snapshots work in a read-only store, and end with it.
func TestSnapshotsOfAStoreThatIsReadOnlyOrClosed(t *testing.T) {
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
	must(t, errors.Join(db.Put([]byte("k"), []byte("v")), db.Close()))
	o := storetest.Tiny(mem)
	o.ReadOnly = true
	db = storetest.Open(t, "db", o)
	snap, err := db.Snapshot()
	must(t, err)
	if err := storetest.Shows(snap, map[string]string{"k": "v"}, []string{"k", "l"}); err != nil {
		t.Error(err)
	}
	must(t, db.Close())
	_, getErr := snap.Get([]byte("k"))
	_, hasErr := snap.Has([]byte("k"))
	_, appendErr := snap.AppendGet(nil, []byte("k"))
	viewErr := snap.View([]byte("k"), func([]byte) error { return nil })
	manyErr := snap.GetMany([][]byte{[]byte("k")}, func(int, []byte, bool) error { return nil })
	iterErr := snap.Iter(bloomkv.IterOptions{}).Close()
	var scanErr error
	for _, scanErr = range snap.Scan(bloomkv.IterOptions{}) {
	}
	for what, err := range map[string]error{
		"get": getErr, "has": hasErr, "append": appendErr, "view": viewErr, "get many": manyErr,
		"iterate": iterErr, "scan": scanErr,
	} {
		if err != bloomkv.ErrClosed { //nolint:errorlint // it is returned bare
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	if err := snap.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := snap.Close(); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("close again: %v", err)
	}
	if _, err := db.Snapshot(); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("a snapshot of a closed store: %v", err)
	}
}

// TestClosingASnapshotBetweenOthersWakesCompaction keeps an old snapshot open that needs no deleted keys, and closes
// the snapshots taken between the puts and the range delete.
func TestClosingASnapshotBetweenOthersWakesCompaction(t *testing.T) {
	r := newSnapshotRun(t, 2)
	mem := r.mem
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	r.now["a"] = "old"
	must("put", r.db.Put([]byte("a"), []byte("old")))
	must("old snapshot", r.take())
	for i := range 3000 {
		must("put", r.db.Put(fmt.Appendf(nil, "new%06d", i), make([]byte, 100)))
	}
	must("compact", r.db.Compact(t.Context(), bloomkv.CompactOptions{}))
	full := bytesOfTables(t, mem)
	var between []*bloomkv.Snapshot // several of one state
	for range 3 {
		snap, err := r.db.Snapshot()
		must("snapshot", err)
		between = append(between, snap)
	}
	must("delete", r.db.DeleteRange(bloomkv.KeyRange{Lower: []byte("new")}))
	must("flush", r.db.Flush(t.Context()))
	must("new snapshot", r.take())
	for i, snap := range between {
		storetest.Settle(t, r.db)
		if now := bytesOfTables(t, mem); now < full {
			t.Fatalf("%d of %d bytes are left, but %d snapshots need all", now, full, len(between)-i)
		}
		n := 0
		for _, err := range snap.Scan(bloomkv.IterOptions{}) {
			must("scan", err)
			n++
		}
		if n != 3001 {
			t.Errorf("the snapshot has %d keys, want 3001", n)
		}
		must("close", snap.Close())
	}
	storetest.Settle(t, r.db)
	testkit.Soon(t, "the space is free", func() bool { return bytesOfTables(t, mem) < full/10 })
	must("the others", r.agree())
	for _, s := range r.snaps {
		must("close", s.snap.Close())
	}
	must("close", r.db.Close())
}
