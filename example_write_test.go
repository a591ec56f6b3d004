package bloomkv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"strconv"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// PutIfAbsent checks and inserts in one step: of many concurrent callers, one gets true. For a new key, the filters
// answer the check.
func ExampleDB_PutIfAbsent() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()}) // in memory; without FS, in files
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	for _, page := range []string{"/home", "/news", "/home"} {
		isNew, err := db.PutIfAbsent([]byte(page), nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(page, isNew)
	}
	// Output:
	// /home true
	// /news true
	// /home false
}

// A counter that any number of goroutines may increment: create it, or read, compute and swap; and retry if another
// goroutine was faster.
func ExampleDB_CompareAndSwap() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("visits")
	add := func(n uint64) error {
		for {
			if done, err := db.PutIfAbsent(key, binary.BigEndian.AppendUint64(nil, n)); done || err != nil {
				return err
			}
			old, err := db.Get(key)
			if err != nil { // ErrNotFound too: nobody deletes the counter
				return err
			}
			done, err := db.CompareAndSwap(key, old, binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(old)+n))
			if done || err != nil {
				return err
			}
		}
	}
	for _, n := range []uint64{40, 2} {
		if err := add(n); err != nil {
			log.Fatal(err)
		}
	}
	value, err := db.Get(key)
	fmt.Println(binary.BigEndian.Uint64(value), err)
	// Output: 42 <nil>
}

// Apply writes related operations atomically.
func ExampleDB_Apply() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	var b bloomkv.Batch
	b.Put([]byte("from"), []byte("9 coins"))
	b.Put([]byte("to"), []byte("1 coin"))
	b.Delete([]byte("pending"))
	if err := db.Apply(&b); err != nil {
		log.Fatal(err)
	}
	ok, err := db.Has([]byte("pending"))
	fmt.Println(ok, err)
	// Output: false <nil>
}

// One write is durable when it returns, in a store whose writes otherwise need not be. The writes before it are
// durable then, too.
func ExampleDB_ApplyWith() {
	disk := vfstest.NewMem()
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilityNoSync})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	for _, line := range []string{"reading 1", "reading 2"} {
		if err := db.Put([]byte(line), nil); err != nil {
			log.Fatal(err)
		}
	}
	var b bloomkv.Batch
	b.Put([]byte("invoice"), nil)
	if err := db.ApplyWith(&b, bloomkv.DurabilitySync); err != nil {
		log.Fatal(err)
	}

	disk = disk.Crash(vfstest.KeepNothing) // a power cut
	after, err := bloomkv.Open("data", &bloomkv.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer after.Close()
	for kv, err := range after.Scan(bloomkv.IterOptions{}) {
		fmt.Printf("%s %v\n", kv.Key, err)
	}
	// Output:
	// invoice <nil>
	// reading 1 <nil>
	// reading 2 <nil>
}

