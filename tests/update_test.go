package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// openTiny opens a store in memory that flushes and compacts often.
func openTiny(t *testing.T) *bloomkv.DB {
	t.Helper()
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	return db
}

func number(get func([]byte) ([]byte, error), key string) (int, error) {
	v, err := get([]byte(key))
	if errors.Is(err, bloomkv.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}

// TestIncrementsAreNotLost increments counters from eight goroutines, which also change hands between them.
func TestIncrementsAreNotLost(t *testing.T) {
	for _, background := range []bool{false, true} {
		db := openTiny(t)
		stop := func() {}
		if background {
			stop = storetest.Churn(t, db)
		}
		const workers, each = 8, 150
		var wg sync.WaitGroup
		var given atomic.Int64
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(w)))
				for range each {
					key := fmt.Sprint("counter", rng.IntN(2))
					err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
						n, err := number(tx.Get, key)
						if err != nil {
							return err
						}
						return tx.Put([]byte(key), []byte(strconv.Itoa(n+1)))
					})
					if errors.Is(err, bloomkv.ErrConflict) {
						given.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		stop()
		a, errA := number(db.Get, "counter0")
		b, errB := number(db.Get, "counter1")
		if errA != nil || errB != nil || a+b != workers*each-int(given.Load()) {
			t.Errorf("the counters have %d and %d, %v, %v, want %d in all, less %d that gave up",
				a, b, errA, errB, workers*each, given.Load())
		}
		if given.Load() > workers*each/100 {
			t.Errorf("%d of %d updates gave up", given.Load(), workers*each)
		}
		m := db.Metrics().Writes
		if m.Updates < workers*each || m.Updates-m.Conflicts != uint64(workers*each-given.Load()) {
			t.Errorf("counted %d updates and %d conflicts for %d increments", m.Updates, m.Conflicts, workers*each)
		}
		must(t, db.Close())
	}
}

// between runs a transaction whose first attempt lets write happen before it commits, and returns the attempts.
func between(t *testing.T, db *bloomkv.DB, read func(tx *bloomkv.Tx), write func()) (attempts int) {
	t.Helper()
	must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		attempts++
		read(tx)
		if attempts == 1 {
			write()
		}
		return tx.Put([]byte("~result"), []byte(strconv.Itoa(attempts)))
	}))
	return attempts
}

