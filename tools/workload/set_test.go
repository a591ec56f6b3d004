package workload

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func generated(t *testing.T, shape Shape, n, value int) *Generated {
	t.Helper()
	g, err := NewGenerated(shape, n, 7, value)
	must(t, err)
	return g
}

// checkSet checks the promises of Set.
func checkSet(t *testing.T, set Set, absents int) {
	t.Helper()
	keys := make(map[string]bool)
	var sorted [][]byte
	for i := range set.Len() {
		key := set.AppendKey([]byte("dst"), i)
		if !bytes.HasPrefix(key, []byte("dst")) {
			t.Fatalf("key %d is not appended: %q", i, key)
		}
		key = key[3:]
		if keys[string(key)] {
			t.Fatalf("key %d, %q, is there twice", i, key)
		}
		keys[string(key)] = true
		sorted = append(sorted, key)
		if got, ok := set.Index(key); !ok || got != i {
			t.Fatalf("Index(%q) = %d, %v, want %d, true", key, got, ok, i)
		}
		for _, other := range [][]byte{append(bytes.Clone(key), 0), key[:max(0, len(key)-1)]} {
			if at, ok := set.Index(other); ok && !bytes.Equal(set.AppendKey(nil, at), other) {
				t.Fatalf("Index(%q) finds key %d, which is another", other, at)
			}
		}
		if a, b := set.AppendValue(nil, i), set.AppendValue([]byte("dst"), i); !bytes.Equal(a, b[3:]) {
			t.Fatalf("value %d is %q, then %q", i, a, b)
		}
	}
	for i := range min(set.Len(), 100) {
		versions := map[string]bool{string(set.AppendValue(nil, i)): true}
		if got := set.AppendVersion([]byte("dst"), i, 0); !versions[string(got[3:])] {
			t.Fatalf("version 0 of value %d is %q, want its first", i, got)
		}
		for v := range uint32(50) {
			versions[string(set.AppendVersion(nil, i, v))] = true
		}
		if len(versions) != 50 {
			t.Fatalf("value %d has %d versions that differ, want 50", i, len(versions))
		}
	}
	if set.Sorted() && !slices.IsSortedFunc(sorted, bytes.Compare) {
		t.Error("the set is not sorted, and says it is")
	}
	slices.SortFunc(sorted, bytes.Compare)
	outside := 0
	seen := make(map[string]bool)
	for i := range absents {
		key := set.AppendAbsent(nil, i)
		if _, ok := set.Index(key); ok || keys[string(key)] {
			t.Fatalf("absent key %d, %q, is present", i, key)
		}
		if seen[string(key)] {
			t.Fatalf("absent key %d, %q, is there twice", i, key)
		}
		seen[string(key)] = true
		if at, _ := slices.BinarySearchFunc(sorted, key, bytes.Compare); at == 0 || at == len(sorted) {
			outside++
		}
	}
	if most := absents / 100; outside > most || set.Sorted() && outside > 0 {
		t.Errorf("%d of %d absent keys lie outside the keys", outside, absents)
	}
}

func TestGeneratedSetsKeepTheirPromises(t *testing.T) {
	for _, shape := range Shapes {
		t.Run(shape.String(), func(t *testing.T) {
			g := generated(t, shape, 5000, 30)
			checkSet(t, g, g.Absents())
			if got := len(g.AppendKey(nil, 4999)); got != shape.KeyBytes() {
				t.Errorf("a key has %d bytes, want %d", got, shape.KeyBytes())
			}
			name, err := shape.MarshalText()
			must(t, err)
			read := Shape(100)
			if err := read.UnmarshalText(name); err != nil || read != shape {
				t.Errorf("%q is read as %v, %v", name, read, err)
			}
		})
	}
}

func TestGeneratedKeysLookAsTheirShapeSays(t *testing.T) {
	tests := []struct {
		shape Shape
		i     int
		want  string // start of the key
	}{
		{Decimal, 21, "0000000000000042"},
		{Prefixed, 21, "tenant/000042/order/"},
		{BigEndian, 21, "\x00\x00\x00\x00\x00\x00\x00\x2a"},
	}
	for _, tt := range tests {
		key := generated(t, tt.shape, 100, 0).AppendKey(nil, tt.i)
		if !bytes.HasPrefix(key, []byte(tt.want)) {
			t.Errorf("%v key %d is %q, want it to begin with %q", tt.shape, tt.i, key, tt.want)
		}
	}
	if len(sharedPrefix) != 20 {
		t.Errorf("the shared prefix has %d bytes, want 20", len(sharedPrefix))
	}
	// Keys that look random start with each byte about equally often.
	g := generated(t, Random, 25600, 0)
	var first [256]int
	for i := range g.Len() {
		first[g.AppendKey(nil, i)[0]]++
	}
	for b, n := range first {
		if n < 50 || n > 160 {
			t.Errorf("%d of 25600 keys begin with %#x, want about 100", n, b)
		}
	}
}

