package bloomkv_test

import (
	"context"
	"fmt"
	"log"
	"strconv"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Scan yields the keys with a prefix, in order. An error comes as the last element.
func ExampleDB_Scan() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()}) // in memory; without FS, in files
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for key, value := range map[string]string{"user/7": "Uma", "user/12": "Ivo", "group/1": "all"} {
		if err := db.Put([]byte(key), []byte(value)); err != nil {
			log.Fatal(err)
		}
	}

	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte("user/")}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s = %s\n", kv.Key, kv.Value) // valid until the next step: clone what must outlive it
	}
	// Output:
	// user/12 = Ivo
	// user/7 = Uma
}

// The last two keys of a range, in one loop.
func ExampleDB_Scan_last() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"log/08:10", "log/08:40", "log/09:10", "user/7"} {
		if err := db.Put([]byte(key), nil); err != nil {
			log.Fatal(err)
		}
	}

	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte("log/"), Reverse: true, Limit: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", kv.Key)
	}
	// Output:
	// log/09:10
	// log/08:40
}

// An iterator moves in both directions and seeks any key.
func ExampleDB_Iter() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, stop := range []string{"08:10", "08:40", "09:10", "09:40"} {
		if err := db.Put([]byte(stop), nil); err != nil {
			log.Fatal(err)
		}
	}

	it := db.Iter(bloomkv.IterOptions{KeysOnly: true})
	defer it.Close()
	for ok := it.SeekGE([]byte("09:00")); ok; ok = it.Next() {
		fmt.Printf("later   %s\n", it.Key())
	}
	if it.SeekLT([]byte("09:00")) {
		fmt.Printf("missed  %s\n", it.Key())
	}
	if it.Prev() {
		fmt.Printf("earlier %s\n", it.Key())
	}
	if err := it.Err(); err != nil { // distinguishes the end of the keys from a failure
		log.Fatal(err)
	}
	// Output:
	// later   09:10
	// later   09:40
	// missed  08:40
	// earlier 08:10
}

// Newest first: keys that end in a time, iterated from the last one backward.
func ExampleIterator_Backward() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for i, text := range []string{"hello", "how are you", "bye"} {
		if err := db.Put(fmt.Appendf(nil, "chat/%04d", i), []byte(text)); err != nil {
			log.Fatal(err)
		}
	}

	it := db.Iter(bloomkv.IterOptions{Prefix: []byte("chat/")})
	for key, value := range it.Backward() {
		fmt.Printf("%s %s\n", key, value)
	}
	if err := it.Close(); err != nil { // the error that ended the loop, if any
		log.Fatal(err)
	}
	// Output:
	// chat/0002 bye
	// chat/0001 how are you
	// chat/0000 hello
}

// Reads that must be consistent with each other use one snapshot.
func ExampleDB_Snapshot() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("price"), []byte("10")); err != nil {
		log.Fatal(err)
	}

	snap, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer snap.Close() // soon: until then compaction keeps what it shows
	if err := db.Put([]byte("price"), []byte("12")); err != nil {
		log.Fatal(err)
	}
	before, err := snap.Get([]byte("price"))
	fmt.Printf("%s %v\n", before, err)
	now, err := db.Get([]byte("price"))
	fmt.Printf("%s %v\n", now, err)
	// Output:
	// 10 <nil>
	// 12 <nil>
}

// GetMany looks up many keys at once, as of one moment.
func ExampleDB_GetMany() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("milk"), []byte("2 l")); err != nil {
		log.Fatal(err)
	}

	keys := [][]byte{[]byte("bread"), []byte("milk")}
	err = db.GetMany(keys, func(i int, value []byte, found bool) error {
		fmt.Printf("%s: %q %v\n", keys[i], value, found) // value is valid until this function returns
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// bread: "" false
	// milk: "2 l" true
}

// View reads a value in place, without a copy.
func ExampleDB_View() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("page"), make([]byte, 1<<20)); err != nil {
		log.Fatal(err)
	}

	var size int
	err = db.View([]byte("page"), func(value []byte) error {
		size = len(value)
		return nil
	})
	fmt.Println(size, err) // ErrNotFound if the key is absent
	// Output: 1048576 <nil>
}

// MayContain never reads the disk: false is certain, true is worth a Get.
func ExampleDB_MayContain() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("here"), nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.MayContain([]byte("here")), db.MayContain([]byte("nowhere")))
	// Output: true false
}

// GetTraced shows the cost of one lookup: the tables that it searched, and the blocks that it read.
func ExampleDB_GetTraced() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("key"), []byte("value")); err != nil {
		log.Fatal(err)
	}
	if err := db.Flush(context.Background()); err != nil { // from memory into a table
		log.Fatal(err)
	}

	value, trace, err := db.GetTraced([]byte("key"))
	fmt.Printf("%s %v\n", value, err)
	for _, t := range trace.Tables {
		fmt.Printf("level %d: filtered %v, present %v, %d block\n", t.Level, t.Filtered, t.Present, t.Blocks)
	}
	// Output:
	// value <nil>
	// level 0: filtered true, present true, 1 block
}

// With a filter of prefixes, a scan for a user without keys reads no block.
func ExamplePrefixSeparator() {
	db, err := bloomkv.Open("data", &bloomkv.Options{
		FS:           vfstest.NewMem(),
		FilterPrefix: bloomkv.PrefixSeparator('/', 2), // the prefix of user/17/name is user/17/
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for i := range 1000 {
		if err := db.Put(fmt.Appendf(nil, "user/%d/name", 2*i), nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := db.Flush(context.Background()); err != nil { // tables have filters, memory needs none
		log.Fatal(err)
	}

	for _, user := range []string{"user/16/", "user/17/"} {
		keys := 0
		for _, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte(user)}) {
			if err != nil {
				log.Fatal(err)
			}
			keys++
		}
		fmt.Printf("%s has %d\n", user, keys)
	}
	m := db.Metrics().Prefixes
	fmt.Printf("%d filters asked, %d said no\n", m.Probes, m.Negatives)
	// Output:
	// user/16/ has 1
	// user/17/ has 0
	// 2 filters asked, 1 said no
}

// balance adds the values of all accounts. It takes a Reader, so that it can read a store or a snapshot.
func balance(r bloomkv.Reader) (total int, err error) {
	for kv, err := range r.Scan(bloomkv.IterOptions{Prefix: []byte("account/")}) {
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(string(kv.Value))
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// A function that takes a Reader works on the current state of a store and on a snapshot.
func ExampleReader() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("account/1"), []byte("40")); err != nil {
		log.Fatal(err)
	}
	before, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	if err := db.Put([]byte("account/2"), []byte("2")); err != nil {
		log.Fatal(err)
	}

	fmt.Println(balance(db))
	fmt.Println(balance(before))
	// Output:
	// 42 <nil>
	// 40 <nil>
}
