package main

import (
	"math"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/workload"
)

func testSet(t *testing.T, shape workload.Shape, n int) *workload.Generated {
	t.Helper()
	set, err := workload.NewGenerated(shape, n, 7, workload.Values{Bytes: 20})
	must(t, err)
	return set
}

// atBits returns the size of the filters of the given number of keys and tables, in whole blocks per table.
func atBits(bits float64, keys, tables int) int64 {
	perTable := int64(bits*float64(keys)/8/float64(tables)) + 63
	return perTable &^ 63 * int64(tables)
}

func TestAFloorIsAsLargeAsTheTree(t *testing.T) {
	const keys = 20_000
	set := testSet(t, workload.Random, keys)
	tree := []layer{
		{runs: 3, tables: 3, filterBytes: atBits(24, keys/10, 3), entries: keys / 10},
		{runs: 1, tables: 4, filterBytes: atBits(14, keys/5, 4), entries: keys / 5},
		{runs: 1, tables: 10, filterBytes: atBits(10, keys, 10), entries: keys},
	}
	f, err := newFloor(tree, set, 1)
	must(t, err)
	if len(f.fences) != 10 || f.runs != 5 || len(f.probes) != 10*5 {
		t.Fatalf("%d fences, %d runs, %d probes, want 10, 5 and 50", len(f.fences), f.runs, len(f.probes))
	}
	if want := tree[0].filterBytes + tree[1].filterBytes + tree[2].filterBytes; f.filterBytes != want {
		t.Errorf("filters of %d bytes, want %d", f.filterBytes, want)
	}
	for i := range f.probes {
		p := &f.probes[i]
		l := tree[[]int{0, 0, 0, 1, 2}[i%f.runs]]
		if p.Units() != 1 || int64(p.Bytes()) != l.filterBytes/int64(l.tables) {
			t.Errorf("probe %d: %d units of %d bytes, want 1 of %d",
				i, p.Units(), p.Bytes(), l.filterBytes/int64(l.tables))
		}
		if perTable := float64(l.entries) / float64(l.tables); math.Abs(float64(p.Keys())/perTable-1) > 0.06 {
			t.Errorf("probe %d: a filter of %d keys, want about %.0f", i, p.Keys(), perTable)
		}
	}
	// Tables of a run are spread over the fences of the last one.
	if equal(&f.probes[3], &f.probes[9*f.runs+3]) || !equal(&f.probes[3], &f.probes[f.runs+3]) {
		t.Error("of the run above, of four tables, the first fences have not the same or the last one has")
	}
	for i := 1; i < len(f.fences); i++ {
		if equal(&f.probes[i*f.runs+4], &f.probes[(i-1)*f.runs+4]) {
			t.Errorf("fences %d and %d have the same table of the last run", i-1, i)
		}
	}
}

// equal reports whether two filters give the same answers.
func equal(a, b *bloomblock.Filter) bool {
	for i := range 20_000 {
		h := bloomblock.HashKey([]byte{byte(i), byte(i >> 8)})
		if a.MayContain(h) != b.MayContain(h) {
			return false
		}
	}
	return true
}

func TestAFloorAnswersAsOftenAsItsFiltersPromise(t *testing.T) {
	const keys = 40_000
	set := testSet(t, workload.Random, keys)
	f, err := newFloor([]layer{{runs: 1, tables: 4, filterBytes: atBits(10, keys, 4), entries: keys}}, set, 1)
	must(t, err)
	maybe := 0
	var key []byte
	for i := range set.Absents() {
		key = set.AppendAbsent(key[:0], i)
		maybe += differ(f.mayContain(key), false)
	}
	want := bestUnit(10).Rate() * float64(set.Absents())
	if math.Abs(float64(maybe)-want) > 5*math.Sqrt(want) {
		t.Errorf("%d of %d keys may be there, want %.0f", maybe, set.Absents(), want)
	}
}

func TestFencesPartTheKeys(t *testing.T) {
	for _, shape := range workload.Shapes {
		for _, tables := range []int{1, 2, 7, 64, 300} {
			const keys = 30_000
			set := testSet(t, shape, keys)
			f, err := newFloor([]layer{{runs: 1, tables: tables, filterBytes: atBits(10, keys, tables), entries: keys}},
				set, 1)
			must(t, err)
			if len(f.fences) != tables || !slices.IsSorted(f.fences) {
				t.Fatalf("%v: %d fences, want %d in order", shape, len(f.fences), tables)
			}
			within := make([]int, tables)
			var key []byte
			for i := range set.Absents() {
				key = set.AppendAbsent(key[:0], i)
				want, _ := slices.BinarySearch(f.fences, head(key, f.prefix))
				got := f.find(key)
				if got != min(want, tables-1) {
					t.Fatalf("%v: key %q is at fence %d of %d, want %d", shape, key, got, tables, want)
				}
				within[got]++
			}
			// With 16 keys per fence, the standard deviation of a quantile is a quarter.
			if low, high := slices.Min(within), slices.Max(within); tables > 1 && (low == 0 || high > 3*keys/tables) {
				t.Errorf("%v: %d to %d keys between two of %d fences", shape, low, high, tables)
			}
			if set.Sorted() && tables == 7 && slices.Max(within)-slices.Min(within) > keys/tables/8 {
				t.Errorf("%v: sorted keys are parted unevenly: %v", shape, within)
			}
		}
	}
}

func TestTheBestUnitIsOfItsSize(t *testing.T) {
	for _, c := range []struct {
		bits, want float64
		probes     int
	}{{10, 10, 6}, {10.1, 10, 6}, {10.3, 10.5, 0}, {0.1, 0.5, 1}, {60, 32, 0}} {
		u := bestUnit(c.bits)
		if math.Abs(u.BitsPerKey-c.want) > 0.5 || c.probes > 0 && u.Probes != c.probes {
			t.Errorf("%v bits: %+v, want %v and %d probes", c.bits, u, c.want, c.probes)
		}
		if _, err := bloomblock.NewParams(u); err != nil {
			t.Errorf("%v bits: %v", c.bits, err)
		}
	}
}

func TestAFloorOfNothingIsAnError(t *testing.T) {
	if _, err := newFloor(nil, testSet(t, workload.Random, 10), 1); err == nil {
		t.Error("no levels: no error")
	}
	if _, err := newFloor([]layer{{1, 1, 64, 1}}, testSet(t, workload.Random, 0), 1); err == nil {
		t.Error("no keys: no error")
	}
}

func BenchmarkFloor(b *testing.B) {
	const keys = 100_000
	set, err := workload.NewGenerated(workload.Random, keys, 1, workload.Values{})
	must(b, err)
	f, err := newFloor([]layer{{runs: 1, tables: 8, filterBytes: atBits(10, keys, 8), entries: keys}}, set, 1)
	must(b, err)
	var list keyList
	list.fill(set, true, workload.NewPermutation(set.Absents(), 1), 0, 1024)
	for i := 0; b.Loop(); i++ {
		f.mayContain(list.at(i % 1024 * list.width))
	}
}
