package bloomkv_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/bloomkv/bloomkv"
)

// Open a store, write, read, look for what is not there, and list a prefix.
func Example() {
	dir, err := os.MkdirTemp("", "bloomkv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := bloomkv.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	var b bloomkv.Batch
	b.Put([]byte("fruit/apple"), []byte("red"))
	b.Put([]byte("fruit/pear"), []byte("green"))
	if err := db.Apply(&b, bloomkv.Sync); err != nil {
		log.Fatal(err)
	}
	value, err := db.Get([]byte("fruit/apple"))
	fmt.Printf("%s %v\n", value, err)
	_, err = db.Get([]byte("fruit/kiwi"))
	fmt.Println(errors.Is(err, bloomkv.ErrNotFound))
	for kv, err := range db.Scan(bloomkv.ScanOptions{Prefix: []byte("fruit/")}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s = %s\n", kv.Key, kv.Value)
	}
	fmt.Println(db.Close())
	// Output:
	// red <nil>
	// true
	// fruit/apple = red
	// fruit/pear = green
	// <nil>
}
