package bloomkv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A store is sent as a stream, here through a buffer, and becomes a store elsewhere.
func ExampleDB_Export() {
	fs := vfstest.NewMem() // default: the operating system's files
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: fs})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("state"), []byte("before")); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	x, err := db.Export(ctx, bloomkv.ExportOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	if err := db.Put([]byte("state"), []byte("after")); err != nil {
		log.Fatal(err)
	}
	var sent bytes.Buffer // for example the body of a request whose length is x.Size()
	if _, err := x.WriteTo(&sent); err != nil {
		log.Fatal(err)
	}

	if err := bloomkv.Import(ctx, &sent, "clone", bloomkv.NewStoreOptions{FS: fs}); err != nil {
		log.Fatal(err)
	}
	clone, err := bloomkv.Open("clone", &bloomkv.Options{FS: fs})
	if err != nil {
		log.Fatal(err)
	}
	defer clone.Close()
	value, err := clone.Get([]byte("state"))
	fmt.Printf("%s %v\n", value, err)
	// Output: before <nil>
}

// A follower says which tables it has, and gets the others.
func ExampleDB_Import() {
	open := func(dir string) *bloomkv.DB {
		db, err := bloomkv.Open(dir, &bloomkv.Options{FS: vfstest.NewMem()})
		if err != nil {
			log.Fatal(err)
		}
		return db
	}
	leader, follower := open("leader"), open("follower")
	defer leader.Close()
	defer follower.Close()
	ctx := context.Background()
	follow := func() error {
		has, err := follower.Inventory(ctx)
		if err != nil {
			return err
		}
		x, err := leader.Export(ctx, bloomkv.ExportOptions{Since: has})
		if err != nil {
			return err
		}
		defer x.Close()
		var sent bytes.Buffer
		if _, err := x.WriteTo(&sent); err != nil {
			return err
		}
		return follower.Import(ctx, &sent, bloomkv.ImportOptions{Replace: true})
	}
	for _, value := range []string{"one", "two"} {
		if err := errors.Join(leader.Put([]byte("key"), []byte(value)), follow()); err != nil {
			log.Fatal(err)
		}
		got, err := follower.Get([]byte("key"))
		fmt.Printf("%s %v\n", got, err)
	}
	// Output:
	// one <nil>
	// two <nil>
}

// A table is built without a store, and becomes a part of one.
func ExampleDB_IngestTables() {
	fs := vfstest.NewMem() // default: the operating system's files
	f, err := fs.Create("users.sst")
	if err != nil {
		log.Fatal(err)
	}
	w := sstable.NewWriter(f, sstable.WriterOptions{Codec: sstable.CodecS2})
	for _, name := range []string{"ada", "grace"} {
		if err := w.Add([]byte(name), []byte("admin")); err != nil {
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
	if err := db.IngestTables(context.Background(), "users.sst"); err != nil {
		log.Fatal(err)
	}
	value, err := db.Get([]byte("grace"))
	fmt.Printf("%s %v\n", value, err)
	// Output: admin <nil>
}
