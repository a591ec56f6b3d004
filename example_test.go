package bloomkv_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
)

// inTemp runs the rest of an example in a directory of its own.
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

// The lines of README: open, write, read, list a prefix.
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
	for kv, err := range db.Scan(bloomkv.ScanOptions{Prefix: []byte("fruit/")}) {
		fmt.Printf("%s = %s %v\n", kv.Key, kv.Value, err)
	}
	// Output:
	// red <nil>
	// fruit/apple = red <nil>
}

// TestReadmeShowsTheExample holds the lines of README to those of Example, in order; Example may have more.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
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
			t.Fatalf("README has %q, Example has not, or not there", line)
		}
	}
}

// Writes that belong together are applied together; NoSync leaves durability to a later Sync.
func ExampleDB_Apply() {
	defer inTemp()()
	db, err := bloomkv.Open("data", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	var b bloomkv.Batch
	b.Put([]byte("from"), []byte("9 coins"))
	b.Put([]byte("to"), []byte("1 coin"))
	b.Delete([]byte("pending"))
	if err := db.Apply(&b, bloomkv.NoSync); err != nil {
		log.Fatal(err)
	}
	if err := db.Sync(); err != nil {
		log.Fatal(err)
	}
	ok, err := db.Has([]byte("pending"))
	fmt.Println(ok, err)
	// Output: false <nil>
}

// An absent key is an answer, not a failure.
func ExampleDB_Get() {
	defer inTemp()()
	db, err := bloomkv.Open("data", &bloomkv.Options{FilterFPR: 0.001})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	value, err := db.Get([]byte("kiwi"))
	switch {
	case errors.Is(err, bloomkv.ErrNotFound): // it is returned bare, so that == does as well
		fmt.Println("no kiwi")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Printf("%s\n", value)
	}
	// Output: no kiwi
}
