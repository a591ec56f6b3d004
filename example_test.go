package bloomkv_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// inTemp runs the rest of an example in its own temporary directory.
func inTemp() (leave func()) {
	was, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bloomkv")
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		log.Fatal(err)
	}
	return func() {
		if err := os.Chdir(was); err != nil {
			log.Fatal(err)
		}
		_ = os.RemoveAll(dir)
	}
}

// The example of the README: open, write, read, list a prefix.
func Example() {
	defer inTemp()()

	db, err := bloomkv.Open("data", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Put([]byte("fruit/apple"), []byte("red"))
	if err != nil {
		log.Fatal(err)
	}
	value, err := db.Get([]byte("fruit/apple"))
	fmt.Printf("%s %v\n", value, err)
	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte("fruit/")}) {
		fmt.Printf("%s = %s %v\n", kv.Key, kv.Value, err)
	}
	// Output:
	// red <nil>
	// fruit/apple = red <nil>
}

// TestReadmeShowsTheExample compares the lines of the README's example with those of Example, in order; Example may
// have more.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	must(t, err)
	source, err := os.ReadFile("example_test.go")
	must(t, err)
	_, code, _ := strings.Cut(string(readme), "```go\n")
	code, _, ok := strings.Cut(code, "```\n")
	if !ok {
		t.Fatal("README has no Go")
	}
	_, rest, _ := strings.Cut(string(source), "func Example() {\n")
	rest, _, _ = strings.Cut(rest, "\n}\n")
	for line := range strings.Lines(code) {
		line, _, _ = strings.Cut(line, " //")
		line = strings.TrimSpace(line)
		var found bool
		if _, rest, found = strings.Cut(rest, "\t"+line+"\n"); !found {
			t.Fatalf("README has %q, Example lacks it or has it elsewhere", line)
		}
	}
}

// The most useful options. A store is open in one DB that writes it, or in any number that only read it.
func ExampleOpen() {
	defer inTemp()()
	options := &bloomkv.Options{
		FilterFPR:    0.001,                    // one wasted table read in a thousand lookups of absent keys
		MemoryBudget: 256 << 20,                // bytes, for memtables, filters, indexes and cached blocks together
		Durability:   bloomkv.DurabilityNoSync, // a write is in the kernel when it returns; db.Sync() is the barrier
	}
	db, err := bloomkv.Open("data", options)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	_, err = bloomkv.Open("data", options)
	fmt.Println(errors.Is(err, bloomkv.ErrLocked))
	_, err = bloomkv.Open("elsewhere", &bloomkv.Options{ErrorIfMissing: true})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// true
	// true
}

// The options in effect: those given, and the defaults of the others.
func ExampleDB_Options() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem(), MemoryBudget: 256 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	o := db.Options()
	fmt.Printf("rate %v, budget %d MiB, memtables of %d MiB\n", o.FilterFPR, o.MemoryBudget>>20, o.MemtableSize>>20)
	// Output: rate 0.01, budget 256 MiB, memtables of 64 MiB
}

// An absent key is a result, not a failure.
func ExampleDB_Get() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()}) // in memory; without FS, in files
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	value, err := db.Get([]byte("kiwi"))
	switch {
	case errors.Is(err, bloomkv.ErrNotFound): // returned unwrapped, so == works too
		fmt.Println("no kiwi")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Printf("%s\n", value)
	}
	// Output: no kiwi
}
