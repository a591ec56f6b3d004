package main

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
	"github.com/bloomkv/bloomkv/vfs"
)

func TestAChainFollowsTheAnswers(t *testing.T) {
	keys := keyList{[]byte("aabbccddeeffgg"), 2}
	for _, c := range []struct {
		chain          chain
		yes            string // present keys
		want           string // the keys that are asked for, in order
		asked, differs int
	}{
		{chain{}, "", "aabbccddeeffgg", 7, 0},
		{chain{}, "bb", "aabbddeeffgg", 6, 1},
		{chain{}, "ccgg", "aabbcceeffgg", 6, 2},
		{chain{want: true}, "aabbccddeeffgg", "aabbccddeeffgg", 7, 0},
		{chain{want: true}, "aaccddeeff", "aabbddeeffgg", 6, 2},
		{chain{free: true}, "bb", "aabbccddeeffgg", 7, 1},
		{chain{free: true, want: true}, "bb", "aabbccddeeffgg", 7, 6},
	} {
		var got []byte
		asked, others := c.chain.ask(keys, func(key []byte) bool {
			got = append(got, key...)
			return bytes.Contains([]byte(c.yes), key)
		})
		if string(got) != c.want || asked != c.asked || others != c.differs {
			t.Errorf("%+v, %q there: asked for %s, %d, and %d other answers; want %s, %d, %d",
				c.chain, c.yes, got, asked, others, c.want, c.asked, c.differs)
		}
	}
}

func TestKeyListsAreOfTheSetAndGoRound(t *testing.T) {
	set := testSet(t, workload.Prefixed, 50)
	order := workload.NewPermutation(set.Len(), 3)
	var present, absent keyList
	present.fill(set, false, order, 30, 50)
	absent.fill(set, true, workload.NewPermutation(set.Absents(), 3), 30, 49)
	seen := make(map[string]bool)
	for at := 0; at < len(present.bytes); at += present.width {
		if _, ok := set.Index(present.at(at)); !ok {
			t.Errorf("%q is not in the set", present.at(at))
		}
		seen[string(present.at(at))] = true
	}
	for at := 0; at < len(absent.bytes); at += absent.width {
		if _, ok := set.Index(absent.at(at)); ok {
			t.Errorf("%q is in the set", absent.at(at))
		}
		seen[string(absent.at(at))] = true
	}
	if len(seen) != 99 {
		t.Errorf("%d different keys, want 99", len(seen))
	}
	n := 0
	many := keyList{make([]byte, (2*chunkKeys+5)*3), 3}
	for part := range many.chunks() {
		n += len(part.bytes) / part.width
	}
	if n != 2*chunkKeys+5 {
		t.Errorf("%d keys in chunks, want %d", n, 2*chunkKeys+5)
	}
}

func TestATurnAsksForTheKeysOfItsRound(t *testing.T) {
	const n = 2*chunkKeys + 100
	set := testSet(t, workload.Random, 2*n+1)
	seen := make(map[string]int)
	turn := newTurn(set, chain{}, true, 1)
	for round := range 2 {
		ns := turn.take(round*n, n, func(key []byte) bool {
			seen[string(key)]++
			return false
		})
		if ns <= 0 {
			t.Errorf("round %d took %v", round, ns)
		}
	}
	if len(seen) != 2*n || turn.asked != 2*n || turn.others != 0 {
		t.Errorf("%d different keys, %d asked, %d other answers; want %d, as many, none",
			len(seen), turn.asked, turn.others, 2*n)
	}
}

