package sstable_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/sstable"
)

// A table is built offline, here in memory, verified and read back.
func Example() {
	params, err := bloomblock.ParamsFor(0.01)
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	w := sstable.NewWriter(&file, sstable.WriterOptions{Filter: params, Codec: sstable.CodecS2})
	for i := range 1000 {
		if err := w.Add(fmt.Appendf(nil, "user:%04d", i), fmt.Appendf(nil, "%d points", i*i)); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		log.Fatal(err)
	}

	r, err := sstable.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "users.sst")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(context.Background()); err != nil {
		log.Fatal(err)
	}
	v, found, err := r.Get([]byte("user:0012"))
	fmt.Printf("%s %v %v\n", v.Value, found, err)
	_, found, err = r.Get([]byte("user:1000"))
	fmt.Println(found, err)
	// Output:
	// 144 points true <nil>
	// false <nil>
}

// The table in a store's directory is opened without the store.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := makeStore(dir); err != nil {
		log.Fatal(err)
	}

	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(names) != 1 {
		log.Fatal(names, err)
	}
	f, err := os.Open(names[0])
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	r, err := sstable.Open(f, info.Size(), f.Name())
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	for v, err := range r.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s = %q, write %d, deleted %v\n", v.Key, v.Value, v.Seq, v.Deleted)
	}
	// Output:
	// apple = "", write 4, deleted true
	// cherry = "red", write 2, deleted false
	// plum = "blue", write 3, deleted false
}

// makeStore makes a store with one table.
func makeStore(dir string) error {
	db, err := bloomkv.Open(dir, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, kv := range [][2]string{{"apple", "green"}, {"cherry", "red"}, {"plum", "blue"}} {
		if err := db.Put([]byte(kv[0]), []byte(kv[1])); err != nil {
			return err
		}
	}
	if err := db.Delete([]byte("apple")); err != nil {
		return err
	}
	return db.Flush(context.Background())
}
