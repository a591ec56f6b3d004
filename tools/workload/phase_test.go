package workload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

// mapStore is a store in a map. Its functions, if set, replace correct answers with wrong ones.
type mapStore struct {
	mu      sync.RWMutex
	pairs   map[string][]byte
	order   []string // sorted keys; nil after a key was added
	batches int

	synced, many atomic.Int64 // numbers of calls

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
	defer s.mu.Unlock()
	if s.order == nil {
		s.order = slices.Sorted(maps.Keys(s.pairs))
	}
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
	given, err := NewPairs([]Pair{
		{[]byte("a"), nil},
		{[]byte("b"), []byte("1")},
		{[]byte("c"), bytes.Repeat([]byte("x"), 100_000)},
	})
	must(t, err)
	sets := map[string]Set{
		"random":    generated(t, Random, 1500, 100),
		"decimal":   generated(t, Decimal, 1500, 100),
		"prefixed":  generated(t, Prefixed, 300, 0),
		"bigendian": generated(t, BigEndian, 2, 10_000),
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
		{Phase{Kind: Present, Choice: Zipfian, Ops: 400}, func(int) int { return 400 }},
		{Phase{Kind: Mixed, PutPercent: 30, Workers: 2}, func(n int) int { return n }},
		{Phase{Kind: Seek, Ops: 20}, func(int) int { return 20 }},
		{Phase{Kind: Seek, Ops: 20, Limit: 100, Workers: 2}, func(int) int { return 20 }},
		{Phase{Kind: Scan}, func(n int) int { return n }},
		{Phase{Kind: Scan, Ops: 1}, func(int) int { return 1 }},
		{Phase{Kind: Load, Name: "load durably", Durable: true, Ops: 30}, func(int) int { return 30 }},
		{Phase{Kind: Present, Name: "present together", Batch: 64}, func(n int) int { return n }},
		{
			Phase{Kind: Absent, Name: "absent together", Batch: 1000, Choice: Uniform, Workers: 2, Ops: 700},
			func(int) int { return 700 },
		},
		{Phase{Kind: Present, Choice: Latest, Ops: 400}, func(int) int { return 400 }},
		{Phase{Kind: PutSeek, Workers: 2}, func(n int) int { return n }},
		{Phase{Kind: Reopen}, func(int) int { return 1 }},
		{Phase{Kind: Absent}, nil},
		{Phase{Kind: Scan}, func(n int) int { return n }},
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
				if f.Elapsed < 0 || f.MeanNs < 0 || f.MedianNs < 0 || f.P50Ns > f.P99Ns ||
					f.P99Ns > f.P999Ns || f.P999Ns > f.MaxNs {
					t.Errorf("%+v: figures that cannot be: %+v", tt.phase, f)
				}
			}
			if len(s.pairs) != set.Len() {
				t.Errorf("the store has %d keys, want %d", len(s.pairs), set.Len())
			}
			f, err := Run(t.Context(), load(t, set), set, Phase{Kind: Insert, Workers: 3}, nil)
			if want := min(set.Len(), set.Absents()); err != nil || f.Wrong != 0 || f.Ops != want {
				t.Errorf("insert: %d of %d operations, %d wrong: %s, %v", f.Ops, want, f.Wrong, f.FirstWrong, err)
			}
			if !set.Sorted() {
				return
			}
			f, err = Run(t.Context(), s, set, Phase{Kind: Pop}, nil)
			if err != nil || f.Wrong != 0 || f.Ops != set.Len() || len(s.pairs) != 0 {
				t.Errorf("pop: %d of %d operations, %d wrong: %s, %v; %d keys left",
					f.Ops, set.Len(), f.Wrong, f.FirstWrong, err, len(s.pairs))
			}
		})
	}
}