// TestATransactionConflictsWithWhatItHasRead lets another write come between the reads of a transaction and its commit,
// with the memtable as it was, with it flushed, and with all compacted.
func TestATransactionConflictsWithWhatItHasRead(t *testing.T) {
	get := func(key string) func(tx *bloomkv.Tx) {
		return func(tx *bloomkv.Tx) { _, _ = tx.Get([]byte(key)) }
	}
	has := func(key string) func(tx *bloomkv.Tx) {
		return func(tx *bloomkv.Tx) { _, _ = tx.Has([]byte(key)) }
	}
	iterate := func(o bloomkv.IterOptions, moves ...func(it *bloomkv.Iterator) bool) func(tx *bloomkv.Tx) {
		return func(tx *bloomkv.Tx) {
			it := tx.Iter(o)
			for _, move := range moves {
				move(it)
			}
		}
	}
	first, last := (*bloomkv.Iterator).First, (*bloomkv.Iterator).Last
	next, prev := (*bloomkv.Iterator).Next, (*bloomkv.Iterator).Prev
	seek := func(k string) func(*bloomkv.Iterator) bool {
		return func(it *bloomkv.Iterator) bool { return it.SeekGE([]byte(k)) }
	}
	seekLT := func(k string) func(*bloomkv.Iterator) bool {
		return func(it *bloomkv.Iterator) bool { return it.SeekLT([]byte(k)) }
	}
	bounds := func(lo, hi string) bloomkv.IterOptions {
		return bloomkv.IterOptions{Lower: []byte(lo), Upper: []byte(hi)}
	}
	put := func(k string) func(db *bloomkv.DB) error {
		return func(db *bloomkv.DB) error { return db.Put([]byte(k), []byte("new")) }
	}
	del := func(k string) func(db *bloomkv.DB) error {
		return func(db *bloomkv.DB) error { return db.Delete([]byte(k)) }
	}
	cut := func(lo, hi string) func(db *bloomkv.DB) error {
		return func(db *bloomkv.DB) error {
			return db.DeleteRange(bloomkv.KeyRange{Lower: []byte(lo), Upper: []byte(hi)})
		}
	}
	ingest := func(k string) func(db *bloomkv.DB) error {
		return func(db *bloomkv.DB) error {
			return db.Ingest(t.Context(), storetest.PairsOf(map[string]string{k: "new"}), bloomkv.IngestOptions{})
		}
	}
	own := func(tx *bloomkv.Tx) {
		_ = tx.Put([]byte("c"), []byte("own"))
		_ = tx.DeleteRange(bloomkv.KeyRange{Lower: []byte("x"), Upper: []byte("y")})
		_, _ = tx.Get([]byte("c"))
		_, _ = tx.Has([]byte("xx"))
	}
	for _, tt := range []struct { // the store has a, c, e, g, i
		name     string
		read     func(tx *bloomkv.Tx)
		write    func(db *bloomkv.DB) error
		conflict bool
	}{
		{"nothing read", func(*bloomkv.Tx) {}, put("c"), false},
		{"a key that is put", get("c"), put("c"), true},
		{"a key that is deleted", get("c"), del("c"), true},
		{"a key in a range that is deleted", get("c"), cut("b", "d"), true},
		{"a key that is ingested", get("c"), ingest("c"), true},
		{"an absent key that is put", get("d"), put("d"), true},
		{"an absent key that is ingested", get("d"), ingest("d"), true},
		{"a key whose value Has does not return", has("c"), put("c"), true},
		{"a key that is there and then deleted", has("c"), del("c"), true},
		{"a key that is not there and then put", has("d"), put("d"), true},
		{"another key than that of Has", has("c"), put("d"), false},
		{"another key", get("c"), put("d"), false},
		{"another key that is ingested", get("c"), ingest("d"), false},
		{"a range before the key", get("c"), cut("a", "c"), false},
		{"a range behind the key", get("c"), cut("c\x00", ""), false},
		{"keys that the transaction has written", own, put("c"), false},
		{"a new key in a scan", iterate(bounds("a", "f"), first, next, next, next), put("d"), true},
		{"a new key at the end of a scan", iterate(bounds("a", "f"), first, next, next, next), put("eee"), true},
		{"a new key behind the bound", iterate(bounds("a", "f"), first, next, next, next), put("f"), false},
		{"a new key before the bound", iterate(bounds("b", "f"), first, next, next, next), put("a1"), false},
		{"a new key at the lower bound", iterate(bounds("b", "f"), first, next, next, next), put("b"), true},
		{"a key behind the last one shown", iterate(bounds("a", ""), first, next), put("c\x00"), false},
		{"the last key shown", iterate(bounds("a", "z"), first, next), del("c"), true},
		{"a key before the last one shown", iterate(bounds("a", "z"), first, next), put("b"), true},
		{"a key behind a seek", iterate(bounds("a", "z"), seek("d")), put("d1"), true},
		{"a key before a seek", iterate(bounds("a", "z"), seek("d")), put("c1"), false},
		{"a range over a seek", iterate(bounds("a", "z"), seek("d")), cut("d5", "e\x00"), true},
		{"a key below a backward seek", iterate(bounds("a", "z"), seekLT("d")), put("c1"), true},
		{"the key of a backward seek", iterate(bounds("a", "z"), seekLT("d")), put("d"), false},
		{"a key below what a backward seek found", iterate(bounds("a", "z"), seekLT("d")), put("b"), false},
		{"a new last key", iterate(bounds("a", "z"), last), put("y"), true},
		{"a key before the last", iterate(bounds("a", "z"), last), put("h"), false},
		{"a key between two moves back", iterate(bounds("a", "z"), last, prev), put("h"), true},
		{"a new first key, walked to backward", iterate(bounds("a", "z"), seekLT("b"), prev), put("a\x00"), true},
		{"a key behind a turn", iterate(bounds("a", "z"), seek("d"), prev, prev), put("b"), true},
		{"a key between two seeks", iterate(bounds("a", "z"), seek("b"), seek("h")), put("f"), false},
		{"a key of the first of two seeks", iterate(bounds("a", "z"), seek("b"), seek("h")), put("b1"), true},
		{"an empty scan", iterate(bounds("d", "e"), first), put("d"), true},
		{"a seek beyond the bound", iterate(bounds("a", "d"), seek("q")), put("q"), false},
	} {
		for after, do := range map[string]func(db *bloomkv.DB) error{
			"at once":       func(*bloomkv.DB) error { return nil },
			"after a flush": func(db *bloomkv.DB) error { return db.Flush(t.Context()) },
			"after a compaction": func(db *bloomkv.DB) error {
				return db.Compact(t.Context(), bloomkv.CompactOptions{})
			},
		} {
			db := openTiny(t)
			for i, k := range []string{"a", "c", "e", "g", "i"} {
				must(t, db.Put([]byte(k), []byte("old")))
				if i == 2 {
					must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				}
			}
			want := 1
			if tt.conflict {
				want = 2
			}
			if got := between(t, db, tt.read, func() { must(t, tt.write(db)); must(t, do(db)) }); got != want {
				t.Errorf("%s, %s: %d attempts, want %d", tt.name, after, got, want)
			}
			must(t, db.Close())
		}
	}
}

