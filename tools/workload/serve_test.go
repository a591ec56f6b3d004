package workload

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func ycsb(t *testing.T, letter byte) Mix {
	t.Helper()
	m, err := YCSB(letter)
	must(t, err)
	return m
}

func TestYCSBHasSixWorkloads(t *testing.T) {
	for letter := byte('A'); letter <= 'F'; letter++ {
		upper, lower := ycsb(t, letter), ycsb(t, letter|0x20)
		if upper != lower || upper.Read+upper.Update+upper.Insert+upper.Scan+upper.Modify != 100 {
			t.Errorf("%c: %+v and %+v", letter, upper, lower)
		}
	}
	for _, letter := range []byte{'G', '@', 'g', '`', 0, '1'} {
		if m, err := YCSB(letter); err == nil {
			t.Errorf("%q: %+v, want an error", letter, m)
		}
	}
}

func TestEveryYCSBWorkloadOfAGoodStoreIsRight(t *testing.T) {
	const records, ops = 500, 2000
	for _, shape := range []Shape{Random, Decimal} {
		t.Run(fmt.Sprintf("%v keys", shape), func(t *testing.T) {
			set := generated(t, shape, records+2*ops*5/100, 50)
			s := newMapStore()
			if _, err := Run(t.Context(), s, set, Phase{Kind: Load, Records: records}, nil); err != nil {
				t.Fatal(err)
			}
			ledger := NewLedger(set, records)
			for i, letter := range []byte("abcfdeac") {
				p := Phase{Kind: Serve, Mix: ycsb(t, letter), Ledger: ledger, Ops: ops, Seed: uint64(i)}
				f, err := Run(t.Context(), s, set, p, nil)
				if err != nil || f.Wrong > 0 || f.Ops != ops || f.Phase != "ycsb-"+string(letter) {
					t.Errorf("%s: %d operations, %d wrong: %s, %v", f.Phase, f.Ops, f.Wrong, f.FirstWrong, err)
				}
			}
			if got := ledger.Records(); got != set.Len() || len(s.pairs) != got {
				t.Errorf("%d records in the ledger and %d in the store, want %d", got, len(s.pairs), set.Len())
			}
			if ledger.next != ledger.records || !slices.Equal(ledger.begun, ledger.put) {
				t.Error("pairs are still being put")
			}
			for i := range set.Len() {
				want := set.AppendVersion(nil, i, ledger.put[i])
				if got := s.pairs[string(set.AppendKey(nil, i))]; !bytes.Equal(got, want) {
					t.Errorf("the store has pair %d in another version than %d", i, ledger.put[i])
				}
			}
		})
	}
}

// A countingStore counts the calls on a store.
type countingStore struct {
	*mapStore

	puts, gets, scans, scanned int
	most                       map[string]int // lookups by key
}

func (s *countingStore) Put(key, value []byte) error {
	s.puts++
	return s.mapStore.Put(key, value)
}

func (s *countingStore) AppendGet(dst, key []byte) ([]byte, bool, error) {
	s.gets++
	s.most[string(key)]++
	return s.mapStore.AppendGet(dst, key)
}

func (s *countingStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	s.scans++
	s.scanned += limit
	return s.mapStore.Scan(from, limit, each)
}

func TestAMixHasItsSharesAndItsChoice(t *testing.T) {
	testkit.LongUnderRace(t)
	const records, ops = 1000, 4000
	tests := []struct {
		letter            byte
		puts, gets, scans int
	}{
		{'a', 2000, 2000, 0},
		{'b', 200, 3800, 0},
		{'c', 0, 4000, 0},
		{'d', 200, 3800, 0},
		{'e', 200, 0, 3800},
		{'f', 2000, 4000, 0},
	}
	for _, tt := range tests {
		set := generated(t, Decimal, records+ops*5/100, 8)
		s := &countingStore{mapStore: newMapStore(), most: make(map[string]int)}
		if _, err := Run(t.Context(), s, set, Phase{Kind: Load, Records: records}, nil); err != nil {
			t.Fatal(err)
		}
		s.puts = 0
		f, err := Run(t.Context(), s, set, Phase{Kind: Serve, Mix: ycsb(t, tt.letter), Records: records, Ops: ops}, nil)
		if err != nil || f.Wrong > 0 {
			t.Fatalf("%c: %d wrong: %s, %v", tt.letter, f.Wrong, f.FirstWrong, err)
		}
		if s.puts != tt.puts || s.gets != tt.gets || s.scans != tt.scans {
			t.Errorf("%c: %d puts, %d lookups, %d scans, want %d, %d, %d",
				tt.letter, s.puts, s.gets, s.scans, tt.puts, tt.gets, tt.scans)
		}
		if s.scans > 0 && (s.scanned < s.scans*48 || s.scanned > s.scans*53) {
			t.Errorf("%c: %d scans of %d entries together, want about 50.5 each", tt.letter, s.scans, s.scanned)
		}
		if s.gets == 0 {
			continue
		}
		hottest, most := "", 0
		for key, n := range s.most {
			if n > most {
				hottest, most = key, n
			}
		}
		i, _ := set.Index([]byte(hottest))
		if latest := i >= records; latest != (tt.letter == 'd') || !latest && most < s.gets/50 {
			t.Errorf("%c: the hottest record is %d with %d of %d lookups", tt.letter, i, most, s.gets)
		}
	}
}

