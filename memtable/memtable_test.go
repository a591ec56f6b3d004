package memtable_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/memtable"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Keys that come in any order are sorted in memory, written to a table file, and added to a store in one step.
func Example() {
	t := memtable.New()
	for _, word := range []string{"pear", "apple", "quince", "fig", "apple"} {
		if err := t.Put([]byte(word), fmt.Append(nil, len(word))); err != nil {
			log.Fatal(err)
		}
	}

	fs := vfstest.NewMem() // default: the operating system's files
	f, err := fs.Create("words.sst")
	if err != nil {
		log.Fatal(err)
	}
	w := sstable.NewWriter(f, sstable.WriterOptions{})
	for key, value := range t.All() {
		if err := w.Add(key, value); err != nil {
			log.Fatal(err)
		}
	}
	if err := errors.Join(w.Finish(), f.Close()); err != nil {
		log.Fatal(err)
	}

	db, err := bloomkv.Open("data", &bloomkv.Options{FS: fs})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.IngestTables(context.Background(), "words.sst"); err != nil {
		log.Fatal(err)
	}
	value, err := db.Get([]byte("pear"))
	fmt.Printf("pear = %s %v\n", value, err)
	// Output: pear = 4 <nil>
}

func TestATableIsASortedMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table, want := memtable.New(), map[string]string{}
	for i := range 5000 {
		key, value := strconv.Itoa(r.IntN(1000)), strconv.Itoa(i)
		want[key] = value
		if err := table.Put([]byte(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if n := table.Bytes(); n < 5000 {
		t.Errorf("%d bytes for 5,000 values", n)
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
	for i := range 1100 {
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
	const maxKey = 64 << 10
	table := memtable.New()
	if err := table.Put(make([]byte, maxKey+1), nil); !errors.Is(err, memtable.ErrSize) {
		t.Errorf("%v, want ErrSize", err)
	}
	if err := table.Put(make([]byte, maxKey), nil); err != nil {
		t.Errorf("%v, want nil", err)
	}
	if _, found := table.Get(make([]byte, maxKey+1)); found {
		t.Error("the key is there")
	}
}
