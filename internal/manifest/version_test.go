package manifest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func mustApply(tb testing.TB, v *Version, e *Edit) *Version {
	tb.Helper()
	next, err := v.Apply(e)
	must(tb, err)
	must(tb, next.Check())
	return next
}

// sample returns a version with two runs in level 0, one run in level 1 and one in level 6.
func sample(tb testing.TB) *Version {
	tb.Helper()
	exclusive, infinite := table(6, "x", "z"), table(7, "z", "")
	exclusive.Flags, infinite.Flags, infinite.RangeDeletes = LargestExclusive, LargestInfinite, 1
	return mustApply(tb, new(Version), &Edit{Added: []Added{
		add(0, 3, table(3, "a", "m")), add(0, 4, table(4, "c", "q")),
		add(1, 1, exclusive), add(1, 1, table(5, "d", "f")), add(1, 1, infinite),
		add(6, 0, table(1, "a", "c")), add(6, 0, table(2, "e", "k")),
	}})
}

func TestVersionAsText(t *testing.T) {
	const want = `level 0 run 4: 1 tables, 1004 bytes
  000004 ["c","q"] seq 4..4: 1004 bytes, 10 entries, 2 deletes, filter 64 bytes, rate 0.25
level 0 run 3: 1 tables, 1003 bytes
  000003 ["a","m"] seq 3..3: 1003 bytes, 10 entries, 2 deletes, filter 64 bytes, rate 0.25
level 1 run 1: 3 tables, 3018 bytes
  000005 ["d","f"] seq 5..5: 1005 bytes, 10 entries, 2 deletes, filter 64 bytes, rate 0.25
  000006 ["x","z") seq 6..6: 1006 bytes, 10 entries, 2 deletes, filter 64 bytes, rate 0.25
  000007 ["z",∞) seq 7..7: 1007 bytes, 10 entries, 2 deletes, 1 range deletes, filter 64 bytes, rate 0.25
level 6 run 0: 2 tables, 2003 bytes
  000001 ["a","c"] seq 1..1: 1001 bytes, 10 entries, 2 deletes, filter 64 bytes, rate 0.25
  000002 ["e","k"] seq 2..2: 1002 bytes, 10 entries, 2 deletes, filter 64 bytes, rate 0.25
`
	if got := sample(t).String(); got != want {
		t.Errorf("version is\n%s, want\n%s", got, want)
	}
	if got := new(Version).String(); got != "no tables\n" {
		t.Errorf("an empty version is %q", got)
	}
	plain := table(1, "a", "b")
	plain.Flags, plain.FilterLen = SeqOverridden|Superseded, 0
	const text = `000001 ["a","b"] seq 1..1: 1001 bytes, 10 entries, 2 deletes, ingested, superseded versions`
	if got := plain.String(); got != text {
		t.Errorf("table is %q, want %q", got, text)
	}
}

func TestApply(t *testing.T) {
	testkit.Script(t, "testdata/apply.txt", func(t *testing.T, input string) string {
		v, e := sample(t), &Edit{NextFile: 9}
		for line := range strings.Lines(input) {
			verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			place, bounds, _ := strings.Cut(rest, " ")
			var level int
			var run, number uint64
			if verb == "delete" {
				_, err := fmt.Sscanf(place, "%d:%d", &level, &number)
				must(t, err)
				e.Deleted = append(e.Deleted, Deleted{level, number})
				continue
			}
			_, err := fmt.Sscanf(place, "%d/%d:%d", &level, &run, &number)
			must(t, err)
			lo, hi, isNew := strings.Cut(bounds, "-")
			added := table(number, lo, hi)
			if !isNew { // a table of the sample is moved
				for _, u := range sample(t).Tables() {
					if u.Number == number {
						added = u
					}
				}
				if bounds == "changed" {
					added.ID++
				}
			}
			e.Added = append(e.Added, add(level, run, added))
		}
		before := v.String()
		got, err := v.Apply(e)
		if v.String() != before || v.Check() != nil {
			t.Errorf("the old version became\n%s", v)
		}
		if err != nil {
			return err.Error()
		}
		must(t, got.Check())
		return shape(got)
	})
}

func shape(v *Version) string {
	if v == nil {
		return "nil"
	}
	var parts []string
	for level, runs := range v.Levels {
		for _, r := range runs {
			var numbers []string
			for _, t := range r.Tables {
				numbers = append(numbers, strconv.FormatUint(t.Number, 10))
			}
			parts = append(parts, fmt.Sprintf("%d/%d:%s", level, r.ID, strings.Join(numbers, ",")))
		}
	}
	return strings.Join(parts, " ")
}

