package memtable_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/bloomkv/bloomkv/memtable"
	"github.com/bloomkv/bloomkv/sstable"
)

// Keys that come in any order are sorted in memory and written to a table file.
func Example() {
	t := memtable.New()
	for _, word := range []string{"pear", "apple", "quince", "fig", "apple"} {
		if err := t.Put([]byte(word), fmt.Append(nil, len(word))); err != nil {
			log.Fatal(err)
		}
	}
	if err := t.Delete([]byte("fig")); err != nil {
		log.Fatal(err)
	}
	value, found := t.Get([]byte("pear"))
	fmt.Printf("pear = %s %v\n", value, found)

	var file bytes.Buffer
	w := sstable.NewWriter(&file, sstable.WriterOptions{})
	for key, value := range t.All() {
		if err := w.Add(key, value); err != nil {
			log.Fatal(err)
		}
	}
	props, err := w.Finish()
	fmt.Printf("%d keys from %s to %s, %v\n", props.Entries, props.Smallest, props.Largest, err)
	// Output:
	// pear = 4 true
	// 3 keys from apple to quince, <nil>
}

func TestATableIsASortedMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table, want := memtable.New(), map[string]string{}
	for i := range 5000 {
		key, value := strconv.Itoa(r.IntN(1000)), strconv.Itoa(i)
		if r.IntN(3) == 0 {
			delete(want, key)
			if err := table.Delete([]byte(key)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want[key] = value
		if err := table.Put([]byte(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for key, value := range table.All() {
		keys = append(keys, string(key))
		if want[string(key)] != string(value) {
			t.Errorf("key %s: %s, want %s", key, value, want[string(key)])
		}
	}
	if sorted := slices.Sorted(maps.Keys(want)); !slices.Equal(keys, sorted) {
		t.Errorf("keys %v, want %v", keys, sorted)
	}
	for i := range 1000 {
		key := strconv.Itoa(i)
		value, found := table.Get([]byte(key))
		if w, ok := want[key]; found != ok || string(value) != w {
			t.Errorf("key %s: %s %v, want %s %v", key, value, found, w, ok)
		}
	}
	for range table.All() {
		break
	}
}

func TestWhatIsTooLargeIsRefused(t *testing.T) {
	table := memtable.New()
	if err := table.Put(make([]byte, memtable.MaxKey+1), nil); !errors.Is(err, memtable.ErrSize) {
		t.Error(err)
	}
	if _, found := table.Get(make([]byte, memtable.MaxKey+1)); found {
		t.Error("the key is there")
	}
}