// TestWriteSkewIsRefused lets pairs of transactions each take from one of two accounts what both have together.
func TestWriteSkewIsRefused(t *testing.T) {
	db := openTiny(t)
	stop := storetest.Churn(t, db)
	defer func() {
		stop()
		must(t, db.Close())
	}()
	for round := range 200 {
		accounts := []string{fmt.Sprintf("x%d", round), fmt.Sprintf("y%d", round)}
		for _, a := range accounts {
			must(t, db.Put([]byte(a), []byte("1")))
		}
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
					a, errA := number(tx.Get, accounts[0])
					b, errB := number(tx.Get, accounts[1])
					if a+b < 2 || errA != nil || errB != nil {
						return errors.Join(errA, errB)
					}
					return tx.Put([]byte(accounts[i]), []byte("-1"))
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		a, _ := number(db.Get, accounts[0])
		b, _ := number(db.Get, accounts[1])
		if a+b != 0 {
			t.Fatalf("round %d: the accounts have %d and %d, want one of them taken from", round, a, b)
		}
	}
}

// TestATransactionIsAModelWithItsOwnWrites compares random reads of transactions with a map.
func TestATransactionIsAModelWithItsOwnWrites(t *testing.T) {
	db := openTiny(t)
	rng := rand.New(rand.NewPCG(3, 4))
	model := map[string]string{}
	key := func() string { return fmt.Sprintf("k%02d", rng.IntN(60)) }
	errUndo := errors.New("undo")
	for round := range storetest.AtStride(1500) {
		now := maps.Clone(model)
		undo := rng.IntN(4) == 0
		err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
			for range rng.IntN(25) {
				switch k := key(); rng.IntN(9) {
				case 8:
					must(t, tx.SetMark([]byte(k)))
				case 0, 1:
					v := fmt.Sprint(round, "/", rng.IntN(1000))
					must(t, tx.Put([]byte(k), []byte(v)))
					now[k] = v
				case 2:
					must(t, tx.Delete([]byte(k)))
					delete(now, k)
				case 3:
					w := modelWrite{{key: k, ranged: true, end: fmt.Appendf(nil, "%s%d", k[:2], rng.IntN(10))}}
					if rng.IntN(10) == 0 {
						w[0].end = nil
					}
					must(t, tx.DeleteRange(bloomkv.KeyRange{Lower: []byte(k), Upper: w[0].end}))
					if w[0].end == nil || k < string(w[0].end) {
						w.apply(now)
					}
				case 4:
					v, err := tx.Get([]byte(k))
					want, ok := now[k]
					has, hasErr := tx.Has([]byte(k))
					if ok != (err == nil) || string(v) != want || has != ok || hasErr != nil {
						t.Fatalf("Get %q: %q, %v; has %v, %v; want %q, %v", k, v, err, has, hasErr, want, ok)
					}
				case 5:
					var got, want []string
					lo, hi := key(), key()
					for kv, err := range tx.Scan(bloomkv.IterOptions{Lower: []byte(lo), Upper: []byte(hi)}) {
						must(t, err)
						got = append(got, string(kv.Key)+"="+string(kv.Value))
					}
					for _, k := range slices.Sorted(maps.Keys(now)) {
						if lo <= k && k < hi {
							want = append(want, k+"="+now[k])
						}
					}
					if !slices.Equal(got, want) {
						t.Fatalf("scan from %s to %s:\n%q, want\n%q", lo, hi, got, want)
					}
				default:
					o := bloomkv.IterOptions{Lower: []byte("k05"), Upper: []byte("k50")}
					walkAsTheModel(t, rng, tx.Iter(o), now, key)
				}
			}
			if undo {
				return errUndo
			}
			return nil
		})
		switch {
		case undo && errors.Is(err, errUndo):
		case undo || err != nil:
			t.Fatalf("undone: %v: %v", undo, err)
		default:
			model = now
		}
		if round%40 == 0 {
			must(t, db.Flush(t.Context()))
		}
		if round%100 == 0 {
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			got, err := storetest.Contents(db)
			must(t, err)
			if d := storetest.Diff(got, model); d != "" {
				t.Fatalf("round %d: %s", round, d)
			}
		}
	}
	must(t, db.Close())
}