// A batch can be sent as bytes: here to a second store that follows the first.
func ExampleBatch_MarshalBinary() {
	follower, err := bloomkv.Open("follower", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()

	var sent bloomkv.Batch
	sent.Put([]byte("lamp"), []byte("on"))
	sent.Delete([]byte("radio"))
	raw, err := sent.MarshalBinary()
	if err != nil {
		log.Fatal(err)
	}

	// … send raw through a pipe, a queue or a file …

	var received bloomkv.Batch
	if err := received.UnmarshalBinary(raw); err != nil { // ErrCorruption if a byte was damaged
		log.Fatal(err)
	}
	if err := follower.Apply(&received); err != nil {
		log.Fatal(err)
	}
	value, err := follower.Get([]byte("lamp"))
	fmt.Printf("%s %v\n", value, err)
	// Output: on <nil>
}

// A consumer of a stream keeps its offset as the mark of the store, in the same batch as what it makes of the messages.
// After a crash it goes on where the store is: no message is lost or counted twice.
func ExampleDB_Mark() {
	db, err := bloomkv.Open("counts", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	messages := []string{"lamp", "radio", "lamp"}

	mark, err := db.Mark()
	if err != nil {
		log.Fatal(err)
	}
	offset, _ := strconv.Atoi(string(mark)) // 0 without a mark
	for ; offset < len(messages); offset++ {
		key := []byte(messages[offset])
		count, err := db.Get(key)
		if err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
			log.Fatal(err)
		}
		var b bloomkv.Batch
		b.Put(key, append(count, '|'))
		b.SetMark([]byte(strconv.Itoa(offset + 1)))
		if err := db.Apply(&b); err != nil {
			log.Fatal(err)
		}
	}
	mark, _ = db.Mark()
	before, _ := db.DurableMark()
	if err := db.Sync(); err != nil {
		log.Fatal(err)
	}
	durable, _ := db.DurableMark() // the stream may forget what is before it
	fmt.Printf("mark %s, durable %q before Sync and %q after it\n", mark, before, durable)
	// Output: mark 3, durable "" before Sync and "3" after it
}

// Update moves money between two accounts. If another writer changes one of them meanwhile, the function runs again.
func ExampleDB_Update() {
	db, err := bloomkv.Open("bank", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	account := func(get func(key []byte) ([]byte, error), name string) int {
		v, _ := get([]byte(name))
		n, _ := strconv.Atoi(string(v)) // 0 without a value
		return n
	}
	errPoor := errors.New("not enough")
	move := func(from, to string, amount int) error {
		return db.Update(context.Background(), func(tx *bloomkv.Tx) error {
			has := account(tx.Get, from)
			if has < amount {
				return errPoor // nothing is written
			}
			if err := tx.Put([]byte(from), []byte(strconv.Itoa(has-amount))); err != nil {
				return err
			}
			return tx.Put([]byte(to), []byte(strconv.Itoa(account(tx.Get, to)+amount)))
		})
	}
	if err := db.Put([]byte("ann"), []byte("10")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(move("ann", "bob", 7))
	fmt.Println(move("ann", "bob", 7))
	fmt.Println(account(db.Get, "ann"), account(db.Get, "bob"))
	// Output:
	// <nil>
	// not enough
	// 3 7
}

// Ops yields the operations of a batch, for a log, another store, or another index over the same data.
func ExampleBatch_Ops() {
	var b bloomkv.Batch
	b.Put([]byte("lamp"), []byte("on"))
	b.Delete([]byte("radio"))
	b.DeleteRange(bloomkv.KeyRange{Lower: []byte("room/1"), Upper: []byte("room/5")})
	for op := range b.Ops() {
		switch op.Kind {
		case bloomkv.OpPut:
			fmt.Printf("put %s = %s\n", op.Key, op.Value)
		case bloomkv.OpDelete:
			fmt.Printf("delete %s\n", op.Key)
		case bloomkv.OpDeleteRange:
			fmt.Printf("delete from %s to %s\n", op.Range.Lower, op.Range.Upper)
		case bloomkv.OpSetMark:
			fmt.Printf("mark %s\n", op.Value)
		}
	}
	// Output:
	// put lamp = on
	// delete radio
	// delete from room/1 to room/5
}

// DeleteRange removes everything before a day at the cost of one write.
func ExampleDB_DeleteRange() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	for _, key := range []string{"log/2026-03-01", "log/2026-03-02", "log/2026-03-03", "user/7"} {
		if err := db.Put([]byte(key), []byte("…")); err != nil {
			log.Fatal(err)
		}
	}
	if err := db.DeleteRange(bloomkv.KeyRange{Lower: []byte("log/"), Upper: []byte("log/2026-03-03")}); err != nil {
		log.Fatal(err)
	}
	for kv, err := range db.Scan(bloomkv.IterOptions{KeysOnly: true}) {
		fmt.Printf("%s %v\n", kv.Key, err)
	}
	// Output:
	// log/2026-03-03 <nil>
	// user/7 <nil>
}

// Ingest loads keys in bulk from any function that yields them in ascending order. With Replace, the loaded keys
// replace the whole contents of the store in one step.
func ExampleDB_Ingest() {
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("of yesterday"), nil); err != nil {
		log.Fatal(err)
	}

	squares := func(yield func(bloomkv.KV, error) bool) {
		var key, value []byte // reused: Ingest reads both before the next call
		for n := range uint64(1000) {
			key = binary.BigEndian.AppendUint64(key[:0], n)
			value = fmt.Append(value[:0], n*n)
			if !yield(bloomkv.KV{Key: key, Value: value}, nil) {
				return
			}
		}
	}
	err = db.Ingest(context.Background(), squares, bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{}})
	if err != nil {
		log.Fatal(err)
	}
	value, err := db.Get(binary.BigEndian.AppendUint64(nil, 12))
	fmt.Printf("%s %v\n", value, err)
	_, err = db.Get([]byte("of yesterday"))
	fmt.Println(err)
	// Output:
	// 144 <nil>
	// bloomkv: not found
}
