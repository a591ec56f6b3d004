// Package foreign_test compares what package foreign reads of tables with the stores that have written them: every
// answer of their filters, and the rate that the bits give with that of absent keys.
package foreign_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/internal/foreign"
)

var (
	absents  = flag.Int("absent", 40_000, "absent keys to ask for each kind of table")
	presents = flag.Int("present", 20_000, "keys of each table")
	printed  = flag.Bool("table", false, "print the rates as a Markdown table")
)

// A result has the figures of a filter: from the bits, and by the answers of the store's own code.
type result struct{ bitsPerKey, fromBits, answered float64 }

// results are the rows of the table that -table prints.
var results = map[string]result{}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *printed {
		fmt.Println("| filter | bits per key | rate from the bits | rate answered |\n|---|---:|---:|---:|")
		for _, name := range slices.Sorted(maps.Keys(results)) {
			r := results[name]
			fmt.Printf("| %s | %.2f | %.3g %% | %.3g %% |\n", name, r.bitsPerKey, 100*r.fromBits, 100*r.answered)
		}
	}
	os.Exit(code)
}

var must = testkit.Must

// number returns one of many evenly distributed keys, all different: 16 hexadecimal digits, and up to three bytes of
// any value, since the hash of LevelDB treats what follows the last whole word in a way of its own.
func number(i int) []byte {
	h := uint64(i) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	key := fmt.Appendf(nil, "%016x", h)
	return append(key, binary.LittleEndian.AppendUint32(nil, uint32(h>>32))[:h%4]...)
}

// keys returns n sorted keys. Their numbers are even; those of absent keys are odd.
func keys(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = number(2 * i)
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}

func absent(i int) []byte { return number(2*i + 1) }

func value(key []byte) []byte { return append([]byte("value of "), key...) }

func internalKey(user []byte, seq uint64, kind byte) []byte {
	return binary.LittleEndian.AppendUint64(slices.Clone(user), seq<<8|uint64(kind))
}

// open reads a table and checks that it has the given keys.
func open(t *testing.T, table []byte, name string, want [][]byte) *foreign.Table {
	t.Helper()
	f, err := foreign.Open(bytes.NewReader(table), int64(len(table)), name)
	must(t, err)
	must(t, f.FilterErr())
	i := 0
	must(t, f.EachKey(func(key []byte, deleted bool) bool {
		if i >= len(want) || !bytes.Equal(key, want[i]) || deleted {
			t.Fatalf("%s: key %d is %q, want %q", name, i, key, want[min(i, len(want)-1)])
		}
		i++
		return true
	}))
	if i != len(want) {
		t.Fatalf("%s: %d keys, want %d", name, i, len(want))
	}
	return f
}

// compare asks for all keys and for n absent ones, and compares each answer with that of the store.
func compare(t *testing.T, f *foreign.Table, present [][]byte, n int, store func(key []byte) bool) result {
	t.Helper()
	for _, key := range present {
		if maybe, err := f.MayContain(key); err != nil || !maybe || !store(key) {
			t.Fatalf("key %q: %v, %v; the store says %v", key, maybe, err, store(key))
		}
	}
	positives := 0
	for i := range n {
		key := absent(i)
		got, err := f.MayContain(key)
		must(t, err)
		if want := store(key); got != want {
			t.Fatalf("absent key %q: %v, the store says %v", key, got, want)
		}
		if got {
			positives++
		}
	}
	x, err := f.Examine(t.Context(), foreign.Limits{Blocks: math.MaxInt32, Drawn: 16 * uint64(n), Absent: uint64(n)})
	must(t, err)
	rate := float64(positives) / float64(n)
	t.Logf("%s, %s, %s: %.2f bits per key, fill %.4f, rate %.5g", f.Store, f.Format, f.Filter.Kind, x.BitsPerKey,
		x.Fill, rate)
	t.Logf("from bits %.5g, by formula %.5g, between keys %.5g ± %.2g", x.FromBits, x.Formula, x.Between.Rate,
		x.Between.Err)
	chance := 5 * math.Sqrt(max(rate, x.FromBits)/float64(n))
	if math.Abs(x.FromBits-rate) > 0.03*rate+chance {
		t.Errorf("rate from bits %.5g, want that of absent keys %.5g ± 3 %%", x.FromBits, rate)
	}
	if math.Abs(x.Between.Rate-rate) > 0.03*rate+chance+5*x.Between.Err {
		t.Errorf("rate between keys %.5g, want that of absent keys %.5g ± 3 %%", x.Between.Rate, rate)
	}
	if x.Keys != uint64(len(present)) || !x.Complete {
		t.Errorf("%d keys counted, complete %v, want %d", x.Keys, x.Complete, len(present))
	}
	for i := range 200 {
		checkAsk(t, f, present[i*len(present)/200], "value", true)
		checkAsk(t, f, absent(i), "nothing", store(absent(i)))
	}
	return result{x.BitsPerKey, x.FromBits, rate}
}

func checkAsk(t *testing.T, f *foreign.Table, key []byte, found string, maybe bool) {
	t.Helper()
	a, err := f.Ask(t.Context(), key)
	must(t, err)
	if a.Found != found || a.Asked && a.Maybe != maybe || !a.Asked && maybe {
		t.Fatalf("key %q: %+v, want %s and maybe %v", key, a, found, maybe)
	}
}

// sample writes a small table as a sample if asked to.
func sample(t *testing.T, name string, table []byte) {
	t.Helper()
	if *testkit.Update {
		dir := filepath.Join("..", "testdata")
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), table, 0o644))
	}
}

// sampleKeys is the number of keys of a sample.
const sampleKeys = 40

// onlyTable returns the only file of a directory that matches a pattern.
func onlyTable(t *testing.T, dir, pattern string) []byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	if len(names) != 1 {
		t.Fatalf("tables %v, want one", names)
	}
	b, err := os.ReadFile(names[0])
	must(t, err)
	return b
}