// TestAnIteratorOfATransactionDoesNotSeeLaterWrites writes before the first move of each iterator and after it. Each
// has what was written before it: nothing, or all of the earlier round.
func TestAnIteratorOfATransactionDoesNotSeeLaterWrites(t *testing.T) {
	db := openTiny(t)
	must(t, errors.Join(db.Put([]byte("a"), []byte("0")), db.Put([]byte("c"), []byte("0")), db.Flush(t.Context())))
	must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		want := "a0 c0 "
		for _, round := range []string{"1", "2", "3"} {
			read := func() { // sees what was written, in memory that the iterators share
				if has, err := tx.Has([]byte("absent")); has || err != nil {
					t.Errorf("has an absent key: %v, %v", has, err)
				}
			}
			lo, hi := []byte("a"), []byte("m")
			forward := tx.Iter(bloomkv.IterOptions{Lower: lo, Upper: hi})
			backward := tx.Iter(bloomkv.IterOptions{Lower: lo, Upper: hi})
			lo[0], hi[0] = 'z', 'b' // the iterators have copies
			all, v := bloomkv.KeyRange{}, []byte(round)
			must(t, errors.Join(tx.DeleteRange(all), tx.Put([]byte("b"), v), tx.Put([]byte("c"), v)))
			read()
			var got []byte
			back := ""
			for k, v := range forward.All() {
				got = fmt.Appendf(got, "%s%s ", k, v)
				must(t, errors.Join(tx.Put([]byte("d"), v), tx.Put([]byte("e"), v), tx.Delete([]byte("c"))))
				read()
			}
			for k, v := range backward.Backward() {
				back = string(k) + string(v) + " " + back
				must(t, errors.Join(tx.Put([]byte("aa"), v), tx.DeleteRange(all)))
				read()
			}
			if string(got) != want || back != want {
				t.Errorf("round %s: %q, and backward %q, want %q", round, got, back, want)
			}
			must(t, errors.Join(tx.DeleteRange(all), tx.Put([]byte("b"), v), tx.Put([]byte("c"), v)))
			want = "b" + round + " c" + round + " "
		}
		return nil
	}))
	must(t, db.Close())
}

// walkAsTheModel moves an iterator at random and compares it with the sorted keys in its bounds.
func walkAsTheModel(t *testing.T, rng *rand.Rand, it *bloomkv.Iterator, now map[string]string, key func() string) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(now))
	keys = slices.DeleteFunc(keys, func(k string) bool { return k < "k05" || k >= "k50" })
	at := -2 // not moved
	for range rng.IntN(30) {
		var ok bool
		var what string
		switch k := key(); rng.IntN(10) {
		case 0:
			what, ok, at = "First", it.First(), 0
		case 1:
			what, ok, at = "Last", it.Last(), len(keys)-1
		case 2:
			what, ok = "SeekGE "+k, it.SeekGE([]byte(k))
			at, _ = slices.BinarySearch(keys, k)
		case 3:
			what, ok = "SeekLT "+k, it.SeekLT([]byte(k))
			at, _ = slices.BinarySearch(keys, k)
			at--
		case 4, 5, 6:
			what, ok = "Next", it.Next()
			if at = min(at+1, len(keys)); at < 0 {
				at = 0
			}
		default:
			what, ok = "Prev", it.Prev()
			if at == -2 {
				at = len(keys)
			}
			at = max(at-1, -1)
		}
		if want := at >= 0 && at < len(keys); ok != want || it.Valid() != want || it.Err() != nil {
			t.Fatalf("%s: %v, at %d of %d keys, %v", what, ok, at, len(keys), it.Err())
		}
		if ok && (string(it.Key()) != keys[at] || string(it.Value()) != now[keys[at]]) {
			t.Fatalf("%s: %q = %q, want %q = %q", what, it.Key(), it.Value(), keys[at], now[keys[at]])
		}
	}
	if rng.IntN(2) == 0 { // else Update closes it
		must(t, it.Close())
	}
}