// testStore returns a store in memory that holds a set.
func testStore(t *testing.T, set workload.Set) *own.Store {
	t.Helper()
	store, err := own.Open("store", &bloomkv.Options{FS: vfs.NewMem()})
	must(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil && !errors.Is(err, bloomkv.ErrClosed) {
			t.Error(err)
		}
	})
	for _, p := range []workload.Phase{{Kind: workload.Load}, {Kind: workload.Flush}, {Kind: workload.Compact}} {
		if _, err := workload.Run(t.Context(), store, set, p, nil); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestAStoreIsComparedWithItsFloor(t *testing.T) {
	set := testSet(t, workload.Random, 20_000)
	store := testStore(t, set)
	f, err := newFloor(layers(store.Metrics()), set, 1)
	must(t, err)
	if m := store.Metrics(); f.filterBytes != m.Memory.Filters || len(f.fences) != m.Files.Tables {
		t.Errorf("a floor of %d fences and %d bytes of filters, want %d and %d",
			len(f.fences), f.filterBytes, m.Files.Tables, m.Memory.Filters)
	}
	gets := store.Metrics().Lookups.Gets
	for _, c := range []chain{{}, {free: true}} {
		var rounds []int
		a, err := compareAbsent(t.Context(), store.DB, f, set, c, 3, 1,
			func(round int) { rounds = append(rounds, round) })
		must(t, err)
		if a.StoreNs < 1 || a.FloorNs < 1 || !(a.Least <= a.Ratio && a.Ratio <= a.Most) ||
			a.AskNs <= 0 || a.Chain != c.String() {
			t.Errorf("%+v", a)
		}
		if a.Wrong != 0 || math.Abs(a.FloorFPR/bestUnit(10).Rate()-1) > 0.3 {
			t.Errorf("%d wrong answers, a rate of %v", a.Wrong, a.FloorFPR)
		}
		if !slices.Equal(rounds, []int{1, 2, 3}) {
			t.Errorf("done was called with rounds %v", rounds)
		}
	}
	if asked := store.Metrics().Lookups.Gets - gets; asked != 6*19_999 {
		t.Errorf("%d lookups in six rounds, want %d", asked, 6*19_999)
	}

	must(t, store.Put(set.AppendAbsent(nil, 17), []byte("here")))
	for _, c := range []chain{{}, {free: true}} {
		a, err := compareAbsent(t.Context(), store.DB, f, set, c, 2, 1, func(int) {})
		if err != nil || a.Wrong != 2 {
			t.Errorf("%v: with one absent key stored, %d wrong answers in two rounds, %v", c, a.Wrong, err)
		}
	}
	must(t, store.Close())
	if _, err := compareAbsent(t.Context(), store.DB, f, set, chain{}, 1, 1,
		func(int) {}); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
}

func TestTheFloorOfSeveralRunsProbesEach(t *testing.T) {
	set := testSet(t, workload.Random, 6000)
	store, err := own.Open("store", &bloomkv.Options{FS: vfs.NewMem()})
	must(t, err)
	defer store.Close()
	for i := range set.Len() { // three runs in level 0 are too few for a compaction
		must(t, store.Put(set.AppendKey(nil, i), set.AppendValue(nil, i)))
		if i%2000 == 1999 {
			must(t, store.Flush(t.Context()))
		}
	}
	var key []byte
	for i := range 100 { // loads all filters
		key = set.AppendAbsent(key[:0], i)
		if found, err := store.Has(key); found || err != nil {
			t.Fatal(found, err)
		}
	}
	m := store.Metrics()
	f, err := newFloor(layers(m), set, 1)
	must(t, err)
	if perKey := m.Lookups.FilterProbes / m.Lookups.Gets; f.runs != 3 || perKey != 3 || len(f.fences) != 1 ||
		f.filterBytes != m.Memory.Filters {
		t.Errorf("%d filters beside %d fences, of %d bytes; the store probes %d of %d bytes for a key",
			f.runs, len(f.fences), f.filterBytes, perKey, m.Memory.Filters)
	}
	a, err := compareAbsent(t.Context(), store.DB, f, set, chain{}, 2, 1, func(int) {})
	if err != nil || a.Wrong != 0 || a.FloorFPR > 0.01 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestASummaryIsOfNetTimes(t *testing.T) {
	store, floor := &turn{others: 3}, &turn{asked: 200, others: 4}
	a := summary(chain{}, store, floor, [3][]float64{{110, 210, 70}, {60, 60, 40}, {10, 10, 12}})
	if a.StoreNs != 100 || a.FloorNs != 50 || a.AskNs != 10 || a.Ratio != 2 || a.Least != 2 || a.Most != 4 ||
		a.Wrong != 3 || a.FloorFPR != 0.02 {
		t.Errorf("%+v", a)
	}
	a = summary(chain{}, store, floor, [3][]float64{{5}, {5}, {10}})
	if a.Ratio != 1 {
		t.Errorf("where asking takes longer than an answer: %+v", a)
	}
}