func TestBatchesAreAsLargeAsAskedFor(t *testing.T) {
	set := generated(t, Random, 1050, 10)
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
	always := func(_, _ []byte, _ bool) ([]byte, bool, error) { return []byte("x"), true, nil }
	empty := func(_, _ []byte, _ bool) ([]byte, bool, error) { return nil, true, nil }
	never := func(_, _ []byte, _ bool) ([]byte, bool, error) { return nil, false, nil }
	wrong := func(_, v []byte, _ bool) ([]byte, bool, error) { return flip(v), true, nil }
	nothing := func(_ int, k, v []byte) ([]byte, []byte, bool) { return k, v, false }
	without := func(entry int) func(int, []byte, []byte) ([]byte, []byte, bool) {
		return func(n int, k, v []byte) ([]byte, []byte, bool) { return k, v, n != entry }
	}
	tests := []struct {
		name  string
		phase Phase
		get   func(key, value []byte, found bool) ([]byte, bool, error)
		scan  func(n int, key, value []byte) ([]byte, []byte, bool)
		want  string
		count int // 0 means any number above 0
	}{
		{"an absent key is found", Phase{Kind: Absent}, always, nil, "has a value of 1 bytes", 999},
		{"a present key is not found", Phase{Kind: Present}, never, nil, "is not found", 1000},
		{"one bit of a value is wrong", Phase{Kind: Present, Workers: 2}, wrong, nil, "not its own", 1000},
		{"a mixed lookup has another value", Phase{Kind: Mixed, PutPercent: 50}, wrong, nil, "not its own", 0},
		{"many absent keys are found", Phase{Kind: Absent, Batch: 10}, empty, nil, "has a value of 0 bytes", 999},
		{"many present keys have wrong values", Phase{Kind: Present, Batch: 10}, wrong, nil, "not its own", 1000},
		{"a scan skips a key", Phase{Kind: Scan}, same, without(500), "stops after 999", 1},
		{"a scan has a wrong value", Phase{Kind: Scan}, same, func(n int, k, v []byte) ([]byte, []byte, bool) {
			if n == 999 {
				v = flip(v)
			}
			return k, v, true
		}, "not its own", 1},
		{"a scan has an unknown key", Phase{Kind: Scan}, same, func(n int, k, v []byte) ([]byte, []byte, bool) {
			if n == 3 {
				k = append(bytes.Clone(k), 0)
			}
			return k, v, true
		}, "not in the set", 1},
		{"a seek begins elsewhere", Phase{Kind: Seek}, same, without(0), "do not start there", 0},
		{"a seek ends early", Phase{Kind: Seek}, same, without(9), "not the last key", 0},
		{"a seek after a put finds nothing", Phase{Kind: PutSeek}, same, nothing, "do not start there", 1000},
		{"a seek has a wrong value", Phase{Kind: Seek}, same, func(_ int, k, v []byte) ([]byte, []byte, bool) {
			return k, flip(v), true
		}, "not its own", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := generated(t, Random, 1000, 20)
			s := load(t, set)
			s.spoilGet, s.spoilScan = tt.get, tt.scan
			if tt.phase.Kind == Seek {
				tt.phase.Ops = 10
			}
			f, err := Run(t.Context(), s, set, tt.phase, nil)
			must(t, err)
			if f.Wrong == 0 || tt.count > 0 && f.Wrong != tt.count || !strings.Contains(f.FirstWrong, tt.want) {
				t.Errorf("%d wrong, the first %q, want %d and %q", f.Wrong, f.FirstWrong, tt.count, tt.want)
			}
		})
	}
	t.Run("a sorted seek skips a key", func(t *testing.T) {
		set := generated(t, Decimal, 1000, 20)
		s := load(t, set)
		s.spoilScan = func(n int, k, v []byte) ([]byte, []byte, bool) { return k, v, n != 4 }
		f, err := Run(t.Context(), s, set, Phase{Kind: Seek, Ops: 10}, nil)
		if err != nil || f.Wrong == 0 {
			t.Errorf("%d wrong, %v, want some", f.Wrong, err)
		}
	})
	t.Run("a scan has keys out of order", func(t *testing.T) {
		set := generated(t, Random, 1000, 20)
		s := load(t, set)
		first := set.AppendKey(nil, 0)
		s.spoilScan = func(n int, k, v []byte) ([]byte, []byte, bool) {
			if n == 600 {
				return first, set.AppendValue(nil, 0), true
			}
			return k, v, true
		}
		f, err := Run(t.Context(), s, set, Phase{Kind: Scan}, nil)
		if err != nil || f.Wrong == 0 || !strings.Contains(f.FirstWrong, "follows") {
			t.Errorf("%d wrong, the first %q, %v", f.Wrong, f.FirstWrong, err)
		}
	})
	t.Run("a scan goes on after the last key", func(t *testing.T) {
		set := generated(t, Decimal, 10, 20)
		s := load(t, generated(t, Decimal, 11, 20))
		f, err := Run(t.Context(), s, set, Phase{Kind: Scan}, nil)
		if err != nil || f.Wrong != 1 || f.Ops != 10 {
			t.Errorf("%d wrong of %d, %v, want 1 of 10", f.Wrong, f.Ops, err)
		}
	})
}