// TestAnUpdateEndsWell ends transactions by errors, panics, contexts, Close and limits.
func TestAnEmptyValueInATransactionIsNotNil(t *testing.T) {
	db := storetest.OpenTiny(t)
	defer db.Close()
	must(t, db.Put([]byte("empty"), nil))
	must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		empty, err := tx.Get([]byte("empty"))
		absent, missing := tx.Get([]byte("absent"))
		if empty == nil || len(empty) > 0 || err != nil || absent != nil || !errors.Is(missing, bloomkv.ErrNotFound) {
			t.Errorf("empty: %q, nil %v, %v; absent: %q, %v", empty, empty == nil, err, absent, missing)
		}
		return nil
	}))
}

func TestAnUpdateEndsWell(t *testing.T) {
	db := openTiny(t)
	k := []byte("key")
	must(t, db.Put(k, []byte("old")))
	own := errors.New("own error")
	var kept *bloomkv.Tx
	var left *bloomkv.Iterator
	if err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		kept, left = tx, tx.Iter(bloomkv.IterOptions{})
		left.First()
		must(t, tx.Put(k, []byte("new")))
		return own
	}); err != own { //nolint:errorlint // returned as it is
		t.Errorf("Update returned %v, want the function's error", err)
	}
	func() {
		defer func() {
			if recover() != "panic" {
				t.Error("the panic of the function was lost")
			}
		}()
		_ = db.Update(t.Context(), func(tx *bloomkv.Tx) error {
			tx.Iter(bloomkv.IterOptions{}).Last()
			must(t, tx.Delete(k))
			panic("panic")
		})
	}()
	if v, err := db.Get(k); err != nil || string(v) != "old" {
		t.Errorf("after an error and a panic the value is %q, %v, want the old one", v, err)
	}
	if n := db.Metrics().Readers.Iterators; n != 0 {
		t.Errorf("%d iterators are open, want 0", n)
	}
	_, getErr := kept.Get(k)
	_, hasErr := kept.Has(k)
	it := kept.Iter(bloomkv.IterOptions{})
	for what, err := range map[string]error{
		"Get": getErr, "Has": hasErr, "Put": kept.Put(k, k), "Delete": kept.Delete(k),
		"Iter": it.Err(), "Close": it.Close(),
		"DeleteRange": kept.DeleteRange(bloomkv.KeyRange{Lower: k}), "SetMark": kept.SetMark(k),
		"SetDurability": kept.SetDurability(bloomkv.DurabilitySync), "a closed iterator": left.Close(),
	} {
		if err != bloomkv.ErrClosed { //nolint:errorlint // returned bare
			t.Errorf("%s after the end: %v, want ErrClosed", what, err)
		}
	}
	if it.First() || left.Next() || left.Key() != nil || left.Value() != nil {
		t.Error("an iterator moves after the end")
	}

	ctx, cancel := context.WithCancel(t.Context())
	attempts := 0
	if err := db.Update(ctx, func(tx *bloomkv.Tx) error {
		attempts++
		_, err := tx.Get(k)
		must(t, err)
		must(t, db.Put(k, []byte(strconv.Itoa(attempts))))
		if attempts == 3 {
			cancel()
		}
		return tx.Put(k, nil)
	}); !errors.Is(err, context.Canceled) || attempts != 3 {
		t.Errorf("after %d attempts: %v, want the context's error after 3", attempts, err)
	}
	attempts = 0
	err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		attempts++
		_, err := tx.Get(k)
		must(t, err)
		must(t, db.Put(k, nil)) // its own enemy
		return tx.Put(k, nil)
	})
	if !errors.Is(err, bloomkv.ErrConflict) || attempts != 64 ||
		err.Error() != "bloomkv: update: conflict after 64 attempts" {
		t.Errorf("after %d attempts: %v, want ErrConflict after 64", attempts, err)
	}
	if err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		if err := tx.Put(make([]byte, bloomkv.MaxKeySize+1), nil); !errors.Is(err, bloomkv.ErrTooLarge) {
			t.Errorf("Put of a key that is too large: %v", err)
		}
		return nil
	}); !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("Update with a key that is too large: %v, want ErrTooLarge", err)
	}
	must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) error { return tx.SetMark([]byte("mark")) }))
	wantMark(t, "of an Update", db.Mark, "mark")

	groups := db.Metrics().Writes.Groups
	must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) error { _, err := tx.Get(k); return err }))
	if now := db.Metrics().Writes.Groups; now != groups {
		t.Errorf("an Update that only reads wrote %d groups", now-groups)
	}
	if err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		it := tx.Iter(bloomkv.IterOptions{})
		it.First()
		must(t, db.Close())
		if it.Next() || it.Err() != bloomkv.ErrClosed { //nolint:errorlint // returned bare
			t.Errorf("an iterator after Close: %v, want ErrClosed", it.Err())
		}
		if _, err := tx.Get(k); err != bloomkv.ErrClosed { //nolint:errorlint // returned bare
			t.Errorf("Get after Close: %v, want ErrClosed", err)
		}
		return tx.Put(k, nil)
	}); err != bloomkv.ErrClosed { //nolint:errorlint // returned bare
		t.Errorf("Update beside Close: %v, want ErrClosed", err)
	}
	nothing := func(*bloomkv.Tx) error { return nil }
	if err := db.Update(t.Context(), nothing); err != bloomkv.ErrClosed { //nolint:errorlint // returned bare
		t.Errorf("Update after Close: %v, want ErrClosed", err)
	}
}