func TestSeedsMakeDifferentSets(t *testing.T) {
	a, _ := NewGenerated(Random, 10, 1, 8)
	b, _ := NewGenerated(Random, 10, 2, 8)
	for i := range 10 {
		if bytes.Equal(a.AppendKey(nil, i), b.AppendKey(nil, i)) ||
			bytes.Equal(a.AppendValue(nil, i), b.AppendValue(nil, i)) {
			t.Errorf("pair %d is the same with both seeds", i)
		}
	}
	if _, ok := a.Index(b.AppendKey(nil, 3)); ok {
		t.Error("a key of one set is in the other")
	}
}

func TestImpossibleSetsAreRefused(t *testing.T) {
	tests := []struct {
		name  string
		shape Shape
		n     int
		value int
	}{
		{"a shape that does not exist", Shape(len(Shapes)), 1, 0},
		{"fewer keys than none", Random, -1, 0},
		{"values shorter than nothing", Random, 1, -1},
	}
	for _, tt := range tests {
		if _, err := NewGenerated(tt.shape, tt.n, 0, tt.value); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
	if err := new(Shape).UnmarshalText([]byte("round")); err == nil {
		t.Error("a shape called round: no error")
	}
	if _, err := NewPairs([]Pair{{Key: []byte("b")}, {Key: []byte("a")}, {Key: []byte("b")}}); err == nil {
		t.Error("a key given twice: no error")
	}
}

func TestValuesAreAsLongAsAskedForAndDoNotCompress(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 100, 1000, 1001} {
		value := generated(t, Random, 10, n).AppendValue([]byte("dst"), 5)[3:]
		if len(value) != n {
			t.Errorf("%d bytes, want %d", len(value), n)
		}
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		must(t, err)
		_, err = w.Write(value)
		must(t, errors.Join(err, w.Close()))
		if packed.Len() < n*99/100 {
			t.Errorf("%d bytes compress to %d", n, packed.Len())
		}
	}
}

func TestGivenPairsKeepTheirPromises(t *testing.T) {
	tests := []struct {
		name string
		keys []string
	}{
		{"no key", nil},
		{"one key", []string{"a"}},
		{"the empty key and another", []string{"", "a"}},
		{
			"paths, one the beginning of another",
			[]string{"src", "src/fmt", "src/fmt/print.go", "src/fmt/print_test.go", "src/io"},
		},
		{"keys that look like absent ones", []string{"a", "a!", "a!0", "a!!", "b!1", "c"}},
		{"neighbors with nothing between", []string{"a", "a\x00", "a\x00\x00", "a\x00!"}},
		{"the last begins with the one before and a low byte", []string{"a", "b", "b\x01"}},
		{"the last begins with the one before and the mark", []string{"a", "b", "b!"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pairs []Pair
			for i, k := range slices.Backward(tt.keys) {
				pairs = append(pairs, Pair{[]byte(k), fmt.Append(nil, "value ", i)})
			}
			set, err := NewPairs(pairs)
			must(t, err)
			if set.Len() != len(tt.keys) {
				t.Errorf("%d keys, want %d", set.Len(), len(tt.keys))
			}
			checkSet(t, set, set.Absents())
		})
	}
	set, err := NewPairs([]Pair{{Key: []byte("x/y"), Value: []byte("1")}, {Key: []byte("x/z"), Value: []byte("2")}})
	must(t, err)
	if got := string(set.AppendAbsent(nil, 1)); got != "x/y!1" || set.Absents() != absentPerBase {
		t.Errorf("absent key 1 of %d is %q, want x/y!1 of %d", set.Absents(), got, absentPerBase)
	}
}

func FuzzPairs(f *testing.F) {
	f.Add([]byte("a\nb\na!\na!0\nb!12"))
	f.Add([]byte("\n\x00\n!\n!!"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var pairs []Pair
		seen := make(map[string]bool)
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if !seen[string(line)] {
				pairs = append(pairs, Pair{Key: line})
			}
			seen[string(line)] = true
		}
		set, err := NewPairs(pairs)
		must(t, err)
		checkSet(t, set, min(set.Absents(), 200))
	})
}

func FuzzGeneratedIndex(f *testing.F) {
	for _, shape := range Shapes {
		g, err := NewGenerated(shape, 1000, 7, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(shape), g.AppendKey(nil, 999))
		f.Add(uint8(shape), g.AppendAbsent(nil, 1))
	}
	f.Fuzz(func(t *testing.T, shape uint8, key []byte) {
		g, err := NewGenerated(Shapes[int(shape)%len(Shapes)], 1000, 7, 0)
		must(t, err)
		if i, ok := g.Index(key); ok && !bytes.Equal(g.AppendKey(nil, i), key) {
			t.Errorf("Index(%q) = %d, whose key is %q", key, i, g.AppendKey(nil, i))
		}
	})
}
