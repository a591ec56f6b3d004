package workload

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// mapStore is a store in a map. Its functions, where set, stand before the answers and spoil them.
type mapStore struct {
	mu      sync.RWMutex
	pairs   map[string][]byte
	order   []string // the keys sorted; nil after one was added
	batches int

	synced, many atomic.Int64 // calls of PutSync and GetMany

	spoilInsert func(key []byte, found bool) bool

	spoilGet  func(key []byte, value []byte, found bool) ([]byte, bool, error)
	spoilScan func(n int, key, value []byte) ([]byte, []byte, bool)
	putErr    error
}

func newMapStore() *mapStore { return &mapStore{pairs: make(map[string][]byte)} }

func (s *mapStore) Put(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.putErr != nil {
		return s.putErr
	}
	s.set(key, value)
	return nil
}

func (s *mapStore) set(key, value []byte) {
	if _, ok := s.pairs[string(key)]; !ok {
		s.order = nil
	}
	s.pairs[string(key)] = bytes.Clone(value)
}

func (s *mapStore) Apply(b Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	n := 0
	for k, v := range b.All() {
		s.set(k, v)
		n++
	}
	if n != b.Len() {
		return errors.New("the batch yields another number of pairs than it has")
	}
	return nil
}

func (s *mapStore) AppendGet(dst, key []byte) ([]byte, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	value, found := s.pairs[string(key)]
	if s.spoilGet != nil {
		var err error
		if value, found, err = s.spoilGet(key, value, found); err != nil {
			return dst, false, err
		}
	}
	return append(dst, value...), found, nil
}

func (s *mapStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	s.mu.Lock()
	if s.order == nil {
		s.order = slices.Sorted(maps.Keys(s.pairs))
	}
	s.mu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := 0
	first, _ := slices.BinarySearch(s.order, string(from))
	for _, k := range s.order[first:] {
		key, value, ok := []byte(k), s.pairs[k], true
		if s.spoilScan != nil {
			key, value, ok = s.spoilScan(n, key, value)
		}
		n++
		if ok {
			if err := each(key, value); err != nil {
				return err
			}
		}
		if n == limit {
			break
		}
	}
	return nil
}

func (s *mapStore) PutSync(key, value []byte) error {
	s.synced.Add(1)
	return s.Put(key, value)
}

func (s *mapStore) PutIfAbsent(key, value []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.pairs[string(key)]
	if s.spoilInsert != nil {
		found = s.spoilInsert(key, found)
	}
	if !found {
		s.set(key, value)
	}
	return !found, s.putErr
}

func (s *mapStore) Delete(key []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.pairs[string(key)]; ok {
		delete(s.pairs, string(key))
		s.order = nil
	}
	return s.putErr
}