// TestAReadOnlyStoreTakesTransactionsThatOnlyRead runs both kinds.
func TestAReadOnlyStoreTakesTransactionsThatOnlyRead(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	db, err := bloomkv.Open("db", o)
	must(t, err)
	must(t, db.Put([]byte("key"), []byte("value")))
	must(t, db.Close())
	o.ReadOnly = true
	db = storetest.Open(t, "db", o)
	var value []byte
	must(t, db.Update(t.Context(), func(tx *bloomkv.Tx) (err error) {
		value, err = tx.Get([]byte("key"))
		return err
	}))
	if !bytes.Equal(value, []byte("value")) {
		t.Errorf("read %q", value)
	}
	for _, read := range []bool{true, false} {
		if err := db.Update(t.Context(), func(tx *bloomkv.Tx) error {
			if read {
				_, _ = tx.Get([]byte("key"))
			}
			return tx.Put([]byte("key"), nil)
		}); !errors.Is(err, bloomkv.ErrReadOnly) {
			t.Errorf("a transaction that writes: %v, want ErrReadOnly", err)
		}
	}
	must(t, db.Close())
}

// openSlow opens a store in memory whose syncs take a while, in which others read and queue.
func openSlow(t *testing.T) *bloomkv.DB {
	t.Helper()
	o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync {
			time.Sleep(100 * time.Microsecond)
		}
		return nil
	}))
	o.MemtableSize = 1 << 20
	db := storetest.Open(t, "db", o)
	return db
}

// increment adds one to a counter in a transaction and returns how often its function ran.
func increment(t *testing.T, db *bloomkv.DB, key string) (attempts int, err error) {
	t.Helper()
	err = db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		attempts++
		n, err := number(tx.Get, key)
		if err != nil {
			return err
		}
		return tx.Put([]byte(key), []byte(strconv.Itoa(n+1)))
	})
	return attempts, err
}