func TestAMixRepeatsItself(t *testing.T) {
	set := generated(t, Random, 1000, 8)
	run := func(seed uint64) map[string]int {
		s := &countingStore{mapStore: load(t, set), most: make(map[string]int)}
		if _, err := Run(t.Context(), s, set, Phase{Kind: Serve, Mix: ycsb(t, 'f'), Seed: seed}, nil); err != nil {
			t.Fatal(err)
		}
		return s.most
	}
	once, again, other := run(1), run(1), run(2)
	if fmt.Sprint(once) != fmt.Sprint(again) || fmt.Sprint(once) == fmt.Sprint(other) {
		t.Error("the same seed looks up other keys, or another seed the same")
	}
}

// wornStore gives wrong answers of one kind.
type wornStore struct {
	*mapStore

	first map[string][]byte // first value of each key that was put after the load
	puts  int
	way   string
	set   Set
}

func (s *wornStore) Put(key, value []byte) error {
	s.puts++
	if s.first[string(key)] == nil {
		s.first[string(key)] = bytes.Clone(value)
	}
	if s.way == "loses a put in ten" && s.puts%10 == 0 {
		return nil
	}
	return s.mapStore.Put(key, value)
}

func (s *wornStore) AppendGet(dst, key []byte) ([]byte, bool, error) {
	switch s.way {
	case "keeps the first put":
		if value := s.first[string(key)]; value != nil {
			return append(dst, value...), true, nil
		}
	case "keeps what was loaded":
		i, _ := s.set.Index(key)
		return s.set.AppendValue(dst, i), true, nil
	case "knows the future":
		i, _ := s.set.Index(key)
		return s.set.AppendVersion(dst, i, 1_000_000), true, nil
	case "finds nothing":
		return dst, false, nil
	}
	return s.mapStore.AppendGet(dst, key)
}

func (s *wornStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	if s.way == "skips the second" {
		limit++
	}
	return s.mapStore.Scan(from, limit, func(key, value []byte) error {
		n++
		if first := s.first[string(key)]; s.way == "scans the first put" && first != nil {
			value = first
		}
		switch i, _ := s.set.Index(key); {
		case s.way == "skips the second" && n == 2, s.way == "ends early" && n > 3:
			return nil
		case s.way == "scans an absent key" && n == 3:
			key = append(bytes.Clone(key), 0)
		case s.way == "scans another's value" && n == 2:
			value = s.set.AppendValue(nil, i-1)
		case s.way == "begins elsewhere" && n == 1:
			return nil
		}
		return each(key, value)
	})
}