func TestUntouchedRunsAreShared(t *testing.T) {
	v := sample(t)
	next := mustApply(t, v, &Edit{Deleted: []Deleted{{1, 6}}, Added: []Added{add(0, 8, table(8, "a", "b"))}})
	if &next.Levels[6][0].Tables[0] != &v.Levels[6][0].Tables[0] ||
		&next.Levels[0][2].Tables[0] != &v.Levels[0][1].Tables[0] {
		t.Error("runs that the edit leaves alone were copied")
	}
}

// Every query is compared with a scan of all tables.
func TestQueriesAgreeWithAScan(t *testing.T) {
	v := sample(t)
	keys := strings.Fields("A a b c cc d e f ff k l m q r x y yy z zz")
	for _, key := range append(keys, "") {
		for _, runs := range v.Levels {
			for _, r := range runs {
				var want []*Table
				for _, u := range r.Tables {
					if string(u.Smallest) <= key && (u.Upper() == nil || string(u.Largest) > key ||
						string(u.Largest) == key && u.Flags&LargestExclusive == 0) {
						want = append(want, u)
					}
				}
				if got := r.Touching(Bounds{Lo: []byte(key), Hi: []byte(key)}); !slices.Equal(got, want) {
					t.Errorf("run %d has %q in %v, want %v", r.ID, key, got, want)
				}
			}
		}
	}
	for range v.Tables() { // the loop may be left early
		break
	}
	if got := v.Bytes(1); got != 3018 {
		t.Errorf("level 1 has %d bytes, want 3018", got)
	}
}

func TestUpperIsNilOnlyIfInfinite(t *testing.T) {
	for _, test := range []struct {
		table Table
		want  []byte
	}{
		{Table{Flags: LargestInfinite}, nil},
		{Table{}, []byte{}},
		{Table{Largest: []byte{}}, []byte{}},
		{Table{Largest: []byte("k")}, []byte("k")},
	} {
		if got := test.table.Upper(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("upper of %v is %#v, want %#v", &test.table, got, test.want)
		}
	}
}

func TestCheckReportsWhatIsWrong(t *testing.T) {
	for text, change := range map[string]func(v *Version){
		"is there twice": func(v *Version) { v.Levels[3] = []Run{{1, []*Table{v.Levels[6][0].Tables[0]}}} },
		"is empty":       func(v *Version) { v.Levels[3] = []Run{{ID: 1}} },
		"newest first":   func(v *Version) { slices.Reverse(v.Levels[0]) },
		"overlap":        func(v *Version) { slices.Reverse(v.Levels[6][0].Tables) },
		"number 0":       func(v *Version) { v.Levels[6][0].Tables[0].Number = 0 },
		"filter rate":    func(v *Version) { v.Levels[6][0].Tables[0].FilterRate = 2 },
	} {
		v := sample(t)
		change(v)
		if err := v.Check(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want one with %q", err, text)
		}
	}
}

// A random history of edits gives the same tables as a map, and no version changes afterwards.
func TestHistories(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		v, model := new(Version), map[uint64]Added{}
		type moment struct {
			v    *Version
			text string
		}
		var past []moment
		for number := uint64(1); number < 200; number++ {
			e := &Edit{}
			for n, a := range model {
				if rng.IntN(10) == 0 {
					e.Deleted = append(e.Deleted, Deleted{a.Level, n})
					if level := rng.IntN(NumLevels); level != a.Level && rng.IntN(2) == 0 {
						e.Added = append(e.Added, add(level, uint64(rng.IntN(3)), a.Table))
					}
				}
			}
			lo := rng.IntN(100)
			e.Added = append(e.Added, add(rng.IntN(NumLevels), uint64(rng.IntN(3)),
				table(number, fmt.Sprintf("%03d", lo), fmt.Sprintf("%03d", lo+rng.IntN(5)))))
			past = append(past, moment{v, v.String()})
			next, err := v.Apply(e)
			if err != nil {
				if !strings.Contains(err.Error(), "overlap") {
					t.Fatal(err)
				}
				continue
			}
			must(t, next.Check())
			for _, d := range e.Deleted {
				delete(model, d.Number)
			}
			for _, a := range e.Added {
				model[a.Table.Number] = a
			}
			v = next
			got := map[uint64]Added{}
			for _, a := range (State{Version: v}).Snapshot().Added {
				got[a.Table.Number] = a
			}
			if !reflect.DeepEqual(got, model) {
				t.Fatalf("seed %d: tables are %v, want %v", seed, got, model)
			}
		}
		for i, m := range past {
			if m.v.String() != m.text {
				t.Fatalf("seed %d: version %d changed", seed, i)
			}
		}
	}
}