// TestManySyncedUpdatesOfOneKeyTakeTurns counts the attempts of each update, and the others that it sees pass.
func TestManySyncedUpdatesOfOneKeyTakeTurns(t *testing.T) {
	const writers, each, maxTries, maxPassed = 128, 10, 32, 4 * 128
	db := openSlow(t)
	var done, failed atomic.Int64
	var tries [65]atomic.Int64
	var passed [writers]int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				before := done.Load()
				attempts, err := increment(t, db, "key")
				passed[w] = max(passed[w], done.Add(1)-before)
				tries[attempts].Add(1)
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	most := 0
	for attempts := range tries {
		if n := tries[attempts].Load(); n > 0 {
			t.Logf("%d attempts: %d updates", attempts, n)
			most = attempts
		}
	}
	n, err := number(db.Get, "key")
	if err != nil || n != writers*each || failed.Load() != 0 || most > maxTries {
		t.Errorf("%d of %d updates failed, after at most %d attempts, want 0 and %d; the counter has %d, %v",
			failed.Load(), writers*each, most, maxTries, n, err)
	}
	if got := slices.Max(passed[:]); got > maxPassed {
		t.Errorf("%d others passed an update, want at most %d", got, maxPassed)
	}
	must(t, db.Close())
}

// TestAnUpdateTakesItsTurnAmongOtherWrites lets one goroutine update a key that eight others put all the time.
func TestAnUpdateTakesItsTurnAmongOtherWrites(t *testing.T) {
	db := openSlow(t)
	var stop atomic.Bool
	var puts atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				must(t, db.Put([]byte("key"), []byte("1")))
				puts.Add(1)
			}
		})
	}
	const updates = 50
	for range updates {
		if attempts, err := increment(t, db, "key"); err != nil || attempts > 32 {
			t.Errorf("an update: %v after %d attempts, want at most 32", err, attempts)
		}
	}
	stop.Store(true)
	wg.Wait()
	if puts.Load() < 8*updates {
		t.Errorf("%d puts during %d updates, want at least %d", puts.Load(), updates, 8*updates)
	}
	must(t, db.Close())
}

// atTurn runs an update whose first attempts conflict, and whose attempt with a turn is f.
func atTurn(t *testing.T, db *bloomkv.DB, f func(tx *bloomkv.Tx) error) error {
	t.Helper()
	attempts := 0
	return db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		attempts++
		n, err := number(tx.Get, "contended")
		must(t, err)
		switch {
		case attempts <= 3:
			must(t, db.Put([]byte("contended"), []byte(strconv.Itoa(n+1))))
		case attempts == 4:
			if err := f(tx); err != nil {
				return err
			}
		}
		return tx.Put([]byte("contended"), []byte("0"))
	})
}

var errOfItsOwn = errors.New("an error of its own")

// TestATurnIsBounded lets the function of a transaction block, fail, panic, write to the store, and begin
// transactions that need turns too, all in its turn.
func TestATurnIsBounded(t *testing.T) {
	key := []byte("key")
	for _, tt := range []struct {
		name string
		f    func(db *bloomkv.DB, nested func() error) error
		wait time.Duration // how long a put from another goroutine takes, which begins in the turn
	}{
		{"that blocks", func(*bloomkv.DB, func() error) error { time.Sleep(time.Hour); return nil }, time.Millisecond},
		{"that returns", func(*bloomkv.DB, func() error) error { return nil }, 0},
		{"that fails", func(*bloomkv.DB, func() error) error { return errOfItsOwn }, 0},
		{"that panics", func(*bloomkv.DB, func() error) error { panic("in a turn") }, 0},
		{"that writes", func(db *bloomkv.DB, _ func() error) error { return db.Put(key, key) }, time.Millisecond},
		{"that updates", func(_ *bloomkv.DB, nested func() error) error { return nested() }, time.Millisecond},
	} {
		t.Run("a function "+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := storetest.OpenTiny(t)
				var wg sync.WaitGroup
				func() {
					defer func() { _ = recover() }()
					err := atTurn(t, db, func(*bloomkv.Tx) error {
						began := time.Now()
						wg.Go(func() {
							must(t, db.Put(key, key))
							if took := time.Since(began); took != tt.wait {
								t.Errorf("a put during a turn took %v, want %v", took, tt.wait)
							}
						})
						synctest.Wait()
						return tt.f(db, func() error {
							return atTurn(t, db, func(*bloomkv.Tx) error {
								return atTurn(t, db, func(*bloomkv.Tx) error { return nil })
							})
						})
					})
					if err != nil && !errors.Is(err, errOfItsOwn) {
						t.Error(err)
					}
				}()
				wg.Wait()
				must(t, db.Close())
			})
		})
	}
}