func TestWrongAnswersToAMixAreFound(t *testing.T) {
	testkit.LongUnderRace(t)
	const records = 500
	tests := []struct {
		way, want string
		letter    byte
		shapes    []Shape
	}{
		{"is right", "", 'a', Shapes},
		{"is right", "", 'e', Shapes},
		{"loses a put in ten", "not one of its versions", 'a', Shapes},
		{"loses a put in ten", "not one of its versions", 'f', Shapes},
		{"loses a put in ten", "is not found", 'd', Shapes},
		{"loses a put in ten", "scan from", 'e', []Shape{Decimal, BigEndian}},
		{"keeps the first put", "not one of its versions", 'a', Shapes},
		{"keeps what was loaded", "not one of its versions", 'b', Shapes},
		{"knows the future", "not one of its versions", 'c', Shapes},
		{"finds nothing", "is not found", 'c', Shapes},
		{"skips the second", "has number", 'e', []Shape{Decimal, BigEndian}},
		{"ends early", "stops after 3 entries", 'e', Shapes},
		{"scans an absent key", "never put", 'e', Shapes},
		{"scans another's value", "not one of its versions", 'e', Shapes},
		{"begins elsewhere", "do not start there", 'e', Shapes},
	}
	for _, tt := range tests {
		for _, shape := range tt.shapes {
			ops := 2000
			if tt.letter == 'e' {
				ops = 400
			}
			set := generated(t, shape, records+ops*5/100, 20)
			s := &wornStore{mapStore: newMapStore(), first: make(map[string][]byte), set: set}
			if _, err := Run(t.Context(), s, set, Phase{Kind: Load, Records: records}, nil); err != nil {
				t.Fatal(err)
			}
			s.way, s.first = tt.way, make(map[string][]byte)
			f, err := Run(t.Context(), s, set,
				Phase{Kind: Serve, Mix: ycsb(t, tt.letter), Records: records, Ops: ops}, nil)
			if err != nil || (f.Wrong > 0) != (tt.want != "") || !strings.Contains(f.FirstWrong, tt.want) {
				t.Errorf("a store of %v keys that %s: %d wrong, the first %q, %v; want %q",
					shape, tt.way, f.Wrong, f.FirstWrong, err, tt.want)
			}
		}
	}
}

func TestAScanOfWhatWasNeverPutIsFound(t *testing.T) {
	for _, shape := range []Shape{Random, Decimal} {
		set := generated(t, shape, 600, 20)
		f, err := Run(t.Context(), load(t, set), set, Phase{Kind: Serve, Mix: ycsb(t, 'e'), Records: 500, Ops: 200},
			nil)
		if err != nil || f.Wrong == 0 || !strings.Contains(f.FirstWrong, "never put") {
			t.Errorf("%v keys: %d wrong, the first %q, %v", shape, f.Wrong, f.FirstWrong, err)
		}
	}
}

func TestAScanOfOldVersionsIsFound(t *testing.T) {
	set := generated(t, Random, 500, 20)
	for way, wrong := range map[string]bool{"is right": false, "scans the first put": true} {
		s := &wornStore{mapStore: load(t, set), first: make(map[string][]byte), set: set, way: way}
		f, err := Run(t.Context(), s, set,
			Phase{Kind: Serve, Mix: Mix{Scan: 50, Update: 50, ScanMost: 10, Choice: Zipfian}, Ops: 1000}, nil)
		if err != nil || (f.Wrong > 0) != wrong {
			t.Errorf("a store that %s: %d wrong, the first %q, %v", way, f.Wrong, f.FirstWrong, err)
		}
	}
}

func TestImpossibleMixesAreRefused(t *testing.T) {
	set := generated(t, Random, 100, 8)
	other := generated(t, Random, 100, 8)
	c, d := ycsb(t, 'c'), ycsb(t, 'd')
	tests := []struct {
		name  string
		set   Set
		phase Phase
	}{
		{"no mix", set, Phase{}},
		{"shares of more than all", set, Phase{Mix: Mix{Read: 60, Update: 50, Choice: Uniform}}},
		{"a share below none", set, Phase{Mix: Mix{Read: 110, Update: -10, Choice: Uniform}}},
		{"records in order", set, Phase{Mix: Mix{Read: 100, Choice: InOrder}}},
		{"scans of nothing", set, Phase{Mix: Mix{Scan: 100, Choice: Uniform}}},
		{"a ledger of another set", set, Phase{Mix: c, Ledger: NewLedger(other, 100)}},
		{"a ledger of other records", set, Phase{Mix: c, Ledger: NewLedger(set, 100), Records: 99}},
		{"no pairs to insert", set, Phase{Mix: d}},
		{"too few pairs to insert", set, Phase{Mix: d, Records: 95, Ops: 200}},
		{"no records", generated(t, Random, 0, 0), Phase{Mix: c, Ops: 1}},
	}
	for _, tt := range tests {
		tt.phase.Kind = Serve
		if _, err := Run(t.Context(), newMapStore(), tt.set, tt.phase, nil); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
	for ops, want := range map[int]int{0: 0, 3: 3, 99: 5, 100: 5, 101: 6, 1000: 50} {
		if got := d.Inserts(ops); got != want {
			t.Errorf("%d operations insert %d, want %d", ops, got, want)
		}
	}
}
