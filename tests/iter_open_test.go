package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A records handler keeps the log records.
type logged struct {
	mu   sync.Mutex
	said []string
}

func (r *logged) Enabled(context.Context, slog.Level) bool { return true }

func (r *logged) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *logged) WithGroup(string) slog.Handler { return r }

func (r *logged) Handle(_ context.Context, rec slog.Record) error {
	said := rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		said += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, said)
	return nil
}

// TestIteratorsLeftOpenAreNamedAtClose checks that Close logs the file and line that opened each iterator.
func TestIteratorsLeftOpenAreNamedAtClose(t *testing.T) {
	var log logged
	o := storetest.Tiny(vfstest.NewMem())
	o.Logger = slog.New(&log)
	db := storetest.Open(t, "db", o)
	must(t, errors.Join(db.Put([]byte("a"), nil), db.Put([]byte("b"), nil)))
	snap, err := db.Snapshot()
	must(t, err)
	line := func() int {
		_, _, line, _ := runtime.Caller(1)
		return line
	}
	var want []string
	opened := func(line int) {
		want = append(want, fmt.Sprintf("an iterator was left open opened=iter_open_test.go:%d "+
			"(tests.TestIteratorsLeftOpenAreNamedAtClose", line))
	}
	left := []*bloomkv.Iterator{db.Iter(bloomkv.IterOptions{})}
	opened(line() - 1)
	left = append(left, snap.Iter(bloomkv.IterOptions{KeysOnly: true}))
	opened(line() - 1)
	left[1].First() // a move must not change the logged line
	func() {
		left = append(left, db.Iter(bloomkv.IterOptions{Prefix: []byte("a")}))
		opened(line() - 1)
	}()
	for range 3 { // closed iterators are not named, although their memory is reused
		must(t, errors.Join(db.Iter(bloomkv.IterOptions{}).Close(),
			snap.Iter(bloomkv.IterOptions{}).Close()))
		for _, err := range db.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
	rng := rand.New(rand.NewPCG(53, 54))
	var more []*bloomkv.Iterator
	for range 500 { // iterators are opened and closed in any order
		if i := rng.IntN(10); i < len(more) {
			must(t, more[i].Close())
			more = slices.Delete(more, i, i+1)
		} else {
			more = append(more, db.Iter(bloomkv.IterOptions{}))
		}
		if n := db.Metrics().Readers.Iterators; n != len(left)+len(more) {
			t.Fatalf("%d iterators are open, want %d", n, len(left)+len(more))
		}
	}
	for range more {
		opened(line() - 7)
	}
	left = append(left, more...)
	opened(line() + 2)
	opened(line() + 2)
	for _, err := range db.Scan(bloomkv.IterOptions{}) {
		for _, snapErr := range snap.Scan(bloomkv.IterOptions{}) {
			if err != nil || snapErr != nil {
				t.Fatal(err, snapErr)
			}
			must(t, db.Close()) // in the middle of both
			break
		}
		break
	}
	var got []string
	for _, s := range log.said {
		if strings.HasPrefix(s, "an iterator") {
			got = append(got, s)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, it := range left {
		if it.Next() || !errors.Is(it.Close(), bloomkv.ErrClosed) {
			t.Errorf("it still moves: %q", it.Key())
		}
	}
	must(t, snap.Close())
}

// TestIteratorsThatEndLeaveNothingToOthers closes iterators concurrently: an iterator must read what it recorded before
// another one may reuse its cursor. It is a test for the race detector.
func TestIteratorsThatEndLeaveNothingToOthers(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	defer db.Close()
	must(t, db.Put([]byte("key"), nil))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 500 {
				it := db.Iter(bloomkv.IterOptions{})
				it.First()
				if err := it.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
}

// TestASecondCloseIsErrClosed closes everything twice, before and after the store is closed.
func TestASecondCloseIsErrClosed(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	first, err := db.Snapshot()
	must(t, err)
	second, err := db.Snapshot()
	must(t, err)
	its := []*bloomkv.Iterator{db.Iter(bloomkv.IterOptions{}), db.Iter(bloomkv.IterOptions{})}
	for _, c := range []struct {
		what  string
		close func() error
	}{
		{"a snapshot", first.Close},
		{"an iterator", its[0].Close},
		{"the store", db.Close},
		{"a snapshot of a closed store", second.Close},
		{"an iterator of a closed store", its[1].Close},
	} {
		if err := c.close(); err != nil {
			t.Errorf("%s: the first Close returned %v", c.what, err)
		}
		if err := c.close(); err != bloomkv.ErrClosed { //nolint:errorlint // returned bare
			t.Errorf("%s: a second Close returned %v, want ErrClosed", c.what, err)
		}
	}
	for _, it := range its {
		if err := it.Err(); err != nil {
			t.Errorf("Err returned %v after a second Close, want what the first returned", err)
		}
	}
}

// TestTheEmptyKeyIsNotNil checks that Key distinguishes the empty key from no key.
func TestTheEmptyKeyIsNotNil(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem()})
	defer db.Close()
	must(t, db.Put(nil, nil))
	for range 2 {
		for range 4 {
			it := db.Iter(bloomkv.IterOptions{})
			if it.Key() != nil {
				t.Error("on a new iterator: got a key, want nil")
			}
			if !it.First() || it.Key() == nil {
				t.Error("First: got nil, want the empty key")
			}
			if it.Next() || it.Key() != nil {
				t.Error("past the end: got a key, want nil")
			}
			if !it.Last() || it.Key() == nil {
				t.Error("Last: got nil, want the empty key")
			}
			it.Close()
		}
		must(t, db.Flush(t.Context()))
	}
}

// TestAnEmptyValueIsNeverNil checks that Value keeps the promise of Get, whatever values the iterator's cursor has read
// before.
func TestAnEmptyValueIsNeverNil(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem()})
	defer db.Close()
	for key, value := range map[string][]byte{"empty": nil, "large": make([]byte, 2<<20)} {
		must(t, db.Put([]byte(key), value))
	}
	for round := range 2 {
		for range 4 {
			it := db.Iter(bloomkv.IterOptions{})
			it.Last() // the large value grows a buffer that is not reused
			it.Close()
			it = db.Iter(bloomkv.IterOptions{Upper: []byte("large")})
			if !it.Last() || it.Value() == nil {
				t.Errorf("round %d, Last: key %q, value %v, want an empty one", round, it.Key(), it.Value())
			}
			if !it.First() || it.Value() == nil {
				t.Errorf("round %d, First: key %q, value %v, want an empty one", round, it.Key(), it.Value())
			}
			it.Close()
		}
		must(t, db.Flush(t.Context()))
	}
}