func TestAFailedCallEndsThePhase(t *testing.T) {
	set := generated(t, Random, 10_000, 20)
	broken := errors.New("broken")
	s := load(t, set)
	s.putErr = broken
	calls := 0
	s.spoilGet = func([]byte, []byte, bool) ([]byte, bool, error) { calls++; return nil, false, broken }
	for _, p := range []Phase{
		{Kind: Load, Workers: 2},
		{Kind: Present},
		{Kind: Mixed, PutPercent: 100},
		{Kind: Load, Durable: true},
		{Kind: Insert},
		{Kind: PutSeek},
		{Kind: Reopen},
	} {
		if _, err := Run(t.Context(), s, set, p, nil); !errors.Is(err, broken) ||
			!strings.Contains(err.Error(), p.Kind.String()) {
			t.Errorf("%v: error %v, want %v with the name of the phase", p.Kind, err, broken)
		}
	}
	if calls != 1 {
		t.Errorf("%d lookups, want 1: the first fails", calls)
	}
}

func TestTheEndOfTheContextEndsThePhase(t *testing.T) {
	set := generated(t, Random, 10_000, 20)
	s := load(t, set)
	for _, kind := range []Kind{
		Load, Absent, Present, Mixed, Seek, Insert, PutSeek,
		Scan, Flush, Settle, Compact, Reopen,
	} {
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
	set := generated(t, Random, 10, 0)
	empty := generated(t, Random, 0, 0)
	tests := []struct {
		name  string
		set   Set
		phase Phase
	}{
		{"a kind that does not exist", set, Phase{Kind: Reopen + 1}},
		{"pops by two", generated(t, Decimal, 10, 0), Phase{Kind: Pop, Workers: 2}},
		{"pops of a set without order", set, Phase{Kind: Pop}},
		{"durable batches", set, Phase{Kind: Load, Durable: true, Batch: 2}},
		{"durable lookups", set, Phase{Kind: Present, Durable: true}},
		{"more records than pairs", set, Phase{Kind: Load, Records: 11}},
		{"fewer records than none", set, Phase{Kind: Load, Records: -1}},
		{"lookups of some records", set, Phase{Kind: Present, Records: 5}},
		{"more new keys than the set can name", set, Phase{Kind: Insert, Ops: 10}},
		{"inserts into an empty set", empty, Phase{Kind: Insert}},
		{"a choice that does not exist", set, Phase{Choice: Latest + 1}},
		{"fewer operations than none", set, Phase{Ops: -1}},
		{"more puts than operations", set, Phase{Kind: Mixed, PutPercent: 101}},
		{"a scan by two", set, Phase{Kind: Scan, Workers: 2}},
		{"a mix by two", set, Phase{Kind: Serve, Mix: ycsb(t, 'c'), Workers: 2}},
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
	testkit.LongUnderRace(t)
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
		{"seeks that read much", 100, Phase{Kind: Seek, Limit: 100, Ops: 5000}, 8},
		{"seeks that read all", 100, Phase{Kind: Seek, Limit: 1 << 30}, 1},
	}
	for _, tt := range tests {
		set := generated(t, Decimal, 20, tt.value)
		r := &run{set: set, phase: tt.phase}
		if got := r.chunkSize(); got != tt.want {
			t.Errorf("%s: %d operations, want %d", tt.name, got, tt.want)
		}
	}
}

func TestWrongInsertsAreFound(t *testing.T) {
	set := generated(t, Random, 1000, 20)
	s := load(t, set)
	s.spoilInsert = func([]byte, bool) bool { return true } // an absent key is taken for present
	f, err := Run(t.Context(), s, set, Phase{Kind: Insert}, nil)
	if err != nil || f.Wrong != 999 || !strings.Contains(f.FirstWrong, "PutIfAbsent") {
		t.Errorf("%d wrong, the first %q, %v; want 999", f.Wrong, f.FirstWrong, err)
	}
}

func TestInsertsPutEachAbsentKeyOnce(t *testing.T) {
	set := generated(t, Random, 5000, 20)
	for _, p := range []Phase{
		{Ops: 4999},
		{Ops: 4000, Workers: 3, Seed: 1},
		{Ops: 4000, Choice: Uniform, Seed: 2},
		{Ops: 4000, Choice: InOrder},
	} {
		s := load(t, set)
		p.Kind = Insert
		if f, err := Run(t.Context(), s, set, p, nil); err != nil || f.Wrong > 0 {
			t.Fatalf("%+v: %d wrong, %v", p, f.Wrong, err)
		}
		if got := len(s.pairs) - set.Len(); got != p.Ops {
			t.Errorf("%+v: %d keys are new, want %d", p, got, p.Ops)
		}
	}
}

func TestPhasesThatNeedMoreCallsNameThem(t *testing.T) {
	set := generated(t, Decimal, 1000, 20)
	s := load(t, set)
	for _, p := range []Phase{{Kind: Insert}, {Kind: Pop}, {Kind: Present, Batch: 2}, {Kind: Absent, Batch: 2}} {
		if _, err := Run(t.Context(), struct{ Store }{s}, set, p, nil); err == nil ||
			!strings.Contains(err.Error(), "FullStore") {
			t.Errorf("%v on a store that has not all calls: %v", p.Kind, err)
		}
	}
}

func TestAQueueIsPoppedFromItsHead(t *testing.T) {
	set := generated(t, Decimal, 1000, 20)
	s := load(t, set)
	f, err := Run(t.Context(), s, set, Phase{Kind: Pop, Ops: 300, Choice: Uniform}, nil)
	if err != nil || f.Wrong > 0 || f.Ops != 300 || len(s.pairs) != 700 {
		t.Errorf("%d popped, %d wrong, %v; %d left, want 700", f.Ops, f.Wrong, err, len(s.pairs))
	}
	tests := []struct {
		name  string
		pairs int
		scan  func(n int, key, value []byte) ([]byte, []byte, bool)
		want  string
		count int
	}{
		{
			"the queue is empty", 1000, func(_ int, k, v []byte) ([]byte, []byte, bool) { return k, v, false },
			"0 pairs at the head, want 1", 1000,
		},
		{
			"a value is wrong", 1000,
			func(_ int, k, v []byte) ([]byte, []byte, bool) { return k, bytes.Repeat([]byte("x"), len(v)), true },
			"not its own", 1000,
		},
		{"a pair is left", 1001, nil, "after all were popped", 1},
	}
	for _, tt := range tests {
		s := load(t, generated(t, Decimal, tt.pairs, 20))
		s.spoilScan = tt.scan
		f, err := Run(t.Context(), s, set, Phase{Kind: Pop}, nil)
		if err != nil || f.Wrong != tt.count || !strings.Contains(f.FirstWrong, tt.want) {
			t.Errorf("%s: %d wrong, the first %q, %v; want %d and %q",
				tt.name, f.Wrong, f.FirstWrong, err, tt.count, tt.want)
		}
	}
	t.Run("another pair comes first", func(t *testing.T) {
		s := load(t, set)
		must(t, s.Delete(set.AppendKey(nil, 500)))
		f, err := Run(t.Context(), s, set, Phase{Kind: Pop}, nil)
		if err != nil || f.Wrong != 500 || !strings.Contains(f.FirstWrong, "has number 501, want 500") {
			t.Errorf("%d wrong, the first %q, %v", f.Wrong, f.FirstWrong, err)
		}
	})
}

func TestADurableLoadSyncsEachPut(t *testing.T) {
	set := generated(t, Random, 1000, 20)
	s := newMapStore()
	if _, err := Run(t.Context(), s, set, Phase{Kind: Load, Durable: true, Workers: 2}, nil); err != nil ||
		s.synced.Load() != 1000 || len(s.pairs) != 1000 {
		t.Errorf("%d puts synced and %d keys, %v; want 1000", s.synced.Load(), len(s.pairs), err)
	}
}

func TestALoadOfRecordsPutsTheFirst(t *testing.T) {
	set := generated(t, Decimal, 1000, 20)
	s := newMapStore()
	f, err := Run(t.Context(), s, set, Phase{Kind: Load, Records: 300, Batch: 50}, nil)
	if err != nil || f.Ops != 300 || len(s.pairs) != 300 {
		t.Errorf("%d put and %d keys, %v; want 300", f.Ops, len(s.pairs), err)
	}
	if _, ok := s.pairs[string(set.AppendKey(nil, 299))]; !ok {
		t.Error("record 299 is not there")
	}
}

func TestLookupsTogetherAreAsManyAsAskedFor(t *testing.T) {
	set := generated(t, Random, 1050, 10)
	for batch, want := range map[int]int64{1: 0, 10: 105, 100: 11, 300: 4, 2000: 1} {
		s := load(t, set)
		f, err := Run(t.Context(), s, set, Phase{Kind: Present, Batch: batch}, nil)
		if err != nil || f.Wrong > 0 || f.Ops != 1050 || s.many.Load() != want {
			t.Errorf("%d together: %d calls for %d keys, %d wrong, %v; want %d",
				batch, s.many.Load(), f.Ops, f.Wrong, err, want)
		}
	}
}

// sloppyStore answers GetMany with an answer too few, one too many, or two in the wrong order.
type sloppyStore struct {
	*mapStore

	way string
}

func (s sloppyStore) GetMany(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	type answer struct {
		value []byte
		found bool
	}
	var all []answer
	err := s.mapStore.GetMany(keys, func(_ int, value []byte, found bool) error {
		all = append(all, answer{value, found})
		return nil
	})
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	switch s.way {
	case "one too few":
		order = order[:len(order)-1]
	case "one too many":
		order, all = append(order, len(order)), append(all, all[0])
	case "two in the wrong order":
		order[0], order[1] = 1, 0
	}
	for _, i := range order {
		err = errors.Join(err, each(i, all[i].value, all[i].found))
	}
	return err
}

func TestSloppyAnswersToManyKeysAreFound(t *testing.T) {
	set := generated(t, Random, 100, 10)
	for way, wrong := range map[string]bool{
		"right": false, "one too few": true, "one too many": true,
		"two in the wrong order": true,
	} {
		for _, kind := range []Kind{Present, Absent} {
			f, err := Run(t.Context(), sloppyStore{load(t, set), way}, set, Phase{Kind: kind, Batch: 9, Ops: 99}, nil)
			if err != nil || (f.Wrong > 0) != wrong || wrong && !strings.Contains(f.FirstWrong, "GetMany") {
				t.Errorf("%v, %s: %d wrong: %s, %v", kind, way, f.Wrong, f.FirstWrong, err)
			}
		}
	}
}

func TestReopenTakesTheTimeOfTheOpeningAlone(t *testing.T) {
	set := generated(t, Random, 10, 0)
	f, err := Run(t.Context(), newMapStore(), set, Phase{Kind: Reopen}, nil)
	if err != nil || f.Elapsed != 42*time.Millisecond || f.MedianNs != 42e6 || f.Ops != 1 {
		t.Errorf("%+v, %v, want 42 ms", f, err)
	}
}

func TestEveryCallTimedAloneIsInTheHistogram(t *testing.T) {
	set := generated(t, Random, 256*16, 10)
	f, err := Run(t.Context(), load(t, set), set, Phase{Kind: Present}, nil)
	must(t, err)
	count := uint64(0)
	for i, b := range f.Latencies {
		count += b.Count
		if b.Count == 0 || b.Ns > f.MaxNs || i > 0 && b.Ns <= f.Latencies[i-1].Ns {
			t.Errorf("bucket %d is %+v of %+v", i, b, f.Latencies)
		}
	}
	if count != 2*256 {
		t.Errorf("%d calls in the histogram, want an eighth of %d", count, f.Ops)
	}
}

// slowStore takes a fixed time for each Put and Scan.
type slowStore struct{ stillStore }

func (slowStore) Put(_, _ []byte) error {
	time.Sleep(100 * time.Microsecond)
	return nil
}

func (slowStore) Scan(key []byte, _ int, each func(key, value []byte) error) error {
	time.Sleep(50 * time.Microsecond)
	return each(key, nil)
}

func TestThePutOfAnIteratorForEachWriteIsTimedAlone(t *testing.T) {
	set := generated(t, Random, 256, 64<<10) // chunks of 16
	synctest.Test(t, func(t *testing.T) {
		f, err := Run(t.Context(), slowStore{}, set, Phase{Kind: PutSeek, Ops: 3 * aloneEvery * 16}, nil)
		if err != nil || f.PutNs != 100_000 || f.MedianNs != 150_000 || f.MeanNs != 150_000 || f.MaxNs != 150_000 {
			t.Errorf("put %.0f ns of %.0f, on average %.0f, at most %.0f, %v; want 100000 of 150000",
				f.PutNs, f.MedianNs, f.MeanNs, f.MaxNs, err)
		}
	})
}

// stillStore does nothing and allocates nothing; greedyStore makes a fixed number of allocations in each call.
type stillStore struct{}

var _ FullStore = stillStore{}

func (stillStore) Put(_, _ []byte) error                                 { return nil }
func (stillStore) PutSync(_, _ []byte) error                             { return nil }
func (stillStore) PutIfAbsent(_, _ []byte) (bool, error)                 { return true, nil }
func (stillStore) Delete([]byte) error                                   { return nil }
func (stillStore) Apply(Batch) error                                     { return nil }
func (stillStore) AppendGet(dst, _ []byte) ([]byte, bool, error)         { return dst, false, nil }
func (stillStore) GetMany([][]byte, func(int, []byte, bool) error) error { return nil }
func (stillStore) Scan(key []byte, _ int, each func(key, value []byte) error) error {
	return each(key, nil)
}
func (stillStore) Flush(context.Context) error    { return nil }
func (stillStore) Settle(context.Context) error   { return nil }
func (stillStore) Compact(context.Context) error  { return nil }
func (stillStore) Reopen() (time.Duration, error) { return 0, nil }
func (stillStore) Close() error                   { return nil }

type greedyStore struct{ stillStore }

var kept [3][]byte // assigned, so that it escapes to the heap

func (greedyStore) AppendGet(dst, _ []byte) ([]byte, bool, error) {
	for i := range kept {
		kept[i] = make([]byte, 128)
	}
	return dst, false, nil
}

// oracle is a store that computes every right answer without storing anything. It allocates nothing.
type oracle struct {
	stillStore

	set        *Generated // sorted
	next       int        // first pair that it does not hold
	key, value []byte
}

func (o *oracle) Put(key, _ []byte) error {
	if i, ok := o.set.Index(key); ok {
		o.next = max(o.next, i+1)
	}
	return nil
}

func (o *oracle) PutIfAbsent(key, _ []byte) (bool, error) {
	_, ok := o.set.Index(key)
	return !ok, nil
}

func (o *oracle) AppendGet(dst, key []byte) ([]byte, bool, error) {
	i, ok := o.set.Index(key)
	if ok {
		dst = o.set.AppendValue(dst, i)
	}
	return dst, ok, nil
}

func (o *oracle) GetMany(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	for i, key := range keys {
		value, found, _ := o.AppendGet(o.value[:0], key)
		if err := each(i, value, found); err != nil {
			return err
		}
		o.value = value
	}
	return nil
}

func (o *oracle) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	first, _ := o.set.Index(from)
	for i := first; i < o.next && i < first+limit; i++ {
		o.key, o.value = o.set.AppendKey(o.key[:0], i), o.set.AppendValue(o.value[:0], i)
		if err := each(o.key, o.value); err != nil {
			return err
		}
	}
	return nil
}