func (s *mapStore) GetMany(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	s.many.Add(1)
	for i, key := range keys {
		value, found, err := s.AppendGet(nil, key)
		if err == nil {
			err = each(i, value, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *mapStore) Reopen() (time.Duration, error) { return 42 * time.Millisecond, s.putErr }

func (s *mapStore) Flush(ctx context.Context) error   { return ctx.Err() }
func (s *mapStore) Settle(ctx context.Context) error  { return ctx.Err() }
func (s *mapStore) Compact(ctx context.Context) error { return ctx.Err() }
func (s *mapStore) Close() error                      { return nil }

func load(t *testing.T, set Set) *mapStore {
	t.Helper()
	s := newMapStore()
	if _, err := Run(t.Context(), s, set, Phase{Kind: Load, Batch: 100}, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryPhaseOfAGoodStoreIsRight(t *testing.T) {
	given, err := NewPairs([]Pair{{[]byte("a"), nil}, {[]byte("b"), []byte("1")}, {[]byte("c"), bytes.Repeat([]byte("x"), 100_000)}})
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]Set{
		"random":    generated(t, Random, 1500, Values{Bytes: 100}),
		"decimal":   generated(t, Decimal, 1500, Values{Bytes: 100, Compressible: true}),
		"prefixed":  generated(t, Prefixed, 300, Values{}),
		"bigendian": generated(t, BigEndian, 2, Values{Bytes: 10_000}),
		"given":     given,
	}
	phases := []struct {
		phase Phase
		ops   func(n int) int
	}{
		{Phase{Kind: Load, Name: "load one by one"}, func(n int) int { return n }},
		{Phase{Kind: Load, Name: "load in order", Choice: InOrder, Batch: 7}, func(n int) int { return n }},
		{Phase{Kind: Load, Name: "overwrite", Workers: 3, Seed: 1, Ops: 2000}, func(int) int { return 2000 }},
		{Phase{Kind: Flush}, func(int) int { return 1 }},
		{Phase{Kind: Settle}, func(int) int { return 1 }},
		{Phase{Kind: Compact}, func(int) int { return 1 }},
		{Phase{Kind: Absent}, nil},
		{Phase{Kind: Absent, Choice: Zipfian, Workers: 2, Ops: 1000}, func(int) int { return 1000 }},
		{Phase{Kind: Present}, func(n int) int { return n }},
		{Phase{Kind: Present, Choice: Uniform, Workers: 4, Ops: 700}, func(int) int { return 700 }},
		{Phase{Kind: Present, Choice: Zipfian, Skew: 1.2, Ops: 400}, func(int) int { return 400 }},
		{Phase{Kind: Mixed, PutPercent: 30, Workers: 2}, func(n int) int { return n }},
		{Phase{Kind: Seek, Ops: 20}, func(int) int { return 20 }},
		{Phase{Kind: Seek, Ops: 20, Limit: 100, Workers: 2}, func(int) int { return 20 }},
		{Phase{Kind: Scan}, func(n int) int { return n }},
		{Phase{Kind: Scan, Ops: 1}, func(int) int { return 1 }},
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			s := newMapStore()
			for _, tt := range phases {
				last := 0
				f, err := Run(t.Context(), s, set, tt.phase, func(done, total int) {
					if done < last || done > total {
						t.Errorf("%s: progress goes from %d to %d of %d", tt.phase.Name, last, done, total)
					}
					last = done
				})
				if err != nil {
					t.Fatalf("%+v: %v", tt.phase, err)
				}
				if f.Wrong != 0 {
					t.Errorf("%+v: %d wrong answers: %s", tt.phase, f.Wrong, f.FirstWrong)
				}
				want := min(set.Len(), set.Absents())
				if tt.ops != nil {
					want = tt.ops(set.Len())
				}
				if f.Ops != want || last != want {
					t.Errorf("%+v: %d operations and progress to %d, want %d", tt.phase, f.Ops, last, want)
				}
				if f.Elapsed < 0 || f.MeanNs < 0 || f.MedianNs < 0 || f.P50Ns > f.P99Ns || f.P99Ns > f.MaxNs {
					t.Errorf("%+v: figures that cannot be: %+v", tt.phase, f)
				}
			}
			if len(s.pairs) != set.Len() {
				t.Errorf("the store has %d keys, want %d", len(s.pairs), set.Len())
			}
		})
	}
}

func TestBatchesAreAsLargeAsAskedFor(t *testing.T) {
	set := generated(t, Random, 1050, Values{Bytes: 10})
	for batch, want := range map[int]int{100: 11, 1: 0, 2000: 1, 300: 4} {
		s := newMapStore()
		if _, err := Run(t.Context(), s, set, Phase{Kind: Load, Batch: batch}, nil); err != nil {
			t.Fatal(err)
		}
		if s.batches != want || len(s.pairs) != 1050 {
			t.Errorf("batches of %d: %d of them and %d keys, want %d and 1050", batch, s.batches, len(s.pairs), want)
		}
	}
}

func TestEveryWrongAnswerIsFound(t *testing.T) {
	same := func(_, v []byte, found bool) ([]byte, bool, error) { return v, found, nil }
	flip := func(v []byte) []byte {
		v = bytes.Clone(v)
		v[len(v)-1] ^= 1
		return v
	}
	tests := []struct {
		name  string
		phase Phase
		get   func(key, value []byte, found bool) ([]byte, bool, error)
		scan  func(n int, key, value []byte) ([]byte, []byte, bool)
		want  string
		count int // 0: any above 0
	}{
		{"an absent key is found", Phase{Kind: Absent}, func(_, _ []byte, _ bool) ([]byte, bool, error) { return []byte("x"), true, nil }, nil, "has a value of 1 bytes", 999},
		{"a present key is not found", Phase{Kind: Present}, func(_, _ []byte, _ bool) ([]byte, bool, error) { return nil, false, nil }, nil, "is not found", 1000},
		{"one bit of a value is wrong", Phase{Kind: Present, Workers: 2}, func(_, v []byte, _ bool) ([]byte, bool, error) { return flip(v), true, nil }, nil, "not its own", 1000},
		{"a mixed lookup has another value", Phase{Kind: Mixed, PutPercent: 50}, func(_, v []byte, _ bool) ([]byte, bool, error) { return flip(v), true, nil }, nil, "not its own", 0},
		{"a scan skips a key", Phase{Kind: Scan}, same, func(n int, k, v []byte) ([]byte, []byte, bool) { return k, v, n != 500 }, "ends after 999", 1},
		{"a scan has a wrong value", Phase{Kind: Scan}, same, func(n int, k, v []byte) ([]byte, []byte, bool) {
			if n == 999 {
				v = flip(v)
			}
			return k, v, true
		}, "not its own", 1},
		{"a scan has a key that was never set", Phase{Kind: Scan}, same, func(n int, k, v []byte) ([]byte, []byte, bool) {
			if n == 3 {
				k = append(bytes.Clone(k), 0)
			}
			return k, v, true
		}, "not in the set", 1},
		{"a seek begins elsewhere", Phase{Kind: Seek}, same, func(n int, k, v []byte) ([]byte, []byte, bool) { return k, v, n != 0 }, "do not begin there", 0},
		{"a seek ends early", Phase{Kind: Seek}, same, func(n int, k, v []byte) ([]byte, []byte, bool) { return k, v, n != 9 }, "not the last key", 0},
		{"a seek has a wrong value", Phase{Kind: Seek}, same, func(_ int, k, v []byte) ([]byte, []byte, bool) { return k, flip(v), true }, "not its own", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := generated(t, Random, 1000, Values{Bytes: 20})
			s := load(t, set)
			s.spoilGet, s.spoilScan = tt.get, tt.scan
			if tt.phase.Kind == Seek {
				tt.phase.Ops = 10
			}
			f, err := Run(t.Context(), s, set, tt.phase, nil)
			if err != nil {
				t.Fatal(err)
			}
			if f.Wrong == 0 || tt.count > 0 && f.Wrong != tt.count || !strings.Contains(f.FirstWrong, tt.want) {
				t.Errorf("%d wrong, the first %q, want %d and %q", f.Wrong, f.FirstWrong, tt.count, tt.want)
			}
		})
	}
	t.Run("a sorted seek skips a key", func(t *testing.T) {
		set := generated(t, Decimal, 1000, Values{Bytes: 20})
		s := load(t, set)
		s.spoilScan = func(n int, k, v []byte) ([]byte, []byte, bool) { return k, v, n != 4 }
		f, err := Run(t.Context(), s, set, Phase{Kind: Seek, Ops: 10}, nil)
		if err != nil || f.Wrong == 0 {
			t.Errorf("%d wrong, %v, want some", f.Wrong, err)
		}
	})
	t.Run("a scan has keys out of order", func(t *testing.T) {
		set := generated(t, Random, 1000, Values{Bytes: 20})
		s := load(t, set)
		first := set.AppendKey(nil, 0)
		s.spoilScan = func(n int, k, v []byte) ([]byte, []byte, bool) {
			if n == 600 {
				return first, set.AppendValue(nil, 0), true
			}
			return k, v, true
		}
		f, err := Run(t.Context(), s, set, Phase{Kind: Scan}, nil)
		if err != nil || f.Wrong == 0 || !strings.Contains(f.FirstWrong, "comes after") {
			t.Errorf("%d wrong, the first %q, %v", f.Wrong, f.FirstWrong, err)
		}
	})
	t.Run("a scan goes on after the last key", func(t *testing.T) {
		set := generated(t, Decimal, 10, Values{Bytes: 20})
		s := load(t, generated(t, Decimal, 11, Values{Bytes: 20}))
		f, err := Run(t.Context(), s, set, Phase{Kind: Scan}, nil)
		if err != nil || f.Wrong != 1 || f.Ops != 10 {
			t.Errorf("%d wrong of %d, %v, want 1 of 10", f.Wrong, f.Ops, err)
		}
	})
}

func TestAFailedCallEndsThePhase(t *testing.T) {
	set := generated(t, Random, 10_000, Values{Bytes: 20})
	broken := errors.New("broken")
	s := load(t, set)
	s.putErr = broken
	calls := 0
	s.spoilGet = func([]byte, []byte, bool) ([]byte, bool, error) { calls++; return nil, false, broken }
	for _, p := range []Phase{{Kind: Load, Workers: 2}, {Kind: Present}, {Kind: Mixed, PutPercent: 100}} {
		if _, err := Run(t.Context(), s, set, p, nil); !errors.Is(err, broken) || !strings.Contains(err.Error(), p.Kind.String()) {
			t.Errorf("%v: error %v, want %v with the name of the phase", p.Kind, err, broken)
		}
	}
	if calls != 1 {
		t.Errorf("%d lookups, want 1: the first fails", calls)
	}
}

func TestTheEndOfTheContextEndsThePhase(t *testing.T) {
	set := generated(t, Random, 10_000, Values{Bytes: 20})
	s := load(t, set)
	for _, kind := range []Kind{Load, Absent, Present, Mixed, Seek, Scan, Flush, Settle, Compact} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Run(ctx, s, set, Phase{Kind: kind}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: error %v, want %v", kind, err, context.Canceled)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Run(ctx, s, set, Phase{Kind: Present, Ops: 1 << 30}, func(int, int) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("under way: error %v, want %v", err, context.Canceled)
	}
}

func TestImpossiblePhasesAreRefused(t *testing.T) {
	set := generated(t, Random, 10, Values{})
	empty := generated(t, Random, 0, Values{})
	tests := []struct {
		name  string
		set   Set
		phase Phase
	}{
		{"a kind that does not exist", set, Phase{Kind: Reopen + 1}},
		{"a choice that does not exist", set, Phase{Choice: Latest + 1}},
		{"fewer operations than none", set, Phase{Ops: -1}},
		{"more puts than operations", set, Phase{Kind: Mixed, PutPercent: 101}},
		{"a scan by two", set, Phase{Kind: Scan, Workers: 2}},
		{"a skew below zero", set, Phase{Choice: Zipfian, Skew: -1}},
		{"nothing to look up", empty, Phase{Kind: Present}},
	}
	for _, tt := range tests {
		if _, err := Run(t.Context(), newMapStore(), tt.set, tt.phase, nil); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
	if f, err := Run(t.Context(), newMapStore(), empty, Phase{Kind: Scan}, nil); err != nil || f.Wrong != 0 {
		t.Errorf("scan of an empty set: %d wrong, %v", f.Wrong, err)
	}
}

func TestChunksStaySmallBesideTheCaches(t *testing.T) {
	tests := []struct {
		name  string
		value int
		phase Phase
		want  int
	}{
		{"small values", 100, Phase{Kind: Present}, 256},
		{"no values", 0, Phase{Kind: Present}, 256},
		{"values of 64 KiB", 64 << 10, Phase{Kind: Present}, 16},
		{"values larger than a chunk", 2 << 20, Phase{Kind: Present}, 1},
		{"batches, of which some fit", 100, Phase{Kind: Load, Batch: 100}, 200},
		{"a batch larger than a chunk", 100, Phase{Kind: Load, Batch: 1000}, 1000},
		{"batches of large values", 2 << 20, Phase{Kind: Load, Batch: 10}, 10},
		{"seeks that read much", 100, Phase{Kind: Seek, Limit: 100}, 8},
		{"seeks that read all", 100, Phase{Kind: Seek, Limit: 1 << 30}, 1},
	}
	for _, tt := range tests {
		set := generated(t, Decimal, 20, Values{Bytes: tt.value})
		r := &run{set: set, phase: tt.phase}
		if got := r.chunkSize(); got != tt.want {
			t.Errorf("%s: %d operations, want %d", tt.name, got, tt.want)
		}
	}
}