// TestAppendingToWhatAnIteratorShowsChangesNothing walks over a store, in tables and in a memtable, and appends to each
// key and value.
func TestAppendingToWhatAnIteratorShowsChangesNothing(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem()})
	defer db.Close()
	const n = 500
	pair := func(i int) (key, value string) { return fmt.Sprintf("key%05d", i), fmt.Sprintf("value%095d", i) }
	for i := range n {
		key, value := pair(i)
		must(t, db.Put([]byte(key), []byte(value)))
	}
	more := bytes.Repeat([]byte("+"), 300)
	for _, where := range []string{"memtable", "table"} {
		it := db.Iter(bloomkv.IterOptions{})
		check := func(i int) {
			t.Helper()
			key, value := pair(i)
			if string(it.Key()) != key || string(it.Value()) != value {
				t.Fatalf("%s, pair %d: got %q = %q, want %q = %q", where, i, it.Key(), it.Value(), key, value)
			}
			_, _ = append(it.Key(), more...), append(it.Value(), more...)
			if string(it.Key()) != key || string(it.Value()) != value {
				t.Fatalf("%s, pair %d: appending changes it to %q = %q", where, i, it.Key(), it.Value())
			}
		}
		i := 0
		for ok := it.First(); ok; ok = it.Next() {
			check(i)
			i++
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			i--
			check(i)
		}
		if i != 0 {
			t.Errorf("%s: %d pairs are left on the way back", where, i)
		}
		must(t, it.Close())
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	}
}

// tablesBetween returns the tables that share a key with [lo, hi], nil for no bound.
func tablesBetween(db *bloomkv.DB, lo, hi []byte) map[uint64]bool {
	between := map[uint64]bool{}
	for _, t := range db.Tables() {
		if !endsBefore(t, lo) && (hi == nil || bytes.Compare(t.Smallest, hi) <= 0) {
			between[numberOf(t)] = true
		}
	}
	return between
}