func TestAPhaseAllocatesNextToNothingItself(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	set := generated(t, Decimal, 10_000, 100)
	for _, p := range []Phase{
		{Kind: Load},
		{Kind: Load, Batch: 100},
		{Kind: Load, Durable: true},
		{Kind: Absent},
		{Kind: Absent, Choice: Zipfian, Workers: 2},
		{Kind: Present, Batch: 100},
		{Kind: Mixed, PutPercent: 10, Choice: Uniform},
		{Kind: Insert},
		{Kind: PutSeek},
		{Kind: Seek},
		{Kind: Seek, Limit: 100, Ops: 1000},
		{Kind: Serve, Mix: Mix{Update: 100, Choice: Zipfian}},
		{Kind: Serve, Mix: ycsb(t, 'c')},
		{Kind: Serve, Mix: ycsb(t, 'd'), Records: 9_000},
		{Kind: Serve, Mix: ycsb(t, 'e'), Records: 9_000, Ops: 2000},
	} {
		f, err := Run(t.Context(), &oracle{set: set, next: cmp.Or(p.Records, set.Len())}, set, p, nil)
		if err != nil || f.Wrong > 0 {
			t.Fatalf("%+v: %d wrong: %s, %v", p, f.Wrong, f.FirstWrong, err)
		}
		if f.AllocsPerOp > 0.005+100/float64(f.Ops) {
			t.Errorf("%+v: %.3f allocations of %.1f bytes an operation, want next to none",
				p, f.AllocsPerOp, f.BytesPerOp)
		}
	}
	large := generated(t, Decimal, 10_000, chunkBytes) // one operation in a chunk
	f, err := Run(t.Context(), stillStore{}, large, Phase{Kind: Absent, Workers: runtime.GOMAXPROCS(0) + 1}, nil)
	if err != nil || f.AllocsPerOp > 0.02 {
		t.Errorf("workers in rounds: %.3f allocations an operation, %v, want next to none", f.AllocsPerOp, err)
	}
	f, err = Run(t.Context(), greedyStore{}, set, Phase{Kind: Absent}, nil)
	if err != nil || math.Abs(f.AllocsPerOp-3) > 0.03 || math.Abs(f.BytesPerOp-3*128) > 10 {
		t.Errorf("%.3f allocations of %.1f bytes an operation, %v, want 3 of %d",
			f.AllocsPerOp, f.BytesPerOp, err, 3*128)
	}
}