// many returns n tables of the bottom level.
func many(n int) []Added {
	added := make([]Added, n)
	for i := range added {
		key := fmt.Sprintf("%08d", i)
		added[i] = add(6, 0, table(uint64(i)+1, key+"a", key+"z"))
	}
	return added
}

func TestThousandsOfTablesAreNoMatter(t *testing.T) {
	const n = 20000
	added := many(n)
	rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { added[i], added[j] = added[j], added[i] })
	start := time.Now()
	v := mustApply(t, new(Version), &Edit{Added: added})
	gone := &Edit{}
	for _, a := range added[:n/2] {
		gone.Deleted = append(gone.Deleted, Deleted{6, a.Table.Number})
	}
	v = mustApply(t, v, gone)
	mustApply(t, v, &Edit{Added: added[:n/2]})
	if d := time.Since(start); d > 5*time.Second { // quadratic work takes minutes, linear work takes 0.1 s
		t.Errorf("took %v", d)
	}
}

// A hostile manifest may have as many runs as tables. Copying a level's runs for each of them took 15 s at 4 MiB.
func TestThousandsOfRunsAreNoMatter(t *testing.T) {
	const n = 5000
	e := &Edit{}
	for i := range uint64(n) {
		e.Added = append(e.Added, add(0, i+1, table(i+1, "a", "z")))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v := mustApply(t, new(Version), e)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 { // quadratic 400 MB, linear 2 MB
		t.Errorf("%d runs took %d bytes", n, got)
	}
	w := mustApply(t, v, &Edit{Added: []Added{add(0, n+1, table(n+1, "a", "z")), add(0, n+2, table(n+2, "a", "z"))}})
	if len(v.Levels[0]) != n || len(w.Levels[0]) != n+2 {
		t.Errorf("%d and %d runs, want %d and %d", len(v.Levels[0]), len(w.Levels[0]), n, n+2)
	}
}

func BenchmarkApplyToThousandsOfTables(b *testing.B) {
	v := mustApply(b, new(Version), &Edit{Added: many(16000)})
	replacement := add(6, 0, table(20000, "00004999a", "00005000z"))
	e := &Edit{Deleted: []Deleted{{6, 5000}, {6, 5001}}, Added: []Added{replacement}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Apply(e); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEqualTablesAreEqualInEveryField(t *testing.T) {
	whole := table(5, "a", "c")
	if !whole.Equal(table(5, "a", "c")) {
		t.Error("a table does not equal its copy")
	}
	for i := range reflect.TypeFor[Table]().NumField() {
		other := table(5, "a", "c")
		switch f := reflect.ValueOf(other).Elem().Field(i); f.Kind() {
		case reflect.Slice:
			f.SetBytes([]byte("b"))
		case reflect.Float64:
			f.SetFloat(f.Float() + 0.5)
		default:
			f.Set(reflect.ValueOf(f.Uint() + 1).Convert(f.Type()))
		}
		if whole.Equal(other) || other.Equal(whole) {
			t.Errorf("tables are equal whose %s differs", reflect.TypeFor[Table]().Field(i).Name)
		}
	}
	longer := table(5, "a"+strings.Repeat("x", 10), "c"+strings.Repeat("x", 20))
	if d := longer.DescriptionBytes() - whole.DescriptionBytes(); d != 60 {
		t.Errorf("30 bytes of bounds take %d bytes, want 60", d)
	}
}

func TestAnEditStaysAsItIsWhenItIsApplied(t *testing.T) {
	e := &Edit{Added: []Added{add(3, 1, table(5, "a", "c")), add(0, 9, table(4, "a", "c"))}}
	mustApply(t, &Version{}, e)
	if e.Added[0].Level != 3 || e.Added[1].Level != 0 {
		t.Errorf("the edit adds at levels %d and %d, want 3 and 0", e.Added[0].Level, e.Added[1].Level)
	}
}
