package bloomkv_test

import (
	"fmt"
	"log"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Stores of one process share one budget of memory and descriptors, here 32 MiB.
func ExampleNewResources() {
	shared, err := bloomkv.NewResources(bloomkv.ResourcesOptions{MemoryBudget: 32 << 20, MaxOpenFiles: 200})
	if err != nil {
		log.Fatal(err)
	}
	fs := vfstest.NewMem() // default: the operating system's files
	for _, name := range []string{"users", "orders"} {
		db, err := bloomkv.Open(name, &bloomkv.Options{FS: fs, Resources: shared})
		if err != nil {
			log.Fatal(err)
		}
		defer db.Close()
		if err := db.Put([]byte("key"), []byte("value")); err != nil {
			log.Fatal(err)
		}
	}
	m := shared.Metrics()
	fmt.Println(m.Stores, "stores,", m.MemtablesReserved>>20, "MiB reserved for memtables of", m.Memory.Budget>>20)
	// Output: 2 stores, 2 MiB reserved for memtables of 32
}

// Events report the background work of a store.
func ExampleEvents() {
	db, err := bloomkv.Open("store", &bloomkv.Options{
		FS: vfstest.NewMem(), // default: the operating system's files
		Events: bloomkv.Events{
			Flushed: func(f bloomkv.FlushInfo) {
				fmt.Println("flushed", f.Versions, "versions into", f.Tables, "table")
			},
			Damaged: func(err error) { log.Print(err) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Put([]byte("key"), []byte("value")); err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil { // flushes the memtable
		log.Fatal(err)
	}
	// Output: flushed 1 versions into 1 table
}