// TestIteratorsOpenATableOnlyWhenTheyComeToIt moves iterators in stores whose tables are not loaded, and checks which
// files are opened and read.
func TestIteratorsOpenATableOnlyWhenTheyComeToIt(t *testing.T) {
	for _, runs := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d runs", runs), func(t *testing.T) {
			const n = 6000
			key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
			mem := vfstest.NewMem()
			o := storetest.Tiny(mem)
			o.Durability, o.Compression, o.MemtableSize = bloomkv.DurabilityNoSync, bloomkv.CompressionNone, 1<<20
			db := storetest.Open(t, "db", o)
			for i := range n {
				must(t, db.Put(key(i), make([]byte, 100)))
			}
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			for r := range runs - 1 { // each with some tables of its own range
				for i := r; i < n; i += 10 {
					must(t, db.Put(key(i), bytes.Repeat([]byte{byte(r)}, 100)))
				}
				must(t, db.Flush(t.Context()))
			}
			storetest.Settle(t, db)
			must(t, db.Close())
			files := storetest.LogFiles(mem)
			o.FS = files
			open := func() *bloomkv.DB {
				db := storetest.OpenCold(t, o)
				levels := db.Metrics().Levels
				if got := runsOf(db); got != runs || levels[len(levels)-1].Tables < 30 {
					t.Fatalf("%d runs, want %d, and many tables in the last:\n%v", got, runs, db.Metrics())
				}
				files.Take()
				return db
			}
			db = open()
			reopen := func() {
				must(t, db.Close())
				db = open()
			}
			defer func() {
				must(t, db.Close())
			}()
			only := func(what string, lo, hi []byte, most int) {
				t.Helper()
				between, touched := tablesBetween(db, lo, hi), files.Touched()
				for number := range touched {
					if !between[number] {
						t.Errorf("%s: table %d was read, but has no key from %q to %q", what, number, lo, hi)
					}
				}
				if most >= 0 && len(touched) > most || most > 0 && len(touched) == 0 {
					t.Errorf("%s: %d tables were read, want 1 to %d", what, len(touched), most)
				}
			}

			it := db.Iter(bloomkv.IterOptions{})
			only("opening", nil, nil, 0)
			if !it.First() {
				t.Fatal(it.Err())
			}
			only("the first key", nil, key(0), runs)
			if !it.Last() {
				t.Fatal(it.Err())
			}
			only("the last key", key(n-2), nil, runs)
			must(t, it.Close())
			only("closing", nil, nil, 0)

			rng := rand.New(rand.NewPCG(41, 42))
			ends := map[int]bool{} // keys at the ends of tables, where a step leads to the next table
			for _, table := range db.Tables() {
				for _, k := range [][]byte{table.Smallest, table.Largest} {
					var i int
					if _, err := fmt.Sscanf(string(k), "key%d", &i); err != nil {
						t.Fatal(err)
					}
					ends[i] = true
				}
			}
			places := slices.Sorted(maps.Keys(ends))
			for range 10 {
				places = append(places, rng.IntN(n))
			}
			rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
			for _, i := range places[:min(len(places), storetest.AtStride(40))] {
				reopen()
				it := db.Iter(bloomkv.IterOptions{})
				switch {
				case !it.SeekGE(key(i)) || string(it.Key()) != string(key(i)):
					t.Fatalf("seek %d: %q, %v", i, it.Key(), it.Err())
				default:
					only(fmt.Sprintf("seeking ≥ %d", i), key(i), key(i), runs)
				}
				for at := i + 1; at < min(i+5, n); at++ {
					if !it.Next() {
						t.Fatal(it.Err())
					}
				}
				if end := min(i+4, n-1); string(it.Key()) != string(key(end)) {
					t.Fatalf("%q, want key %d", it.Key(), end)
				} else {
					only(fmt.Sprintf("stepping from %d to %d", i, end), key(i), key(end), -1)
				}
				must(t, it.Close())

				reopen()
				it = db.Iter(bloomkv.IterOptions{})
				if i == 0 {
					i = 1
				}
				if !it.SeekLT(key(i)) || string(it.Key()) != string(key(i-1)) {
					t.Fatalf("seek before %d: %q, %v", i, it.Key(), it.Err())
				}
				// Backward, a key's oldest version comes first: only the preceding key shows that there is no newer
				// version.
				only(fmt.Sprintf("seeking < %d", i), key(max(0, i-2)), key(i-1), 2*runs)
				for range min(4, i-1) {
					if !it.Prev() {
						t.Fatal(it.Err())
					}
				}
				only(fmt.Sprintf("stepping back from %d", i), key(max(0, i-6)), key(i), -1)
				must(t, it.Close())

				reopen()
				lo, hi := key(i), key(min(i+20, n))
				it = db.Iter(bloomkv.IterOptions{Lower: lo, Upper: hi})
				got := 0
				for range it.All() {
					got++
				}
				if want := min(20, n-i); got != want || it.Err() != nil {
					t.Fatalf("%d keys from key %d, want %d; %v", got, i, want, it.Err())
				}
				only(fmt.Sprintf("20 keys from %d on", i), lo, hi, -1)
				must(t, it.Close())
			}
		})
	}
}
