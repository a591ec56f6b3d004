package bloomkv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs"
)

// The keys with a prefix, in order. An error comes as the last element.
func ExampleDB_Scan() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()}) // in memory; without FS, in files
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
		fmt.Printf("%s = %s\n", kv.Key, kv.Value) // valid until the next step: clone what must stay
	}
	// Output:
	// user/12 = Ivo
	// user/7 = Uma
}

// An iterator goes both ways, and wherever it is sent.
func ExampleDB_Iter() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()})
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
	if err := it.Err(); err != nil { // tells the end of the keys from what went wrong
		log.Fatal(err)
	}
	// Output:
	// later   09:10
	// later   09:40
	// missed  08:40
	// earlier 08:10
}

// The newest first: keys that end in a time, walked from the last one down.
func ExampleIterator_Backward() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()})
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
	if err := it.Close(); err != nil { // what ended the loop, if it was not its end
		log.Fatal(err)
	}
	// Output:
	// chat/0002 bye
	// chat/0001 how are you
	// chat/0000 hello
}

// Reads that must agree with each other are made of one snapshot.
func ExampleDB_Snapshot() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()})
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

// Many keys at once, as of one moment.
func ExampleDB_GetMany() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()})
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

// A value is looked at where it lies, without a copy.
func ExampleDB_View() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()})
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
	fmt.Println(size, err) // ErrNotFound where there is no such key
	// Output: 1048576 <nil>
}

// A question that costs no disk read, ever: no is certain, yes is worth a Get.
func ExampleDB_MayContain() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()})
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

// What one lookup cost: which tables were searched, and which of their blocks had to be read.
func ExampleDB_GetTraced() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfs.NewMem()})
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

// A filter of prefixes: a scan for a user who has nothing is done without reading a block.
func ExamplePrefixSeparator() {
	db, err := bloomkv.Open("data", &bloomkv.Options{
		FS:           vfs.NewMem(),
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
